/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/phases.h"

#include <stdio.h>

#include "analyze/model.h"
#include "cache/ram.h"
#include "diagnose/preparation.h"
#include "diagnose/sample.h"
#include "diagnose/schedule.h"
#include "pipe/loader.h"

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

int mr_phase_nothing(const struct mr_phases *p, struct mr_err *err)
{
	return mr_err_set(err, MR_ELIMIT,
			  "not one sample came in the %.0f s that there were "
			  "for it; see whether `millrace run` gives any, and "
			  "how soon",
			  mr_phase_since(p->phase_since));
}

int mr_phase_figure(struct mr_phases *p, const struct mr_trial *t,
		    bool optional, struct mr_figure *f, struct mr_stats *st,
		    struct mr_err *err)
{
	struct mr_trial_found found;
	int e = mr_trial_run(&p->with, t, &found, st, err);

	if (e)
		return e;
	*f = found.rate;
	if (!f->n && !optional)
		return mr_phase_nothing(p, err);
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
	return mr_phase_figure(p, t, false, f, st, err);
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
		e = mr_phase_figure(p, &t, true, &p->d->c, NULL, err);
	if (!e && !mr_phase_late(p, mr_phase_beside() + FILLING,
				 "what a cache saves"))
		e = mr_prep_beside(p, &cached, &p->d->pc, err);
	/* With a cache there is nothing to be read ahead. */
	if (!e && p->job.ahead && !(p->with.hold > 0) &&
	    !mr_phase_late(p, mr_phase_beside(), "what reading ahead costs"))
		e = mr_prep_beside(p, &ahead, &p->d->pa, err);
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
	int e = !l ? mr_phase_figure(p, t, true, f, NULL, err) :
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
	e = mr_phase_figure(p, &t, true, &p->d->page, NULL, err);
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
		e = mr_prep_alone(p, err);
	shrink(p);
	if (!e)
		e = size_cache(p, err);
	if (!e)
		e = mr_prep_curve(p, err);
	if (!e)
		e = reading(p, err);
	mr_prep_end(p);
	if (!e)
		e = accelerator_alone(p, err);
	if (!e)
		e = in_memory(p, err);
	if (!e)
		mr_prep_raise(p);
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
