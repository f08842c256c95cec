/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Millrace: feeds training data to neural networks and says why they wait.
 *
 * This header is the whole public API. plugin.h, beside it, is for those
 * who write a step or a source of their own.
 *
 *	struct mr_err err;
 *	struct mr_loader *l;
 *	struct mr_batch *b;
 *
 *	if (mr_loader_open(&l, "npy train.npy | batch 256", &err))
 *		errx(1, "%s", err.text);
 *	while (mr_loader_next(l, &b, &err) == MR_OK) {
 *		const struct mr_field *x = mr_batch_find(b, "data");
 *		use(x->tensor.data, mr_batch_count(b));
 *		mr_batch_release(b);
 *	}
 *	mr_loader_close(l);
 *
 * Functions return 0 (MR_OK) or a negative code of enum mr_code, and then
 * fill *err. Outputs are written only on success, except that the
 * functions that make an object set it to NULL when they fail.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define MR_VERSION "0.1.0"

/* Results. Values are part of the ABI: append only. */
enum mr_code {
	MR_OK = 0,
	MR_END = 1,	/* no error: the epoch has ended */
	MR_AGAIN = 2,	/* no error: nothing ready within the time given */
	MR_ENOMEM = -1, /* the system gave no memory */
	MR_EINVAL = -2, /* a parameter or option is wrong */
	MR_EPARSE = -3, /* the pipeline text is wrong */
	MR_ETYPE = -4,	/* a step cannot take what the one before yields */
	MR_EIO = -5,	/* reading or writing failed */
	MR_EDATA = -6,	/* the data is corrupt, truncated or empty */
	MR_ELIMIT = -7, /* over a limit: memory budget, sizes */
	MR_ESTATE = -8, /* call not possible now (after fork, after failure) */
	MR_EUNSUPPORTED = -9, /* this build or machine lacks what is needed */
};

#define MR_ERR_TEXT 1024

/* What went wrong, owned by the caller. `text` is for people: it names the
 * thing, the value and where possible the remedy; it may have several lines. */
struct mr_err {
	int code;
	char text[MR_ERR_TEXT];
};

enum mr_dtype {
	MR_NONE = 0,
	MR_U8,
	MR_I16,
	MR_I32,
	MR_I64,
	MR_F16,
	MR_F32,
	MR_F64,
	MR_DTYPES
};

#define MR_MAX_DIMS   8
#define MR_MAX_FIELDS 32

/* A dense, row-major array. Bytes are a 1-d MR_U8 tensor, a scalar has no
 * dimensions. Whoever hands out a tensor says how long `data` lives. */
struct mr_tensor {
	enum mr_dtype dtype;
	int ndim;
	int64_t shape[MR_MAX_DIMS];
	void *data;
};

size_t mr_dtype_size(enum mr_dtype dtype);	/* bytes per element */
const char *mr_dtype_name(enum mr_dtype dtype); /* "u8", "f32", ... */

/*
 * A field of a batch.
 *   dense:  tensor is [count, ...sample shape]; offsets and shapes are NULL.
 *   padded: tensor is [count, ...largest shape]; shapes gives each sample's
 * own. ragged: tensor is 1-d, the samples' elements one after another; sample i
 *           is [offsets[i], offsets[i + 1]) and has the shape
 *           shapes[i * sample_ndim ... ].
 *   remade: by a step after `batch`, as pack: tensor is [rows, ...row shape],
 *           with its own number of rows; offsets and shapes are NULL.
 */
struct mr_field {
	const char *name;
	struct mr_tensor tensor;
	int sample_ndim;
	const int64_t *offsets; /* count + 1 values, or NULL */
	const int64_t *shapes;	/* count x sample_ndim values, or NULL */
};

enum mr_order_kind { MR_ORDER_SHUFFLE, MR_ORDER_SEQUENTIAL, MR_ORDER_BLOCK };
enum mr_on_error { MR_ON_ERROR_STOP, MR_ON_ERROR_SKIP, MR_ON_ERROR_REPLACE };
enum mr_fetch_mode { MR_FETCH_AUTO, MR_FETCH_DIRECT, MR_FETCH_AHEAD };

/* Options of a loader; mr_options_init() sets the defaults, which the
 * comments give. */
struct mr_options {
	size_t size;	     /* sizeof(struct mr_options): lets it grow */
	int64_t threads;     /* workers; 0: the cores this process may use */
	uint64_t memory;     /* bytes for all buffers; 0: a quarter of the
			      * memory this process may use, at most 4 GiB */
	uint64_t epochs;     /* stop after; 0: never */
	uint64_t samples;    /* stop after so many, with the batch that has
			      * the last; 0: never */
	uint64_t seed;	     /* 0 */
	int order;	     /* enum mr_order_kind */
	uint64_t block;	     /* samples per block of MR_ORDER_BLOCK (256) */
	int on_error;	     /* enum mr_on_error */
	int64_t rank, ranks; /* which share of each epoch: 0 of 1 */
	int fetch;	     /* enum mr_fetch_mode: who reads the storage */
	const char *plugins; /* shared objects to load, comma-separated */
	const char
		*storage;  /* profile that reads are shaped by: docs/storage.md;
			    * "": none */
	bool cold;	   /* evict the samples' files from the page cache
			    * while opening */
	const char *trace; /* record what the threads do, and when, to this
			    * file: docs/trace-format.md; "": do not */
	const char *events; /* counted with the trace: "" for what there is,
			     * or a list, or "none" */
	int64_t sample;	    /* with the trace: program counters per second
			     * and thread; 0: none */
	uint64_t subset;    /* of the data set only so many samples, the same
			     * ones in each epoch; 0: all */
};

void mr_options_init(struct mr_options *opt);

struct mr_loader;
struct mr_batch;

/*
 * Open a loader: parse, plan, index the source, start the workers.
 * open() uses the default options. A loader is used by one thread at a time.
 */
int mr_loader_open(struct mr_loader **l, const char *pipeline,
		   struct mr_err *err);
int mr_loader_open_with(struct mr_loader **l, const char *pipeline,
			const struct mr_options *opt, struct mr_err *err);

/* Stop the workers and free the loader (NULL is allowed). Batches still held
 * stay valid until they are released. */
void mr_loader_close(struct mr_loader *l);

/*
 * The next batch, in order. MR_OK: *b is yours until mr_batch_release().
 * MR_END: the epoch is over; the next call begins the next epoch (or gives
 * MR_END again when the epochs asked for are done). Negative: a sample or
 * the system failed; the loader gives the same error from then on.
 * wait() gives MR_AGAIN when nothing is ready within timeout_ms (< 0: no
 * limit).
 */
int mr_loader_next(struct mr_loader *l, struct mr_batch **b,
		   struct mr_err *err);
int mr_loader_wait(struct mr_loader *l, struct mr_batch **b, int timeout_ms,
		   struct mr_err *err);

/*
 * Evict the files that the samples lie in from the page cache; writes out
 * what is not on the disk yet. tell() is called now and then, if not NULL.
 * A source that makes its samples has no such files.
 */
int mr_loader_evict(struct mr_loader *l,
		    void (*tell)(void *data, uint64_t done, uint64_t files),
		    void *data, struct mr_err *err);

/* Samples and batches of one epoch on this rank, before bad ones are left
 * out; the samples of the whole data set. */
uint64_t mr_loader_epoch_samples(const struct mr_loader *l);
uint64_t mr_loader_epoch_batches(const struct mr_loader *l);
uint64_t mr_loader_dataset_samples(const struct mr_loader *l);

/* The class names of a source that has labels, by number; NULL past the end
 * or when it has none. Valid until close. */
const char *mr_loader_class(const struct mr_loader *l, uint64_t label);

/* ---- batches: read by any thread, reference counted ---- */

uint64_t mr_batch_count(const struct mr_batch *b); /* samples in it */
uint64_t mr_batch_epoch(const struct mr_batch *b);
uint64_t mr_batch_number(const struct mr_batch *b); /* within the epoch */
size_t mr_batch_fields(const struct mr_batch *b);
const struct mr_field *mr_batch_field(const struct mr_batch *b, size_t i);
const struct mr_field *mr_batch_find(const struct mr_batch *b,
				     const char *name); /* or NULL */
/* The samples' numbers in the data set, in batch order. */
const uint64_t *mr_batch_indices(const struct mr_batch *b);
/* The i-th sample's key (path, member...), as snprintf() into buf. */
size_t mr_batch_key(const struct mr_batch *b, size_t i, char *buf, size_t cap);
void mr_batch_ref(struct mr_batch *b);
void mr_batch_release(struct mr_batch *b);

/* ---- where a loader stands: a few numbers, exact mid-epoch ---- */

struct mr_state {
	uint64_t epoch, batch; /* the next batch to deliver */
	uint64_t seed;
	uint64_t samples;  /* of the data set: must be the same on resume */
	uint64_t pipeline; /* hash of the pipeline and of the order */
	int64_t rank, ranks;
};

/* The position after the last batch that next() gave. */
void mr_loader_state(const struct mr_loader *l, struct mr_state *st);
/* Continue from st; refused with a reason when it is another pipeline's, or
 * the data set has changed. Batches prepared so far are dropped. */
int mr_loader_seek(struct mr_loader *l, const struct mr_state *st,
		   struct mr_err *err);

/* A digest of batches: d' = mr_batch_digest(b, d), starting from 0. Depends
 * on the fields' names, types, shapes and bytes, not on how they were made. */
uint64_t mr_batch_digest(const struct mr_batch *b, uint64_t digest);

/* ---- measurement ---- */

#define MR_MAX_STEPS 32

struct mr_step_stats {
	const char *
		name; /* of the step, valid until close; "read" is the source */
	uint64_t calls;
	double total_ms, mean_us, p50_us, p99_us;
	uint64_t bytes_in, bytes_out;
	double share; /* of the workers' time */
};

struct mr_stats {
	uint64_t samples, batches, epochs; /* delivered */
	uint64_t bytes_read, bytes_out;
	uint64_t bad_samples;
	double seconds, samples_per_s, mb_per_s;
	double first_batch_ms; /* from open() to the first batch */
	int threads;
	double peak_rss_mb;
	uint64_t memory_peak; /* bytes of the budget in use at most */
	size_t steps;
	struct mr_step_stats step[MR_MAX_STEPS];
	/* thread-seconds of the workers; their sum is threads x seconds */
	struct {
		double steps, fetch, wait_in, wait_out, engine, unattributed;
	} budget;
	double consumer_wait; /* seconds that next() waited for a batch */
	const char *fetch;    /* "direct", "io_uring" or "threads" */
	int fetch_depth;      /* requests in flight that fetch settled on */
	struct {
		const char *bottleneck; /* cpu, storage, consumer, memory */
		char evidence[200];
		char advice[200];
	} verdict;
	/* The storage that was imitated (mr_options.storage), and what it
	 * allows: 0 is no limit. Valid until close. */
	struct {
		const char *profile; /* "" when there is none */
		double bw, stream, latency, iops;
		uint64_t requests;
		double mb_per_s; /* at most, for requests of this size */
		double used;	 /* share of it that was read */
		/* of the page cache that stands before it */
		uint64_t cache, cache_hits, cache_bytes;
	} storage;
	/* What mr_loader_evict() or mr_options.cold did. */
	struct {
		uint64_t files, bytes; /* looked at */
		uint64_t stayed;       /* bytes that the page cache kept */
		uint64_t unknown;      /* files that could not be checked */
	} cold;
	/* Of the step `cache`; all 0 when the pipeline has none. */
	struct {
		uint64_t ram, bytes;   /* it may take, and has taken */
		uint64_t samples;      /* held */
		uint64_t hits, misses; /* samples that came out of it, or not */
		bool full;	       /* some sample did not fit */
	} cache;
};

/* A snapshot. Any thread may take it, also while another is in next(). */
void mr_loader_stats(struct mr_loader *l, struct mr_stats *st);
/* The same as one JSON object (keys as in `millrace run --json`), to be
 * freed by the caller; NULL when out of memory. */
char *mr_stats_json(const struct mr_stats *st);

/* How the recording of mr_options.trace went. */
struct mr_recorded {
	uint64_t spans, lost, bytes;
	struct mr_err failed; /* code 0: all of it was written */
};

/*
 * As mr_loader_close(), which ends a recording; *out tells how it went.
 */
void mr_loader_close_traced(struct mr_loader *l, struct mr_recorded *out);

/* A sample that could not be used. Texts are valid until close. */
struct mr_bad {
	uint64_t index, epoch;
	const char *key;  /* path or member */
	uint64_t offset;  /* of the sample in its file */
	const char *step; /* where it failed: "read" or a step's name */
	const char *reason;
};

/* The i-th bad sample so far, in the order of delivery; false past the
 * end. At most 10,000 are kept; mr_stats.bad_samples counts all. */
bool mr_loader_bad(const struct mr_loader *l, size_t i, struct mr_bad *bad);

/* ---- traces: files that mr_options.trace made ---- */

/* What a trace says: steps, batches, waits, the slowest samples, the budget.
 * Returns text (json: one JSON object) that the caller frees. */
int mr_trace_summary(const char *file, bool json, char **text,
		     struct mr_err *err);

/* ---- pipelines as texts ---- */

/* What the plan of a pipeline is: types and shapes after each step, what
 * is random, buffers. Opens the source. Returns text (json: one JSON
 * object) that the caller frees. */
int mr_explain(const char *pipeline, const struct mr_options *opt, bool json,
	       char **text, struct mr_err *err);

/* ---- diagnosis: storage, CPU or accelerator ---- */

/* mr_diagnose_options_init() sets the defaults. */
struct mr_diagnose_options {
	size_t size;		  /* sizeof(struct mr_diagnose_options) */
	struct mr_options loader; /* threads, storage, order...; epochs and
				   * samples are the diagnosis' own */
	const char *accelerator;  /* samples per second, or one that is known,
				   * as "resnet50-h100"; */
	double step;		  /* or seconds that it computes on a batch */
	const char *cache;	  /* of the job: "35%" of the data set or "8G";
				   * "": what the pipeline has */
	double seconds;		  /* to take, about; 0: 35; at most 90 */
	bool job_only;		  /* measure nothing but how fast it is */
	/* Called now and then: what is measured, and how much of the whole is
	 * done, 0 to 1. Returns true to stop. May be NULL. */
	bool (*progress)(void *data, const char *phase, double done);
	void *data;
};

void mr_diagnose_options_init(struct mr_diagnose_options *o);

/*
 * Measure a pipeline that feeds an accelerator, which is imitated by sleeping
 * as long as it would compute: with everything in memory, from the storage,
 * by threads. *json: what was measured and what follows from it, one object
 * (docs/model.md), to be freed.
 */
int mr_diagnose(const char *pipeline, const struct mr_diagnose_options *o,
		char **json, struct mr_err *err);

/*
 * The same from what `millrace diagnose -- COMMAND` measured in a script, of
 * which `folder` has a file for each rank. MR_EDATA: nothing was measured.
 */
int mr_diagnose_script(const char *folder, const char *command, char **json,
		       struct mr_err *err);

/* The same for people, to be freed. file: where the JSON is from, for
 * messages. */
int mr_diagnosis_show(const char *json, const char *file, char **text,
		      struct mr_err *err);

/* The same as a page, one HTML file that needs no network. `out` is the old
 * file or the whole new one, never a part. */
int mr_diagnosis_page(const char *json, const char *file, const char *out,
		      struct mr_err *err);

/* What is different; mr_whatif_options_init() sets "nothing". */
struct mr_whatif_options {
	size_t size;	     /* sizeof(struct mr_whatif_options) */
	const char *cache;   /* "35%" of the data set or "8G"; "": as it was */
	int64_t cores;	     /* that prepare; 0: as it was */
	const char *storage; /* as mr_options.storage; "": as it was */
	const char *accelerator; /* as of mr_diagnose(), or "2x" */
	const char *compress;	 /* a codec that the diagnosis tried, or "" */
	int64_t nodes;		 /* 0: one */
	bool page_cache;	 /* not `cache ram=`, which forgets nothing */
	const char *sweep;	 /* "cache=0:100:5", or "" */
};

void mr_whatif_options_init(struct mr_whatif_options *o);

/* How fast the job of a diagnosis would be then. json, file: as above. *text
 * is to be freed; as_json: one object. */
int mr_whatif(const char *json, const char *file,
	      const struct mr_whatif_options *o, bool as_json, char **text,
	      struct mr_err *err);

/* The same as a page, as mr_diagnosis_page(). */
int mr_whatif_page(const char *json, const char *file,
		   const struct mr_whatif_options *o, const char *out,
		   struct mr_err *err);

/* What a tuning found (its JSON) as a page, as mr_diagnosis_page(). */
int mr_tuning_page(const char *json, const char *file, const char *out,
		   struct mr_err *err);

/* ---- data sets, prepared once ---- */

enum mr_store_to { MR_TO_RECORDS, MR_TO_TAR, MR_TO_TFRECORD };

enum mr_shuffle { MR_SHUFFLE_AUTO, MR_SHUFFLE_YES, MR_SHUFFLE_NO };

struct mr_store_report;

/* What to store and how; mr_store_options_init() sets the defaults. */
struct mr_store_options {
	size_t size;	     /* sizeof(struct mr_store_options) */
	const char *out;     /* a directory; made, or gone on with */
	int to;		     /* enum mr_store_to */
	const char *until;   /* the last step to be done, by name or number;
			      * "": all that are the same in each epoch */
	const char *codec;   /* "none"; records only, as the next three */
	int64_t level;	     /* of the codec; -1: its default */
	int shuffle;	     /* enum mr_shuffle: bytes of wide types before
			      * packing; auto */
	bool literal;	     /* store what the last step yields, even where
			      * the one before it yields less: no */
	uint64_t shards;     /* files; 0: one for each half gigabyte
			      * or 262,144 samples */
	uint64_t first;	     /* only so many samples, the first ones, for
			      * `stored DIR`; 0: all; records only */
	bool dry_run;	     /* estimate only */
	double record_bytes; /* of a record, about, where that is known; 0:
			      * some samples are made to find out */
	struct mr_options loader; /* threads, memory, on_error, plugins */
	/* Called before anything is stored, with what is known then. May be
	 * NULL. */
	void (*planned)(void *data, const struct mr_store_report *report);
	/* Called now and then by the calling thread; may be NULL. Returns
	 * true to stop: what is there can be gone on with. */
	bool (*progress)(void *data, uint64_t done, uint64_t samples);
	void *data;
};

struct mr_store_report {
	uint64_t samples, resumed, bad;
	uint64_t shards, bytes;
	uint64_t estimate;  /* bytes, before the start */
	uint64_t available; /* bytes free there, before the start */
	double seconds;
	double write_seconds;  /* spent in writing, of which */
	double sync_seconds;   /* in waiting for the disk */
	bool complete;	       /* false: a dry run, or stopped by progress() */
	char stored[400];      /* the fields as they are stored */
	char rest[800];	       /* steps that follow, in each epoch, or "" */
	char deferred[400];    /* steps left to be done on load, or "" */
	char tail[400];	       /* `batch` and what comes after it, or "" */
	char head[800];	       /* the steps that are done; of `first`, or "" */
	struct mr_stats stats; /* of the steps, whose names are here: */
	char names[MR_MAX_STEPS][32];
};

void mr_store_options_init(struct mr_store_options *opt);

/*
 * Run the pipeline's steps once, over all samples in their order, and store
 * the result: a directory that `records DIR` reads, or tar or TFRecord files.
 * Safe against kill and full disks: the same call goes on where it stopped.
 */
int mr_store(const char *pipeline, const struct mr_store_options *opt,
	     struct mr_store_report *report, struct mr_err *err);

/* ---- tuning: what to store, how, and what to cache ---- */

/* What is wanted; mr_tune_options_init() sets the defaults. */
struct mr_tune_options {
	size_t size;		  /* sizeof(struct mr_tune_options) */
	struct mr_options loader; /* threads, storage, order...; epochs and
				   * samples are the tuning's own */
	const char *weights;	  /* "P,S,T": of preparation's time, storage and
				   * throughput; "": the time of all epochs */
	int64_t epochs;		  /* that the job has: 30 */
	uint64_t max_storage;	  /* bytes that may be stored; 0: any */
	double max_prepare;	  /* seconds of preparation; 0: any */
	const char *max_memory;	  /* for caches: "8G", or "35%" of the data
				   * set; "": half of the machine's */
	double price_hour, price_gb; /* of the job, and of what is stored; with
				      * them, the least cost is the best */
	const char *accelerator;     /* that takes no more: as of
				      * mr_diagnose_options; "": any */
	bool keep_order;	     /* do not think of block order */
	double precision;	     /* of means over the sample: 0.05 */
	double seconds;		     /* to take, about; 0: 50 */
	bool exhaustive;     /* measure every strategy, not just the best, */
	int repeats;	     /* so often: 5, at most 100 */
	const char *scratch; /* a folder for sets of samples; "": $TMPDIR */
	const char *out;     /* where a set will be, for the texts: "DIR"; */
	bool applies; /* it will be made there: refused at once if that cannot
		       * be, and no larger than what is free there */
	/* As of mr_diagnose_options. */
	bool (*progress)(void *data, const char *what, double done);
	void *data;
};

void mr_tune_options_init(struct mr_tune_options *o);

/* The best strategy. Texts are to be freed by mr_tuned_free(). */
struct mr_tuned {
	char *text;	/* all of it, for people */
	char *json;	/* and for programs: one object (docs/tuning.md) */
	bool found;	/* false: none keeps within the limits */
	char *pipeline; /* that gives the same batches faster */
	struct mr_options loader; /* for it */
	bool stores; /* a set in `out` comes first, made by mr_store() of the
		      * old pipeline with these: */
	struct mr_store_options store;
	char until[16]; /* of store */
	char *options;	/* `loader` as a command's: "--threads 2 --order block
			 * --block 12", without which the gain is lost */
	char *run;	/* the command of the pipeline with them */
	char *prepare;	/* and the one that makes the set; NULL: none is */
};

/*
 * Measure a sample of the data set at each place where the pipeline could be
 * split, predict every strategy, measure the best few, and choose. Nothing is
 * left in `scratch`.
 */
int mr_tune(const char *pipeline, const struct mr_tune_options *o,
	    struct mr_tuned *out, struct mr_err *err);
void mr_tuned_free(struct mr_tuned *t);

struct mr_verify_report {
	uint64_t samples, bad, shards, bytes; /* looked at */
	uint64_t damaged; /* samples, or indices of shards, that are not as
			   * they were written */
	bool complete;	  /* false: stopped by progress() */
	/* Called for each, by any thread, one at a time; may be NULL. */
	void (*found)(void *data, const char *text);
	/* As of mr_store(): by the calling thread, meanwhile. */
	bool (*progress)(void *data, uint64_t done, uint64_t samples);
	void *data;
};

/* Compare all checksums of a prepared data set, and see that nothing is
 * missing. MR_EDATA when something is damaged; the report says how much. */
int mr_verify(const char *dir, int threads, struct mr_verify_report *report,
	      struct mr_err *err);

/* ---- traces ---- */

/*
 * Writes the trace `file` (mr_options.trace) as what the name `to` ends in:
 *   .json    events for Perfetto and chrome://tracing
 *   .folded  collapsed stacks for flame graphs
 *   .csv     a line per span, in LotusTrace's columns and more
 *   .html    a report that needs nothing else
 * docs/tracing.md tells what is in each. A trace that is cut off or damaged
 * is written up to there: the result is 0, and err->text says what is
 * missing; it is empty otherwise.
 */
int mr_trace_export(const char *file, const char *to, struct mr_err *err);

/* Is there such an ending? 0, or MR_EINVAL with what there is: to be asked
 * before a long recording. */
int mr_trace_export_check(const char *to, struct mr_err *err);

/*
 * What threads of another program can count on this machine, and how they are
 * to ask the kernel for it, tried now: JSON, which the hooks of PyTorch take.
 * events: names as `--events` has them, "" for all that is known. *json is
 * the caller's to free; NULL when nothing is to be counted ("none").
 */
int mr_trace_events(const char *events, char **json, struct mr_err *err);

/* ---- what a machine offers ---- */

/* What to look at; mr_doctor_options_init() sets the defaults. */
struct mr_doctor_options {
	size_t size;	 /* sizeof(struct mr_doctor_options) */
	const char *dir; /* whose storage is measured: "." */
	uint64_t bytes;	 /* of the file that is read; 0: what suits, 512 MiB
			  * at most */
	double seconds;	 /* that all of it takes, about: 30 */
	bool direct;	 /* read past the page cache where that is possible */
	bool json;	 /* one JSON object instead of text */
	/* Called now and then by the calling thread, with the share of the
	 * time that has passed; may be NULL. Returns true to stop. */
	bool (*progress)(void *data, const char *what, double done);
	void *data;
};

void mr_doctor_options_init(struct mr_doctor_options *opt);

/*
 * Measure storage, memory and codecs, look at the kernel, the limits and the
 * topology, and say what it means. Makes files in a directory inside `dir`
 * and removes them. Returns text that the caller frees. MR_ESTATE when
 * progress() stopped it. A storage that cannot be measured is no error.
 */
int mr_doctor(const struct mr_doctor_options *opt, char **text,
	      struct mr_err *err);

const char *mr_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
