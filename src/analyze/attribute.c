/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/attribute.h"

#include <math.h>
#include <stdio.h>

#include "analyze/map.h"
#include "analyze/traced.h"
#include "core/hash.h"
#include "core/le.h"
#include "core/mem.h"
#include "trace/mrt.h"

enum {
	NEAR_NS = 2000, /* spans that were laid side by side */
	PLACES = 4096,
	HITS = 1 << 28,
	STACK_MAX = 256,
	/* of what is in no span */
	OUTSIDE = 0,
	BEFORE = 1,
};

#define NO_PLACE UINT32_MAX

/* One sample. */
struct hit {
	uint64_t time;
	uint64_t thread; /* process and thread id of the system */
	uint32_t stack, place;
};

/* Steps of a sample that took turns: their spans, one after another. */
struct laid {
	uint64_t from, to, set;
	uint64_t sample, batch;
};

struct job {
	struct mr_attribution *a;
	struct mr_err *err;
	struct hit *hit;
	size_t hits, hit_cap;
	struct mr_map64 first; /* of a thread's hits, by thread */
	struct mr_map64 by_stack, by_place, by_cell;
	size_t place_cap, cell_cap, stack_cap, frame_cap;
	struct mr_threads threads;
	struct laid *laid; /* by thread of the file */
	uint64_t begun;	   /* the first batch */
};

/* ---- places ---- */

static void name_place(const struct mr_attribution *a, struct mr_place *p)
{
	size_t n = 0;

	if (p->kind == MR_SPAN_STEP && !p->set) {
		snprintf(p->name, sizeof(p->name), "%s", a->step_name[p->step]);
		if (!*p->name)
			snprintf(p->name, sizeof(p->name), "step %u", p->step);
	} else if (p->kind == MR_SPAN_STEP) {
		for (unsigned k = 0; k < 64 && n < sizeof(p->name); k++)
			if (p->set >> k & 1)
				n += (size_t)snprintf(
					p->name + n, sizeof(p->name) - n,
					"%s%s", n ? "+" : "", a->step_name[k]);
	} else if (p->kind == MR_SPAN_WORK) {
		snprintf(p->name, sizeof(p->name), "engine");
	} else if (p->kind) {
		snprintf(p->name, sizeof(p->name), "%s", mr_span_name(p->kind));
	} else {
		snprintf(p->name, sizeof(p->name), "%s",
			 p->step == BEFORE ? "before the first batch" :
					     "outside");
	}
}

static int place_of(struct job *j, uint8_t kind, uint8_t step, uint64_t set,
		    uint32_t *out)
{
	struct mr_attribution *a = j->a;
	uint64_t key[2] = { kind | (uint64_t)step << 8, set };
	uint64_t hash = XXH3_64bits(key, sizeof(key));
	struct mr_place *p;

	if (mr_map64_get(&j->by_place, hash, out))
		return 0;
	if (mr_grow(&a->place, &j->place_cap, a->places + 1, sizeof(*a->place),
		    PLACES, j->err))
		return j->err->code;
	p = &a->place[a->places];
	*p = (struct mr_place){ .kind = kind, .step = step, .set = set };
	name_place(a, p);
	*out = (uint32_t)a->places++;
	return mr_map64_put(&j->by_place, hash, *out, j->err);
}

/* ---- samples ---- */

/* A sample's functions, the innermost first; what follows an address where
 * there is no code is no stack. */
static int functions(struct job *j, const uint8_t *p, uint32_t pid, unsigned n,
		     unsigned kernel, uint32_t *to, uint32_t *out)
{
	uint32_t k = 0;

	for (unsigned i = 0; i < n && k < STACK_MAX; i++) {
		uint64_t at = mr_le64(p + 8 * i);
		bool in_kernel = i < kernel;
		/* callers are where they go on: after the call */
		bool returns = i != 0 && i != kernel;
		int e = mr_symbols_find(j->a->symbols, pid,
					at - (returns && at), in_kernel, &to[k],
					j->err);

		if (e)
			return e;
		if (to[k] == MR_NO_FUNCTION)
			break;
		k++;
	}
	*out = k;
	return k ? 0 :
		   mr_symbols_intern(j->a->symbols, "[unknown]", &to[(*out)++],
				     j->err);
}

static int stack_of(struct job *j, const uint32_t *f, uint32_t n, uint32_t *out)
{
	struct mr_attribution *a = j->a;
	uint64_t hash = XXH3_64bits(f, n * sizeof(*f));

	if (mr_map64_get(&j->by_stack, hash, out))
		return 0;
	if (mr_grow(&a->stack, &j->stack_cap, a->stacks + 1, sizeof(*a->stack),
		    HITS, j->err) ||
	    mr_grow(&a->frame, &j->frame_cap, a->frames + n, sizeof(*a->frame),
		    HITS, j->err))
		return j->err->code;
	memcpy(a->frame + a->frames, f, n * sizeof(*f));
	a->stack[a->stacks] =
		(struct mr_stack){ .first = (uint32_t)a->frames, .n = n };
	a->frames += n;
	*out = (uint32_t)a->stacks++;
	return mr_map64_put(&j->by_stack, hash, *out, j->err);
}

static int add_samples(struct job *j, const struct mr_mrt_chunk *c)
{
	uint32_t f[STACK_MAX + 1], n;
	size_t at = 0;

	while (c->size - at >= 24) {
		const uint8_t *p = c->data + at;
		unsigned addresses = mr_le16(p + 16), kernel = mr_le16(p + 18);
		struct hit h = { .time = mr_le64(p),
				 .thread = mr_le64(p + 8),
				 .place = NO_PLACE };
		int e;

		if (addresses > (c->size - at - 24) / 8 || kernel > addresses)
			return 0; /* the rest of the chunk makes no sense */
		e = functions(j, p + 24, mr_le32(p + 8), addresses, kernel, f,
			      &n);
		if (!e)
			e = stack_of(j, f, n, &h.stack);
		if (!e)
			e = mr_grow(&j->hit, &j->hit_cap, j->hits + 1,
				    sizeof(h), HITS, j->err);
		if (e)
			return e;
		j->hit[j->hits++] = h;
		at += 24 + (size_t)addresses * 8;
	}
	return 0;
}

static int by_thread(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->time < y->time ? -1 : x->time > y->time;
}

static int index_hits(struct job *j)
{
	if (j->hits)
		qsort(j->hit, j->hits, sizeof(*j->hit), by_thread);
	for (size_t i = 0; i < j->hits; i++) {
		if (i && j->hit[i].thread == j->hit[i - 1].thread)
			continue;
		if (mr_map64_put(&j->first, j->hit[i].thread, (uint32_t)i,
				 j->err))
			return MR_ENOMEM;
	}
	return 0;
}

/* ---- joining ---- */

/* The first hit of the thread at or after a time. */
static size_t hit_from(const struct job *j, uint64_t thread, size_t first,
		       uint64_t time)
{
	size_t lo = first, hi = j->hits;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct hit *h = &j->hit[mid];

		if (h->thread > thread ||
		    (h->thread == thread && h->time >= time))
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Spans come in the order of their ends: of those around a sample, the first
 * is the innermost. */
static int claim(struct job *j, uint32_t number, uint64_t from, uint64_t to,
		 uint8_t kind, uint8_t step, uint64_t set)
{
	uint64_t thread;
	uint32_t first, place = NO_PLACE;

	if (!mr_threads_system(&j->threads, number, &thread) ||
	    !mr_map64_get(&j->first, thread, &first))
		return 0;
	for (size_t i = hit_from(j, thread, first, from);
	     i < j->hits && j->hit[i].thread == thread && j->hit[i].time < to;
	     i++) {
		if (j->hit[i].place != NO_PLACE)
			continue;
		if (place == NO_PLACE && place_of(j, kind, step, set, &place))
			return j->err->code;
		j->hit[i].place = place;
	}
	return 0;
}

/* Fused steps take turns, strip by strip. Turns with a sample in them have
 * spans, which come first; of one that is in none, because two steps met
 * there, it is not known whose it was. It is theirs together. */
static int end_laid(struct job *j, uint32_t number, struct laid *l)
{
	uint64_t set = l->set;
	uint8_t step;

	if (!set)
		return 0;
	l->set = 0;
	step = (uint8_t)__builtin_ctzll(set);
	if (!(set & (set - 1)))
		return claim(j, number, l->from, l->to, MR_SPAN_STEP, step, 0);
	return claim(j, number, l->from, l->to, MR_SPAN_STEP, 0, set);
}

static bool goes_on(const struct laid *l, const struct mr_mrt_span *s)
{
	return l->set && s->flags & MR_SPAN_LAID && s->step < 64 &&
	       s->sample == l->sample && s->batch == l->batch &&
	       s->start + NEAR_NS > l->to && s->start < l->to + NEAR_NS;
}

static int join_span(struct job *j, uint32_t number,
		     const struct mr_mrt_span *s)
{
	struct laid *l = &j->laid[number];
	uint64_t end = s->start + s->duration;
	int e;

	if (end < s->start || s->kind == MR_SPAN_BATCH)
		return 0; /* a batch is the work of many threads */
	if (s->kind == MR_SPAN_TURN)
		return claim(j, number,
			     s->start > NEAR_NS ? s->start - NEAR_NS : 0,
			     end + NEAR_NS, MR_SPAN_STEP, s->step, 0);
	if (goes_on(l, s)) {
		l->to = end > l->to ? end : l->to;
		l->set |= (uint64_t)1 << s->step;
		return 0;
	}
	e = end_laid(j, number, l);
	if (e)
		return e;
	if (s->kind == MR_SPAN_STEP && s->flags & MR_SPAN_LAID &&
	    s->step < 64) {
		*l = (struct laid){ s->start, end, (uint64_t)1 << s->step,
				    s->sample, s->batch };
		return 0;
	}
	return claim(j, number, s->start, end,
		     s->kind == MR_SPAN_SAMPLE ? MR_SPAN_WORK : s->kind,
		     s->kind == MR_SPAN_STEP ? s->step : 0, 0);
}

static int join_chunk(struct job *j, const struct mr_mrt_chunk *c)
{
	bool known = c->thread < j->threads.n;

	for (size_t at = 0; c->size - at >= MR_MRT_SPAN; at += MR_MRT_SPAN) {
		struct mr_mrt_span s;
		int e;

		mr_mrt_get_span(&s, c->data + at);
		if (s.kind == MR_SPAN_STEP) {
			j->a->calls[s.step]++;
		} else if (s.kind == MR_SPAN_BATCH && s.start < j->begun) {
			j->begun = s.start;
		}
		e = known && j->hits ? join_span(j, c->thread, &s) : 0;
		if (e)
			return e;
	}
	return 0;
}

/* ---- adding up ---- */

static int add_cell(struct job *j, uint32_t place, uint32_t function)
{
	struct mr_attribution *a = j->a;
	uint64_t key = (uint64_t)place << 32 | function;
	uint32_t at;

	if (!mr_map64_get(&j->by_cell, key, &at)) {
		if (mr_grow(&a->cell, &j->cell_cap, a->cells + 1,
			    sizeof(*a->cell), HITS, j->err))
			return j->err->code;
		at = (uint32_t)a->cells;
		a->cell[a->cells++] = (struct mr_cell){ place, function, 0 };
		if (mr_map64_put(&j->by_cell, key, at, j->err))
			return j->err->code;
	}
	a->cell[at].samples++;
	return 0;
}

static uint32_t innermost(const struct mr_attribution *a, const struct hit *h)
{
	return a->frame[a->stack[h->stack].first];
}

/* Stacks were found without their place: each place has its own from here. */
static int split_stacks(struct job *j, struct mr_stack **out, size_t *n)
{
	struct mr_attribution *a = j->a;
	struct mr_map64 seen = { 0 };
	struct mr_stack *s = NULL;
	size_t cap = 0, count = 0;
	int e = 0;

	for (size_t i = 0; i < j->hits && !e; i++) {
		const struct hit *h = &j->hit[i];
		uint64_t key = (uint64_t)h->place << 32 | h->stack;
		uint32_t at;

		if (!mr_map64_get(&seen, key, &at)) {
			e = mr_grow(&s, &cap, count + 1, sizeof(*s), HITS,
				    j->err);
			if (e)
				break;
			at = (uint32_t)count++;
			s[at] = a->stack[h->stack];
			s[at].place = h->place;
			e = mr_map64_put(&seen, key, at, j->err);
		}
		s[at].samples++;
	}
	mr_map64_fini(&seen);
	*out = s;
	*n = count;
	return e;
}

/* A hit in no span. Starting, of which importing is most, is one place and
 * one function: it is over when the loading begins. */
static int add_outside(struct job *j, struct hit *h)
{
	bool before = j->begun != UINT64_MAX && h->time < j->begun;
	uint32_t all;
	int e = place_of(j, 0, before ? BEFORE : OUTSIDE, 0, &h->place);

	if (e)
		return e;
	j->a->place[h->place].samples++;
	if (!before)
		return add_cell(j, h->place, innermost(j->a, h));
	e = mr_symbols_intern(j->a->symbols, "[all functions]", &all, j->err);
	return e ? e : add_cell(j, h->place, all);
}

static int add_up(struct job *j)
{
	struct mr_attribution *a = j->a;
	struct mr_stack *s;
	size_t n;
	int e = 0;

	for (size_t i = 0; i < j->hits && !e; i++) {
		struct hit *h = &j->hit[i];

		if (h->place == NO_PLACE) {
			e = add_outside(j, h);
			continue;
		}
		a->place[h->place].samples++;
		e = add_cell(j, h->place, innermost(a, h));
	}
	a->samples = j->hits;
	if (e)
		return e;
	e = split_stacks(j, &s, &n);
	free(a->stack);
	a->stack = s;
	a->stacks = n;
	return e;
}

static int more_first(const void *a, const void *b)
{
	const struct mr_cell *x = a, *y = b;

	if (x->samples != y->samples)
		return x->samples < y->samples ? 1 : -1;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

/* ---- all together ---- */

static int each_chunk(struct job *j, struct mr_mrt *m, const char *kind,
		      int (*take)(struct job *, const struct mr_mrt_chunk *))
{
	struct mr_mrt_chunk c;
	int e = 0;

	mr_mrt_rewind(m);
	while (!e && mr_mrt_next(m, &c))
		if (c.kind == MR_MRT_KIND(kind))
			e = take(j, &c);
	return e;
}

static int take_maps(struct job *j, const struct mr_mrt_chunk *c)
{
	return mr_symbols_maps(j->a->symbols, c->data, c->size, j->err);
}

static int run(struct job *j, struct mr_mrt *m)
{
	int e = mr_traced(j->a, m, &j->threads, j->err);

	if (!e)
		e = each_chunk(j, m, "MAPS", take_maps);
	if (!e)
		e = each_chunk(j, m, "SMPL", add_samples);
	if (!e)
		e = index_hits(j);
	if (e)
		return e;
	j->laid = mr_alloc(j->threads.n, sizeof(*j->laid), j->err);
	if (!j->laid)
		return MR_ENOMEM;
	e = each_chunk(j, m, "SPAN", join_chunk);
	for (uint32_t t = 0; t < j->threads.n && !e; t++)
		e = end_laid(j, t, &j->laid[t]);
	if (!e)
		e = add_up(j);
	if (!e && j->a->cells)
		qsort(j->a->cell, j->a->cells, sizeof(*j->a->cell), more_first);
	return e;
}

int mr_attribute(struct mr_attribution *a, const char *path, bool symbols,
		 struct mr_err *err)
{
	struct job j = { .a = a, .err = err, .begun = UINT64_MAX };
	struct mr_mrt m;
	int e = mr_mrt_open(&m, path, err);

	memset(a, 0, sizeof(*a));
	if (e)
		return e;
	e = mr_symbols_new(&a->symbols, &m.header, symbols, err);
	if (!e)
		e = run(&j, &m);
	free(j.hit);
	free(j.laid);
	mr_map64_fini(&j.first);
	mr_map64_fini(&j.by_stack);
	mr_map64_fini(&j.by_place);
	mr_map64_fini(&j.by_cell);
	mr_threads_fini(&j.threads);
	mr_mrt_close(&m);
	if (e)
		mr_attribution_fini(a);
	return e;
}

void mr_attribution_fini(struct mr_attribution *a)
{
	mr_symbols_free(a->symbols);
	free(a->event);
	free(a->place);
	free(a->cell);
	free(a->stack);
	free(a->frame);
	memset(a, 0, sizeof(*a));
}

void mr_interval(uint64_t k, uint64_t n, double *low, double *high)
{
	double z = 1.959964, all = (double)n, p, mid, half;

	*low = 0;
	*high = 1;
	if (!n)
		return;
	p = (double)k / all;
	mid = (p + z * z / (2 * all)) / (1 + z * z / all);
	half = z * sqrt(p * (1 - p) / all + z * z / (4 * all * all)) /
	       (1 + z * z / all);
	*low = mid - half > 0 ? mid - half : 0;
	*high = mid + half < 1 ? mid + half : 1;
}

/* Semicolons and line ends have their meaning in the format. */
static void add_frame(struct mr_str *out, const char *name)
{
	for (; *name; name++)
		mr_str_addn(out,
			    *name == ';'		? ":" :
			    (unsigned char)*name < 0x20 ? " " :
							  name,
			    1);
}

char *mr_folded_text(const struct mr_attribution *a)
{
	struct mr_str out = { 0 };

	mr_str_add(&out, "");
	for (size_t i = 0; i < a->stacks; i++) {
		const struct mr_stack *s = &a->stack[i];

		add_frame(&out, a->place[s->place].name);
		for (uint32_t k = s->n; k-- > 0;) {
			mr_str_add(&out, ";");
			add_frame(&out,
				  mr_symbols_name(a->symbols,
						  a->frame[s->first + k]));
		}
		mr_str_addf(&out, " %llu\n", (unsigned long long)s->samples);
	}
	return mr_str_take(&out);
}
