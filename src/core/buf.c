/* SPDX-License-Identifier: Apache-2.0 */
#include "core/buf.h"

#include <sys/mman.h>

#include "core/mem.h"
#include "core/str.h"

/* From here on, memory is mapped on its own and asks for huge pages. */
#define MAP_FROM  ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

void mr_budget_init(struct mr_budget *b, size_t max, bool soft)
{
	atomic_init(&b->used, 0);
	atomic_init(&b->peak, 0);
	b->max = max;
	b->soft = soft;
}

static void note_peak(struct mr_budget *b, size_t now)
{
	size_t peak = atomic_load(&b->peak);

	while (now > peak &&
	       !atomic_compare_exchange_weak(&b->peak, &peak, now))
		;
}

bool mr_budget_take(struct mr_budget *b, size_t bytes)
{
	size_t used = atomic_load(&b->used), now;

	do {
		if (!b->soft && (bytes > b->max || used > b->max - bytes))
			return false;
		now = used + bytes;
	} while (!atomic_compare_exchange_weak(&b->used, &used, now));
	note_peak(b, now);
	return true;
}

void mr_budget_give(struct mr_budget *b, size_t bytes)
{
	atomic_fetch_sub(&b->used, bytes);
}

size_t mr_buf_size(size_t bytes)
{
	if (bytes >= MAP_FROM)
		return mr_round_up(bytes, HUGE_PAGE);
	return mr_round_up(bytes ? bytes : 1, bytes < 4096 ? MR_ALIGN : 4096);
}

void *mr_buf_memory(size_t bytes)
{
	void *p =
		aligned_alloc(bytes >= MAP_FROM ? HUGE_PAGE : MR_ALIGN, bytes);

	if (p && bytes >= MAP_FROM)
		madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

void mr_pool_init(struct mr_pool *p, struct mr_budget *budget, size_t keep)
{
	*p = (struct mr_pool){ .budget = budget, .keep = keep };
	pthread_mutex_init(&p->lock, NULL);
}

static void buf_destroy(struct mr_buf *b)
{
	if (!b->lent)
		mr_budget_give(b->pool->budget, b->cap);
	free(b->data);
	free(b);
}

void mr_pool_fini(struct mr_pool *p)
{
	while (p->free) {
		struct mr_buf *b = p->free;

		p->free = b->next;
		buf_destroy(b);
	}
	pthread_mutex_destroy(&p->lock);
}

static int over_budget(struct mr_budget *b, size_t bytes, struct mr_err *err)
{
	char want[32], max[32], used[32];

	return mr_err_set(err, MR_ELIMIT,
			  "a buffer of %s does not fit: %s of the memory "
			  "budget of %s are in use; raise --memory",
			  mr_str_size(want, (double)bytes),
			  mr_str_size(used, (double)atomic_load(&b->used)),
			  mr_str_size(max, (double)b->max));
}

static int buf_new(struct mr_pool *p, size_t bytes, struct mr_buf **out,
		   struct mr_err *err)
{
	struct mr_buf *b;
	size_t cap = mr_buf_size(bytes);

	if (cap < bytes || !mr_budget_take(p->budget, cap))
		return over_budget(p->budget, bytes, err);
	b = mr_alloc(1, sizeof(*b), err);
	if (b)
		b->data = mr_buf_memory(cap);
	if (!b || !b->data) {
		free(b);
		mr_budget_give(p->budget, cap);
		return mr_err_nomem(err, cap);
	}
	b->cap = cap;
	b->pool = p;
	*out = b;
	return 0;
}

static struct mr_buf *unlink_at(struct mr_pool *p, struct mr_buf **link)
{
	struct mr_buf *b = *link;

	if (b) {
		*link = b->next;
		p->count--;
	}
	return b;
}

/* The smallest that is large enough, the one used last where they are
 * alike; one that is far too large is kept for those who need it. */
static struct mr_buf *pool_pick(struct mr_pool *p, size_t bytes)
{
	struct mr_buf **link, **best = NULL, *b;

	pthread_mutex_lock(&p->lock);
	for (link = &p->free; *link; link = &(*link)->next) {
		size_t cap = (*link)->cap;

		if (cap >= bytes && cap / 4 <= mr_buf_size(bytes) &&
		    (!best || cap < (*best)->cap))
			best = link;
		if (cap == mr_buf_size(bytes))
			break;
	}
	b = best ? unlink_at(p, best) : NULL;
	pthread_mutex_unlock(&p->lock);
	return b;
}

/* Gives one free buffer back to the system. */
static bool pool_shrink(struct mr_pool *p)
{
	struct mr_buf *b;

	pthread_mutex_lock(&p->lock);
	b = unlink_at(p, &p->free);
	pthread_mutex_unlock(&p->lock);
	if (b)
		buf_destroy(b);
	return b != NULL;
}

/* Free buffers make room for one that does not fit beside them. */
static void make_room(struct mr_pool *p, size_t bytes)
{
	struct mr_budget *budget = p->budget;

	while (atomic_load(&budget->used) + mr_buf_size(bytes) > budget->max)
		if (!pool_shrink(p))
			break;
}

int mr_pool_get(struct mr_pool *p, size_t bytes, struct mr_buf **out,
		struct mr_err *err)
{
	struct mr_buf *b = pool_pick(p, bytes);
	int e;

	if (!b) {
		make_room(p, bytes);
		e = buf_new(p, bytes, &b, err);
		if (e)
			return e;
	}
	atomic_store(&b->refs, 1);
	b->next = NULL;
	*out = b;
	return 0;
}

int mr_buf_grow(struct mr_buf *b, size_t bytes, size_t used, struct mr_err *err)
{
	struct mr_budget *budget = b->pool->budget;
	size_t cap = mr_buf_size(bytes);
	void *data;

	if (bytes <= b->cap)
		return 0;
	if (cap < bytes || !mr_budget_take(budget, cap))
		return over_budget(budget, bytes, err);
	data = mr_buf_memory(cap);
	if (!data) {
		mr_budget_give(budget, cap);
		return mr_err_nomem(err, cap);
	}
	memcpy(data, b->data, used);
	free(b->data);
	mr_budget_give(budget, b->cap);
	b->data = data;
	b->cap = cap;
	return 0;
}

void mr_buf_lend(struct mr_buf *b)
{
	b->lent = true;
	mr_budget_give(b->pool->budget, b->cap);
}

void mr_buf_reclaim(struct mr_buf *b)
{
	struct mr_budget *budget;

	if (!b || !b->lent)
		return;
	budget = b->pool->budget;
	b->lent = false;
	note_peak(budget, atomic_fetch_add(&budget->used, b->cap) + b->cap);
}

/* Whether a buffer that was lent fits into the budget again. */
static bool take_back(struct mr_buf *b)
{
	struct mr_budget *budget = b->pool->budget;

	if (!b->lent)
		return true;
	if (atomic_load(&budget->used) + b->cap > budget->max ||
	    !mr_budget_take(budget, b->cap))
		return false;
	b->lent = false;
	return true;
}

void mr_buf_ref(struct mr_buf *b)
{
	atomic_fetch_add(&b->refs, 1);
}

void mr_buf_unref(struct mr_buf *b)
{
	struct mr_pool *p;

	if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
		return;
	p = b->pool;
	pthread_mutex_lock(&p->lock);
	if (p->count < p->keep && take_back(b)) {
		b->next = p->free;
		p->free = b;
		p->count++;
		b = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	if (b)
		buf_destroy(b);
}
