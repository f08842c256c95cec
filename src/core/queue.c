/* SPDX-License-Identifier: Apache-2.0 */
#include "core/queue.h"

#include "core/mem.h"

int mr_queue_init(struct mr_queue *q, size_t cap, struct mr_err *err)
{
	*q = (struct mr_queue){ .cap = cap };
	q->item = mr_alloc(cap, sizeof(*q->item), err);
	if (!q->item)
		return MR_ENOMEM;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->not_empty, NULL);
	pthread_cond_init(&q->not_full, NULL);
	return 0;
}

void mr_queue_fini(struct mr_queue *q)
{
	if (!q->item)
		return;
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->not_empty);
	pthread_cond_destroy(&q->not_full);
	free(q->item);
	q->item = NULL;
}

bool mr_queue_put(struct mr_queue *q, uint64_t v)
{
	bool ok;

	pthread_mutex_lock(&q->lock);
	while (q->count == q->cap && !q->closed)
		pthread_cond_wait(&q->not_full, &q->lock);
	ok = !q->closed;
	if (ok) {
		q->item[(q->head + q->count++) % q->cap] = v;
		pthread_cond_signal(&q->not_empty);
	}
	pthread_mutex_unlock(&q->lock);
	return ok;
}

bool mr_queue_get(struct mr_queue *q, uint64_t *v)
{
	bool ok;

	pthread_mutex_lock(&q->lock);
	while (q->count == 0 && !q->closed)
		pthread_cond_wait(&q->not_empty, &q->lock);
	ok = q->count > 0;
	if (ok) {
		*v = q->item[q->head];
		q->head = (q->head + 1) % q->cap;
		q->count--;
		pthread_cond_signal(&q->not_full);
	}
	pthread_mutex_unlock(&q->lock);
	return ok;
}

void mr_queue_close(struct mr_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->not_empty);
	pthread_cond_broadcast(&q->not_full);
	pthread_mutex_unlock(&q->lock);
}
