/* SPDX-License-Identifier: Apache-2.0 */
#include "io/window.h"

#include "core/mem.h"

enum {
	SMALL = 16 << 10, /* reads up to this take part */
	LEAST = 64 << 10,
	MOST = 4 << 20,
	TAIL = 16 << 10, /* of a file: its reader has come to the end of it */
};

void mr_window_init(struct mr_window *w)
{
	*w = (struct mr_window){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

void mr_window_fini(struct mr_window *w)
{
	free(w->data);
	w->data = NULL;
}

static void drop(struct mr_window *w)
{
	free(w->data);
	w->data = NULL;
	w->cap = w->n = 0;
	atomic_store(&w->filled, false);
}

void mr_window_drop(struct mr_window *w)
{
	if (!atomic_load_explicit(&w->filled, memory_order_relaxed))
		return;
	pthread_mutex_lock(&w->lock);
	drop(w);
	pthread_mutex_unlock(&w->lock);
}

/* Twice as much as last time while the reader goes on from there, also with
 * steps as wide as the window; else it has jumped. */
static size_t next_size(const struct mr_window *w, uint64_t offset)
{
	uint64_t end = w->at + w->n;

	if (!w->n || offset < w->at || (offset > end && offset - end > w->n))
		return LEAST;
	return w->n * 2 < MOST ? w->n * 2 : MOST;
}

static int fill(struct mr_window *w, const struct mr_remote *r, uint64_t offset,
		struct mr_err *err)
{
	uint64_t rest = mr_remote_size(r) - offset;
	size_t n = next_size(w, offset);
	int e;

	n = n < rest ? n : (size_t)rest;
	e = mr_grow(&w->data, &w->cap, n, 1, MOST, err);
	w->n = 0;
	if (!e)
		e = mr_remote_read(r, w->data, n, offset, NULL, err);
	if (e)
		return e;
	w->at = offset;
	w->n = n;
	atomic_store(&w->filled, true);
	return 0;
}

/* At the end of a file only the rest is kept, since there may be thousands
 * of them. */
static void shrink(struct mr_window *w, uint64_t offset)
{
	size_t gone = (size_t)(offset - w->at);
	uint8_t *less;

	w->n -= gone;
	w->at = offset;
	memmove(w->data, w->data + gone, w->n);
	less = realloc(w->data, w->n);
	if (less) {
		w->data = less;
		w->cap = w->n;
	}
}

static bool holds(const struct mr_window *w, uint64_t offset, size_t n)
{
	return offset >= w->at && offset - w->at <= w->n &&
	       n <= w->n - (size_t)(offset - w->at);
}

int mr_window_read(struct mr_window *w, const struct mr_remote *r, void *to,
		   size_t n, uint64_t offset, struct mr_err *err)
{
	uint64_t size = mr_remote_size(r);
	int e = 0;

	/* Whoever finds it in use is one of many, and better off alone. */
	if (n > SMALL || pthread_mutex_trylock(&w->lock))
		return mr_remote_read(r, to, n, offset, NULL, err);
	if (!holds(w, offset, n))
		e = fill(w, r, offset, err);
	if (!e)
		memcpy(to, w->data + (offset - w->at), n);
	if (!e && w->n > TAIL && w->at + w->n == size && size - offset <= TAIL)
		shrink(w, offset);
	pthread_mutex_unlock(&w->lock);
	return e;
}
