/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/runs.h"

#include "core/mem.h"
#include "pipe/part.h"

enum {
	RUN_BYTES = 1 << 20,
	GAP_MAX = 4096, /* bytes between neighbours that are read along */
	PROBES = 64,
};

/* ---- are there any? ---- */

static int locate(const struct mr_runs *r, uint64_t index, struct mr_extent *x)
{
	char path[4096];
	struct mr_err err;

	*x = (struct mr_extent){ 0 };
	/* A path of its own for each sample has no neighbours. */
	return mr_part_locate(&r->l->plan, index, path, sizeof(path), x,
			      &err) ||
	       x->length == MR_TO_END || (x->fd < 0 && !x->input);
}

/* Does b follow a in the same file? */
static bool follows(const struct mr_extent *a, const struct mr_extent *b)
{
	uint64_t end = a->offset + a->length;

	return a->fd == b->fd && a->input == b->input && b->offset >= end &&
	       b->offset - end <= GAP_MAX;
}

/* Bytes of a sample, by some of [from, from + n) that are spread evenly; 0:
 * they do not lie end to end. */
static uint64_t mean_bytes(const struct mr_runs *r, uint64_t from, uint64_t n)
{
	uint64_t sum = 0, seen = 0, pairs = 0;

	for (uint64_t i = 0; i < PROBES && n > 1; i++) {
		uint64_t at = from + (n - 1) / PROBES * i +
			      (n - 1) % PROBES * i / PROBES;
		struct mr_extent a, b;

		if (locate(r, at, &a) || locate(r, at + 1, &b))
			continue;
		sum += a.length;
		seen++;
		pairs += follows(&a, &b);
	}
	return seen && pairs * 4 > seen * 3 ? sum / seen + 1 : 0;
}

uint64_t mr_runs_samples(const struct mr_order *o, uint64_t bytes,
			 size_t budget)
{
	uint64_t most = RUN_BYTES / bytes, span;

	if (o->kind == MR_ORDER_SHUFFLE || o->ranks > 1)
		return 0;
	if (most > MR_RUN_SAMPLES)
		most = MR_RUN_SAMPLES;
	/* In block order all runs of a group are there at once. */
	span = o->kind == MR_ORDER_BLOCK ? mr_order_span(o) : 4 * most;
	if (most < 2 || span * bytes > budget / 2)
		return 0;
	/* Blocks are whole runs. */
	while (o->kind == MR_ORDER_BLOCK && o->block % most)
		most--;
	return most;
}

void mr_runs_init(struct mr_runs *r, const struct mr_loader *l, size_t budget)
{
	uint64_t part = l->plan.part.samples, bytes, others;

	*r = (struct mr_runs){ .l = l };
	if (l->order.kind == MR_ORDER_SHUFFLE || !l->plan.source->locate)
		return;
	bytes = mean_bytes(r, 0, part);
	others = mean_bytes(r, part, l->plan.samples - part);
	if (bytes < others)
		bytes = others;
	if (bytes)
		r->samples = mr_runs_samples(&l->order, bytes, budget);
}

/* ---- finding ---- */

static struct mr_run_read **bucket_of(struct mr_runs *r, uint64_t epoch,
				      uint64_t number)
{
	return &r->bucket[(number * 31 + epoch) % MR_RUN_BUCKETS];
}

/* Where the samples of a run lie, and the extent from the first to the last
 * of them. */
static bool cover(const struct mr_runs *r, const struct mr_stretch *s,
		  struct mr_run_read *run)
{
	struct mr_extent a = { 0 }, b;

	if (s->first + s->count > r->l->plan.samples ||
	    s->count > MR_RUN_SAMPLES)
		return false;
	for (uint64_t i = 0; i < s->count; i++, a = b) {
		if (locate(r, s->first + i, &b) || (i && !follows(&a, &b)))
			return false;
		if (!i)
			run->at = b;
		run->piece[i] = (struct mr_piece){ b.offset, b.length };
	}
	run->samples = (unsigned)s->count;
	run->at.length = a.offset + a.length - run->at.offset;
	run->at.mapped = NULL;
	return run->at.length <= 4 * (uint64_t)RUN_BYTES;
}

/* NULL when the samples are no neighbours. */
static struct mr_run_read *make(struct mr_runs *r, const struct mr_stretch *s)
{
	struct mr_run_read *run = r->free;

	if (run)
		r->free = run->next;
	else
		run = mr_alloc(1, sizeof(*run), NULL);
	if (run && !cover(r, s, run)) {
		run->next = r->free;
		r->free = run;
		run = NULL;
	}
	return run;
}

struct mr_run_read *mr_runs_get(struct mr_runs *r, uint64_t position,
				uint64_t index, struct mr_extent *x,
				bool *fresh)
{
	const struct mr_loader *l = r->l;
	uint64_t batch = position / l->rows, epoch = batch / l->epoch_batches;
	uint64_t base = epoch * l->epoch_batches * l->rows;
	struct mr_run_read **at, *run;
	struct mr_stretch s;

	*fresh = false;
	if (!mr_order_run(&l->order, &r->order, epoch, position - base, index,
			  r->samples, &s) ||
	    locate(r, index, x))
		return NULL;
	at = bucket_of(r, epoch, s.first);
	for (run = *at; run; run = run->next)
		if (run->number == s.first && run->epoch == epoch)
			return run;
	run = make(r, &s);
	if (!run)
		return NULL;
	run->epoch = epoch;
	run->number = s.first;
	run->expires = base + s.end;
	run->state = MR_RUN_PENDING;
	run->buf = NULL;
	run->left = (unsigned)s.count;
	run->waiters = 0;
	run->next = *at;
	*at = run;
	*fresh = true;
	return run;
}

/* ---- letting go ---- */

void mr_runs_drop(struct mr_runs *r, struct mr_run_read *run)
{
	struct mr_run_read **at = bucket_of(r, run->epoch, run->number);

	while (*at != run)
		at = &(*at)->next;
	*at = run->next;
	mr_buf_unref(run->buf);
	run->buf = NULL;
	run->next = r->free;
	r->free = run;
}

void mr_runs_expire(struct mr_runs *r, uint64_t position)
{
	if (r->samples < 2 || position < r->swept + 256)
		return;
	r->swept = position;
	for (int i = 0; i < MR_RUN_BUCKETS; i++) {
		struct mr_run_read *run = r->bucket[i], *next;

		for (; run; run = next) {
			next = run->next;
			if (run->expires <= position &&
			    run->state != MR_RUN_PENDING)
				mr_runs_drop(r, run);
		}
	}
}

void mr_runs_fini(struct mr_runs *r)
{
	for (int i = 0; i < MR_RUN_BUCKETS; i++)
		while (r->bucket[i])
			mr_runs_drop(r, r->bucket[i]);
	while (r->free) {
		struct mr_run_read *run = r->free;

		r->free = run->next;
		free(run);
	}
}
