/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of time of which all is shown: the whole run, its beginning, and
 * the batches that were waited for the longest. Where there is more than a
 * page can hold, the longest spans stay.
 */
#include <stdio.h>

#include "core/mem.h"
#include "report/gather.h"

/* ---- which ---- */

static void add(struct mr_page *p, const char *title, uint64_t from,
		uint64_t to)
{
	struct mr_window *w = &p->window[p->windows];

	if (p->windows == MR_PAGE_WINDOWS || to <= from)
		return;
	*w = (struct mr_window){ .from = from, .to = to };
	snprintf(w->title, sizeof(w->title), "%s", title);
	p->windows++;
}

/* From where the batch was begun until it was taken, and a little around. */
static void add_worst(struct mr_page *p, const struct mr_worst *w)
{
	uint64_t from = w->begun < w->asked ? w->begun : w->asked;
	uint64_t edge = (w->taken - from) / 20;
	uint64_t room = p->r->end - w->taken;
	char title[64];

	snprintf(title, sizeof(title), "batch %llu: waited %.3g ms",
		 (unsigned long long)w->batch,
		 (double)(w->taken - w->asked) / 1e6);
	from = from - p->r->start > edge ? from - edge : p->r->start;
	add(p, title, from, w->taken + (edge < room ? edge : room));
}

static void choose(struct mr_page *p)
{
	add(p, "the whole run", p->r->start, p->r->end);
	if (p->early && p->early < p->r->end)
		add(p, "the first batches", p->r->start, p->early);
	for (size_t i = 0; i < p->worsts; i++)
		add_worst(p, &p->worst[i]);
}

/* ---- what is in them ---- */

static int longer_first(const void *a, const void *b)
{
	const struct mr_drawn *x = a, *y = b;

	return x->duration < y->duration ? 1 :
	       x->duration > y->duration ? -1 :
					   0;
}

static int by_start(const void *a, const void *b)
{
	const struct mr_drawn *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void thin_out(struct mr_window *w)
{
	if (w->count <= MR_PAGE_SPANS)
		return;
	qsort(w->s, w->count, sizeof(*w->s), longer_first);
	w->count = MR_PAGE_SPANS;
	w->least = w->s[w->count - 1].duration + 1;
}

static void look(void *self, struct mr_roll_thread *t,
		 const struct mr_mrt_span *s)
{
	struct mr_page *p = self;
	uint8_t lane = p->lane_of[t->number - 1];
	uint64_t end = s->start + s->duration;

	if (lane == MR_PAGE_LANES || s->kind == MR_SPAN_BATCH)
		return;
	for (size_t i = 0; i < p->windows; i++) {
		struct mr_window *w = &p->window[i];

		if (end < w->from || s->start > w->to)
			continue;
		w->seen++;
		if (s->duration < w->least)
			continue;
		w->s[w->count++] = (struct mr_drawn){
			.start = s->start,
			.duration = s->duration,
			.sample = s->sample,
			.batch = s->batch,
			.kind = s->kind,
			.step = s->step,
			.flags = s->flags,
			.lane = lane,
		};
		if (w->count == 4 * MR_PAGE_SPANS)
			thin_out(w);
	}
}

int mr_page_windows(struct mr_page *p, struct mr_roll *r, struct mr_mrt *m,
		    struct mr_err *err)
{
	/* room for all there are, if they are few */
	size_t room = r->spans < 4 * MR_PAGE_SPANS ? (size_t)r->spans + 1 :
						     4 * MR_PAGE_SPANS;

	choose(p);
	for (size_t i = 0; i < p->windows; i++) {
		p->window[i].s = mr_alloc(room, sizeof(struct mr_drawn), err);
		if (!p->window[i].s)
			return MR_ENOMEM;
	}
	mr_roll_spans(r, m, look, p);
	for (size_t i = 0; i < p->windows; i++) {
		struct mr_window *w = &p->window[i];

		thin_out(w);
		qsort(w->s, w->count, sizeof(*w->s), by_start);
	}
	return 0;
}
