/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded first-in-first-out queue of numbers between threads. For hand-over
 * of work worth microseconds or more (a blocking read); the path of a warm
 * sample has no queue.
 */
#ifndef MR_CORE_QUEUE_H
#define MR_CORE_QUEUE_H

#include <pthread.h>

#include "core/err.h"

struct mr_queue {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	uint64_t *item;
	size_t cap, head, count;
	bool closed;
};

int mr_queue_init(struct mr_queue *q, size_t cap, struct mr_err *err);
void mr_queue_fini(struct mr_queue *q);

/* Waits while full; false once the queue is closed. */
bool mr_queue_put(struct mr_queue *q, uint64_t v);
/* Waits while empty; false once it is closed and drained. */
bool mr_queue_get(struct mr_queue *q, uint64_t *v);
/* No more puts; wakes all who wait. */
void mr_queue_close(struct mr_queue *q);

#endif
