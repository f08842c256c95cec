/* SPDX-License-Identifier: Apache-2.0 */
/* One run, timed; one set, made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "pipe/loader.h"
#include "tune/tuner.h"

enum { COLD_ROUNDS = 8 };

#define SETTLE	    0.2 /* seconds */
#define SETTLE_SLOW 0.6 /* reading ahead takes a while to find its depth */
#define FILL	    8.0 /* at most */

bool mr_tuner_tell(struct mr_tuner *u, const char *what)
{
	double s = (double)(mr_clock_ns() - u->began) / 1e9;

	if (what)
		u->what = what;
	return u->o->progress &&
	       u->o->progress(u->o->data, u->what,
			      s < u->planned ? s / u->planned : 0.99);
}

static bool stop(void *data)
{
	return mr_tuner_tell(data, NULL);
}

static int begin_anew(struct mr_loader *l, struct mr_err *err)
{
	struct mr_state at;

	mr_loader_state(l, &at);
	return mr_loader_seek(l, &at, err);
}

/* What has been read once is in memory: again and again from the start. */
static int time_cold(struct mr_loader *l, const struct mr_pace *pace,
		     struct mr_paced *got, struct mr_err *err)
{
	uint64_t until =
		mr_clock_ns() + (uint64_t)((pace->seconds + pace->warm) * 1e9);
	int e = 0;

	for (int i = 0;
	     !e && i < COLD_ROUNDS && (i == 0 || mr_clock_ns() < until); i++) {
		e = mr_loader_evict(l, NULL, NULL, err);
		if (!e)
			e = begin_anew(l, err);
		if (!e)
			e = mr_pace(l, pace, got, err);
	}
	return e;
}

/* An epoch without limits: sums are checked, and caches filled, once. */
static int fill(struct mr_loader *l, const struct mr_pace *pace,
		struct mr_err *err)
{
	int e;

	if (l->shape)
		atomic_store(&l->shape->paused, true);
	e = mr_pace_skip(l, mr_loader_epoch_samples(l), FILL, pace, NULL, err);
	if (e >= 0)
		e = begin_anew(l, err);
	if (l->shape)
		atomic_store(&l->shape->paused, false);
	return e;
}

int mr_tuner_time(struct mr_tuner *u, const struct mr_timed *r,
		  struct mr_figure *f, struct mr_stats *st, struct mr_err *err)
{
	struct mr_options opt = u->opt;
	bool slow = r->storage && *r->storage;
	double few = u->scale < 1.0 / 3 ? 3 * u->scale : 1;
	struct mr_pace pace = {
		.seconds = r->seconds * u->scale,
		.warm = few * (slow ? SETTLE_SLOW : SETTLE),
		.to_end = r->evict,
		.stop = stop,
		.data = u,
	};
	struct mr_paced got = { 0 };
	struct mr_loader *l;
	int e;

	opt.storage = r->storage;
	opt.threads = r->threads;
	opt.order = r->order;
	opt.subset = r->subset;
	if (r->block)
		opt.block = r->block;
	if (r->ahead)
		opt.fetch = MR_FETCH_AHEAD;
	e = mr_loader_open_with(&l, r->text, &opt, err);
	if (e)
		return e;
	pace.batch = l->rows;
	if (r->evict)
		pace.warm = 0;
	if (!e && r->fill)
		e = fill(l, &pace, err);
	if (!e)
		e = r->evict ? time_cold(l, &pace, &got, err) :
			       mr_pace(l, &pace, &got, err);
	if (!e)
		*f = mr_paced_figure(&got);
	if (!e && st)
		mr_loader_stats(l, st);
	mr_loader_close(l);
	return e;
}

/* ---- sets ---- */

static bool told(void *data, uint64_t done, uint64_t samples)
{
	(void)done;
	(void)samples;
	return mr_tuner_tell(data, NULL);
}

static int store(struct mr_tuner *u, const struct mr_strategy *s,
		 const char *path, struct mr_store_report *report,
		 struct mr_err *err)
{
	const struct mr_tune_split *sp = &u->t->split[s->split];
	const struct mr_tune_codec *c = &sp->codec[s->codec];
	struct mr_store_options o;
	char until[16];
	int e;

	snprintf(until, sizeof(until), "%d", sp->until);
	mr_store_options_init(&o);
	o.out = path;
	o.until = until;
	o.literal = true;
	o.codec = c->codec;
	o.level = c->level;
	o.shuffle = c->shuffle ? MR_SHUFFLE_YES : MR_SHUFFLE_NO;
	o.loader.threads = u->t->threads;
	o.loader.memory = u->opt.memory;
	o.loader.plugins = u->opt.plugins;
	o.loader.on_error = u->opt.on_error == MR_ON_ERROR_REPLACE ?
				    MR_ON_ERROR_SKIP :
				    u->opt.on_error;
	o.loader.subset = u->subset;
	o.progress = told;
	o.data = u;
	e = mr_store(u->t->pipeline, &o, report, err);
	if (!e && !report->complete)
		e = mr_err_set(err, MR_ESTATE, "stopped");
	return e;
}

int mr_tuner_store(struct mr_tuner *u, const struct mr_strategy *s, char *path,
		   size_t cap, double *bytes, struct mr_figure *rate,
		   struct mr_err *err)
{
	struct mr_store_report r;
	struct stat st;
	char meta[4200];
	int e;

	snprintf(path, cap, "%.4000s/%d-%d", u->scratch.path, s->split,
		 s->codec);
	snprintf(meta, sizeof(meta), "%.4100s/meta.json", path);
	if (!stat(meta, &st))
		return 0;
	e = store(u, s, path, &r, err);
	if (e)
		return e;
	if (bytes)
		*bytes = (double)r.bytes / (double)r.samples;
	if (rate && r.stats.seconds > 0) {
		double v = (double)r.stats.samples /
			   (r.stats.seconds + r.sync_seconds);

		*rate = mr_figure_of(&v, 1);
	}
	return 0;
}
