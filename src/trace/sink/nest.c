/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sink/nest.h"

#include "core/mem.h"

enum {
	HELD = 1 << 20, /* spans that are held, of all threads */
	HELD_LANE = 1 << 17,
	MARK = 6, /* the innermost */
};

struct lane {
	struct mr_nested *n; /* in the order of ends */
	size_t count, cap;
	uint64_t floor; /* all before has been handed on */
};

struct mr_nest {
	const struct mr_roll *r;
	mr_nest_fn fn;
	void *self;
	struct lane *lane; /* by the thread's number - 1 */
	size_t held;
	struct mr_nested *out; /* a tree in its new order */
	size_t out_cap;
	uint32_t *open; /* spans around the one at hand */
	size_t open_cap;
	struct mr_err failed;
};

/* Which goes around which. */
static int level(const struct mr_roll_thread *t, unsigned kind)
{
	switch (kind) {
	case MR_SPAN_WORK:
		return 2;
	case MR_SPAN_BATCH:
		return t->kinds & 1u << MR_SPAN_WORK ? MARK : 3;
	case MR_SPAN_SAMPLE:
		return 4;
	case MR_SPAN_NEXT:
	case MR_SPAN_CONSUME:
	case MR_SPAN_PIN:
	case MR_SPAN_START:
		return 1;
	default:
		return 5;
	}
}

/* Nothing that comes later goes around this one. */
static bool outermost(const struct mr_roll_thread *t, unsigned kind)
{
	int l = level(t, kind);

	if (l <= 2)
		return true;
	if (t->kinds & (1u << MR_SPAN_WORK | 1u << MR_SPAN_NEXT))
		return false;
	if (t->kinds & 1u << MR_SPAN_BATCH)
		return l == 3;
	return t->kinds & 1u << MR_SPAN_SAMPLE ? l == 4 : true;
}

/* ---- a tree from spans in the order of their ends ---- */

/* Is c, which ended before a, inside of it? An inner kind is when its middle
 * is; it may stick out. */
static bool inside(const struct mr_roll_thread *t, const struct mr_nested *c,
		   const struct mr_nested *a)
{
	uint64_t c_end = c->s.start + c->s.duration;
	uint64_t a_end = a->s.start + a->s.duration;

	if (c->s.start >= a->s.start && c_end <= a_end)
		return true;
	if (a->s.kind == MR_SPAN_SAMPLE && c->s.kind == MR_SPAN_STEP &&
	    c->s.sample == a->s.sample && c->s.batch == a->s.batch)
		return true; /* a step can be shorter than the clocks are off */
	return level(t, a->s.kind) < level(t, c->s.kind) &&
	       c->s.start + c->s.duration / 2 >= a->s.start;
}

/*
 * Finds the span around each, from the last to the first, and cuts each to
 * what is left of that one: `place` is, meanwhile, nothing; `self` is the end
 * of the room that is left.
 */
static void fit(struct mr_nest *nest, const struct mr_roll_thread *t,
		struct lane *l)
{
	uint64_t room = UINT64_MAX;
	size_t open = 0;

	for (size_t i = l->count; i-- > 0;) {
		struct mr_nested *c = &l->n[i], *a = NULL;
		uint64_t low = l->floor, *left = &room;

		while (open && !inside(t, c, &l->n[nest->open[open - 1]]))
			open--;
		c->parent = MR_NEST_NONE;
		if (open) {
			c->parent = nest->open[open - 1];
			a = &l->n[c->parent];
			low = a->start;
			left = &a->self;
		}
		c->end = c->s.start + c->s.duration;
		c->end = c->end < *left ? c->end : *left;
		c->end = c->end > low ? c->end : low;
		c->start = c->s.start > low ? c->s.start : low;
		c->start = c->start < c->end ? c->start : c->end;
		*left = c->start;
		c->self = c->end;
		c->size = 1;
		nest->open[open++] = (uint32_t)i;
	}
}

static void measure(struct lane *l)
{
	for (size_t i = 0; i < l->count; i++)
		l->n[i].self = l->n[i].end - l->n[i].start;
	for (size_t i = 0; i < l->count; i++) {
		const struct mr_nested *c = &l->n[i];

		if (c->parent == MR_NEST_NONE)
			continue;
		l->n[c->parent].size += c->size;
		l->n[c->parent].self -= c->end - c->start;
	}
}

/* From the last to the first: a tree ends where the next one begins. */
static void order(struct lane *l, struct mr_nested *out)
{
	uint32_t tail = (uint32_t)l->count;

	for (size_t i = l->count; i-- > 0;) {
		struct mr_nested *c = &l->n[i], *a;

		if (c->parent == MR_NEST_NONE) {
			tail -= c->size;
			c->place = tail;
		} else {
			a = &l->n[c->parent];
			/* what is left of its size is before */
			a->size -= c->size;
			c->place = a->place + a->size;
		}
	}
	for (size_t i = 0; i < l->count; i++) {
		const struct mr_nested *c = &l->n[i];
		struct mr_nested *o = &out[c->place];

		*o = *c;
		if (c->parent != MR_NEST_NONE)
			o->parent = l->n[c->parent].place;
	}
}

static void hand_on(struct mr_nest *nest, size_t number)
{
	const struct mr_roll_thread *t = &nest->r->thread[number];
	struct lane *l = &nest->lane[number];

	if (!l->count)
		return;
	if (!mr_grow(&nest->open, &nest->open_cap, l->count,
		     sizeof(*nest->open), HELD, &nest->failed) &&
	    !mr_grow(&nest->out, &nest->out_cap, l->count, sizeof(*nest->out),
		     HELD, &nest->failed)) {
		fit(nest, t, l);
		measure(l);
		order(l, nest->out);
		nest->fn(nest->self, t, nest->out, l->count);
		if (l->n[l->count - 1].end > l->floor)
			l->floor = l->n[l->count - 1].end;
	}
	nest->held -= l->count;
	l->count = 0;
}

/* ---- life ---- */

int mr_nest_new(struct mr_nest **out, const struct mr_roll *r, mr_nest_fn fn,
		void *self, struct mr_err *err)
{
	struct mr_nest *nest = mr_alloc(1, sizeof(*nest), err);

	*out = NULL;
	if (!nest)
		return MR_ENOMEM;
	nest->r = r;
	nest->fn = fn;
	nest->self = self;
	nest->lane = mr_alloc(r->threads, sizeof(*nest->lane), err);
	if (!nest->lane) {
		mr_nest_free(nest);
		return MR_ENOMEM;
	}
	*out = nest;
	return 0;
}

/* A thread that holds nothing keeps no memory when there are many of them. */
static void hand_on_all(struct mr_nest *nest)
{
	for (size_t i = 0; i < nest->r->threads; i++) {
		hand_on(nest, i);
		free(nest->lane[i].n);
		nest->lane[i].n = NULL;
		nest->lane[i].cap = 0;
	}
}

void mr_nest_add(struct mr_nest *nest, const struct mr_roll_thread *t,
		 const struct mr_mrt_span *s)
{
	struct lane *l = &nest->lane[t->number - 1];
	struct mr_nested *n;

	if (s->kind == MR_SPAN_FETCH || nest->failed.code ||
	    mr_grow(&l->n, &l->cap, l->count + 1, sizeof(*l->n), HELD_LANE + 1,
		    &nest->failed))
		return;
	n = &l->n[l->count++];
	*n = (struct mr_nested){ .s = *s };
	nest->held++;
	if (level(t, s->kind) == MARK) {
		n->s.start += n->s.duration;
		n->s.duration = 0;
	}
	if (outermost(t, s->kind) || l->count >= HELD_LANE)
		hand_on(nest, t->number - 1);
	else if (nest->held >= HELD)
		hand_on_all(nest);
}

int mr_nest_end(struct mr_nest *nest, struct mr_err *err)
{
	if (!nest->failed.code)
		hand_on_all(nest);
	if (nest->failed.code && err)
		*err = nest->failed;
	return nest->failed.code;
}

void mr_nest_free(struct mr_nest *nest)
{
	if (!nest)
		return;
	for (size_t i = 0; nest->lane && i < nest->r->threads; i++)
		free(nest->lane[i].n);
	free(nest->lane);
	free(nest->out);
	free(nest->open);
	free(nest);
}
