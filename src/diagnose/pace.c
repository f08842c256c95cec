/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/pace.h"

#include <time.h>

#include "core/clock.h"
#include "core/err.h"
#include "pipe/loader.h"

enum {
	POLL_MS = 50,
	/* A batch that comes this soon was there already: the accelerator
	 * went on without a break, whatever a sleep of ours was late by. */
	AT_ONCE_NS = 100 * 1000,
	PATIENCE = 4, /* times the time given, until there is a batch */
};

#define WINDOW_MIN 0.1 /* seconds */

struct accelerator {
	const struct mr_pace *p;
	uint64_t free; /* when it has computed what it has, ns */
};

static void sleep_until(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000),
			      .tv_nsec = (long)(ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* A batch came at `now`, asked for at `asked`. */
static void compute(struct accelerator *a, uint64_t asked, uint64_t now,
		    uint64_t samples)
{
	uint64_t start = now;
	double part = a->p->batch ? (double)samples / (double)a->p->batch : 1;

	if (!(a->p->step > 0))
		return;
	if (a->free && now - asked < AT_ONCE_NS)
		start = a->free;
	a->free = start + (uint64_t)(a->p->step * part * 1e9);
	if (a->free > now)
		sleep_until(a->free);
}

/* ---- windows ---- */

/* Samples that have been through all steps, in batches that are full or not. */
static uint64_t samples_done(struct mr_loader *l)
{
	struct mr_stats st;
	size_t afters = (size_t)l->plan.afters;

	mr_loader_stats(l, &st);
	return st.steps > afters ? st.step[st.steps - afters - 1].calls : 0;
}

struct window {
	struct mr_paced *out;
	struct mr_loader *loader; /* NULL: none, an accelerator alone */
	uint64_t done;		  /* samples that were, when it began */
	double least;		  /* seconds of one */
	uint64_t settled; /* an epoch that begins from then on counts, */
	uint64_t counts;  /* and anything from then on, ns */
	uint64_t since, samples;
};

static void close_window(struct window *w, uint64_t now)
{
	double s = (double)(now - w->since) / 1e9;
	struct mr_paced *o = w->out;

	if (s <= 0 || !w->samples)
		return;
	if (o->n < MR_WINDOWS)
		o->rate[o->n++] = (double)w->samples / s;
	o->seconds += s;
	o->samples += w->samples;
	w->since = now;
	w->samples = 0;
}

/* A batch was done with at `now`. */
static void count(struct window *w, uint64_t now, uint64_t samples)
{
	if (!w->since) {
		if (now >= w->counts)
			w->since = now;
		return;
	}
	w->samples += samples;
	if ((double)(now - w->since) / 1e9 >= w->least)
		close_window(w, now);
}

static void begin(struct window *w, const struct mr_pace *p,
		  struct mr_paced *out, uint64_t now)
{
	/* Of a long epoch at least the second half of the time. What workers
	 * had claimed before they knew how slow the storage is holds up the
	 * line at first, and then much lies ready: no rate of the storage's. */
	double settled = p->warm + p->seconds / 4;
	double warm = p->whole ? p->warm + p->seconds / 2 : p->warm;

	*w = (struct window){ .out = out,
			      .least = p->seconds / 20 > WINDOW_MIN ?
					       p->seconds / 20 :
					       WINDOW_MIN,
			      .settled = now + (uint64_t)(settled * 1e9),
			      .counts = now + (uint64_t)(warm * 1e9) };
}

/* ---- runs that are too short for windows ---- */

/* What came, in all: of the first batch, when it came and when it was done
 * with. */
struct run {
	uint64_t start, came, first, last; /* ns */
	uint64_t batches, samples, of_first;
};

static void add_batch(struct run *r, uint64_t came, uint64_t done, uint64_t n)
{
	if (!r->batches++) {
		r->came = came;
		r->first = done;
		r->of_first = n;
	}
	r->last = done;
	r->samples += n;
}

/*
 * All there was is one window, but for the first batch, if others follow: each
 * such run begins with nothing at hand, which an epoch of a job does not.
 * (DLIO leaves the first step out of the utilisation, too.) Where nobody
 * computes, the others may lie ready when it comes, and are no rate by
 * themselves: only if they take at least as long.
 */
static void count_run(struct window *w, const struct mr_pace *p,
		      const struct run *r)
{
	bool follow = p->step > 0 ?
			      r->batches > 1 :
			      2 * (r->last - r->first) >= r->last - r->start;

	w->out->waited += (double)(r->came - r->start) / 1e9;
	w->out->short_runs += (double)(r->last - r->start) / 1e9;
	w->since = follow ? r->first : r->start;
	w->samples = follow ? r->samples - r->of_first : r->samples;
	close_window(w, r->last);
}

/* Not one batch came: the samples of those in work are all there is. */
static void count_work(struct window *w, uint64_t start, uint64_t now)
{
	w->since = start;
	w->samples = samples_done(w->loader) - w->done;
	close_window(w, now);
}

/* ---- runs ---- */

static int stopped(const struct mr_pace *p, struct mr_err *err)
{
	if (p->stop && p->stop(p->data))
		return mr_err_set(err, MR_ESTATE, "stopped");
	return 0;
}

/* Enough was seen, or nothing will be. */
static bool over(const struct mr_pace *p, const struct window *w, size_t before,
		 uint64_t start, uint64_t now)
{
	double s = (double)(now - start) / 1e9;
	double all = p->warm + p->seconds;

	if (p->until && now >= p->until)
		return true;
	if (s < all || w->out->n > before)
		return s >= all;
	/* Samples that take long are waited for while there is time. */
	return s >= PATIENCE * all &&
	       (!p->until || !w->loader || samples_done(w->loader) > w->done);
}

/* An epoch has ended: is that the end of it all, or the beginning? */
static bool ends(const struct mr_pace *p, struct window *w, uint64_t now)
{
	if (p->whole && !w->since) {
		if (now >= w->settled)
			w->since = now;
		return false;
	}
	return p->to_end ||
	       (p->whole && 4 * (double)(now - w->since) / 1e9 >= p->seconds);
}

int mr_pace(struct mr_loader *l, const struct mr_pace *p, struct mr_paced *out,
	    struct mr_err *err)
{
	struct accelerator a = { .p = p };
	uint64_t start = mr_clock_ns(), asked = start, now;
	struct run run = { .start = start };
	size_t before = out->n;
	struct window w;
	int e = 0;

	begin(&w, p, out, start);
	w.loader = l;
	w.done = samples_done(l);
	do {
		struct mr_batch *b;

		e = mr_loader_wait(l, &b, POLL_MS, err);
		now = mr_clock_ns();
		if (e == MR_OK) {
			uint64_t n = mr_batch_count(b);

			compute(&a, asked, now, n);
			mr_batch_release(b);
			asked = mr_clock_ns();
			count(&w, asked, n);
			add_batch(&run, now, asked, n);
		}
		if (e >= 0 && stopped(p, err))
			e = MR_ESTATE;
	} while (e >= 0 && !(e == MR_END && ends(p, &w, now)) &&
		 !over(p, &w, before, start, now));
	if (e < 0)
		return e;
	now = mr_clock_ns();
	if (w.samples && (double)(now - w.since) / 1e9 > w.least / 2)
		close_window(&w, now);
	if (out->n == before && run.batches)
		count_run(&w, p, &run);
	else if (out->n == before)
		count_work(&w, start, now);
	return 0;
}

int mr_pace_skip(struct mr_loader *l, uint64_t samples, double seconds,
		 const struct mr_pace *p, uint64_t *got, struct mr_err *err)
{
	uint64_t all = 0, until = mr_clock_ns() + (uint64_t)(seconds * 1e9);
	int e = 0;

	if (p->until && p->until < until)
		until = p->until;
	while (e >= 0 && all < samples && mr_clock_ns() < until) {
		struct mr_batch *b;

		e = mr_loader_wait(l, &b, POLL_MS, err);
		if (e == MR_OK) {
			all += mr_batch_count(b);
			mr_batch_release(b);
		}
		if (e >= 0 && stopped(p, err))
			e = MR_ESTATE;
	}
	if (got)
		*got = all;
	return e < 0 ? e : all < samples ? MR_AGAIN : 0;
}

int mr_pace_alone(const struct mr_pace *p, struct mr_paced *out,
		  struct mr_err *err)
{
	struct accelerator a = { .p = p };
	uint64_t start = mr_clock_ns(), now = start;
	size_t before = out->n;
	struct window w;

	begin(&w, p, out, start);
	while (!over(p, &w, before, start, now)) {
		uint64_t asked = mr_clock_ns();

		compute(&a, asked, asked, p->batch);
		now = mr_clock_ns();
		count(&w, now, p->batch);
		if (stopped(p, err))
			return MR_ESTATE;
	}
	return 0;
}

struct mr_figure mr_paced_figure(const struct mr_paced *p)
{
	struct mr_figure f = mr_figure_of(p->rate, p->n);
	double all = p->seconds > 0 ? (double)p->samples / p->seconds : 0;

	/* The mean over all the time; windows tell how far to trust it. */
	f.low += all - f.mean;
	f.high += all - f.mean;
	if (f.low < 0)
		f.low = 0;
	f.mean = all;
	return f;
}
