/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/traced.h"

#include <stdio.h>

#include "analyze/map.h"
#include "core/le.h"
#include "core/mem.h"
#include "trace/told.h"

enum {
	THREADS = 1 << 20,
	RECORDS = 1 << 26, /* of counters */
};

/* The last record of a thread, step and event. */
struct record {
	uint8_t step, event;
	uint32_t thread;
	struct mr_counted sum;
};

struct records {
	struct record *item;
	size_t n, cap;
	struct mr_map64 by_key;
};

/* ---- JSON ---- */

static uint64_t whole(struct json_object *o, const char *key)
{
	int64_t v = json_object_get_int64(mr_told_member(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

/* ---- META ---- */

static int take_events(struct mr_attribution *a, struct json_object *list,
		       struct mr_err *err)
{
	size_t n;

	if (!list || !json_object_is_type(list, json_type_array))
		return 0;
	n = json_object_array_length(list);
	n = n < MR_COUNTED_EVENTS ? n : MR_COUNTED_EVENTS;
	free(a->event);
	a->events = 0;
	a->event = mr_alloc(n, sizeof(*a->event), err);
	if (!a->event)
		return MR_ENOMEM;
	a->events = (int)n;
	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		struct mr_counted_event *e = &a->event[i];

		snprintf(e->name, sizeof(e->name), "event %zu", i);
		snprintf(e->source, sizeof(e->source), "unavailable");
		mr_told_text(o, "name", e->name, sizeof(e->name));
		mr_told_text(o, "source", e->source, sizeof(e->source));
		mr_told_text(o, "unit", e->unit, sizeof(e->unit));
		mr_told_text(o, "via", e->via, sizeof(e->via));
		mr_told_text(o, "reason", e->reason, sizeof(e->reason));
		mr_told_text(o, "remedy", e->remedy, sizeof(e->remedy));
		e->user_only =
			json_object_get_boolean(mr_told_member(o, "user_only"));
	}
	return 0;
}

static void take_sampling(struct mr_attribution *a, struct json_object *o)
{
	uint64_t hz = whole(o, "hz");

	if (!o)
		return;
	mr_told_text(o, "event", a->sampled_by, sizeof(a->sampled_by));
	mr_told_text(o, "source", a->source, sizeof(a->source));
	mr_told_text(o, "reason", a->reason, sizeof(a->reason));
	mr_told_text(o, "remedy", a->remedy, sizeof(a->remedy));
	a->user_only = json_object_get_boolean(mr_told_member(o, "user_only"));
	a->hz = hz < 1000000 ? (int)hz : 1000000;
	a->lost = whole(o, "lost");
}

static int take_meta(struct mr_attribution *a, const struct mr_mrt_chunk *c,
		     struct mr_err *err)
{
	struct json_object *o = mr_told(c),
			   *counting = mr_told_member(o, "counting");
	char why[250] = "", help[250] = "";
	int e = take_events(a, mr_told_member(o, "events"), err);

	take_sampling(a, mr_told_member(o, "sampling"));
	mr_told_text(counting, "reason", why, sizeof(why));
	mr_told_text(counting, "remedy", help, sizeof(help));
	if (*why)
		snprintf(a->no_counting, sizeof(a->no_counting), "%s; %s", why,
			 help);
	json_object_put(o);
	return e;
}

/* ---- threads and steps ---- */

bool mr_threads_system(const struct mr_threads *t, uint32_t number,
		       uint64_t *out)
{
	if (number >= t->n || !t->system[number])
		return false;
	*out = t->system[number];
	return true;
}

void mr_threads_fini(struct mr_threads *t)
{
	free(t->system);
	*t = (struct mr_threads){ 0 };
}

static int take_thread(struct mr_threads *t, const struct mr_mrt_chunk *c,
		       struct mr_err *err)
{
	struct json_object *o = mr_told(c);
	uint64_t pid = whole(o, "pid"), tid = whole(o, "tid");
	size_t need = (size_t)c->thread + 1;

	json_object_put(o);
	if (c->thread >= THREADS || pid > UINT32_MAX || tid > UINT32_MAX)
		return 0;
	if (mr_grow(&t->system, &t->cap, need, sizeof(*t->system), THREADS + 1,
		    err))
		return MR_ENOMEM;
	for (; t->n < need; t->n++)
		t->system[t->n] = 0;
	/* as a sample has them, pid first */
	t->system[c->thread] = pid | tid << 32;
	return 0;
}

static void take_name(struct mr_attribution *a, const struct mr_mrt_chunk *c)
{
	char *to = a->step_name[c->size ? c->data[0] : 0];
	size_t cap = sizeof(a->step_name[0]), n;

	if (c->size < 2)
		return;
	n = c->size - 1 < cap - 1 ? c->size - 1 : cap - 1;
	memcpy(to, c->data + 1, n);
	to[n] = 0;
}

/* ---- counters ---- */

static int take_counts(struct records *r, const struct mr_mrt_chunk *c,
		       struct mr_err *err)
{
	for (size_t at = 0; c->size - at >= MR_MRT_COUNT; at += MR_MRT_COUNT) {
		const uint8_t *p = c->data + at;
		uint64_t key =
			(uint64_t)c->thread << 16 | (uint64_t)p[0] << 8 | p[1];
		uint32_t i;

		if (!mr_map64_get(&r->by_key, key, &i)) {
			if (mr_grow(&r->item, &r->cap, r->n + 1,
				    sizeof(*r->item), RECORDS, err))
				return err->code;
			i = (uint32_t)r->n++;
			if (mr_map64_put(&r->by_key, key, i, err))
				return MR_ENOMEM;
		}
		r->item[i] = (struct record){
			p[0],
			p[1],
			c->thread,
			{ mr_le64(p + 8), mr_le64(p + 16), mr_le64(p + 24),
			  mr_le64(p + 32), mr_lef64(p + 40), mr_le64(p + 48) }
		};
	}
	return 0;
}

static void add(struct mr_counted *to, const struct mr_counted *v)
{
	to->calls += v->calls;
	to->count += v->count;
	to->enabled += v->enabled;
	to->running += v->running;
	to->squares += v->squares;
	to->wall += v->wall;
}

static int sum_counts(struct mr_attribution *a, const struct records *r,
		      struct mr_err *err)
{
	struct mr_map64 seen = { 0 };
	uint32_t t;
	int e = 0;

	for (size_t i = 0; i < r->n && !e; i++) {
		const struct record *v = &r->item[i];

		if (v->event >= a->events)
			continue;
		add(&a->event[v->event].step[v->step], &v->sum);
		add(&a->event[v->event].all, &v->sum);
		if (mr_map64_get(&seen, v->thread, &t))
			continue;
		e = mr_map64_put(&seen, v->thread, 0, err);
		a->counted_threads++;
	}
	mr_map64_fini(&seen);
	return e;
}

/* ---- the pass ---- */

static int take(struct mr_attribution *a, const struct mr_mrt_chunk *c,
		struct mr_threads *t, struct records *r, struct mr_err *err)
{
	if (c->kind == MR_MRT_KIND("META"))
		return take_meta(a, c, err);
	if (c->kind == MR_MRT_KIND("THRD"))
		return take_thread(t, c, err);
	if (c->kind == MR_MRT_KIND("CNTR"))
		return take_counts(r, c, err);
	if (c->kind == MR_MRT_KIND("NAME"))
		take_name(a, c);
	if (c->kind == MR_MRT_KIND("DONE") && c->size >= 16)
		a->spans_lost += mr_le64(c->data + 8);
	return 0;
}

int mr_traced(struct mr_attribution *a, struct mr_mrt *m, struct mr_threads *t,
	      struct mr_err *err)
{
	struct records r = { 0 };
	struct mr_mrt_chunk c;
	int e = 0;

	mr_mrt_rewind(m);
	while (!e && mr_mrt_next(m, &c))
		e = take(a, &c, t, &r, err);
	a->cut = m->cut;
	if (!e)
		e = sum_counts(a, &r, err);
	for (size_t i = 0; i < t->n; i++)
		a->threads += t->system[i] != 0;
	free(r.item);
	mr_map64_fini(&r.by_key);
	return e;
}
