/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/sample.h"

#include "cache/ram.h"
#include "core/clock.h"
#include "core/file.h"
#include "diagnose/schedule.h"
#include "pipe/loader.h"

enum {
	SUBSET_MAX = 20000, /* samples: enough to stand for any data set */
	LOOKED_AT = 2000,   /* samples whose residency is asked for */
	TRIES = 3,	    /* to have the samples in memory */
	FEWEST = 4,	    /* of them */
	POLL_MS = 50,
};

int mr_phase_choose(struct mr_phases *p, struct mr_err *err)
{
	struct mr_diagnosis *d = p->d;
	struct mr_trial t = { .parts = MR_TRIAL_SOURCE,
			      .storage = "",
			      .seconds = WARM_FIRST };
	struct mr_pace pace;
	struct mr_stats st;
	struct mr_loader *l;
	uint64_t least = 8 * p->job.batch, fit;
	int e;

	mr_phase_begin(p, MR_PHASE_LOOK);
	p->with.subset =
		p->job.samples < SUBSET_MAX ? p->job.samples : SUBSET_MAX;
	if (p->job.opt.subset && p->job.opt.subset < p->with.subset)
		p->with.subset = p->job.opt.subset;
	pace = mr_trial_pace(&p->with, &t);
	pace.warm = 0;
	pace.to_end = true;
	e = mr_trial_open(&p->with, &t, &l, err);
	if (!e) {
		struct mr_paced got = { 0 };

		e = mr_pace(l, &pace, &got, err);
		mr_loader_stats(l, &st);
	}
	mr_loader_close(l);
	if (e)
		return e;
	/* Some were read that have not been delivered. */
	if (st.bytes_read && st.step[0].calls)
		d->sample_bytes =
			(double)st.bytes_read / (double)st.step[0].calls;
	else if (st.samples)
		d->sample_bytes = (double)st.bytes_out / (double)st.samples;
	/* A source may unpack what it reads. */
	d->entry_bytes =
		st.samples ? (double)st.bytes_out / (double)st.samples : 0;
	d->sample_requests = 1;
	fit = d->entry_bytes > 0 ? (uint64_t)((double)mr_machine_memory() / 8 /
					      d->entry_bytes) :
				   p->with.subset;
	if (p->with.subset > st.samples && st.samples > least &&
	    !p->job.opt.subset)
		p->with.subset = st.samples;
	if (p->with.subset > fit)
		p->with.subset = fit > least ? fit : least;
	if (p->with.subset > p->job.samples)
		p->with.subset = p->job.samples;
	d->sampled = p->with.subset;
	return 0;
}

/* Reads as many of the samples as the time allows: *got, MR_AGAIN if that was
 * not all of them. */
static int read_all(struct mr_phases *p, struct mr_loader *l, uint64_t *got,
		    struct mr_err *err)
{
	struct mr_trial t = { .seconds = 1 };
	struct mr_pace pace = mr_trial_pace(&p->with, &t);

	return mr_pace_skip(l, mr_loader_epoch_samples(l),
			    mr_trial_limit(&p->with, WARM_FIRST), &pace, got,
			    err);
}

/*
 * The chosen samples into memory. Where the time is up before, so many as it
 * was enough for are chosen instead: others, which are read then, since what is
 * not in memory would make P a rate of the storage.
 */
static int open_warm(struct mr_phases *p, struct mr_loader **l,
		     struct mr_err *err)
{
	struct mr_trial t = { .parts = MR_TRIAL_SOURCE, .storage = "" };
	int e = MR_AGAIN;

	*l = NULL;
	for (int tries = 0; e == MR_AGAIN && tries < TRIES; tries++) {
		uint64_t got;

		mr_loader_close(*l);
		e = mr_trial_open(&p->with, &t, l, err);
		if (!e)
			e = read_all(p, *l, &got, err);
		if (e == MR_AGAIN)
			p->with.subset = p->d->sampled =
				got * 7 / 8 > FEWEST	? got * 7 / 8 :
				p->with.subset > FEWEST ? FEWEST :
							  p->with.subset;
	}
	return e == MR_AGAIN ? 0 : e;
}

/* Codecs are tried on some of them. */
static int pack(struct mr_phases *p, struct mr_loader *l, struct mr_err *err)
{
	struct mr_batch *b;
	int e;

	do {
		e = mr_loader_wait(l, &b, POLL_MS, err);
		if (e >= 0 && mr_phase_tell(p))
			e = mr_err_set(err, MR_ESTATE, "stopped");
	} while (e > 0 && mr_clock_ns() < p->with.until);
	if (e)
		return e < 0 ? e : 0;
	mr_phase_codecs(p->d, b, 0.3 * p->with.scale);
	mr_batch_release(b);
	return 0;
}

/* What is on a server is in nobody's memory: a cache has it, then. */
static void hold(struct mr_phases *p)
{
	struct mr_diagnosis *d = p->d;
	char n[32];

	if (!p->job.remote)
		return;
	p->with.hold = 4096 + (double)p->with.subset *
				      (d->entry_bytes + MR_RAM_HEAD) * 1.1;
	mr_str_addf(&d->notes,
		    "the samples are on a server: \"in memory\" is where a "
		    "cache kept %s of them\n",
		    mr_str_count(n, p->with.subset));
}

int mr_phase_warm(struct mr_phases *p, struct mr_err *err)
{
	struct mr_diagnosis *d = p->d;
	struct mr_loader *l;
	uint64_t bytes, in;
	int e;

	mr_phase_begin(p, MR_PHASE_WARM);
	e = open_warm(p, &l, err);
	if (!e) {
		d->warm_resident = -1;
		if (!mr_loader_resident(l, LOOKED_AT, &bytes, &in))
			d->warm_resident = (double)in / (double)bytes;
	}
	if (!e && !p->job_only)
		e = pack(p, l, err);
	mr_loader_close(l);
	if (!e)
		hold(p);
	return e;
}
