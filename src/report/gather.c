/* SPDX-License-Identifier: Apache-2.0 */
#include "report/gather.h"

#include "core/counter.h"
#include "core/mem.h"

enum {
	MEETINGS = 1 << 20, /* batches that are held until both sides came */
	EARLY = 8,	    /* batches of the first window */
};

struct meeting {
	uint64_t batch; /* its number + 1; 0: free */
	uint64_t begun, ready, asked, taken;
};

/* ---- durations ---- */

static void tally(struct mr_page *p, struct mr_tally **to,
		  const struct mr_mrt_span *s)
{
	struct mr_tally *t = *to;

	if (!t) {
		t = *to = mr_alloc(1, sizeof(*t), &p->failed);
		if (!t)
			return;
	}
	t->n++;
	t->total += s->duration;
	t->bytes += s->bytes;
	if (s->duration > t->most)
		t->most = s->duration;
	t->bucket[mr_hist_bucket(s->duration)]++;
}

/* ---- threads over time ---- */

static enum mr_doing doing(const struct mr_mrt_span *s)
{
	switch (s->kind) {
	case MR_SPAN_STEP:
		return s->step ? MR_DOING_STEPS : MR_DOING_READ;
	case MR_SPAN_COLLATE:
		return MR_DOING_COLLATE;
	case MR_SPAN_WAIT_IN:
		return MR_DOING_WAIT_IN;
	case MR_SPAN_WAIT_OUT:
		return MR_DOING_WAIT_OUT;
	case MR_SPAN_WORK:
		return MR_DOING_WORK;
	case MR_SPAN_NEXT:
		return MR_DOING_NEXT;
	case MR_SPAN_CONSUME:
		return MR_DOING_CONSUME;
	case MR_SPAN_PIN:
	case MR_SPAN_START:
	case MR_SPAN_FETCH:
		return MR_DOING_OTHER;
	default: /* samples and batches are made of the others */
		return MR_DOINGS;
	}
}

/* In whole numbers: a double cannot tell the end of all time from 2^64. */
static uint64_t column_start(const struct mr_page *p, size_t i)
{
	uint64_t whole = p->r->end - p->r->start;

	return p->r->start + whole / MR_PAGE_COLUMNS * i +
	       whole % MR_PAGE_COLUMNS * i / MR_PAGE_COLUMNS;
}

static size_t column_of(const struct mr_page *p, uint64_t at)
{
	double whole = (double)(p->r->end - p->r->start);
	size_t i = whole > 0 ? (size_t)((double)(at - p->r->start) / whole *
					MR_PAGE_COLUMNS) :
			       0;

	return i < MR_PAGE_COLUMNS ? i : MR_PAGE_COLUMNS - 1;
}

static void spread(struct mr_page *p, uint8_t lane, const struct mr_mrt_span *s)
{
	enum mr_doing d = doing(s);
	uint64_t end = s->start + s->duration;
	size_t first, last;

	if (lane >= MR_PAGE_LANES || d == MR_DOINGS)
		return;
	first = column_of(p, s->start);
	last = column_of(p, end);
	if (first == last) {
		p->doing[lane][first][d] += s->duration;
		return;
	}
	for (size_t i = first; i <= last; i++) {
		uint64_t a = column_start(p, i), b = column_start(p, i + 1);

		a = i == first ? s->start : a;
		b = i == last ? end : b;
		p->doing[lane][i][d] += b > a ? b - a : 0;
	}
}

/* ---- the consumer ---- */

static void offer_worst(struct mr_page *p, const struct meeting *w)
{
	uint64_t wait = w->taken - w->asked;
	size_t i = p->worsts;

	if (i == MR_PAGE_WORST &&
	    wait <= p->worst[i - 1].taken - p->worst[i - 1].asked)
		return;
	if (i == MR_PAGE_WORST)
		i--;
	else
		p->worsts++;
	for (; i && wait > p->worst[i - 1].taken - p->worst[i - 1].asked; i--)
		p->worst[i] = p->worst[i - 1];
	p->worst[i] = (struct mr_worst){ w->batch - 1, w->begun, w->ready,
					 w->asked, w->taken };
}

static void met(struct mr_page *p, const struct meeting *w)
{
	struct mr_column *c = &p->column[column_of(p, w->taken)];
	uint64_t delay = w->taken > w->ready ? w->taken - w->ready : 0;

	c->delays++;
	c->delay += delay;
	if (delay > c->delay_most)
		c->delay_most = delay;
	offer_worst(p, w);
}

static void meet(struct mr_page *p, const struct mr_mrt_span *s)
{
	struct meeting *w = &p->meeting[s->batch % MEETINGS];
	uint64_t end = s->start + s->duration;

	if (w->batch != s->batch + 1)
		*w = (struct meeting){ .batch = s->batch + 1 };
	if (s->kind == MR_SPAN_BATCH) {
		w->begun = s->start;
		w->ready = end;
	} else {
		w->asked = s->start;
		w->taken = end;
	}
	if (!w->ready || !w->taken)
		return;
	met(p, w);
	w->batch = 0;
}

static void take(struct mr_page *p, const struct mr_mrt_span *s)
{
	uint64_t end = s->start + s->duration;
	struct mr_column *c = &p->column[column_of(p, end)];

	c->waits++;
	c->wait += s->duration;
	if (s->duration > c->wait_most)
		c->wait_most = s->duration;
	if (++p->taken <= EARLY)
		p->early = end;
}

/* ---- samples ---- */

static void offer_slow(struct mr_page *p, uint32_t thread, uint8_t lane,
		       const struct mr_mrt_span *s)
{
	size_t i = p->slows;

	p->column[column_of(p, s->start + s->duration)].samples++;
	if (i == MR_PAGE_WORST && s->duration <= p->slow[i - 1].ns)
		return;
	if (i == MR_PAGE_WORST)
		i--;
	else
		p->slows++;
	for (; i && s->duration > p->slow[i - 1].ns; i--)
		p->slow[i] = p->slow[i - 1];
	p->slow[i] = (struct mr_slow){ s->sample,
				       s->batch,
				       s->start,
				       s->duration,
				       thread,
				       lane,
				       (s->flags & MR_SPAN_FAILED) != 0 };
}

/* ---- all of it ---- */

static void look(void *self, struct mr_roll_thread *t,
		 const struct mr_mrt_span *s)
{
	struct mr_page *p = self;
	uint8_t lane = p->lane_of[t->number - 1];

	if (s->kind == MR_SPAN_STEP)
		tally(p, &p->step[s->step], s);
	else
		tally(p, &p->kind[s->kind], s);
	spread(p, lane, s);
	if (s->kind == MR_SPAN_SAMPLE)
		offer_slow(p, t->number, lane, s);
	if (s->kind == MR_SPAN_NEXT)
		take(p, s);
	if ((s->kind == MR_SPAN_NEXT || s->kind == MR_SPAN_BATCH) &&
	    s->batch != MR_NO_BATCH)
		meet(p, s);
}

/* The first ones that did something, the consumer before the workers. */
static int choose_lanes(struct mr_page *p, struct mr_err *err)
{
	const uint32_t consumes = 1u << MR_SPAN_NEXT | 1u << MR_SPAN_CONSUME;
	const struct mr_roll *r = p->r;

	p->lane_of = mr_alloc(r->threads, 1, err);
	if (!p->lane_of)
		return MR_ENOMEM;
	memset(p->lane_of, MR_PAGE_LANES, r->threads);
	for (int turn = 0; turn < 2; turn++) {
		for (size_t i = 0; i < r->threads; i++) {
			const struct mr_roll_thread *t = &r->thread[i];
			bool later = (t->kinds & consumes) == 0;

			if (!t->spans || later != turn)
				continue;
			p->all_lanes++;
			if (p->lanes == MR_PAGE_LANES)
				continue;
			p->lane_of[i] = (uint8_t)p->lanes;
			p->lane[p->lanes++] = t;
		}
	}
	return 0;
}

int mr_page_gather(struct mr_page *p, struct mr_roll *r, struct mr_mrt *m,
		   struct mr_err *err)
{
	int e;

	*p = (struct mr_page){ .r = r };
	e = choose_lanes(p, err);
	if (e)
		return e;
	p->doing = mr_alloc(p->lanes, sizeof(*p->doing), err);
	p->meeting = mr_map(MEETINGS * sizeof(*p->meeting), err);
	if (!p->doing || !p->meeting)
		return MR_ENOMEM;
	mr_roll_spans(r, m, look, p);
	if (p->failed.code) {
		if (err)
			*err = p->failed;
		return p->failed.code;
	}
	return mr_page_windows(p, r, m, err);
}

void mr_page_fini(struct mr_page *p)
{
	for (int i = 0; i < 256; i++)
		free(p->step[i]);
	for (int i = 0; i < 64; i++)
		free(p->kind[i]);
	for (size_t i = 0; i < p->windows; i++)
		free(p->window[i].s);
	free(p->lane_of);
	free(p->doing);
	mr_unmap(p->meeting, MEETINGS * sizeof(*p->meeting));
}
