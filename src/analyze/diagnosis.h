/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A diagnosis: what was measured of a job, and what follows from it. Whoever
 * measures (src/diagnose for a pipeline, the hooks in Python for a script)
 * fills the measured part; everything else is computed from it, here and in
 * model.h, so that a diagnosis can be read again on another machine.
 *
 * Rates are samples per second. G: the accelerator alone, fed with batches
 * that are ready. P: the preparation alone, everything in memory. S: the
 * storage alone, cold. `as_*` are the same three with everything that comes
 * before them, which is what a job sees: as_g, then as_p (with preparation),
 * then as_f (with preparation, from the storage, with the cache that it has).
 */
#ifndef MR_ANALYZE_DIAGNOSIS_H
#define MR_ANALYZE_DIAGNOSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

enum {
	MR_CURVE_MAX = 16,
	MR_DIAG_STEPS = 40,
	MR_DIAG_CODECS = 8,
	MR_DIAG_RANKS = 64,
	MR_REMEDIES = 12,
};

/* A mean with its 95 % interval; n 0: it was not measured. */
struct mr_figure {
	double mean, low, high;
	unsigned n;
};

/* Of n values (windows or rounds of about the same length). */
struct mr_figure mr_figure_of(const double *value, size_t n);

/* What a storage can do; 0: no limit, or not known. As the shaper's. */
struct mr_storage_limits {
	double bw, stream; /* bytes/s: in total, of one request */
	double latency;	   /* seconds */
	double iops;
};

/* P of so many threads. */
struct mr_diag_point {
	int threads;
	struct mr_figure rate;
};

struct mr_diag_step {
	char name[32];
	double us;	  /* mean, of one thread */
	double bytes_out; /* mean, of one sample */
	bool fixed;	  /* the same in each epoch: may be stored after it */
};

struct mr_diag_codec {
	char name[16];
	double ratio;  /* bytes before / after, of the samples as stored */
	double unpack; /* bytes (unpacked) per second and thread */
};

/* One rank of a job of several. */
struct mr_diag_rank {
	int rank;
	struct mr_figure as_g, as_p, as_f;
};

struct mr_remedy {
	char what[160]; /* in words */
	char how[4096]; /* a command or a pipeline, or "" */
	char cost[160]; /* what it takes */
	double rate;	/* predicted */
	double gain;	/* rate / the present one */
};

struct mr_diagnosis {
	/* ---- measured ---- */
	char *pipeline;		/* the text; NULL for a command */
	char *command;		/* NULL for a pipeline */
	uint64_t samples;	/* of the data set */
	uint64_t batch;		/* samples per batch */
	int threads;		/* or worker processes */
	int cores;		/* that the process may use */
	uint64_t sampled;	/* samples that the phases looked at */
	double seconds;		/* that the diagnosis took */
	double sample_bytes;	/* read for a sample, mean */
	double sample_requests; /* reads for a sample, mean */
	char accelerator[64];	/* where G is from: "given", a preset's name,
				 * "measured" */
	double step_seconds;	/* compute time of a batch */
	char profile[128];	/* of a storage that is imitated, or "" */
	struct mr_storage_limits limits; /* of it */
	double depth;			 /* reads in flight that were used */
	double cache_bytes;		 /* of the job's cache; 0: none */
	double cache_share;		 /* of the data set that it holds */
	double entry_bytes;		 /* of a sample in the job's cache */
	bool direct;	      /* workers read by themselves, and wait for it */
	double cold_stayed;   /* share of bytes that could not be evicted; < 0:
			       * not known */
	double warm_resident; /* share of bytes in memory while P was
			       * measured; < 0: not known */
	struct mr_figure g, p, s; /* alone */
	struct mr_figure c;	  /* reading alone, everything in memory */
	struct mr_figure pc;	  /* P with everything in `cache ram=` */
	struct mr_figure pa;	  /* P when samples are read ahead, from a
				   * storage without limits */
	struct mr_figure as_g, as_p, as_f;
	struct mr_figure page; /* as_f with an LRU page cache of that size */
	int points;	       /* P by threads, ascending */
	struct mr_diag_point curve[MR_CURVE_MAX];
	int steps;
	struct mr_diag_step step[MR_DIAG_STEPS]; /* 0 is the read */
	int codecs;
	struct mr_diag_codec codec[MR_DIAG_CODECS];
	int ranks;
	struct mr_diag_rank rank[MR_DIAG_RANKS];
	struct mr_str notes; /* what a reader should know, a line each */

	/* ---- concluded ---- */
	double rate;			/* samples/s that the job gets */
	double prep_stall, fetch_stall; /* shares of an epoch's time */
	double au;		/* accelerator utilisation, as DLIO has it */
	const char *bottleneck; /* accelerator, cpu, storage, balanced */
	char verdict[400];	/* one sentence, with the evidence */
	int remedies;
	struct mr_remedy remedy[MR_REMEDIES]; /* the best first */
};

/* Frees what it holds. */
void mr_diagnosis_fini(struct mr_diagnosis *d);

/* From the measured part to the concluded one. Never fails: what is not
 * known is left out. */
void mr_diagnosis_conclude(struct mr_diagnosis *d);

/* For people; for programs (one JSON object, docs/model.md); a page. To be
 * freed; NULL when out of memory. */
char *mr_diagnosis_text(const struct mr_diagnosis *d);
char *mr_diagnosis_json(const struct mr_diagnosis *d);

/* Reads what mr_diagnosis_json() wrote, and concludes again. Errors name the
 * key that is missing or wrong. */
int mr_diagnosis_parse(struct mr_diagnosis *d, const char *json,
		       const char *file, struct mr_err *err);

#endif
