/* SPDX-License-Identifier: Apache-2.0 */
/* One run, timed; one set, made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "diagnose/trial.h"
#include "store/packer.h"
#include "tune/tuner.h"

/* Room that a set takes beside its records: for the index, and in folders. */
#define AROUND 1.05
#define BESIDE 64e3

double mr_tuner_seconds(const struct mr_tuner *u)
{
	return (double)(mr_clock_ns() - u->began) / 1e9;
}

bool mr_tuner_tell(struct mr_tuner *u, const char *what)
{
	double done = mr_tuner_seconds(u) / u->planned;

	if (what)
		u->what = what;
	if (u->part > 0)
		done = u->part;
	return u->o->progress &&
	       u->o->progress(u->o->data, u->what, done < 1 ? done : 0.99);
}

static bool stop(void *data)
{
	return mr_tuner_tell(data, NULL);
}

int mr_tuner_time(struct mr_tuner *u, const struct mr_timed *r,
		  struct mr_figure *f, struct mr_stats *st, struct mr_err *err)
{
	const struct mr_job job = { .batch = u->t->batch };
	const struct mr_setup setup = {
		.job = &job, .scale = u->scale, .stop = stop, .data = u
	};
	const struct mr_trial trial = { .storage = r->storage,
					.seconds = r->seconds,
					.fill = r->fill,
					.epochs = 1,
					.whole = r->whole,
					.evict = r->evict };
	struct mr_options opt = u->opt;
	struct mr_trial_found found;
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
	e = mr_trial_measure(&setup, &trial, l, &found, err);
	if (!e)
		*f = found.unfilled && r->to_be_full ? (struct mr_figure){ 0 } :
						       found.rate;
	if (!e && st)
		mr_loader_stats(l, st);
	mr_loader_close(l);
	return e;
}

/* ---- sets ---- */

void mr_tuner_add_read(struct mr_str *text, const char *dir)
{
	mr_str_add(text, "records ");
	mr_str_add_quoted(text, dir, true);
}

static bool told(void *data, uint64_t done, uint64_t samples)
{
	(void)done;
	(void)samples;
	return mr_tuner_tell(data, NULL);
}

/* Where the set of a split and a codec is; true: it is there. */
static bool place(const struct mr_tuner *u, int split, int codec, char *path,
		  size_t cap)
{
	struct stat st;
	char meta[4200];

	snprintf(path, cap, "%.4000s/%d-%d", u->scratch.path, split, codec);
	snprintf(meta, sizeof(meta), "%.4100s/meta.json", path);
	return !stat(meta, &st);
}

bool mr_tuner_has(const struct mr_tuner *u, const struct mr_strategy *s)
{
	char path[4096];

	return u->t->split[s->split].stage < 0 ||
	       place(u, s->split, s->codec, path, sizeof(path));
}

void mr_tuner_drop(const struct mr_tuner *u, const struct mr_strategy *s)
{
	char path[4096];

	place(u, s->split, s->codec, path, sizeof(path));
	mr_scratch_drop(path);
}

/* Where there is none for a packed set, the other packed ones give way to it:
 * they are made anew when they are needed again. */
static int make_room(const struct mr_tuner *u, const struct mr_strategy *s,
		     struct mr_err *err)
{
	const struct mr_tuning *t = u->t;
	double need =
		BESIDE + AROUND * mr_strategy_bytes(t, s) * (double)u->subset;
	char takes[32], have[32];
	struct mr_strategy other = { .split = 1 };

	if (!s->codec || need <= (double)mr_scratch_room(&u->scratch))
		return 0;
	for (; other.split < t->splits; other.split++)
		for (other.codec = 1;
		     other.codec < t->split[other.split].codecs; other.codec++)
			mr_tuner_drop(u, &other);
	if (need <= (double)mr_scratch_room(&u->scratch))
		return 0;
	return mr_err_set(
		err, MR_EIO,
		"its samples take %s, and %s are free in %.900s; "
		"give another folder: --scratch DIR",
		mr_str_size(takes, need),
		mr_str_size(have, (double)mr_scratch_room(&u->scratch)),
		u->scratch.path);
}

/* Packed ones are made of the one that is not, where there is one: the steps
 * before take long. */
static int store(struct mr_tuner *u, const struct mr_strategy *s,
		 const char *path, struct mr_store_report *report,
		 struct mr_err *err)
{
	char until[16], plain[4096];
	struct mr_str text = { 0 };
	struct mr_store_options o;
	bool packs =
		s->codec > 0 && place(u, s->split, 0, plain, sizeof(plain));
	int e;

	mr_strategy_store(u->t, s, until, &o);
	o.out = path;
	o.record_bytes = mr_strategy_bytes(u->t, s);
	o.loader.threads = u->t->threads;
	o.loader.memory = u->opt.memory;
	o.loader.plugins = u->opt.plugins;
	o.loader.on_error = mr_tuner_storing(u->opt.on_error);
	/* The same ones as in runs of the source. */
	if (!packs && u->t->order == MR_ORDER_SHUFFLE)
		o.loader.subset = u->subset;
	else if (!packs)
		o.first = u->subset;
	o.progress = told;
	o.data = u;
	if (packs) {
		mr_tuner_add_read(&text, plain);
		o.until = "";
	}
	e = text.failed ? mr_err_nomem(err, sizeof(plain)) :
			  mr_store(packs ? text.text : u->t->pipeline, &o,
				   report, err);
	mr_str_fini(&text);
	if (!e && !report->complete)
		e = mr_err_set(err, MR_ESTATE, "stopped");
	return e;
}

static void learn(struct mr_tune_split *s, const struct mr_store_report *r)
{
	const struct mr_stats *st = &r->stats;

	s->bytes = (double)r->bytes / (double)r->samples;
	for (size_t i = 0; i < st->steps; i++) {
		const struct mr_step_stats *step = &st->step[i];

		if (step->calls && !strcmp(step->name, mr_pack_record.name))
			s->plain = (double)step->bytes_in / (double)step->calls;
	}
	if (st->seconds > 0) {
		double v =
			(double)st->samples / (st->seconds + r->sync_seconds);

		s->offline = mr_figure_of(&v, 1);
	}
}

/* A few samples have told how small a codec makes them; here are all. */
static void learn_packed(struct mr_tune_split *s, int codec,
			 const struct mr_store_report *r)
{
	double bytes = (double)r->bytes / (double)r->samples;

	if (bytes > 0)
		s->codec[codec].ratio = s->bytes / bytes;
}

int mr_tuner_store(struct mr_tuner *u, const struct mr_strategy *s, char *path,
		   size_t cap, struct mr_err *err)
{
	struct mr_tune_split *sp = &u->t->split[s->split];
	struct mr_store_report r;
	int e;

	if (place(u, s->split, s->codec, path, cap))
		return 0;
	e = make_room(u, s, err);
	if (e)
		return e;
	e = store(u, s, path, &r, err);
	if (e) {
		mr_scratch_drop(path);
		return e;
	}
	mr_scratch_warm(path);
	if (s->codec)
		learn_packed(sp, s->codec, &r);
	else
		learn(sp, &r);
	return 0;
}
