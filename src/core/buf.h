/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers: 64-byte aligned, reference counted, pooled, and counted against
 * a budget that all pools of a loader share. Any thread may call.
 */
#ifndef MR_CORE_BUF_H
#define MR_CORE_BUF_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/err.h"

/* Bytes that may be in use at once. A soft one only counts: its owner looks
 * at `used` and slows down in time. */
struct mr_budget {
	atomic_size_t used, peak;
	size_t max;
	bool soft;
};

void mr_budget_init(struct mr_budget *b, size_t max, bool soft);
/* False, and nothing taken, when that would go over a hard limit. */
bool mr_budget_take(struct mr_budget *b, size_t bytes);
void mr_budget_give(struct mr_budget *b, size_t bytes);

struct mr_pool;

struct mr_buf {
	void *data;
	size_t cap;
	atomic_int refs;
	struct mr_pool *pool;
	struct mr_buf *next; /* in the pool */
	bool lent;
};

/*
 * A pool keeps the buffers that came back, up to `keep`, and hands them out
 * again before it asks the system.
 */
struct mr_pool {
	pthread_mutex_t lock;
	struct mr_buf *free;
	size_t count, keep;
	struct mr_budget *budget;
};

void mr_pool_init(struct mr_pool *p, struct mr_budget *budget, size_t keep);
/* All buffers must be back. */
void mr_pool_fini(struct mr_pool *p);

/* What a buffer of that size really takes. */
size_t mr_buf_size(size_t bytes);
/* Memory of such a size, from 4 MiB on in huge pages and aligned to them; to be
 * freed; or NULL. */
void *mr_buf_memory(size_t bytes);

/* A buffer of at least `bytes`, with one reference; MR_ELIMIT over budget. */
int mr_pool_get(struct mr_pool *p, size_t bytes, struct mr_buf **out,
		struct mr_err *err);
/* Enlarge to at least `bytes`, keeping the first `used` ones. The caller
 * must hold the only reference. */
int mr_buf_grow(struct mr_buf *b, size_t bytes, size_t used,
		struct mr_err *err);
void mr_buf_ref(struct mr_buf *b);
void mr_buf_unref(struct mr_buf *b); /* NULL is allowed */

/* The buffer goes to the user: until it comes back it does not count
 * against the budget, since nobody knows how long the user keeps it. */
void mr_buf_lend(struct mr_buf *b);
/* It came back and counts again, whether it fits or not. */
void mr_buf_reclaim(struct mr_buf *b); /* NULL is allowed */

#endif
