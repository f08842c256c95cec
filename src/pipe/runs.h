/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: samples that are neighbours in the storage, and that the order brings
 * close together (sequential, block), are read by one request of about a
 * megabyte. A run's bytes stay until each of its samples has been handed out,
 * or the order has left it behind. Used by the fetcher's thread alone.
 */
#ifndef MR_PIPE_RUNS_H
#define MR_PIPE_RUNS_H

#include "core/buf.h"
#include "pipe/loader.h"

struct mr_fetched;

enum { MR_RUN_SAMPLES = 256 };
enum mr_run_state { MR_RUN_PENDING, MR_RUN_DONE, MR_RUN_FAILED };

/* A sample of a run that is on its way: who waits for it. */
struct mr_run_waiter {
	struct mr_fetched *entry;
	uint64_t offset; /* in the file */
	size_t length;
};

struct mr_run_read {
	struct mr_run_read *next; /* in its bucket, or among the free */
	uint64_t epoch, number;	  /* which it is */
	uint64_t expires;	  /* no sample of it stands from here on */
	enum mr_run_state state;
	struct mr_extent at; /* all of it, */
	unsigned samples;    /* and each */
	struct mr_piece piece[MR_RUN_SAMPLES];
	struct mr_buf *buf;
	unsigned left; /* samples not handed out yet */
	unsigned waiters;
	struct mr_run_waiter waiter[MR_RUN_SAMPLES];
};

enum { MR_RUN_BUCKETS = 512 };

struct mr_runs {
	const struct mr_loader *l;
	uint64_t samples; /* of a run, at most; below 2: there are none */
	struct mr_order_cache order;
	struct mr_run_read *bucket[MR_RUN_BUCKETS], *free;
	uint64_t swept; /* position up to which old ones were looked for */
};

/* Samples of a run, where each has so many bytes; below 2: there are none.
 * budget: as below. */
uint64_t mr_runs_samples(const struct mr_order *o, uint64_t bytes,
			 size_t budget);

/* Decides whether there are runs; budget: bytes that they may hold. */
void mr_runs_init(struct mr_runs *r, const struct mr_loader *l, size_t budget);
/* None may be pending. */
void mr_runs_fini(struct mr_runs *r);

/*
 * The run of a sample at a position, made when it is new (then *fresh, and
 * the caller reads `at` into a buffer, or drops it). NULL when it has none: a
 * request of its own is needed. *x is the sample's own extent.
 */
struct mr_run_read *mr_runs_get(struct mr_runs *r, uint64_t position,
				uint64_t index, struct mr_extent *x,
				bool *fresh);

/* Forget it; its buffer stays with whom it was handed to. */
void mr_runs_drop(struct mr_runs *r, struct mr_run_read *run);

/* Nothing before this position will be asked for any more. */
void mr_runs_expire(struct mr_runs *r, uint64_t position);

#endif
