/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/phases.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyze/model.h"
#include "cache/ram.h"
#include "diagnose/sample.h"
#include "diagnose/schedule.h"
#include "pipe/loader.h"

enum { SPLIT_SAMPLES = 48 }; /* whose size after each step is looked at */

/* So much faster than the accelerator, and it is not waited for. */
#define SURELY 1.2

/* A share of an epoch that is worth a word. */
#define START 0.02

/* A cold epoch was over before anything could settle. */
static void note_start(struct mr_phases *p, double start)
{
	uint64_t batch = p->job.batch ? p->job.batch : 1;
	uint64_t n = (p->with.subset + batch - 1) / batch;
	char count[32];

	if (start < START)
		return;
	mr_str_addf(&p->d->notes,
		    "an epoch of %s batch%s is so short that its start counts: "
		    "%.0f %% of it is waiting for the first batch, "
		    "%s\n",
		    mr_str_count(count, n), n == 1 ? "" : "es", 100 * start,
		    n == 1 ? "which is all there is" :
			     "which a job that reads ahead has once, and F is "
			     "without");
}

/* Nothing came at all, in the time that there was. */
static int nothing_came(const struct mr_phases *p, struct mr_err *err)
{
	return mr_err_set(err, MR_ELIMIT,
			  "not one sample came in the %.0f s that there were "
			  "for it; see whether `millrace run` gives any, and "
			  "how soon",
			  mr_phase_since(p->phase_since));
}

/* One figure; st may be NULL. */
static int figure(struct mr_phases *p, const struct mr_trial *t, bool optional,
		  struct mr_figure *f, struct mr_stats *st, struct mr_err *err)
{
	struct mr_trial_found found;
	int e = mr_trial_run(&p->with, t, &found, st, err);

	if (e)
		return e;
	*f = found.rate;
	if (!f->n && !optional)
		return nothing_came(p, err);
	if (t->evict)
		p->d->cold_stayed = found.stayed;
	if (t->evict && t->paced)
		note_start(p, found.start);
	if (found.unfilled)
		mr_str_add(&p->d->notes, "the cache could not be filled in "
					 "time: F is a lower bound\n");
	return 0;
}

/* One without which there is no diagnosis. */
static int run(struct mr_phases *p, const struct mr_trial *t,
	       struct mr_figure *f, struct mr_stats *st, struct mr_err *err)
{
	return figure(p, t, false, f, st, err);
}

/* ---- preparation ---- */

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
		return nothing_came(p, err);
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

/* With an accelerator, preparation is no faster than alone: if it seems to be,
 * all that was taken in P's turns was taken at a bad time. */
static void raise_p(struct mr_phases *p)
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

/*
 * A trial between two turns of preparation alone. How fast the machine is may
 * change from one second to the next, and what differs from preparation by a
 * few percent would drown in that: the figure is the share of P, until
 * end_turns().
 */
static int beside(struct mr_phases *p, const struct mr_trial *t,
		  struct mr_figure *f, struct mr_err *err)
{
	double before = p->turn[p->turns - 1], after;
	int e = figure(p, t, true, f, NULL, err);

	if (!e)
		e = take_turn(p, NULL, err);
	if (e)
		return e;
	after = p->turn[p->turns - 1];
	scale(f, 2 / (before + after));
	return 0;
}

static int prepare_alone(struct mr_phases *p, struct mr_err *err)
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

/* P is what most of its turns say: one in which somebody else had the CPU does
 * not count for the others. What was taken beside it follows. */
static void end_turns(struct mr_phases *p)
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

/* P by threads: 1, 2, 4, ... up to the cores; the job's own is known. */
static int curve(struct mr_phases *p, struct mr_err *err)
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
		e = beside(p, &t, &f, err);
		if (!e && f.n)
			add_point(d, n, &f);
	}
	return e;
}

/* ---- memory and storage ---- */

/* Bytes of a sample in a cache at its place. */
static double entry_bytes(const struct mr_phases *p)
{
	const struct mr_diagnosis *d = p->d;
	int k = p->job.place - 1;

	if (k > 0 && k < d->steps && d->step[k].bytes_out > 0)
		return d->step[k].bytes_out;
	return d->entry_bytes > 0 ? d->entry_bytes : d->sample_bytes;
}

/* Of a cache for so much of what we look at. */
static double ram_for(const struct mr_phases *p, double share)
{
	double n =
		share * (double)p->with.subset * (entry_bytes(p) + MR_RAM_HEAD);

	return n < 4096 ? 4096 : n; /* the least that there is */
}

/* An epoch of preparation fills a cache, and should not take long. */
static void shrink(struct mr_phases *p)
{
	struct mr_diagnosis *d = p->d;
	double most = d->p.mean * p->with.scale * MR_TRIAL_FILL / 3;
	uint64_t least = 8 * p->job.batch;

	if (most < (double)least)
		most = (double)least;
	if (d->p.n && (double)p->with.subset > most)
		p->with.subset = d->sampled = (uint64_t)most;
}

/* The job's cache, as a share of the data set. */
static int size_cache(struct mr_phases *p, struct mr_err *err)
{
	struct mr_diagnosis *d = p->d;
	double all = (double)d->samples * entry_bytes(p);
	int e = 0;

	d->entry_bytes = entry_bytes(p);
	d->cache_bytes = p->job.ram;
	if (*p->cache)
		e = mr_model_cache("cache", p->cache, all, &d->cache_bytes,
				   err);
	d->cache_share = all > 0 ? d->cache_bytes / all : 0;
	if (d->cache_share > 1)
		d->cache_share = 1;
	return e;
}

static int reading(struct mr_phases *p, struct mr_err *err)
{
	struct mr_trial t = { .parts = MR_TRIAL_SOURCE,
			      .storage = "",
			      .in_memory = true,
			      .seconds = READING };
	struct mr_trial cached = { .parts = MR_TRIAL_CACHE,
				   .storage = "",
				   .ram = ram_for(p, 1.1),
				   .fill = true,
				   .epochs = 1,
				   .seconds = TURN };
	struct mr_trial ahead = { .parts = MR_TRIAL_STEPS,
				  .storage = MR_TRIAL_NO_LIMITS,
				  .in_memory = true,
				  .ahead = true,
				  .seconds = TURN };
	int e = 0;

	mr_phase_begin(p, MR_PHASE_MEMORY);
	if (!mr_phase_late(p, READING, "reading from memory"))
		e = figure(p, &t, true, &p->d->c, NULL, err);
	if (!e && !mr_phase_late(p, mr_phase_beside() + FILLING,
				 "what a cache saves"))
		e = beside(p, &cached, &p->d->pc, err);
	/* With a cache there is nothing to be read ahead. */
	if (!e && p->job.ahead && !(p->with.hold > 0) &&
	    !mr_phase_late(p, mr_phase_beside(), "what reading ahead costs"))
		e = beside(p, &ahead, &p->d->pa, err);
	return e;
}

static int storage_alone(struct mr_phases *p, struct mr_err *err)
{
	struct mr_diagnosis *d = p->d;
	const char *profile = p->job.opt.storage;
	struct mr_trial t = { .parts = MR_TRIAL_SOURCE,
			      .storage = profile,
			      .seconds = COLD,
			      .evict = !*profile && p->job.local };
	struct mr_stats st;
	int e;

	mr_phase_begin(p, MR_PHASE_STORAGE);
	if (!mr_phase_slow(p))
		return 0;
	e = run(p, &t, &d->s, &st, err);
	if (e)
		return e;
	d->depth = st.fetch_depth ? st.fetch_depth : st.threads;
	d->direct = !p->job.ahead;
	if (*profile) {
		d->limits = (struct mr_storage_limits){ st.storage.bw,
							st.storage.stream,
							st.storage.latency,
							st.storage.iops };
		if (st.bytes_read && st.storage.requests)
			d->sample_requests = (double)st.storage.requests *
					     d->sample_bytes /
					     (double)st.bytes_read;
		/* Those in flight at the end were asked for, not needed. */
		if (d->sample_requests < 1.1)
			d->sample_requests = 1;
	}
	return 0;
}

/* ---- the job ---- */

static int accelerator_alone(struct mr_phases *p, struct mr_err *err)
{
	struct mr_trial t = { .paced = true, .seconds = 1 };
	struct mr_pace pace = mr_trial_pace(&p->with, &t);
	struct mr_paced got = { 0 };
	int e;

	mr_phase_begin(p, MR_PHASE_ACCELERATOR);
	/* It is as fast as it is said to be: no need to sleep for long. */
	if (4 * pace.step > ALONE * p->with.scale) {
		double rate = (double)p->job.batch / pace.step;

		p->d->g = p->d->as_g = mr_figure_of(&rate, 1);
		return 0;
	}
	if (pace.seconds < 4 * pace.step)
		pace.seconds = 4 * pace.step;
	e = mr_pace_alone(&pace, &got, err);
	if (!e)
		p->d->g = p->d->as_g = mr_paced_figure(&got);
	return e;
}

/* Steps so long that a phase would see none of them to its end, and all else
 * faster: there is nothing to see but sleep. */
static bool sleeps(struct mr_phases *p, double seconds,
		   const struct mr_figure *a, const struct mr_figure *b)
{
	double g = p->d->as_g.mean * SURELY;

	return p->with.step > seconds * p->with.scale && a->n && a->mean > g &&
	       (!b->n || b->mean > g);
}

static void note_sleep(struct mr_phases *p)
{
	if (p->slept_p || p->slept_f)
		mr_str_addf(&p->d->notes,
			    "a step of the accelerator takes %.3g s, too long "
			    "to wait for: %s taken to be G, since all else is "
			    "faster by itself\n",
			    p->with.step,
			    !p->slept_f ? "G+P is" :
			    !p->slept_p ? "F is" :
					  "G+P and F are");
}

/* With a loader that is there, or NULL. Where the time is up: as fast as the
 * slower of two that are known. */
static int together(struct mr_phases *p, const struct mr_trial *t,
		    struct mr_loader *l, const struct mr_figure *a,
		    const struct mr_figure *b, struct mr_figure *f,
		    struct mr_err *err)
{
	struct mr_trial_found found;
	int e = !l ? figure(p, t, true, f, NULL, err) :
		     mr_trial_measure(&p->with, t, l, &found, err);

	if (!e && l)
		*f = found.rate;
	if (e || f->n)
		return e;
	*f = !a->n || b->mean < a->mean ? *b : *a;
	mr_phase_leave_out(p, t->in_memory ?
				      "G+P, taken to be the slower of the two" :
				      "F, taken to be the slower of G+P and S");
	return 0;
}

static int in_memory(struct mr_phases *p, struct mr_err *err)
{
	struct mr_trial t = { .parts = MR_TRIAL_STEPS,
			      .storage = "",
			      .in_memory = true,
			      .paced = true,
			      .seconds = PACED };

	mr_phase_begin(p, MR_PHASE_TOGETHER);
	if (sleeps(p, PACED, &p->d->p, &(struct mr_figure){ 0 })) {
		p->d->as_p = p->d->as_g;
		p->slept_p = true;
		return 0;
	}
	return together(p, &t, p->steps, &p->d->p, &p->d->as_g, &p->d->as_p,
			err);
}

/*
 * An LRU page cache of the same size, before a storage that is imitated. It
 * has more hits at the beginning of an epoch than at its end: a whole one is
 * measured, of as many samples as the time allows.
 */
static int with_page_cache(struct mr_phases *p, struct mr_err *err)
{
	char profile[256];
	uint64_t all = p->with.subset;
	double fit = p->d->as_f.mean * COLD * p->with.scale / 2;
	struct mr_trial t = { .parts = MR_TRIAL_STEPS,
			      .storage = profile,
			      .paced = true,
			      .fill = true,
			      .epochs = 2,
			      .whole = true,
			      .seconds = 2 * COLD };
	int e;

	if (mr_phase_late(p, OPENING + FILLING + 2 * COLD, "a page cache"))
		return 0;
	if (fit < 4 * (double)p->job.batch)
		fit = 4 * (double)p->job.batch;
	if ((double)all > fit)
		p->with.subset = (uint64_t)fit;
	snprintf(profile, sizeof(profile), "%s,cache=%.0f", p->job.opt.storage,
		 p->d->cache_share * (double)p->with.subset *
			 p->d->sample_bytes);
	e = figure(p, &t, true, &p->d->page, NULL, err);
	p->with.subset = all;
	return e;
}

static int the_job(struct mr_phases *p, struct mr_err *err)
{
	struct mr_diagnosis *d = p->d;
	const char *profile = p->job.opt.storage;
	bool whole = *profile || d->cache_share > 0;
	struct mr_trial t = { .parts = d->cache_share > 0 ? MR_TRIAL_CACHE :
							    MR_TRIAL_STEPS,
			      .ram = ram_for(p, d->cache_share),
			      .storage = profile,
			      .paced = true,
			      .seconds = whole ? 2 * JOB : JOB,
			      .fill = d->cache_share > 0,
			      .whole = whole,
			      .epochs = 1,
			      .evict = !*profile && p->job.local };
	int e;

	mr_phase_begin(p, MR_PHASE_JOB);
	if (!mr_phase_slow(p) && !p->job_only) {
		d->as_f = d->as_p;
		return 0;
	}
	if (!p->job_only && sleeps(p, JOB, &d->p, &d->s)) {
		d->as_f = d->as_p;
		p->slept_f = true;
		return 0;
	}
	e = p->job_only ? run(p, &t, &d->as_f, NULL, err) :
			  together(p, &t, NULL, &d->s, &d->as_p, &d->as_f, err);
	if (!e && *profile && d->cache_share > 0 && d->cache_share < 1 &&
	    !p->job_only)
		e = with_page_cache(p, err);
	return e;
}

int mr_phases_run(struct mr_phases *p, struct mr_err *err)
{
	int e;

	p->with.job = &p->job;
	p->with.step = p->d->step_seconds;
	p->with.stop = mr_phase_tell;
	p->with.data = p;
	e = mr_phase_choose(p, err);
	if (!e)
		e = mr_phase_warm(p, err);
	if (!e && p->job_only) {
		e = size_cache(p, err);
		if (!e)
			e = accelerator_alone(p, err);
		if (!e)
			e = the_job(p, err);
		return e;
	}
	if (!e)
		e = prepare_alone(p, err);
	shrink(p);
	if (!e)
		e = size_cache(p, err);
	if (!e)
		e = curve(p, err);
	if (!e)
		e = reading(p, err);
	end_turns(p);
	if (!e)
		e = accelerator_alone(p, err);
	if (!e)
		e = in_memory(p, err);
	if (!e)
		raise_p(p);
	mr_loader_close(p->steps);
	if (!e)
		e = storage_alone(p, err);
	if (!e)
		e = the_job(p, err);
	note_sleep(p);
	if (*p->left_out)
		mr_str_addf(&p->d->notes,
			    "there was no time for all of it, and this was "
			    "left out: %s\n",
			    p->left_out);
	if (e && e != MR_ESTATE)
		mr_err_prefix(err, "%s: ", mr_phase_names[p->phase]);
	return e;
}
