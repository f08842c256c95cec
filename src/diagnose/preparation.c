/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/preparation.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyze/model.h"
#include "diagnose/schedule.h"
#include "op/op.h"
#include "pipe/loader.h"

enum { SPLIT_SAMPLES = 48 }; /* whose size after each step is looked at */

static void learn_steps(struct mr_phases *p, const struct mr_stats *st,
			const struct mr_loader *l)
{
	struct mr_diagnosis *d = p->d;
	bool fixed = true;

	d->steps = 0;
	for (size_t i = 0; i < st->steps && i < MR_DIAG_STEPS; i++) {
		const struct mr_step_stats *s = &st->step[i];
		struct mr_diag_step *to = &d->step[d->steps++];

		if (i && i < (size_t)l->pipeline->n)
			fixed &= !(l->pipeline->stage[i].op->flags &
				   MR_OP_RANDOM);
		if (i >= st->steps - (size_t)l->plan.afters)
			fixed = false;
		snprintf(to->name, sizeof(to->name), "%s", s->name);
		to->us = s->mean_us;
		to->bytes_out =
			s->calls ? (double)s->bytes_out / (double)s->calls : 0;
		to->fixed = fixed;
	}
}

/* Of some samples, what one has after the step k. */
static int bytes_after(struct mr_phases *p, int k, struct mr_err *err)
{
	struct mr_trial t = { .seconds = 1 };
	struct mr_pace pace = mr_trial_pace(&p->with, &t);
	struct mr_options opt = p->job.opt;
	struct mr_loader *l;
	struct mr_stats st;
	int e;

	opt.subset =
		p->with.subset < SPLIT_SAMPLES ? p->with.subset : SPLIT_SAMPLES;
	opt.storage = "";
	e = mr_loader_open_with(&l, p->job.upto[k], &opt, err);
	if (e)
		return e;
	e = mr_pace_skip(l, mr_loader_epoch_samples(l), 1, &pace, NULL, err);
	mr_loader_stats(l, &st);
	mr_loader_close(l);
	if (e < 0)
		return e;
	if (st.samples)
		p->d->step[k].bytes_out =
			(double)st.bytes_out / (double)st.samples;
	return 0;
}

/*
 * What a sample has after each step that could be stored. By itself: in the
 * whole pipeline, steps that are fused never make all of it.
 */
static int learn_bytes(struct mr_phases *p, struct mr_err *err)
{
	int e = 0;

	for (int k = 1; !e && k < p->d->steps && p->job.upto[k]; k++) {
		if (mr_phase_late(p, 0.5, "what samples take after each step"))
			p->d->step[k].bytes_out = 0;
		else
			e = bytes_after(p, k, err);
	}
	return e;
}

static int take_turn(struct mr_phases *p, struct mr_figure *f,
		     struct mr_err *err)
{
	struct mr_trial t = { .parts = MR_TRIAL_STEPS,
			      .storage = "",
			      .in_memory = true,
			      .seconds = TURN };
	struct mr_trial_found found;
	int e = mr_trial_measure(&p->with, &t, p->steps, &found, err);

	if (!e)
		e = mr_trial_rest(p->steps, err);
	if (e)
		return e;
	if (!found.rate.n && f)
		return mr_phase_nothing(p, err);
	if (found.rate.n && p->turns < MR_TURNS)
		p->turn[p->turns++] = found.rate.mean;
	if (f)
		*f = found.rate;
	return 0;
}

static void scale(struct mr_figure *f, double by)
{
	f->mean *= by;
	f->low *= by;
	f->high *= by;
}

/* To another mean, with an interval as wide. */
static void move(struct mr_figure *f, double to)
{
	f->low += to - f->mean;
	f->high += to - f->mean;
	if (f->low < 0)
		f->low = 0;
	f->mean = to;
}

void mr_prep_raise(struct mr_phases *p)
{
	struct mr_diagnosis *d = p->d;
	double by = d->p.mean > 0 ? d->as_p.mean / d->p.mean : 0;

	if (p->slept_p || d->as_p.n < 2 || by <= 1)
		return;
	scale(&d->p, by);
	for (int i = 0; i < d->points; i++)
		scale(&d->curve[i].rate, by);
	scale(&d->pc, by);
	scale(&d->pa, by);
}

int mr_prep_beside(struct mr_phases *p, const struct mr_trial *t,
		   struct mr_figure *f, struct mr_err *err)
{
	double before = p->turn[p->turns - 1], after;
	int e = mr_phase_figure(p, t, true, f, NULL, err);

	if (!e)
		e = take_turn(p, NULL, err);
	if (e)
		return e;
	after = p->turn[p->turns - 1];
	scale(f, 2 / (before + after));
	return 0;
}

int mr_prep_alone(struct mr_phases *p, struct mr_err *err)
{
	struct mr_trial t = { .parts = MR_TRIAL_STEPS,
			      .storage = "",
			      .in_memory = true };
	struct mr_stats st;
	int e;

	mr_phase_begin(p, MR_PHASE_STEPS);
	e = mr_trial_open(&p->with, &t, &p->steps, err);
	if (!e)
		e = take_turn(p, &p->d->p, err);
	if (e)
		return e;
	mr_loader_stats(p->steps, &st);
	learn_steps(p, &st, p->steps);
	p->d->threads = st.threads;
	return learn_bytes(p, err);
}

/* Seconds that a hit saves, of all threads together: the read, and the steps
 * before the cache. */
static double hit_saves(const struct mr_phases *p)
{
	const struct mr_diagnosis *d = p->d;
	double saves = d->c.n && d->c.mean > 0 ? 1 / d->c.mean : 0;

	for (int k = 1; k < p->job.place && k < d->steps; k++)
		saves += d->step[k].us / 1e6 / d->threads;
	return saves;
}

static void bound_hits(struct mr_phases *p)
{
	struct mr_diagnosis *d = p->d;
	double had = d->pc.mean, can;

	if (!d->pc.n || !d->c.n || !(d->p.mean > 0) || !(had > 0))
		return;
	can = mr_model_all_hits(d->p.mean, had, hit_saves(p));
	scale(&d->pc, can / had);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void mr_prep_end(struct mr_phases *p)
{
	struct mr_diagnosis *d = p->d;
	size_t n = (size_t)p->turns;

	if (n > 1 && d->p.n) {
		d->p = mr_figure_of(p->turn, n);
		qsort(p->turn, n, sizeof(*p->turn), by_value);
		move(&d->p, (p->turn[(n - 1) / 2] + p->turn[n / 2]) / 2);
	}
	for (int i = 0; i < d->points; i++)
		if (d->curve[i].threads == d->threads)
			d->curve[i].rate = d->p;
		else
			scale(&d->curve[i].rate, d->p.mean);
	scale(&d->pc, d->p.mean);
	scale(&d->pa, d->p.mean);
	bound_hits(p);
}

static void add_point(struct mr_diagnosis *d, int threads,
		      const struct mr_figure *f)
{
	if (d->points < MR_CURVE_MAX)
		d->curve[d->points++] = (struct mr_diag_point){ threads, *f };
}

int mr_prep_curve(struct mr_phases *p, struct mr_err *err)
{
	struct mr_diagnosis *d = p->d;
	int most = d->cores > d->threads ? d->cores : d->threads, e = 0;

	mr_phase_begin(p, MR_PHASE_THREADS);
	for (int n = 1; !e && n <= most; n = mr_trial_threads(n, most)) {
		struct mr_trial t = { .parts = MR_TRIAL_STEPS,
				      .storage = "",
				      .in_memory = true,
				      .threads = n,
				      .seconds = TURN };
		struct mr_figure f;

		if (d->points && d->curve[d->points - 1].threads < d->threads &&
		    n > d->threads)
			add_point(d, d->threads, &d->p);
		if (n == d->threads) {
			add_point(d, n, &d->p);
			continue;
		}
		if (mr_phase_late(p, mr_phase_beside(),
				  "preparation by threads"))
			continue;
		e = mr_prep_beside(p, &t, &f, err);
		if (!e && f.n)
			add_point(d, n, &f);
	}
	return e;
}
