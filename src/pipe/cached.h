/* SPDX-License-Identifier: Apache-2.0 */
/* The step `cache` in a loader: its memory, and the way of a sample into it
 * and out of it. What it is and keeps is in cache/ram.h and in the plan. */
#ifndef MR_PIPE_CACHED_H
#define MR_PIPE_CACHED_H

#include "pipe/worker.h"

/* Sets the cache's memory apart from the buffers'. Both must fit into what
 * the user gave; the default grows by the cache. given: by the user, or 0. */
int mr_cached_open(struct mr_loader *l, uint64_t given, struct mr_err *err);
void mr_cached_close(struct mr_loader *l);

/*
 * The sample's fields, if they are held: what no further step changes goes
 * to its row. 1: done, 0: not held, and put() may follow; negative: w->err.
 * Waits for another thread that makes the same sample.
 */
int mr_cached_get(struct mr_worker *w, const struct mr_row *r,
		  struct mr_tensor *t);
/* The fields have come as far as the cache. */
void mr_cached_put(struct mr_worker *w, const struct mr_row *r,
		   const struct mr_tensor *t);
/* The sample is through, or has failed. */
void mr_cached_end(struct mr_worker *w);

void mr_cached_stats(const struct mr_loader *l, struct mr_stats *st);

#endif
