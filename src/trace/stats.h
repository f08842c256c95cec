/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a loader's threads, and what they add up to: the closed
 * budget and the verdict. Each worker owns a block that only it writes;
 * readers merge them at any time.
 */
#ifndef MR_TRACE_STATS_H
#define MR_TRACE_STATS_H

#include "core/clock.h"
#include "core/counter.h"
#include "millrace/millrace.h"

/* A step's counters in one thread; times in ticks. */
struct mr_step_count {
	mr_counter calls, ticks, bytes_in, bytes_out;
	struct mr_hist hist;
};

/* One worker's block, on cache lines of its own. */
struct mr_thread_stats {
	_Alignas(64) mr_counter busy; /* ticks of claims that are finished,
				       * waits included */
	mr_counter fetch, wait_in, wait_out, steps; /* parts of busy */
	mr_counter samples, bytes_read;
	mr_counter hits, misses; /* of the cache */
	mr_counter blocked;	 /* ticks asleep in reads: the storage's */
	struct mr_step_count step[MR_MAX_STEPS]; /* 0 is the read */
};

/* What the loader knows beside the workers' blocks. */
struct mr_stats_input {
	const struct mr_thread_stats *thread;
	int threads;
	const struct mr_clock *clock;
	uint64_t start_ns, end_ns; /* of the workers' time */
	int steps;		   /* with the read */
	const char *name[MR_MAX_STEPS];
	bool random[MR_MAX_STEPS]; /* not the same each epoch */
	uint64_t consumer_ns;
	bool shallow; /* the memory budget held the ring below what the
		       * workers want */
};

/* Fills step, budget, verdict and what follows from them in st; the loader
 * has set the rest (samples, bytes_out, batches...). */
void mr_stats_fill(struct mr_stats *st, const struct mr_stats_input *in);

#endif
