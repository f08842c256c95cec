/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer that stands for an accelerator: it takes a batch, and then
 * sleeps for exactly as long as the accelerator would compute. Its rate is
 * taken in windows, so that an interval can be given with it.
 */
#ifndef MR_DIAGNOSE_PACE_H
#define MR_DIAGNOSE_PACE_H

#include "analyze/diagnosis.h"
#include "millrace/millrace.h"

enum { MR_WINDOWS = 64 };

struct mr_pace {
	double step;	/* seconds that a full batch takes; 0: none */
	uint64_t batch; /* samples of a full one */
	double seconds; /* to measure; longer until there is a batch */
	uint64_t until; /* but not beyond, by mr_clock_ns(); 0: any time */
	double warm;	/* seconds at first that are not counted */
	bool to_end;	/* stop at the end of the epoch */
	bool whole;	/* count from the end of one epoch to that of another:
			 * hits of a cache differ within one, and what comes
			 * first has not settled */
	bool (*stop)(void *data); /* asked now and then; may be NULL */
	void *data;
};

/* Windows of several runs add up: start from { 0 }. */
struct mr_paced {
	double rate[MR_WINDOWS]; /* samples/s */
	size_t n;
	double seconds;	  /* counted, */
	uint64_t samples; /* and in them */
	/* Of runs shorter than a window: seconds, and those until the first
	 * batch, which do not count if others followed. */
	double short_runs, waited;
};

/* MR_ESTATE when stop() said so. Where not one batch came in the time there
 * was, the samples that the workers were done with are the rate; without one,
 * too, nothing is added to *out. */
int mr_pace(struct mr_loader *l, const struct mr_pace *p, struct mr_paced *out,
	    struct mr_err *err);

/* Takes batches as fast as they come until so many samples have come, or the
 * time is up: MR_AGAIN. *got: how many came; may be NULL. */
int mr_pace_skip(struct mr_loader *l, uint64_t samples, double seconds,
		 const struct mr_pace *p, uint64_t *got, struct mr_err *err);

/* The accelerator alone: the same batch again and again. */
int mr_pace_alone(const struct mr_pace *p, struct mr_paced *out,
		  struct mr_err *err);

struct mr_figure mr_paced_figure(const struct mr_paced *p);

#endif
