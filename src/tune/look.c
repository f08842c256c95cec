/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first look: the pipeline taken apart, what its steps take, and how many
 * samples will do.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "pipe/fetch.h"
#include "pipe/loader.h"
#include "pipe/runs.h"
#include "pipe/split.h"
#include "tune/tuner.h"

enum {
	LOOK_MAX = 8192,   /* samples that are read at first */
	SAMPLE_MAX = 4096, /* and that sets are made of, */
	SAMPLE_MIN = 8,	   /* where there are so many, */
	SAMPLE_FAIR = 512, /* and where the time allows: runs in block order
			    * are short where there are few */
	PROBES = 12,	   /* whose bytes are looked at after each step, */
	PROBES_MIN = 3,	   /* or fewer where they take more than a second */
};

/* Seconds, at a scale of 1. */
#define LOOK	 1.5
#define WHOLE	 1.2
#define MAKE_ALL 8.0

/* Batches whose memory takes long to be touched for the first time. */
#define WIDE 32e6

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
	return p->uncached[0] ? mr_split_text(p, from, to, text, err) :
				mr_split_words(p, from, to, text, err);
}

/* A stage that can be stored is a split. */
static void add_split(struct mr_tuning *t, const char *name, int until)
{
	struct mr_tune_split *s = &t->split[t->splits];

	s->stage = t->splits++ - 1;
	s->until = until;
	s->requests = s->in_turn = 1;
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
	t->deferred = first - 1;
	t->mixes &= !t->deferred;
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

/* Requests for a sample when a set is made: where samples lie end to end, that
 * reads neighbours together, in whatever order the job is. */
static double reads_in_turn(struct mr_loader *l)
{
	struct mr_runs runs;
	uint64_t n;

	l->order.kind = MR_ORDER_SEQUENTIAL;
	l->order.ranks = 1;
	mr_runs_init(&runs, l, mr_fetch_bytes(l->budget.max));
	n = runs.samples;
	mr_runs_fini(&runs);
	return n > 1 ? 1 / (double)n : 1;
}

/* After which splits samples are of one size. */
static void find_even(struct mr_tuning *t, const struct mr_plan *p)
{
	bool even[MR_MAX_FIELDS] = { 0 };
	int step = 0;

	for (int i = 0; i < p->in.n; i++)
		even[p->in.item[i].id] = mr_spec_fixed(&p->in.item[i].spec);
	for (int k = 1; k < t->splits; k++) {
		struct mr_tune_split *s = &t->split[k];

		for (; step < p->steps &&
		       p->step[step].stage <= s->stage + t->deferred;
		     step++)
			even[p->step[step].field] = p->step[step].fixed;
		s->even = true;
		for (int i = 0; i < p->in.n; i++)
			s->even &= even[p->in.item[i].id];
	}
}

static int open_job(struct mr_tuner *u, const char *pipeline,
		    struct mr_err *err)
{
	const struct mr_edit edit = { .apply = without_cache };
	struct mr_tuning *t = u->t;
	struct mr_loader *l;
	bool made;
	int e = mr_loader_open_edited(&l, pipeline, &u->opt, &edit, err);

	if (e)
		return e;
	t->pipeline = mr_strdup(l->pipeline->text, err);
	t->samples = l->plan.samples;
	t->batch = l->rows;
	t->block = l->opt.block;
	t->budget = (double)l->budget.max;
	t->threads = l->threads;
	u->ring = l->wanted_ring;
	t->ring = l->ring * l->rows;
	u->remote = l->plan.source->locate && mr_fetch_remote(l);
	u->local =
		(l->plan.source->locate && !u->remote) || l->plan.source->file;
	e = t->pipeline ? take_apart(t, l->pipeline, err) : MR_ENOMEM;
	t->split[0].remote = u->remote;
	find_even(t, &l->plan);
	made = l->plan.source->flags & MR_SOURCE_MADE;
	t->split[0].direct = !l->plan.source->locate && !made;
	t->split[0].made = made ? MR_MADE_AHEAD : 0;
	t->split[0].in_turn = reads_in_turn(l);
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

/* Frees the text, which may be NULL for want of memory. */
static int time_text(struct mr_tuner *u, char *text, struct mr_timed *r,
		     struct mr_figure *f, struct mr_stats *st,
		     struct mr_err *err)
{
	int e;

	r->text = text;
	e = text ? mr_tuner_time(u, r, f, st, err) : mr_err_nomem(err, 1);
	free(text);
	return e;
}

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
	int few = t->batch < 8 ? (int)t->batch : 8;
	int e = time_text(u, text_until(t, 0, few), &r, &f, &st, err);

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
		to->fixed = (int)i + 1 < t->splits + t->deferred;
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

static double between(double v, double low, double high)
{
	return v < low ? low : v > high ? high : v;
}

/* As many as give means of the precision that is asked for; but sets of them,
 * one for each split, should not take long to make. */
static void choose_number(struct mr_tuner *u)
{
	const struct mr_tuning *t = u->t;
	double n = 1.96 * spread(t) / t->precision;
	/* Measuring all of them takes long anyway. */
	double scale = u->o->exhaustive ? 1 : u->scale;
	double most = MAKE_ALL * scale * u->rate / t->splits;

	u->wanted = fmin(n * n, (double)t->samples);
	n = between(n * n, SAMPLE_FAIR, SAMPLE_MAX);
	n = between(n, SAMPLE_MIN, most > SAMPLE_MIN ? most : SAMPLE_MIN);
	/* A power of two, so that blocks of it are whole runs. */
	n = exp2(round(log2(n)));
	if (n < (double)u->subset)
		u->subset = (uint64_t)n;
}

/* The pipeline as it is, which tells how many samples will do. */
static int time_whole(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	struct mr_timed r = { .threads = t->threads,
			      .order = t->order,
			      .subset = u->subset,
			      .storage = "",
			      .seconds = WHOLE };
	struct mr_stats st;
	struct mr_figure f;
	const struct mr_strategy online = { 0 };
	int e = time_text(u, mr_strategy_text(t, &online, "", 0, 0), &r, &f,
			  &st, err);

	if (e)
		return e;
	learn_steps(t, &st);
	u->rate = f.mean;
	u->wide = (double)st.bytes_out / (double)st.batches > WIDE;
	/* and two that the user holds: three quarters of the budget are for
	 * them (pipe/open.c) */
	t->batches = (u->ring + 2) * (double)t->batch * (double)st.bytes_out /
		     (double)st.samples * 4 / 3;
	choose_number(u);
	return 0;
}

/* Bytes after a step, of some samples. */
static int probe_split(struct mr_tuner *u, struct mr_tune_split *s,
		       struct mr_err *err)
{
	uint64_t n = (uint64_t)between(u->rate, PROBES_MIN, PROBES);
	struct mr_options opt = u->opt;
	char *text = text_until(u->t, s->stage, 1);
	struct mr_loader *l = NULL;
	struct mr_batch *b;
	struct mr_stats st;
	int e;

	opt.order = MR_ORDER_SHUFFLE;
	opt.subset = u->subset < n ? u->subset : n;
	opt.epochs = 1;
	opt.storage = "";
	e = text ? mr_loader_open_with(&l, text, &opt, err) :
		   mr_err_nomem(err, 1);
	while (!e && !(e = mr_loader_next(l, &b, err)))
		mr_batch_release(b);
	if (e == MR_END) {
		mr_loader_stats(l, &st);
		s->bytes = s->plain = (double)st.bytes_out /
				      (double)(st.samples ? st.samples : 1);
		e = mr_tuner_tell(u, NULL) ?
			    mr_err_set(err, MR_ESTATE, "stopped") :
			    0;
	}
	mr_loader_close(l);
	free(text);
	return e;
}

/* Fewer samples than the precision asks for: how precise is it, and why? */
static void note_precision(struct mr_tuner *u, uint64_t before, double room,
			   bool disk)
{
	struct mr_tuning *t = u->t;
	double n = (double)u->subset;
	char few[32], want[32], size[32];

	/* Powers of two are not exact. */
	if (n > 0.7 * u->wanted || n >= (double)t->samples)
		return;
	mr_str_addf(&t->notes,
		    "the precision of %.3g %% was not reached: %s sample%s "
		    "of the %s that it takes were looked at, which makes it "
		    "about %.0f %%; ",
		    100 * t->precision, mr_str_count(few, u->subset),
		    u->subset == 1 ? "" : "s",
		    mr_str_count(want, (unsigned long long)ceil(u->wanted)),
		    100 * t->precision * sqrt(u->wanted / n));
	if (u->subset == before)
		mr_str_add(&t->notes, "there was no time for more: give it "
				      "more --seconds\n");
	else if (disk)
		mr_str_addf(&t->notes,
			    "there was no room for more, with %s free in %s: "
			    "give another folder, --scratch DIR\n",
			    mr_str_size(size, room), u->scratch.path);
	else
		mr_str_addf(&t->notes, "there was no memory for more (%s)\n",
			    mr_str_size(size, room));
}

/* What is made of the samples has to fit, into memory too. */
static int fit(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	double all = 0, disk = (double)mr_scratch_room(&u->scratch);
	double memory = (double)mr_machine_memory() / 4;
	double room = disk / 2 < memory ? disk / 2 : memory;
	uint64_t before = u->subset;
	char need[32], have[32];
	int e = 0;

	for (int i = 1; !e && i < t->splits; i++) {
		e = probe_split(u, &t->split[i], err);
		all += t->split[i].bytes;
	}
	if (e)
		return e;
	while (u->subset > SAMPLE_MIN && all * (double)u->subset > room)
		u->subset /= 2;
	t->sampled = u->subset;
	note_precision(u, before, disk < memory ? disk : memory,
		       disk / 2 < memory);
	if (all * (double)u->subset <= disk)
		return 0;
	return mr_err_set(err, MR_EIO,
			  "%s: samples of all splits take %s, and %s are free "
			  "there; give another folder: --scratch DIR",
			  u->scratch.path,
			  mr_str_size(need, all * (double)u->subset),
			  mr_str_size(have, disk));
}

int mr_tuner_look(struct mr_tuner *u, const char *pipeline, struct mr_err *err)
{
	int e = open_job(u, pipeline, err);

	mr_tuner_tell(u, "a look at the data");
	return e ? e : look(u, err);
}

int mr_tuner_choose(struct mr_tuner *u, struct mr_err *err)
{
	int e = time_whole(u, err);

	return e ? e : fit(u, err);
}
