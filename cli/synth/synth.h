/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic data: one file per kind, whose last lines are its declaration.
 * cmd/synth.c holds the options and the table of kinds; a new kind is a file
 * here and a line there.
 *
 * All that is made is a function of (seed, number of the sample): the same
 * for any number of threads.
 */
#ifndef MR_CLI_SYNTH_H
#define MR_CLI_SYNTH_H

#include <limits.h>
#include <stdatomic.h>

#include "core/err.h"
#include "core/rng.h"

struct synth_options {
	int64_t count, classes, seed, threads;
	bool force;
	/* images */
	struct mr_ints size; /* n = 0: the kind's own */
	bool same_size;
	int64_t quality;
	int subsampling; /* enum synth_subsampling */
	/* tensors */
	struct mr_ints shape;
	enum mr_dtype dtype;
	int64_t files;
	bool each;
	/* flac, mp3, wav, nilm */
	double duration; /* s; 0: the kind's own */
};

enum synth_subsampling { SYNTH_MIXED, SYNTH_420, SYNTH_444 };

/* A run of the command. */
struct synth {
	const struct synth_options *opt;
	const char *dir;
	int threads;
	const char *next; /* the pipeline to try, with one %s for dir */
	atomic_ullong files, bytes; /* that are there under their names */
	bool stopped;		    /* by a signal: files are missing */
};

struct synth_kind {
	const char *name, *help;
	/* The options this kind takes besides count, classes, seed, threads
	 * and force, as they are written: " size quality ". */
	const char *options;
	/* Refuse options that do not go together, before DIR is made. */
	int (*check)(const struct synth_options *opt, struct mr_err *err);
	/* Fill s->dir, which exists. */
	int (*run)(struct synth *s, struct mr_err *err);
};

/*
 * Calls make(data, worker, i) for each i in [0, n), in order of i but at
 * once from s->threads threads, worker being in [0, s->threads). `samples`
 * are what i stands for in the progress line. Ends early at the first error,
 * which it returns, and at a signal: s->stopped.
 */
int synth_each(struct synth *s, uint64_t n, double samples,
	       int (*make)(void *data, int worker, uint64_t i,
			   struct mr_err *err),
	       void *data, struct mr_err *err);

/* A file under a temporary name until it is complete. No fsync: data that
 * can be made again need not survive a power cut. */
struct synth_file {
	int fd;					  /* -1: not open */
	char path[PATH_MAX], temp[PATH_MAX + 32]; /* its name until then */
};

int synth_file_open(struct synth_file *f, struct mr_err *err, const char *fmt,
		    ...) __attribute__((format(printf, 3, 4)));
int synth_file_write(struct synth_file *f, const void *data, size_t size,
		     uint64_t offset, struct mr_err *err);
/* Rename to path and count it; the file is closed in any case. */
int synth_file_done(struct synth *s, struct synth_file *f, uint64_t size,
		    struct mr_err *err);
/* Remove it. A file that is not open is allowed. */
void synth_file_drop(struct synth_file *f);

/* The directory and those above it. */
int synth_make_dirs(const char *path, struct mr_err *err);
int synth_check_empty(const char *dir, struct mr_err *err);
/* dir/class-000 and so on, for as many classes as `count` samples reach. */
int synth_class_dirs(struct synth *s, struct mr_err *err);

/* ---- random numbers and fields (field.c) ---- */

/* One multiplication-hash per number: philox would cost as much as the
 * pictures. */
struct synth_rng {
	uint64_t at;
};

static inline struct synth_rng synth_rng_for(uint64_t seed, uint64_t sample)
{
	struct mr_rng r = mr_rng_for(seed, 0, sample, 0);

	return (struct synth_rng){ mr_rng_u64(&r) };
}

static inline uint64_t synth_u64(struct synth_rng *r)
{
	return mr_mix64(r->at += 0x9e3779b97f4a7c15ULL);
}

/* [0, n), n < 2^32 */
static inline int synth_below(struct synth_rng *r, int n)
{
	return (int)((synth_u64(r) >> 32) * (uint64_t)n >> 32);
}

static inline float synth_real(struct synth_rng *r, float lo, float hi)
{
	return lo + (hi - lo) * (float)(synth_u64(r) >> 40) * 0x1p-24f;
}

/* Mean 0, deviation 1, never beyond 3.5: the sum of four uniform numbers. */
static inline float synth_normal(struct synth_rng *r)
{
	uint64_t u = synth_u64(r);
	int sum = (int)(u & 0xffff) + (int)(u >> 16 & 0xffff) +
		  (int)(u >> 32 & 0xffff) + (int)(u >> 48);

	return (float)(sum - 2 * 65535) * (1.0f / 37837);
}

/*
 * A periodic random field with a natural spectrum: amplitude falls with
 * frequency as f^-slope. Mean 0, deviation SYNTH_FIELD_SD, within the range
 * of int16_t. Kinds cut pieces from it instead of making noise per pixel.
 */
#define SYNTH_FIELD    512
#define SYNTH_FIELD_SD 4096

struct synth_field {
	int16_t v[SYNTH_FIELD][SYNTH_FIELD];
};

enum {
	SYNTH_WHITE,   /* slope 0 */
	SYNTH_ROUGH,   /* 0.7: foliage, gravel */
	SYNTH_NATURAL, /* 1.1: as photos have on the whole */
	SYNTH_SMOOTH,  /* 1.6: skin, walls */
	SYNTH_SOFT,    /* 2.4: sky, light */
	SYNTH_FIELDS
};

/* SYNTH_FIELDS fields, to be freed by the caller; NULL without memory. */
struct synth_field *synth_fields_new(uint64_t seed, struct mr_err *err);

#endif
