/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the CPU and the kernel, step by step: each worker thread has
 * its own, reads them where one step ends and the next begins, and adds the
 * difference to that step.
 *
 * What a reading costs decides how often: counters that user space may read
 * (rdpmc) are read for each sample; those that take a system call for one
 * sample in so many that it stays below half a percent of the time. How many
 * calls were counted stands beside each sum. What reading itself counts was
 * measured before, and is taken off.
 */
#ifndef MR_TRACE_COUNTERS_H
#define MR_TRACE_COUNTERS_H

#include "trace/events.h"
#include "trace/recorder.h"

enum {
	MR_OUTSIDE = 255,     /* the step's number of what is in none */
	MR_COUNTER_PARTS = 8, /* of steps that are done together */
};

struct mr_counting; /* of a recording */
struct mr_counters; /* of a thread */

/*
 * Begins to count the events of a list (mr_events_init()) for a pipeline of
 * so many steps, and writes META; NULL in *out when there are none. The
 * recorder writes the sums once a second, and when it is closed.
 */
int mr_counting_new(struct mr_counting **out, const char *list, int steps,
		    struct mr_recorder *r, struct mr_err *err);
/* After the recorder is closed; NULL is allowed. */
void mr_counting_free(struct mr_counting *c);

/* Counters of the calling thread, which is the one of that ring; NULL when
 * there are none to be had. Valid until mr_counting_free(). */
struct mr_counters *mr_counting_thread(struct mr_counting *c,
				       const struct mr_ring *g);
/* The calling thread is about to end; NULL is allowed. */
void mr_counters_stop(struct mr_counters *c);

/* How long a sample takes: sets how many of them are counted. */
void mr_counters_pace(struct mr_counters *c, double sample_ns);

/* The part of it that is looked at for each sample. */
struct mr_counters_gate {
	bool fast;
	unsigned left; /* samples until the next one that is counted */
};

/* As the next: what mr_counters_begin() does when it is time. */
bool mr_counters_start(struct mr_counters *c, uint64_t batch);

/* A sample begins; false when it is not counted. Groups of events take turns
 * from batch to batch. */
static inline bool mr_counters_begin(struct mr_counters *c, uint64_t batch)
{
	struct mr_counters_gate *g = (struct mr_counters_gate *)c;

	if (g->left > 1 && !g->fast) {
		g->left--;
		return false;
	}
	return mr_counters_start(c, batch);
}

/* What was counted since the last call belongs to this part. */
void mr_counters_part(struct mr_counters *c, int part);
/* The parts of the set bits were step k's: one call of it. */
void mr_counters_add(struct mr_counters *c, int k, unsigned parts);

/* One hardware counter as user space may read it (rdpmc), given its page and
 * how to read register i; false when the kernel must be asked. */
bool mr_pmc_read(const struct perf_event_mmap_page *page,
		 uint64_t (*rdpmc)(uint32_t i), uint64_t (*cycles)(void),
		 uint64_t *value, uint64_t *enabled, uint64_t *running);

#endif
