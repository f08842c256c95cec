/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's own things, shared by worker.c (claims of positions) and
 * sample.c (what becomes of each).
 */
#ifndef MR_PIPE_WORKER_H
#define MR_PIPE_WORKER_H

#include <sys/resource.h>

#include "core/arena.h"
#include "pipe/fetch.h"
#include "pipe/loader.h"
#include "trace/span.h"

/* A part's turn, in ticks. */
struct mr_turn {
	uint64_t from, to;
	int part;
};

enum { MR_TURNS = 64 }; /* that are kept of a sample */

struct mr_worker {
	struct mr_loader *l;
	pthread_t thread;
	bool joinable;
	struct mr_thread_stats *stats;
	struct mr_ring *ring; /* of the trace, or NULL */
	struct mr_counters *counters;
	int number;

	/* two areas per field: a step reads one and writes the other; one more
	 * pair is for bytes that a source takes apart */
	struct mr_buf *area[MR_MAX_FIELDS + 1][2];
	int side[MR_MAX_FIELDS + 1]; /* the one that was written last */
	int64_t rate[MR_MAX_FIELDS]; /* of the sample's sound; 0: not known */
	struct mr_arena scratch;
	void *local[MR_MAX_STEPS]; /* state that steps keep, by stage */
	struct mr_order_cache order;
	struct mr_err err;
	const char *at_step; /* where the sample is, for messages */
	uint64_t offset;     /* and where it lies in its file */
	size_t bytes;	     /* read for it */
	bool hit, making;    /* out of the cache; to be put into it, */
	uint64_t made;	     /* this sample */
	char path[4096];
	size_t guess; /* size of the files seen lately */

	/* claims */
	uint64_t chunk, begun; /* begun: samples */
	double ns_per_tick;

	/* timing of the present claim, in ticks */
	bool timing, counting;
	unsigned stride, timed;
	uint64_t last, wait_in, wait_out;
	uint64_t laid; /* where the next step's span begins */
	uint32_t span_bytes;
	/* its samples of functions, if any; those turns of steps that are done
	 * together in which one was taken */
	const struct perf_event_mmap_page *sampled;
	uint64_t sampled_to;
	struct mr_turn turn[MR_TURNS];
	int turns;
	uint64_t after; /* spent in steps after `batch` */
	uint64_t ticks[MR_MAX_STEPS];
	long sleeps; /* of its own will, in the present claim */
	struct rusage before;
	struct mr_slot *owed; /* its batch is ready, its consumer asleep, */
	uint64_t owed_at;     /* since then */
	uint64_t slow;	      /* a bit for each of the last claims */
	double sample_ns;     /* of late */
	uint64_t late;	      /* of its sleeps under a shaper */
};

/* The sample at hand, and its row. */
struct mr_row {
	struct mr_batch *b;
	struct mr_run *run; /* NULL when no field is ragged */
	uint32_t at;
	uint64_t slot; /* the batch's number through all epochs */
	uint64_t index;
};

/* What a step is given for the sample of that row; rng is for its use. Notes
 * the step as the one that is at work. */
void mr_step_context(struct mr_worker *w, const struct mr_row *r,
		     const struct mr_step *st, struct mr_rng *rng,
		     struct mr_opctx *cx);

/* Makes the state that source and steps keep for this thread afresh. */
int mr_worker_renew_locals(struct mr_worker *w);

/*
 * Takes a sample through the read and all steps, into its row of the batch.
 * got: its bytes if they were read ahead, or NULL. A sample that fails is
 * recorded in the batch, and left out or replaced as the policy says.
 */
void mr_sample_row(struct mr_worker *w, struct mr_row *r,
		   const struct mr_fetched *got);

#endif
