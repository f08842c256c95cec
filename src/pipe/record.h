/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader's trace: which spans its threads leave behind. Each function does
 * nothing, at the cost of one branch, when there is no trace.
 */
#ifndef MR_PIPE_RECORD_H
#define MR_PIPE_RECORD_H

#include "pipe/loader.h"
#include "trace/recorder.h"

/* Begins the trace that the options ask for. */
int mr_record_open(struct mr_loader *l, const char *pipeline,
		   struct mr_err *err);
/* Ends it; the loader's threads must have stopped. */
void mr_record_close(struct mr_loader *l);

/* A ring for a thread that will be; NULL in *ring when there is no trace. */
int mr_record_ring(struct mr_loader *l, struct mr_ring **ring,
		   struct mr_err *err);
/* The calling thread is the one of that ring; number 0: there is but one.
 * Returns what mr_sampler_attach() does. */
const struct perf_event_mmap_page *mr_record_thread(struct mr_loader *l,
						    const struct mr_ring *ring,
						    const char *role,
						    int number);

/* The present moment, if it is of use. */
static inline uint64_t mr_record_now(const struct mr_loader *l,
				     const struct mr_ring *r)
{
	return r ? mr_clock_tick(&l->clock) : 0;
}

/* From `start` to now. */
static inline void mr_record(const struct mr_loader *l, struct mr_ring *r,
			     enum mr_span_kind kind, uint64_t start,
			     uint64_t batch, uint64_t bytes)
{
	if (r)
		mr_ring_put(r,
			    &(struct mr_span){ .start = start,
					       .end = mr_clock_tick(&l->clock),
					       .sample = MR_NO_SAMPLE,
					       .batch = batch,
					       .bytes = mr_span_bytes(bytes),
					       .kind = (uint8_t)kind });
}

/* The consumer asks for the batch at the head, and has got it. */
void mr_record_ask(struct mr_loader *l);
void mr_record_got(struct mr_loader *l, const struct mr_batch *b,
		   uint64_t batch);

#endif
