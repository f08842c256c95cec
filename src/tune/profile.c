/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile: the pipeline as it is, and then at each split, stored and read
 * again. All of it on a sample of the data set, in memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "diagnose/codecs.h"
#include "pipe/loader.h"
#include "pipe/split.h"
#include "tune/tuner.h"

enum {
	LOOK_MAX = 8192,    /* samples that are read at first */
	SAMPLE_MAX = 4096,  /* and that sets are made of, */
	SAMPLE_MIN = 64,    /* where there are so many, */
	SAMPLE_FAIR = 512,  /* and where the time allows: runs in block order
			     * are short where there are few */
	PROBES = 12,	    /* whose bytes are looked at after each step */
	CODEC_SAMPLES = 16, /* that codecs are tried on */
};

/* Seconds, at a scale of 1. */
#define LOOK	 1.5
#define WHOLE	 1.2
#define CURVE	 0.4
#define AHEAD	 0.7
#define COLD	 0.8
#define CODEC	 0.05
#define MAKE_ALL 8.0

/* Batches whose memory takes long to be touched for the first time. */
#define WIDE 32e6

/* A storage that is asked, and never slow. */
#define NO_LIMITS "bw=1000000000000000"

/* ---- the pipeline, taken apart ---- */

static int without_cache(const struct mr_edit *edit, struct mr_pipeline *p,
			 struct mr_err *err)
{
	(void)edit;
	(void)err;
	mr_pipeline_uncache(p);
	return 0;
}

static int word(const struct mr_pipeline *p, int from, int to, char **text,
		struct mr_err *err)
{
	/* A cache that was taken out is still in the pipeline's own words. */
	return p->uncached ? mr_split_text(p, from, to, text, err) :
			     mr_split_words(p, from, to, text, err);
}

/* A stage that can be stored is a split. */
static void add_split(struct mr_tuning *t, const char *name, int until)
{
	struct mr_tune_split *s = &t->split[t->splits];

	s->stage = t->splits++ - 1;
	s->until = until;
	s->requests = 1;
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->codecs = 1;
	s->codec[0] = (struct mr_tune_codec){
		.name = "none", .codec = "none", .level = -1, .ratio = 1
	};
}

/* Steps that the source's maker has left to be done belong to the source. */
static int take_apart(struct mr_tuning *t, const struct mr_pipeline *p,
		      struct mr_err *err)
{
	int end = mr_split_samples(p), first = 1, e;
	bool fixed = true;

	while (first < end && p->stage[first].deferred)
		first++;
	e = word(p, 0, 1, &t->word[t->stages++], err);
	add_split(t, "", 0);
	add_split(t, "read", mr_pipeline_number(p, first - 1));
	for (int i = first; !e && i < end; i++) {
		fixed &= !(p->stage[i].op->flags & MR_OP_RANDOM);
		e = word(p, i, i + 1, &t->word[t->stages++], err);
		if (fixed)
			add_split(t, p->stage[i].name,
				  mr_pipeline_number(p, i));
	}
	return e ? e : word(p, end, p->n, &t->tail, err);
}

static int open_job(struct mr_tuner *u, const char *pipeline,
		    struct mr_err *err)
{
	const struct mr_edit edit = { .apply = without_cache };
	struct mr_tuning *t = u->t;
	struct mr_loader *l;
	int e = mr_loader_open_edited(&l, pipeline, &u->opt, &edit, err);

	if (e)
		return e;
	t->pipeline = mr_strdup(l->pipeline->text, err);
	t->samples = l->plan.samples;
	t->batch = l->rows;
	t->block = l->opt.block;
	t->budget = (double)l->budget.max;
	t->threads = l->threads;
	u->local = l->plan.source->locate || l->plan.source->file;
	e = t->pipeline ? take_apart(t, l->pipeline, err) : MR_ENOMEM;
	t->split[0].direct = !l->plan.source->locate &&
			     !(l->plan.source->flags & MR_SOURCE_MADE);
	mr_loader_close(l);
	return e;
}

/* The source and its steps [0, stage], as batches of so many. */
static char *text_until(const struct mr_tuning *t, int stage, int batch)
{
	struct mr_str s = { 0 };

	mr_str_add(&s, t->word[0]);
	for (int i = 1; i <= stage; i++)
		mr_str_addf(&s, " | %s", t->word[i]);
	mr_str_addf(&s, " | batch %d", batch);
	return mr_str_take(&s);
}

/* ---- the sample ---- */

/* Reads for as long as it may; what was read is in memory then. */
static int look(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	struct mr_timed r = { .threads = t->threads,
			      .order = t->order,
			      .subset = t->samples < LOOK_MAX ? t->samples :
								LOOK_MAX,
			      .storage = "",
			      .seconds = LOOK };
	struct mr_figure f;
	struct mr_stats st;
	char *text = text_until(t, 0, 8);
	int e;

	if (!text)
		return mr_err_nomem(err, 1);
	r.text = text;
	e = mr_tuner_time(u, &r, &f, &st, err);
	free(text);
	if (e)
		return e;
	u->subset = st.samples < r.subset ? st.samples : r.subset;
	t->split[0].bytes =
		st.bytes_read && st.step[0].calls ?
			(double)st.bytes_read / (double)st.step[0].calls :
			(double)st.bytes_out / (double)st.samples;
	t->split[0].plain = (double)st.bytes_out / (double)st.samples;
	return 0;
}

static void learn_steps(struct mr_tuning *t, const struct mr_stats *st)
{
	for (size_t i = 0; i < st->steps && i < MR_DIAG_STEPS; i++) {
		const struct mr_step_stats *s = &st->step[i];
		struct mr_diag_step *to = &t->step[i];

		snprintf(to->name, sizeof(to->name), "%s", s->name);
		to->us = s->mean_us;
		to->fixed = (int)i + 1 < t->splits;
		to->bytes_out =
			s->calls ? (double)s->bytes_out / (double)s->calls : 0;
		t->p50[i] = s->p50_us;
		t->p99[i] = s->p99_us;
		t->steps = (int)i + 1;
	}
}

/* How much samples differ: the deviation of their time over its mean, of the
 * step that takes the most, as if it were log-normal. */
static double spread(const struct mr_tuning *t)
{
	double most = 0, sigma = 0;

	for (int i = 0; i < t->steps; i++)
		if (t->step[i].us > most && t->p50[i] > 0) {
			most = t->step[i].us;
			sigma = log(t->p99[i] / t->p50[i]) / 2.326;
		}
	return sqrt(exp(sigma * sigma) - 1);
}

/* The pipeline as it is, which tells how many samples will do. */
static int time_whole(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	struct mr_timed r = { .text = t->pipeline,
			      .threads = t->threads,
			      .order = t->order,
			      .subset = u->subset,
			      .storage = "",
			      .seconds = WHOLE };
	struct mr_stats st;
	struct mr_figure f;
	char *text = mr_strategy_text(t, &(struct mr_strategy){ 0 }, "", 0);
	double n, most;
	int e;

	if (!text)
		return mr_err_nomem(err, 1);
	r.text = text;
	e = mr_tuner_time(u, &r, &f, &st, err);
	free(text);
	if (e)
		return e;
	learn_steps(t, &st);
	u->wide = (double)st.bytes_out / (double)st.batches > WIDE;
	n = 1.96 * spread(t) / t->precision;
	n *= n;
	n = n > SAMPLE_FAIR ? n : SAMPLE_FAIR;
	/* Sets should not take long to make, one for each split. */
	most = MAKE_ALL * u->scale * f.mean / t->splits;
	if (n > most)
		n = most;
	n = n > SAMPLE_MIN ? n : SAMPLE_MIN;
	n = n > 4 * (double)t->batch ? n : 4 * (double)t->batch;
	if (n > most && most > 16)
		n = most;
	n = n < SAMPLE_MAX ? n : SAMPLE_MAX;
	/* A power of two, so that blocks of it are whole runs. */
	n = exp2(round(log2(n)));
	if (n < (double)u->subset)
		u->subset = (uint64_t)n;
	return 0;
}

/* Bytes after each step, of some samples, so that what is made of all of them
 * fits. */
static int probe_bytes(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	struct mr_options opt = u->opt;
	double all = 0, room, memory;
	int e = 0;

	opt.order = MR_ORDER_SHUFFLE;
	opt.subset = u->subset < PROBES ? u->subset : PROBES;
	opt.epochs = 1;
	opt.storage = "";
	for (int i = 1; !e && i < t->splits; i++) {
		char *text = text_until(t, t->split[i].stage, 1);
		struct mr_loader *l = NULL;
		struct mr_batch *b;
		struct mr_stats st;

		e = text ? mr_loader_open_with(&l, text, &opt, err) :
			   mr_err_nomem(err, 1);
		while (!e && !(e = mr_loader_next(l, &b, err)))
			mr_batch_release(b);
		if (e == MR_END) {
			mr_loader_stats(l, &st);
			t->split[i].bytes = t->split[i].plain =
				(double)st.bytes_out /
				(double)(st.samples ? st.samples : 1);
			all += t->split[i].bytes;
			e = mr_tuner_tell(u, NULL) ?
				    mr_err_set(err, MR_ESTATE, "stopped") :
				    0;
		}
		mr_loader_close(l);
		free(text);
	}
	if (e)
		return e;
	room = (double)mr_scratch_room(&u->scratch) / 2;
	memory = (double)mr_machine_memory() / 4;
	room = room < memory ? room : memory;
	while (u->subset > SAMPLE_MIN && all * (double)u->subset > room)
		u->subset /= 2;
	if (all * (double)u->subset > 2 * room) {
		char need[32], have[32];

		return mr_err_set(
			err, MR_EIO,
			"%s: samples of all splits take %s, and %s are free "
			"there; give another folder: --scratch DIR",
			u->scratch.path,
			mr_str_size(need, all * (double)u->subset),
			mr_str_size(have, 2 * room));
	}
	return 0;
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

static void try_variant(struct mr_tuner *u, struct mr_tune_split *s,
			const struct variant *v, const struct mr_batch *b)
{
	struct mr_codec_trial trial = { .c = mr_codec_find(v->codec),
					.level = v->level > 0 ? v->level : 0,
					.shuffle = v->shuffle };
	struct mr_tune_codec *c = &s->codec[s->codecs];

	/* A build may lack it. */
	if (!trial.c || s->codecs == MR_TUNE_CODECS ||
	    !mr_codec_try(&trial, b, CODEC * u->scale))
		return;
	*c = (struct mr_tune_codec){ .codec = v->codec,
				     .level = v->level,
				     .shuffle = v->shuffle };
	snprintf(c->name, sizeof(c->name),
		 v->level < 0 ? "%s%.0d%s" : "%s-%d%s", v->codec,
		 v->level < 0 ? 0 : v->level, v->shuffle ? "+shuffle" : "");
	c->ratio = trial.plain / trial.packed;
	c->pack = trial.pack > 0 ? trial.plain / trial.pack : 0;
	c->unpack = trial.unpack > 0 ? trial.plain / trial.unpack : 0;
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
	mr_str_addf(&text, "records '%s' | batch %d", dir, CODEC_SAMPLES);
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

/* By threads: 1, 2, 4, ... all. */
static int time_curve(struct mr_tuner *u, struct mr_tune_split *s,
		      const char *text, struct mr_err *err)
{
	int most = u->t->threads, e = 0;

	for (int n = 1;
	     !e && n <= most && s->points<MR_CURVE_MAX; n = n * 2> most &&
			     n < most ?
		     most :
		     n * 2) {
		struct mr_timed r = { .text = text,
				      .threads = n,
				      .order = u->t->order,
				      .subset = s->stage < 0 ? u->subset : 0,
				      .storage = "",
				      .fill = n == 1 || u->wide,
				      .seconds =
					      n == most ? 2 * CURVE : CURVE };
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
			      .storage = NO_LIMITS,
			      .ahead = true,
			      .fill = u->wide,
			      .seconds = AHEAD };
	struct mr_stats st;
	int e = mr_tuner_time(u, &r, &s->ahead, &st, err);

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
	struct mr_str text = { 0 };
	struct mr_timed r = { .threads = t->threads,
			      .order = t->order,
			      .subset = s->stage < 0 ? u->subset : 0,
			      .storage = "",
			      .evict = true,
			      .seconds = COLD };
	int e;

	if (*t->profile || (s->stage < 0 && !u->local))
		return 0;
	if (s->stage < 0)
		mr_str_add(&text, t->word[0]);
	else
		mr_str_addf(&text, "records '%s'", dir);
	mr_str_add(&text, " | batch 16");
	r.text = text.text;
	e = text.failed ? mr_err_nomem(err, 1) :
			  mr_tuner_time(u, &r, &s->cold, NULL, err);
	r.order = MR_ORDER_BLOCK;
	if (!e && s->stage >= 0 && t->other_order)
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
		e = mr_tuner_store(u, &at, dir, sizeof(dir), &s->bytes,
				   &s->offline, err);
	text = mr_strategy_text(u->t, &at, dir, 0);
	if (!e && !text)
		e = mr_err_nomem(err, 1);
	if (!e)
		e = time_curve(u, s, text, err);
	if (!e)
		e = time_reading(u, s, text, err);
	if (!e)
		e = time_storage(u, s, dir, err);
	if (!e && i)
		e = try_codecs(u, s, dir, err);
	free(text);
	if (e && e != MR_ESTATE)
		mr_err_prefix(err, "%s: ", i ? s->name : "all online");
	return e;
}

int mr_tuner_profile(struct mr_tuner *u, const char *pipeline,
		     struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	int e = open_job(u, pipeline, err);

	u->planned =
		u->scale * (LOOK + WHOLE + 1 + MAKE_ALL +
			    t->splits * (3 * CURVE + AHEAD + COLD + 1.5) + 15);
	mr_tuner_tell(u, "a look at the data");
	if (!e)
		e = look(u, err);
	if (!e)
		e = time_whole(u, err);
	if (!e)
		e = probe_bytes(u, err);
	t->sampled = u->subset;
	for (int i = 0; !e && i < t->splits; i++)
		e = profile_split(u, i, err);
	return e;
}
