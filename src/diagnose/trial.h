/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trial: one run of a job, made of some of its parts, and its rate. The
 * source alone or with the steps, with a cache or without, from memory, cold,
 * or from a storage that is imitated, by so many threads, with an accelerator
 * or with nobody who computes.
 */
#ifndef MR_DIAGNOSE_TRIAL_H
#define MR_DIAGNOSE_TRIAL_H

#include "diagnose/pace.h"
#include "millrace/millrace.h"

/* Seconds that filling a cache may take, at a scale of 1. */
#define MR_TRIAL_FILL 6.0

/* A storage that is asked, and never slow. */
#define MR_TRIAL_NO_LIMITS "bw=1000000000000000"

/* A pipeline in parts, so that some can be left out. */
struct mr_job {
	char *source;		  /* `files DIR` */
	char *before;		  /* steps before the place of a cache, or "" */
	char *after;		  /* and after it, with `batch` */
	char *upto[MR_MAX_STEPS]; /* the source and the steps up to that stage,
				   * while they are the same in each epoch */
	int place;		  /* of a cache: so many stages are before it */
	double ram;		  /* of the one that the pipeline has, or 0 */
	uint64_t batch, samples;
	bool local;  /* the source has files to be evicted, */
	bool remote; /* or has them on a server, where they are slow anyway */
	bool ahead;  /* it is read ahead of the workers */
	struct mr_options opt;
};

/* What all trials of a job have in common. */
struct mr_setup {
	const struct mr_job *job;
	uint64_t subset; /* samples that they look at */
	double scale;	 /* of their times */
	uint64_t until;	 /* when they are over in any case; 0: any time */
	double hold;	 /* bytes of a cache for all samples as they are read,
			  * for those that nothing else holds in memory; or 0 */
	double step;	 /* seconds that the accelerator computes on a batch */
	bool (*stop)(void *data); /* asked now and then; may be NULL */
	void *data;
};

enum mr_trial_parts { MR_TRIAL_SOURCE, MR_TRIAL_STEPS, MR_TRIAL_CACHE };

/* { 0 } is the source alone, by the job's threads, for no time. */
struct mr_trial {
	enum mr_trial_parts parts; /* the source; and the steps; and a cache */
	double ram;		   /* of the cache, bytes */
	int threads;		   /* 0: the job's */
	const char *storage;	   /* a profile; "" or NULL: as it is */
	bool in_memory;		   /* the samples are to be there */
	bool ahead;		   /* samples are read ahead from the start */
	bool paced;		   /* there is an accelerator */
	double seconds;		   /* to measure, at a scale of 1 */
	bool fill;		   /* first fill the cache, at full speed, */
	int epochs;		   /* in so many epochs */
	bool evict; /* then make it cold, and go no further than an epoch,
		     * again and again until the time is up */
	bool whole; /* an epoch from its beginning to its end */
};

struct mr_trial_found {
	struct mr_figure rate;
	double stayed; /* of `evict`: share of bytes that stayed in memory; < 0:
			* the kernel does not tell */
	bool unfilled; /* of `fill`: the time was up before */
	double start;  /* of runs too short to be counted in windows: share of
			* their time until the first batch; 0: of none */
};

/* As long as that may take, which is not made shorter by a small scale: what
 * takes as long as it takes is cut off there, so that the whole ends in
 * time. */
double mr_trial_limit(const struct mr_setup *w, double seconds);

/* Threads to try after n: 1, 2, 4, ... and most. */
int mr_trial_threads(int n, int most);

/* The loader of a trial, to be closed. *l is NULL after an error. What samples
 * that are made up cost counts as preparation: the source alone is without. */
int mr_trial_open(const struct mr_setup *w, const struct mr_trial *t,
		  struct mr_loader **l, struct mr_err *err);

/* How its batches are taken, for who does so by himself. */
struct mr_pace mr_trial_pace(const struct mr_setup *w,
			     const struct mr_trial *t);

/* Fills, evicts and measures as t says, with a loader of mr_trial_open(),
 * which may be asked for its stats then. MR_ESTATE when stop() said so. */
int mr_trial_measure(const struct mr_setup *w, const struct mr_trial *t,
		     struct mr_loader *l, struct mr_trial_found *found,
		     struct mr_err *err);

/*
 * Ends the loader's work, which would go on until its ring is full, beside
 * what is measured next. It goes on at the same place when it is asked for a
 * batch, without what was prepared ahead and how large claims of the workers
 * have grown, which is of a time when nothing was slow.
 */
int mr_trial_rest(struct mr_loader *l, struct mr_err *err);

/* All of it: opens, measures, closes. st: the loader's, or NULL. */
int mr_trial_run(const struct mr_setup *w, const struct mr_trial *t,
		 struct mr_trial_found *found, struct mr_stats *st,
		 struct mr_err *err);

#endif
