/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile: the rest of the pipeline after each split, from a set of the
 * sample that was made there; and what codecs do to it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crew.h"
#include "diagnose/codecs.h"
#include "diagnose/trial.h"
#include "pipe/loader.h"
#include "tune/tuner.h"

enum {
	CODEC_SAMPLES = 64, /* that codecs are tried on, if the time allows */
	READ_AT_ONCE = 16,  /* of a storage that is read by itself */
};

#define BATCH 64e6 /* bytes of our own batches */

/* Seconds, at a scale of 1. */
#define CURVE 0.4
#define AHEAD 0.7
#define COLD  0.8
#define CODEC 0.05
#define SLOW  1.0 /* an epoch of the sample */

/* All of it, with what the runs take beside the above; where there are many
 * splits or threads each run is shorter, but not for ever. */
#define PROFILE 36.0
#define SETTLES 0.25
#define CODECS	1.5
#define THIN	0.4

/* So many in a batch, of large samples fewer: what is stored may be larger than
 * what the job's batches have. */
static int few(const struct mr_tuning *t, const struct mr_tune_split *s,
	       int most)
{
	double room = t->budget / 4 < BATCH ? t->budget / 4 : BATCH;
	double fit = room / (s->plain > 1 ? s->plain : 1);

	return fit < 1 ? 1 : fit < most ? (int)fit : most;
}

/* ---- codecs ---- */

static const struct variant {
	const char *codec;
	int level; /* -1: its usual one */
	bool shuffle;
} variants[] = {
	{ "lz4", -1, false },  { "lz4", -1, true },  { "zstd", 1, false },
	{ "zstd", 1, true },   { "zstd", 3, false }, { "zstd", 3, true },
	{ "zstd", 9, false },  { "zstd", 9, true },  { "zlib", -1, false },
	{ "gzip", -1, false },
};

/* By all threads at once, as in a job: they share memory and its bandwidth. */
struct tries {
	const struct mr_batch *b;
	double seconds;
	struct mr_codec_trial trial[MR_CREW_MAX];
	bool good[MR_CREW_MAX];
};

static int try_one(void *arg, size_t i, struct mr_err *err)
{
	struct tries *t = arg;

	(void)err;
	t->good[i] = mr_codec_try(&t->trial[i], t->b, t->seconds);
	return 0;
}

/* What all of them did together; false: it cannot. */
static bool try_all(const struct mr_tuner *u, const struct variant *v,
		    const struct mr_batch *b, struct mr_codec_trial *sum)
{
	struct tries t = { .b = b, .seconds = CODEC * u->thin };
	int n = u->t->threads < MR_CREW_MAX ? u->t->threads : MR_CREW_MAX;
	struct mr_err err;

	*sum = (struct mr_codec_trial){ .c = mr_codec_find(v->codec),
					.level = v->level > 0 ? v->level : 0,
					.shuffle = v->shuffle };
	if (!sum->c) /* a build may lack it */
		return false;
	for (int i = 0; i < n; i++)
		t.trial[i] = *sum;
	mr_crew_run(n, (size_t)n, try_one, &t, &err);
	for (int i = 0; i < n; i++) {
		if (!t.good[i])
			return false;
		sum->plain += t.trial[i].plain;
		sum->packed += t.trial[i].packed;
		sum->pack += t.trial[i].pack;
		sum->unpack += t.trial[i].unpack;
	}
	return true;
}

static void try_variant(const struct mr_tuner *u, struct mr_tune_split *s,
			const struct variant *v, const struct mr_batch *b)
{
	struct mr_tune_codec *c = &s->codec[s->codecs];
	struct mr_codec_trial sum;

	if (s->codecs == MR_TUNE_CODECS || !try_all(u, v, b, &sum))
		return;
	*c = (struct mr_tune_codec){ .codec = v->codec,
				     .level = v->level,
				     .shuffle = v->shuffle };
	snprintf(c->name, sizeof(c->name),
		 v->level < 0 ? "%s%.0d%s" : "%s-%d%s", v->codec,
		 v->level < 0 ? 0 : v->level, v->shuffle ? "+shuffle" : "");
	c->ratio = sum.plain / sum.packed;
	c->pack = sum.pack > 0 ? sum.plain / sum.pack : 0;
	c->unpack = sum.unpack > 0 ? sum.plain / sum.unpack : 0;
	if (c->ratio > 1.01) /* else it is of no use at all */
		s->codecs++;
}

static int try_codecs(struct mr_tuner *u, struct mr_tune_split *s,
		      const char *dir, struct mr_err *err)
{
	struct mr_options opt = u->opt;
	struct mr_str text = { 0 };
	struct mr_loader *l = NULL;
	struct mr_batch *b;
	int e;

	opt.threads = 1;
	opt.storage = "";
	mr_tuner_add_read(&text, dir);
	mr_str_addf(&text, " | batch %d", few(u->t, s, CODEC_SAMPLES));
	e = text.failed ? mr_err_nomem(err, 1) :
			  mr_loader_open_with(&l, text.text, &opt, err);
	mr_str_fini(&text);
	if (!e)
		e = mr_loader_next(l, &b, err);
	if (e == MR_OK) {
		for (size_t i = 0; i < MR_COUNT(variants); i++)
			if (!mr_tuner_tell(u, NULL))
				try_variant(u, s, &variants[i], b);
		mr_batch_release(b);
	}
	mr_loader_close(l);
	return e < 0 ? e : 0;
}

/* ---- a split ---- */

static bool slow(const struct mr_tuner *u)
{
	return !((double)u->subset / u->rate < SLOW * u->scale);
}

/* By 1, 2, 4, ... all threads. */
static int time_curve(struct mr_tuner *u, struct mr_tune_split *s,
		      const char *text, struct mr_err *err)
{
	int most = u->t->threads, e = 0;

	for (int n = 1; !e && n <= most && s->points < MR_CURVE_MAX;
	     n = mr_trial_threads(n, most)) {
		struct mr_timed r = {
			.text = text,
			.threads = n,
			.order = u->t->order,
			.subset = s->stage < 0 ? u->subset : 0,
			.storage = "",
			.fill = (n == 1 && !slow(u)) || u->wide,
			.seconds = u->thin * (n == most ? 2 * CURVE : CURVE)
		};
		struct mr_diag_point *p = &s->curve[s->points];

		e = mr_tuner_time(u, &r, &p->rate, NULL, err);
		if (!e && p->rate.n && p->rate.mean > 0) {
			p->threads = n;
			s->points++;
		}
	}
	if (!e && !s->points)
		e = mr_err_set(err, MR_EDATA, "no batch came");
	return e;
}

static int time_reading(struct mr_tuner *u, struct mr_tune_split *s,
			const char *text, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	struct mr_timed r = { .text = text,
			      .threads = t->threads,
			      .order = t->order,
			      .subset = s->stage < 0 ? u->subset : 0,
			      .storage = MR_TRIAL_NO_LIMITS,
			      .ahead = true,
			      .fill = u->wide,
			      .seconds = AHEAD * u->thin };
	struct mr_stats st;
	int e;

	if (t->fetch == MR_FETCH_DIRECT) {
		s->ahead = s->curve[s->points - 1].rate;
		return 0;
	}
	e = mr_tuner_time(u, &r, &s->ahead, &st, err);
	/* Fewer than one where neighbours share them. Those in flight at the
	 * end were asked for, too: never more. */
	if (!e && s->stage < 0 && st.bytes_read && st.step[0].calls)
		s->requests =
			(double)st.storage.requests / (double)st.step[0].calls;
	if (!(s->requests > 0) || s->requests > 0.7)
		s->requests = 1;
	return e;
}

/* The storage as it is, by itself: nothing but reading, cold. */
static int time_storage(struct mr_tuner *u, struct mr_tune_split *s,
			const char *dir, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	const struct mr_strategy at = { .split = (int)(s - t->split) };
	struct mr_str text = { 0 };
	struct mr_timed r = { .threads = t->threads,
			      .order = t->order,
			      .block = mr_tuning_block(t, &at, t->sampled),
			      .subset = s->stage < 0 ? u->subset : 0,
			      .storage = "",
			      .evict = s->stage >= 0 || !u->remote,
			      .seconds = COLD * u->thin },
			warm;
	int e;

	if (*t->profile || (s->stage < 0 && !u->local && !u->remote))
		return 0;
	if (s->stage < 0)
		mr_str_add(&text, t->word[0]);
	else
		mr_tuner_add_read(&text, dir);
	mr_str_addf(&text, " | batch %d", few(t, s, READ_AT_ONCE));
	r.text = text.text;
	warm = r;
	warm.evict = false;
	e = text.failed ? mr_err_nomem(err, 1) : 0;
	/* What was just read is in memory. */
	if (!e && (s->direct || t->fetch == MR_FETCH_DIRECT))
		e = mr_tuner_time(u, &warm, &s->alone, NULL, err);
	if (!e)
		e = mr_tuner_time(u, &r, &s->cold, NULL, err);
	r.order = s->stage < 0 ? MR_ORDER_SEQUENTIAL : MR_ORDER_BLOCK;
	if (!e && (s->stage < 0 ? s->in_turn < 1 : t->other_order))
		e = mr_tuner_time(u, &r, &s->block, NULL, err);
	mr_str_fini(&text);
	return e;
}

static int profile_split(struct mr_tuner *u, int i, struct mr_err *err)
{
	struct mr_tune_split *s = &u->t->split[i];
	struct mr_strategy at = { .split = i };
	char dir[4096] = "", *text;
	int e = 0;

	mr_tuner_tell(u, i ? s->name : "all online");
	if (i)
		e = mr_tuner_store(u, &at, dir, sizeof(dir), err);
	text = mr_strategy_text(u->t, &at, dir, 0, 0);
	if (!e && !text)
		e = mr_err_nomem(err, 1);
	/* Where the steps take long, it makes no difference to them whether
	 * samples as they are read come from the source or from a set; unless
	 * the source has work with them (HDF5 unpacks its chunks). */
	if (!e && i == 1 && slow(u) && !s[-1].direct) {
		memcpy(s->curve, s[-1].curve, sizeof(s->curve));
		s->points = s[-1].points;
		s->ahead = s[-1].ahead;
	} else if (!e) {
		e = time_curve(u, s, text, err);
		if (!e)
			e = time_reading(u, s, text, err);
	}
	if (!e)
		e = time_storage(u, s, dir, err);
	if (!e && i)
		e = try_codecs(u, s, dir, err);
	free(text);
	if (e && e != MR_ESTATE)
		mr_err_prefix(err, "%s: ", i ? s->name : "all online");
	return e;
}

/* So many splits, by so many threads, in the time that there is. */
static double thinness(const struct mr_tuning *t)
{
	double each = CODECS + AHEAD + CURVE;
	int runs = 2;

	for (int n = 1; n <= t->threads; n = mr_trial_threads(n, t->threads)) {
		each += CURVE;
		runs++;
	}
	if (!*t->profile) {
		each += COLD * (1 + t->other_order);
		runs += 1 + t->other_order;
	}
	each = PROFILE / (t->splits * (each + runs * SETTLES));
	return each > 1 ? 1 : each < THIN ? THIN : each;
}

int mr_tuner_profile(struct mr_tuner *u, struct mr_err *err)
{
	int e = 0;

	u->thin = thinness(u->t);
	for (int i = 0; !e && i < u->t->splits; i++)
		e = profile_split(u, i, err);
	return e;
}
