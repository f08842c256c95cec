/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps and sources: how one is declared, inside Millrace and in a plugin.
 *
 * A step is one file whose last lines are its declaration, a struct mr_op.
 * Command help, parser, range checks and the reference manual are derived
 * from it. A plugin is a shared object that exports
 *
 *	const struct mr_plugin mr_plugin = {
 *		.abi = MR_PLUGIN_ABI,
 *		.ops = my_ops,		// ends with NULL
 *	};
 *
 * and is loaded with `--plugin FILE`, or mr_options.plugins. It links with
 * libmillrace for mr_err_set() and the other helpers below.
 * docs/adding-a-step.md leads through an example.
 */
#ifndef MILLRACE_PLUGIN_H
#define MILLRACE_PLUGIN_H

#include "millrace.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define MR_PLUGIN_ABI 5

/* Sets *err and returns code, so that `return mr_err_set(...)` reads well.
 * Adding context to an error: mr_err_prefix(err, "file.npy: "). */
int mr_err_set(struct mr_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int mr_err_prefix(struct mr_err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- parameters by table ---- */

enum mr_param_type {
	MR_P_END = 0,
	MR_P_INT,   /* int64_t */
	MR_P_REAL,  /* double */
	MR_P_BOOL,  /* bool: yes no */
	MR_P_SIZE,  /* uint64_t, bytes: 10, 64K, 8M, 2G */
	MR_P_TIME,  /* double, seconds: 10ms 2s 5m 1h */
	MR_P_TEXT,  /* const char *, lives as long as the pipeline */
	MR_P_ENUM,  /* int: the place of the word in `words` */
	MR_P_DTYPE, /* enum mr_dtype */
	MR_P_INTS,  /* struct mr_ints: 224,224,3 or 224x224x3 */
	MR_P_REALS, /* struct mr_reals: 0.5,0.5,0.5 */
};

struct mr_ints {
	int n;
	int64_t v[MR_MAX_DIMS];
};

struct mr_reals {
	int n;
	double v[16];
};

struct mr_param {
	const char *name;
	enum mr_param_type type;
	size_t offset;		  /* of the member in the step's own struct */
	const char *def;	  /* default as the user would write it;
				   * NULL: must be given */
	double min, max;	  /* of numbers and of each number in a list */
	const char *const *words; /* of MR_P_ENUM, ends with NULL; of a list: an
				   * example for messages, or NULL */
	const char *help;
};

/* clang-format off */
#define MR_INT(T, f, def, lo, hi, help) \
	{ #f, MR_P_INT, offsetof(T, f), def, lo, hi, NULL, help }
#define MR_REAL(T, f, def, lo, hi, help) \
	{ #f, MR_P_REAL, offsetof(T, f), def, lo, hi, NULL, help }
#define MR_BOOL(T, f, def, help) \
	{ #f, MR_P_BOOL, offsetof(T, f), def, 0, 0, NULL, help }
#define MR_SIZE(T, f, def, lo, hi, help) \
	{ #f, MR_P_SIZE, offsetof(T, f), def, lo, hi, NULL, help }
#define MR_TIME(T, f, def, lo, hi, help) \
	{ #f, MR_P_TIME, offsetof(T, f), def, lo, hi, NULL, help }
#define MR_TEXT(T, f, def, help) \
	{ #f, MR_P_TEXT, offsetof(T, f), def, 0, 0, NULL, help }
#define MR_ENUM(T, f, def, words, help) \
	{ #f, MR_P_ENUM, offsetof(T, f), def, 0, 0, words, help }
#define MR_DTYPE(T, f, def, help) \
	{ #f, MR_P_DTYPE, offsetof(T, f), def, 0, 0, NULL, help }
#define MR_INTS(T, f, def, lo, hi, help) \
	{ #f, MR_P_INTS, offsetof(T, f), def, lo, hi, NULL, help }
#define MR_REALS(T, f, def, lo, hi, help) \
	{ #f, MR_P_REALS, offsetof(T, f), def, lo, hi, NULL, help }
#define MR_PARAM_END { NULL, MR_P_END, 0, NULL, 0, 0, NULL, NULL }
/* clang-format on */

/* ---- types ---- */

#define MR_ANY (-1) /* a dimension that differs from sample to sample */

/* Type and shape of a tensor before there is one. */
struct mr_spec {
	enum mr_dtype dtype;
	int ndim;
	int64_t shape[MR_MAX_DIMS]; /* >= 0 or MR_ANY */
};

bool mr_spec_fixed(const struct mr_spec *s); /* no MR_ANY in it */
size_t mr_spec_text(const struct mr_spec *s, char *buf, size_t cap);
size_t mr_tensor_bytes(const struct mr_tensor *t);
int64_t mr_tensor_elements(const struct mr_tensor *t);

#define MR_NAME_MAX 32

struct mr_field_spec {
	char name[MR_NAME_MAX];
	struct mr_spec spec;
	int id; /* stays with the field when a step reorders or drops some */
	bool rated; /* each sample has a rate of sound: mr_opctx.rate */
};

struct mr_fields {
	int n;
	struct mr_field_spec item[MR_MAX_FIELDS];
};

/* ---- random numbers: a function of (seed, epoch, sample, step) ---- */

struct mr_rng {
	uint64_t key[2];
	uint64_t counter;
};

uint64_t mr_rng_u64(struct mr_rng *r);
uint64_t mr_rng_below(struct mr_rng *r, uint64_t n); /* [0, n), unbiased */
double mr_rng_real(struct mr_rng *r);		     /* [0, 1) */

/* ---- scratch memory of a worker, emptied after each call of a step ---- */

struct mr_arena;
/* 64-byte aligned; NULL when the memory budget is used up. */
void *mr_arena_take(struct mr_arena *a, size_t bytes);

/* ---- steps ---- */

enum {
	MR_OP_RANDOM = 1,     /* draws from cx->rng: not the same each epoch */
	MR_OP_SHAPE_KEEP = 2, /* the output has the input's shape */
	MR_OP_ELEMENTS = 4,   /* as many elements come out as go in, each made
			       * of one: cheap, and prepare may leave it to be
			       * done on load */
	MR_OP_RATE = 8,	      /* sets cx->rate; what is prepared keeps it */
};

/* What a step is given for one sample. */
struct mr_opctx {
	const void *self;
	struct mr_rng *rng;
	struct mr_arena *scratch;
	uint64_t index; /* of the sample in the data set */
	void *local;	/* the thread's own state, or NULL; see mr_op.local */
	size_t limit;	/* bytes that a sample may take, for what a library
			 * allocates by itself */
	struct mr_err *err;
	/* Of the field that the step works on: samples of sound per second, 0
	 * as long as no step has said it; it stays with the field. A step
	 * with MR_OP_RATE sets it. A step that packs is given those of all
	 * fields, by their ids. NULL: nobody asks. */
	int64_t *rate;
};

struct mr_image_op;
struct mr_batch_op;
struct mr_frames_op;

/* Fields that become one, by their places in a struct mr_fields. */
struct mr_inputs {
	int n;
	int at[MR_MAX_FIELDS];
	char name[MR_NAME_MAX]; /* of what comes out; as given: the first's */
	struct mr_spec out;
};

struct mr_op {
	const char *name, *help;
	unsigned flags;
	size_t size;		       /* of the step's own struct */
	const struct mr_param *params; /* ends with MR_PARAM_END */
	/* Check parameters, load tables. May be NULL. */
	int (*open)(void *self, struct mr_err *err);
	void (*close)(void *self);
	/* Output type and shape for an input type, without side effects;
	 * MR_ETYPE when it cannot take it. Also asked of each field in turn
	 * when the user has not chosen one. */
	int (*infer)(const void *self, const struct mr_spec *in,
		     struct mr_spec *out, struct mr_err *err);
	/* For outputs whose shape infer() left open: set out->shape for this
	 * input, or an upper bound in shape[0]. NULL with MR_OP_SHAPE_KEEP
	 * or when infer() always gives a full shape. */
	int (*shape)(const struct mr_opctx *cx, const struct mr_tensor *in,
		     struct mr_tensor *out);
	/* Fill out->data. in and out never overlap; in is only read, since it
	 * may lie in a mapped file or in a cache. Called by many threads at
	 * once; no allocation but cx->scratch. May lower out->shape[0] if
	 * shape() gave a bound. */
	int (*run)(const struct mr_opctx *cx, const struct mr_tensor *in,
		   struct mr_tensor *out);
	/* Instead of infer and run: reorder or drop fields. */
	int (*fields)(const void *self, struct mr_fields *fs,
		      struct mr_err *err);
	/* Bytes of state that each thread keeps for this step (a decoder,
	 * tables), zeroed at first; drop() frees what it came to hold. */
	size_t local;
	void (*drop)(void *local);
	/* A field called `data` is called so after this step. May be NULL. */
	const char *gives;
	/* Of the image steps built in, which the plan joins; else NULL. */
	const struct mr_image_op *image;
	/*
	 * Instead of infer and run: all fields become one, of bytes. bound()
	 * says how many they are at most, SIZE_MAX: too many. Tensors are
	 * numbered by the fields' ids.
	 */
	size_t (*bound)(const struct mr_opctx *cx, const struct mr_fields *fs,
			const struct mr_tensor *f);
	int (*pack)(const struct mr_opctx *cx, const struct mr_fields *fs,
		    const struct mr_tensor *f, struct mr_tensor *out);
	/*
	 * Instead of infer and run: several fields become one. choose() finds
	 * them in *fs and says which they are and what comes out, which takes
	 * the first one's place; the others are gone. merge() is given their
	 * tensors in that order, shape() the first one.
	 */
	int (*choose)(const void *self, const struct mr_fields *fs,
		      struct mr_inputs *c, struct mr_err *err);
	int (*merge)(const struct mr_opctx *cx,
		     const struct mr_tensor *const *in, struct mr_tensor *out);
	/* Of the steps built in that come after `batch`; else NULL. */
	const struct mr_batch_op *batch;
	/* The i-th file that it reads besides its input, as a table or a
	 * vocabulary; NULL past the end. What is prepared with the step
	 * depends on their contents. Asked after open(). May be NULL. */
	const char *(*file)(const void *self, size_t i);
	/* Of the steps over frames built in, which the plan joins; else NULL.
	 */
	const struct mr_frames_op *frames;
};

/* ---- sources ---- */

#define MR_TO_END UINT64_MAX

struct mr_input;

/* Where the bytes of a sample lie. */
struct mr_extent {
	const char *path; /* for messages, and for opening when fd < 0 */
	int fd;		  /* kept open by the source, or -1 */
	uint64_t offset;
	uint64_t length; /* or MR_TO_END: the rest of the file */
	/* NULL, or the same bytes in a mapping of the file, by a source with
	 * MR_SOURCE_MAPS. The loader survives a file that shrinks; other
	 * code of a source would not. */
	const void *mapped;
	/* NULL, or what the loader reads from instead of path and fd: a file
	 * on a server, which a source built in has opened. */
	struct mr_input *input;
};

struct mr_source_env {
	int threads;	 /* how many a source may use while it opens */
	const char *cwd; /* NULL, or what relative paths are relative to */
	/* Bad samples are not the end of the run: of several files, one that
	 * is damaged may be opened as a bad sample, whose load fails with the
	 * reason. */
	bool lenient;
	uint64_t memory; /* the loader's budget, or 0: not known */
	/* NULL, or: another pipeline's stages before `batch`, with all their
	 * parameters. The caller frees *out. */
	int (*spell)(const char *pipeline, char **out, struct mr_err *err);
};

/* What a source is given for one sample. */
struct mr_load {
	const void *self;
	uint64_t index;		  /* of the sample in the data set */
	void *local;		  /* the thread's own state, or NULL */
	struct mr_arena *scratch; /* emptied when the sample has been loaded */
	size_t limit;		  /* bytes that a sample may take */
	/*
	 * Room for field i, asked for once at most: in the batch itself where
	 * no step follows, so that nothing is copied. NULL: *err says why.
	 */
	void *(*room)(const struct mr_load *ld, int field, size_t bytes);
	struct mr_err *err;
	/* Of each field that fields() calls rated, for the source to set: the
	 * sound's samples per second; 0: not known. NULL: nobody asks. */
	int64_t *rate;
};

struct mr_source {
	const char *name, *help;
	unsigned flags;
	size_t size;
	const struct mr_param *params;
	/* Index the data set. On failure close() is called too. */
	int (*open)(void *self, const struct mr_source_env *env,
		    struct mr_err *err);
	void (*close)(void *self);
	uint64_t (*count)(const void *self);
	/* Names and types of the fields, at most MR_MAX_FIELDS. */
	void (*fields)(const void *self, struct mr_fields *out);
	/*
	 * Either locate() and unpack(), so that the loader reads ahead as
	 * the storage likes it: locate() says where sample `index` lies
	 * (path may be built in buf), unpack() gives each field f[i] its
	 * shape, where the type left that open, and its data: a place in the
	 * bytes that were read, or what it wrote to ld->room(). Field 0 of a
	 * source with MR_SOURCE_RAW is those bytes themselves; they may then
	 * be read straight into the batch.
	 */
	int (*locate)(const void *self, uint64_t index, char *buf, size_t cap,
		      struct mr_extent *e, struct mr_err *err);
	int (*unpack)(const struct mr_load *ld, const void *bytes,
		      size_t length, struct mr_tensor *f);
	/* Or load(): the source makes or reads the sample itself. */
	int (*load)(const struct mr_load *ld, struct mr_tensor *f);
	/* The sample's key, as snprintf(). */
	size_t (*key)(const void *self, uint64_t index, char *buf, size_t cap);
	/* Class names of field `label`; NULL past the end. May be NULL. */
	const char *(*class_name)(const void *self, uint64_t label);
	/* A hash of what identifies the data set's content. May be NULL. */
	uint64_t (*fingerprint)(const void *self);
	/* As of a step: bytes of state that each thread keeps. */
	size_t local;
	void (*drop)(void *local);
	/* Of a source without locate(): the i-th file that it reads; NULL
	 * past the end. May be NULL. */
	const char *(*file)(const void *self, size_t i);
	/*
	 * Of a source that stands for the first stages of another pipeline:
	 * how many, and in *deferred the text of those of them that are still
	 * to be done, or NULL. Steps after it draw the random numbers that
	 * they would draw there. May be NULL.
	 */
	int (*stands_for)(const void *self, const char **deferred);
};

enum {
	MR_SOURCE_RAW = 1,
	MR_SOURCE_MAPS = 2, /* extents may be mapped; steps then read from the
			     * mapping itself */
	MR_SOURCE_MADE = 4, /* samples are made up: a storage that is imitated
			     * takes their bytes for reads, made ahead */
};

/* ---- what there is ---- */

enum mr_kind { MR_KIND_SOURCE, MR_KIND_STEP, MR_KIND_CODEC };

struct mr_entry {
	enum mr_kind kind;
	const char *name, *help;
	const struct mr_param *params;
	const char *missing; /* NULL, or why this build lacks it */
	/* Of a codec: levels from min to max; all 0 when it has none. */
	int min_level, max_level, default_level;
};

/* The i-th source, step or codec built in, in this order; false past the
 * end. */
bool mr_entry(size_t i, struct mr_entry *e);

/* The loader's options as a parameter table over struct mr_options, from
 * which the command line and Python take theirs. */
const struct mr_param *mr_option_params(void);

struct mr_plugin {
	int abi;
	const struct mr_op *const *ops;		/* ends with NULL, or NULL */
	const struct mr_source *const *sources; /* ends with NULL, or NULL */
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
