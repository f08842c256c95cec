/* SPDX-License-Identifier: Apache-2.0 */
/* All strategies, and how fast each would be. */
#include <math.h>
#include <stdlib.h>

#include "analyze/model.h"
#include "cache/ram.h"
#include "core/mem.h"
#include "pipe/fetch.h"
#include "pipe/held.h"
#include "pipe/order.h"
#include "pipe/runs.h"
#include "store/shard.h"
#include "tune/tuning.h"

#define SPARE  1.03
#define LARGER 1.05

bool mr_strategy_alike(const struct mr_strategy *a, const struct mr_strategy *b)
{
	return a->split == b->split && a->codec == b->codec &&
	       a->order == b->order && a->cache == b->cache &&
	       a->mixed == b->mixed &&
	       (!a->mixed ||
		(a->with == b->with && a->with_codec == b->with_codec)) &&
	       (a->cache != MR_CACHE_RAM || a->cache_at == b->cache_at);
}

static const struct mr_tune_split *split_of(const struct mr_tuning *t,
					    const struct mr_strategy *s)
{
	return &t->split[s->split];
}

static const struct mr_tune_codec *codec_of(const struct mr_tuning *t,
					    const struct mr_strategy *s)
{
	return &split_of(t, s)->codec[s->codec];
}

struct mr_strategy mr_strategy_set(const struct mr_strategy *s)
{
	struct mr_strategy set = *s;

	if (s->mixed)
		set = (struct mr_strategy){ .split = s->with,
					    .codec = s->with_codec,
					    .threads = s->threads,
					    .order = s->order };
	return set;
}

/* What the others go through. */
static struct mr_strategy others_of(const struct mr_strategy *s)
{
	struct mr_strategy others = *s;

	others.mixed = false;
	return others;
}

double mr_strategy_bytes(const struct mr_tuning *t, const struct mr_strategy *s)
{
	struct mr_strategy set = mr_strategy_set(s), others = others_of(s);

	if (s->mixed)
		return s->part * mr_strategy_bytes(t, &set) +
		       (1 - s->part) * mr_strategy_bytes(t, &others);
	return split_of(t, s)->bytes / codec_of(t, s)->ratio;
}

/* What its cache holds of a sample. */
static double entry_bytes(const struct mr_tuning *t,
			  const struct mr_strategy *s)
{
	return s->cache == MR_CACHE_PAGE ?
		       mr_strategy_bytes(t, s) :
		       t->split[s->cache_at].plain + MR_RAM_HEAD;
}

double mr_strategy_share(const struct mr_tuning *t, const struct mr_strategy *s)
{
	double share;

	if (s->cache == MR_CACHE_NONE)
		return 0;
	share = t->memory / (entry_bytes(t, s) * (double)t->samples);
	return share < 1 ? share : 1;
}

/* ---- preparation ---- */

/* The rest of a split by so many threads, from memory. */
static double rest_rate(const struct mr_tune_split *s, int threads)
{
	return mr_model_curve(s->curve, s->points, threads);
}

/* Seconds of one thread for a sample: the steps, unpacking, and what reading
 * ahead costs, which grows with the bytes. */
static double thread_seconds(const struct mr_tuning *t,
			     const struct mr_strategy *s, bool ahead)
{
	const struct mr_tune_split *sp = split_of(t, s);
	const struct mr_tune_codec *c = codec_of(t, s);
	double rest = s->threads / rest_rate(sp, s->threads), read = 0;

	if (ahead && sp->ahead.n && sp->points) {
		const struct mr_diag_point *p = &sp->curve[sp->points - 1];

		read = p->threads / sp->ahead.mean - p->threads / p->rate.mean;
	}
	if (read < 0)
		read = 0;
	if (c->unpack > 0)
		rest += sp->plain / c->unpack;
	return rest + read / c->ratio;
}

/* ---- storage ---- */

/* Reads for a sample of n in block (or sequential) order, where neighbours
 * share one. In block order the set is turned in each epoch, and a run in two
 * parts lies across its end. */
static double shared(const struct mr_tuning *t, const struct mr_strategy *s,
		     double bytes, uint64_t n, uint64_t block)
{
	struct mr_order o = { .kind = s->order,
			      .n = n,
			      .ranks = t->ranks > 1 ? t->ranks : 1,
			      .block = block };
	uint64_t run;

	if (!(bytes >= 1))
		return 1;
	run = mr_runs_samples(&o, (uint64_t)bytes + 1,
			      mr_fetch_bytes((size_t)t->budget));
	if (run < 2)
		return 1;
	return fmin(1, (ceil((double)n / (double)run) +
			(s->order == MR_ORDER_BLOCK)) /
			       (double)n);
}

/*
 * Blocks are whole runs, and how long a run can be is known within a sample or
 * so, since a loader looks at some only: numbers that many others divide, and
 * of these the one that is good for samples that are a little larger, too.
 */
static const uint64_t blocks[] = { 240, 120, 60, 48, 36, 24, 12, 8 };

uint64_t mr_tuning_block(const struct mr_tuning *t, const struct mr_strategy *s,
			 uint64_t n)
{
	uint64_t most = t->block < n / 16 ? t->block : n / 16, best = most;
	bool even = split_of(t, s)->even && codec_of(t, s)->ratio == 1;
	double bytes = mr_strategy_bytes(t, s), least = 1;
	struct mr_strategy in_blocks = *s;

	in_blocks.order = MR_ORDER_BLOCK;
	for (size_t i = 0; i < MR_COUNT(blocks); i++) {
		double r;

		if (blocks[i] > most)
			continue;
		r = shared(t, &in_blocks, bytes, n, blocks[i]);
		if (!even)
			r = fmax(r, shared(t, &in_blocks, LARGER * bytes, n,
					   blocks[i]));
		if (r < least) {
			least = r;
			best = blocks[i];
		}
	}
	return best > 0 ? best : 1;
}

static double requests(const struct mr_tuning *t, const struct mr_strategy *s,
		       uint64_t n)
{
	if (split_of(t, s)->stage < 0)
		return split_of(t, s)->requests;
	return s->order == MR_ORDER_SHUFFLE || t->fetch == MR_FETCH_DIRECT ?
		       1 :
		       shared(t, s, mr_strategy_bytes(t, s), n,
			      mr_tuning_block(t, s, n));
}

/* Of them, so many at once; 0: as many as there are threads, who wait. */
static double depth(const struct mr_tuning *t, const struct mr_strategy *s,
		    uint64_t n)
{
	const struct mr_tune_split *sp = split_of(t, s);
	struct mr_order o = { .kind = s->order };
	struct mr_fetch_load load = { .memory = (size_t)t->budget,
				      .ring = t->ring,
				      .bytes = mr_strategy_bytes(t, s),
				      .requests = requests(t, s, n) };

	if (sp->made > 0)
		return sp->made;
	if (sp->direct || t->fetch == MR_FETCH_DIRECT)
		return 0;
	if (!*t->profile) /* what is large is the kernel's to read ahead */
		return MR_HELD_MAX;
	if (s->order == MR_ORDER_BLOCK) {
		o.block = mr_tuning_block(t, s, n);
		load.span = mr_order_span(&o);
	}
	return mr_fetch_depth(&load);
}

/* Cold, as it is: in the job's order, or in the other one that there may be,
 * block order. */
static const struct mr_figure *cold_of(const struct mr_tuning *t,
				       const struct mr_tune_split *s, int order)
{
	return order != t->order && s->block.n ? &s->block : &s->cold;
}

/* Seconds of a sample from the disk as it is: of sets that were measured, by
 * the line through them that fits best. */
static double line(const struct mr_tuning *t, int order, double bytes)
{
	double n = 0, x = 0, y = 0, xx = 0, xy = 0, slope, at;

	for (int i = 0; i < t->splits; i++) {
		const struct mr_tune_split *s = &t->split[i];
		const struct mr_figure *f = cold_of(t, s, order);
		double w;

		if (s->stage < 0 || !f->n || !(f->mean > 0))
			continue;
		w = f->mean * f->mean; /* relative errors count */
		n += w;
		x += w * s->bytes;
		y += w / f->mean;
		xx += w * s->bytes * s->bytes;
		xy += w * s->bytes / f->mean;
	}
	if (!(n > 0))
		return 0;
	slope = n * xx - x * x > 0 ? (n * xy - x * y) / (n * xx - x * x) : 0;
	at = (y - slope * x) / n;
	if (slope < 0) {
		slope = 0;
		at = y / n;
	} else if (at < 0) {
		at = 0;
		slope = x > 0 ? xy / xx : 0;
	}
	return at + slope * bytes;
}

/* And of any; 0: not known. */
static double cold_seconds(const struct mr_tuning *t,
			   const struct mr_strategy *s)
{
	const struct mr_tune_split *sp = split_of(t, s);
	const struct mr_figure *f = cold_of(t, sp, s->order);

	if (sp->stage >= 0 && codec_of(t, s)->ratio != 1)
		return line(t, s->order, mr_strategy_bytes(t, s));
	return f->n ? 1 / f->mean : 0;
}

/* Samples/s, cold; 0: it sets no limit. */
static double storage_rate(const struct mr_tuning *t,
			   const struct mr_strategy *s, uint64_t n)
{
	double seconds;

	if (*t->profile)
		return mr_model_storage(&t->limits, mr_strategy_bytes(t, s),
					requests(t, s, n), depth(t, s, n));
	seconds = cold_seconds(t, s);
	/* else it is among what the workers wait for */
	return seconds > 0 && depth(t, s, n) > 0 ? 1 / seconds : 0;
}

/* Seconds in which a thread waits for what it reads by itself. What it does
 * with the bytes is among the steps. */
static double wait_of(const struct mr_tuning *t, const struct mr_strategy *s)
{
	const struct mr_tune_split *sp = split_of(t, s);
	const struct mr_storage_limits *l = &t->limits;
	double each;

	if (*t->profile)
		return l->latency +
		       (l->stream > 0 ? mr_strategy_bytes(t, s) / l->stream :
					0);
	each = cold_seconds(t, s);
	if (sp->alone.n)
		each -= 1 / sp->alone.mean / codec_of(t, s)->ratio;
	return each > 0 ? t->threads * each : 0; /* all of them were at it */
}

static double waiting_seconds(const struct mr_tuning *t,
			      const struct mr_strategy *s)
{
	return depth(t, s, t->samples) > 0 ? 0 : wait_of(t, s);
}

/* Seconds that the threads take for a sample, and its storage, add up by the
 * parts. */
static double mixed_rate(const struct mr_tuning *t, const struct mr_strategy *s,
			 uint64_t n)
{
	const struct mr_strategy of[2] = { others_of(s), mr_strategy_set(s) };
	const double part[2] = { 1 - s->part, s->part };
	double busy = 0, read = 0;

	for (int i = 0; i < 2; i++) {
		double storage = storage_rate(t, &of[i], n);

		busy += part[i] * (thread_seconds(t, &of[i], true) +
				   waiting_seconds(t, &of[i]));
		read += storage > 0 ? part[i] / storage : 0;
	}
	return mr_model_meet(s->threads / busy, read > 0 ? 1 / read : 0);
}

static double pure_rate(const struct mr_tuning *t, const struct mr_strategy *s,
			uint64_t n, bool warm)
{
	double hits = 0, share = warm ? mr_strategy_share(t, s) : 0;
	double storage = storage_rate(t, s, n);
	double miss = thread_seconds(t, s, true) + waiting_seconds(t, s);
	double seconds = miss, rate;

	if (s->cache == MR_CACHE_PAGE) {
		hits = s->order == MR_ORDER_SEQUENTIAL && share < 1 ?
			       0 :
			       mr_model_lru(share);
		seconds =
			hits * thread_seconds(t, s, false) + (1 - hits) * miss;
	} else if (s->cache == MR_CACHE_RAM) {
		const struct mr_tune_split *at = &t->split[s->cache_at];

		hits = share;
		seconds = hits * s->threads / rest_rate(at, s->threads) +
			  (1 - hits) * miss;
	}
	rate = s->threads / seconds;
	if (hits < 1)
		rate = mr_model_meet(rate, storage / (1 - hits));
	return rate;
}

double mr_strategy_rate(const struct mr_tuning *t, const struct mr_strategy *s,
			uint64_t n, bool warm)
{
	return s->mixed ? mixed_rate(t, s, n) : pure_rate(t, s, n, warm);
}

/* ---- the list ---- */

int mr_tuning_add(struct mr_tuning *t, const struct mr_strategy *s,
		  struct mr_err *err)
{
	if (t->strategies == t->cap) {
		int cap = t->cap ? 2 * t->cap : 256;
		struct mr_strategy *list =
			realloc(t->strategy, (size_t)cap * sizeof(*list));

		if (!list)
			return mr_err_nomem(err, (size_t)cap * sizeof(*list));
		t->strategy = list;
		t->cap = cap;
	}
	t->strategy[t->strategies++] = *s;
	return 0;
}

static int add_caches(struct mr_tuning *t, struct mr_strategy s,
		      struct mr_err *err)
{
	int e;

	s.cache = MR_CACHE_NONE;
	e = mr_tuning_add(t, &s, err);
	if (!(t->memory > 0))
		return e;
	s.cache = MR_CACHE_PAGE;
	if (!e && !t->split[s.split].remote)
		e = mr_tuning_add(t, &s, err);
	s.cache = MR_CACHE_RAM;
	/* What is read as it is and what is read from records is the same. */
	for (int at = s.split > 1 ? s.split : 1; !e && at < t->splits; at++) {
		s.cache_at = at;
		e = mr_tuning_add(t, &s, err);
	}
	return e;
}

static int add_threads(struct mr_tuning *t, struct mr_strategy s,
		       struct mr_err *err)
{
	const struct mr_tune_split *sp = &t->split[s.split];
	int e = 0;

	for (int i = 0; !e && i < sp->points; i++) {
		s.threads = sp->curve[i].threads;
		if (s.threads <= t->threads)
			e = add_caches(t, s, err);
	}
	return e;
}

int mr_tuning_list(struct mr_tuning *t, struct mr_err *err)
{
	int e = 0;

	for (int k = 0; !e && k < t->splits; k++) {
		struct mr_strategy s = { .split = k };

		for (s.codec = 0; !e && s.codec < t->split[k].codecs;
		     s.codec++) {
			s.order = t->order;
			e = add_threads(t, s, err);
			if (e || !t->other_order || t->split[k].stage < 0)
				continue;
			s.order = MR_ORDER_BLOCK;
			e = add_threads(t, s, err);
		}
	}
	return e;
}

/* ---- what a strategy takes ---- */

/* Of its cache. What one sample takes is the mean of some: for all of them
 * there is a little more, since what does not fit is missed in each epoch. */
static double cache_bytes(const struct mr_tuning *t,
			  const struct mr_strategy *s)
{
	double all = entry_bytes(t, s) * (double)t->samples;

	if (s->cache == MR_CACHE_RAM && s->cache_share >= 1)
		return floor(fmin(SPARE * all, t->memory));
	return ceil(s->cache_share * all);
}

/* Whatever the job does, a set is made in the source's own order, ahead. */
static double source_depth(const struct mr_tuning *t)
{
	const struct mr_tune_split *sp = &t->split[0];
	const struct mr_fetch_load load = { .memory = (size_t)t->budget,
					    .bytes = sp->bytes,
					    .requests = sp->in_turn };

	if (sp->direct || sp->made > 0)
		return sp->made;
	return *t->profile ? mr_fetch_depth(&load) : MR_HELD_MAX;
}

double mr_tuning_source_rate(const struct mr_tuning *t)
{
	const struct mr_tune_split *sp = &t->split[0];
	const struct mr_figure *f = sp->block.n ? &sp->block : &sp->cold;

	if (!t->splits)
		return 0;
	if (*t->profile)
		return mr_model_storage(&t->limits, sp->bytes, sp->in_turn,
					source_depth(t));
	return f->n && source_depth(t) > 0 ? f->mean : 0;
}

/* Seconds of a thread that makes a set. */
static double making_seconds(const struct mr_tuning *t,
			     const struct mr_strategy *set)
{
	const struct mr_tune_split *sp = split_of(t, set);
	const struct mr_tune_codec *c = codec_of(t, set);
	const struct mr_strategy source = { .order = t->order };
	double seconds = t->threads / sp->offline.mean;

	if (!(source_depth(t) > 0))
		seconds += wait_of(t, &source);
	return seconds + (c->pack > 0 ? sp->plain / c->pack : 0);
}

void mr_strategy_predict(const struct mr_tuning *t, struct mr_strategy *s)
{
	const struct mr_strategy set = mr_strategy_set(s);
	const struct mr_tune_split *sp = split_of(t, &set);
	double n = (double)t->samples;
	double stored = s->mixed ? s->part * n : sp->stage < 0 ? 0 : n;

	s->cache_share = mr_strategy_share(t, s);
	s->cache_bytes = cache_bytes(t, s);
	s->storage = mr_strategy_bytes(t, s) * n;
	s->added = stored * mr_strategy_bytes(t, &set);
	s->shards = stored > 0 ?
			    mr_shard_number((uint64_t)ceil(stored), s->added) :
			    0;
	s->sampled = mr_strategy_rate(t, s, t->sampled, true);
	s->cold = mr_strategy_rate(t, s, t->samples, false);
	s->warm = mr_strategy_rate(t, s, t->samples, true);
	s->offline = 0;
	if (sp->stage < 0 || !(sp->offline.mean > 0))
		return;
	s->offline =
		stored / mr_model_meet(t->threads / making_seconds(t, &set),
				       mr_tuning_source_rate(t));
}
