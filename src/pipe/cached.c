/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/cached.h"

#include <time.h>

#include "cache/ram.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/str.h"
#include "pipe/lap.h"
#include "pipe/sink.h"

enum { NAP_NS = 20 * 1000 };

#define BUFFERS_MIN ((uint64_t)1 << 20)

/* ---- its memory ---- */

static int check_room(const struct mr_loader *l, uint64_t given,
		      struct mr_err *err)
{
	uint64_t ram = l->plan.cache_ram, all = mr_machine_memory();
	char want[32], have[32];

	if (ram > all)
		mr_err_set(err, MR_ELIMIT,
			   "cache: ram=%s is more than the %s that this "
			   "process may use; make it smaller",
			   mr_str_size(want, (double)ram),
			   mr_str_size(have, (double)all));
	else if (given && (ram > given || given - ram < BUFFERS_MIN))
		mr_err_set(err, MR_ELIMIT,
			   "cache: ram=%s does not fit into a memory budget "
			   "of %s beside the buffers; make it smaller, or "
			   "raise --memory",
			   mr_str_size(want, (double)ram),
			   mr_str_size(have, (double)given));
	else
		return 0;
	return mr_pipeline_point(l->pipeline, l->plan.cache, err);
}

int mr_cached_open(struct mr_loader *l, uint64_t given, struct mr_err *err)
{
	const struct mr_plan *p = &l->plan;
	int e;

	if (!p->cache)
		return 0;
	e = check_room(l, given, err);
	if (e)
		return e;
	if (given)
		l->budget.max = given - p->cache_ram;
	else
		l->opt.memory += p->cache_ram;
	l->cache = mr_alloc_aligned(sizeof(*l->cache), err);
	if (!l->cache)
		return MR_ENOMEM;
	return mr_ram_open(l->cache, p->cache_ram, p->samples, &p->cached, err);
}

void mr_cached_close(struct mr_loader *l)
{
	if (l->cache)
		mr_ram_close(l->cache);
	free(l->cache);
	l->cache = NULL;
}

void mr_cached_stats(const struct mr_loader *l, struct mr_stats *st)
{
	if (!l->cache)
		return;
	st->cache.ram = l->cache->size;
	st->cache.bytes = atomic_load(&l->cache->used);
	st->cache.samples = atomic_load(&l->cache->held);
	st->cache.full = atomic_load(&l->cache->full);
	for (int i = 0; i < l->threads; i++) {
		st->cache.hits += mr_counted(&l->stats[i].hits);
		st->cache.misses += mr_counted(&l->stats[i].misses);
	}
	st->memory_peak += st->cache.bytes;
}

/* ---- a sample ---- */

static enum mr_ram_found look(struct mr_worker *w, uint64_t index,
			      struct mr_tensor *t)
{
	const struct timespec nap = { 0, NAP_NS };
	enum mr_ram_found found;

	/* Rare: the same sample of another epoch, or a replacement. */
	while ((found = mr_ram_get(w->l->cache, index, t, w->rate)) ==
	       MR_RAM_BUSY) {
		if (atomic_load(&w->l->stop))
			return MR_RAM_REFUSED;
		w->sleeps++;
		nanosleep(&nap, NULL);
	}
	return found;
}

static void account(struct mr_worker *w, const struct mr_row *r,
		    const struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;
	size_t n = 0;

	for (int i = 0; i < p->cached.n; i++)
		n += mr_tensor_bytes(&t[p->cached.item[i].id]);
	mr_lap_bytes(w, p->cache, n, n);
	mr_lap(w, r, p->cache);
}

/* What no step will change any more, to its row of the batch. */
static int deliver(struct mr_worker *w, const struct mr_row *r,
		   struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->cached.n; i++) {
		int id = p->cached.item[i].id;
		struct mr_sink s = { r, id, p->cached_out[id] };
		size_t n = mr_tensor_bytes(&t[id]);
		void *to;

		if (s.out < 0)
			continue;
		to = mr_sink_reserve(w, &s, n, 0);
		if (!to)
			return w->err.code;
		if (n)
			memcpy(to, t[id].data, n);
		mr_sink_settle(w, &s, &t[id]);
	}
	return 0;
}

int mr_cached_get(struct mr_worker *w, const struct mr_row *r,
		  struct mr_tensor *t)
{
	enum mr_ram_found found = look(w, r->index, t);
	int e;

	w->hit = found == MR_RAM_HELD;
	w->making = found == MR_RAM_YOURS;
	w->made = r->index;
	mr_count(w->hit ? &w->stats->hits : &w->stats->misses, 1);
	if (!w->hit)
		return 0;
	w->at_step = mr_op_cache.name;
	e = deliver(w, r, t);
	if (e)
		return e;
	account(w, r, t);
	return 1;
}

void mr_cached_put(struct mr_worker *w, const struct mr_row *r,
		   const struct mr_tensor *t)
{
	if (w->making)
		mr_ram_put(w->l->cache, r->index, t, w->rate);
	w->making = false;
	account(w, r, t);
}

void mr_cached_end(struct mr_worker *w)
{
	if (w->making)
		mr_ram_drop(w->l->cache, w->made);
	w->making = false;
}
