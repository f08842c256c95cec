/* SPDX-License-Identifier: Apache-2.0 */
/* The best few, and the extremes, for real: on the sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "tune/tuner.h"

enum { BEST = 3, ROUNDS = 6, FINALISTS = 4, TURNS = 3 };

/* Seconds, at a scale of 1: of one strategy; of a turn of the finals, and where
 * all are measured; when all of it is to be over. */
#define PROOF	  1.5
#define TURN	  0.8
#define LONG_TURN 2.5
#define OVER	  54.0
#define LITTLE	  3.0 /* at any scale */

/* The storage as the strategy has it. A page cache of all is one of all,
 * however little the samples take that were looked at. */
static void storage_of(const struct mr_tuner *u, const struct mr_strategy *s,
		       char *to, size_t cap)
{
	const struct mr_tuning *t = u->t;
	double bytes =
		s->cache_share * (double)t->sampled * mr_strategy_bytes(t, s);

	snprintf(to, cap, "%s", t->profile);
	if (s->cache == MR_CACHE_PAGE && *t->profile)
		snprintf(to, cap, "%s,cache=%.0f", t->profile,
			 s->cache_share < 1 ? 1 + bytes : 1e18);
}

/* Several times from the start; the interval is that of the means. */
static int time_often(struct mr_tuner *u, const struct mr_timed *r,
		      struct mr_figure *f, int times, struct mr_err *err)
{
	double mean[MR_TUNE_REPEATS];
	int e = 0;

	for (int i = 0; !e && i < times; i++) {
		e = mr_tuner_time(u, r, f, NULL, err);
		if (e || !f->n)
			return e;
		mean[i] = f->mean;
	}
	if (!e)
		*f = mr_figure_of(mean, times);
	return e;
}

/* Is there an epoch before the one that counts? */
static bool fills(const struct mr_tuner *u, const struct mr_strategy *s)
{
	return s->cache != MR_CACHE_NONE || u->wide;
}

/* An LRU that holds a part has its hits at the beginning of an epoch. */
static bool thrashes(const struct mr_strategy *s)
{
	return s->cache == MR_CACHE_PAGE && s->cache_share < 1;
}

/* So long, or until a whole epoch was seen, which follows the one that is under
 * way. */
static double lasts(const struct mr_tuner *u, const struct mr_strategy *s,
		    double seconds)
{
	double epochs = 2 * (double)u->t->sampled / s->sampled / u->scale;

	return thrashes(s) && epochs > seconds ? epochs : seconds;
}

static int time_one(struct mr_tuner *u, const struct mr_strategy *s,
		    const char *dir, double seconds, int times,
		    struct mr_figure *f, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	double part = (double)t->sampled / (double)t->samples;
	char profile[256],
		*text = mr_strategy_text(t, s, dir, s->cache_bytes * part,
					 t->sampled);
	struct mr_timed r = {
		.text = text,
		.threads = s->threads,
		.order = s->order,
		.block = mr_tuning_block(t, s, t->sampled),
		.subset = t->split[s->split].stage < 0 ? t->sampled : 0,
		.storage = profile,
		.fill = fills(u, s),
		.to_be_full = s->cache != MR_CACHE_NONE,
		.whole = thrashes(s),
		.evict = !*t->profile && s->cache == MR_CACHE_NONE &&
			 (t->split[s->split].stage >= 0 || !u->remote),
		.seconds = lasts(u, s, seconds)
	};
	int e;

	if (!text)
		return mr_err_nomem(err, 1);
	storage_of(u, s, profile, sizeof(profile));
	e = times > 1 ? time_often(u, &r, f, times, err) :
			mr_tuner_time(u, &r, f, NULL, err);
	free(text);
	return e;
}

/* Measures a strategy, with its set, which is made unless it is there. */
static int measure(struct mr_tuner *u, const struct mr_strategy *s,
		   double seconds, int times, struct mr_figure *f,
		   struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	const struct mr_strategy set = mr_strategy_set(s);
	struct mr_str words = { 0 };
	char dir[4096] = "";
	int e = 0;

	mr_strategy_words(t, s, &words);
	if (mr_tuner_tell(u, words.text))
		e = mr_err_set(err, MR_ESTATE, "stopped");
	if (!e && t->split[set.split].stage >= 0)
		e = mr_tuner_store(u, &set, dir, sizeof(dir), err);
	if (!e)
		e = time_one(u, s, dir, seconds, times, f, err);
	if (e && e != MR_ESTATE)
		mr_err_prefix(err, "%s: ", words.text ? words.text : "");
	u->what = "";
	mr_str_fini(&words);
	return e;
}

/* Seconds in which its set is packed, unless it is there; one that is not
 * packed always is. */
static double packing(const struct mr_tuner *u, const struct mr_strategy *s)
{
	const struct mr_strategy set = mr_strategy_set(s);
	const struct mr_tune_split *sp = &u->t->split[set.split];
	const struct mr_tune_codec *c = &sp->codec[set.codec];

	if (!(c->pack > 0) || mr_tuner_has(u, &set))
		return 0;
	return (double)u->t->sampled * sp->plain / c->pack / u->t->threads;
}

/* And in which its cache is filled, which a storage that is imitated does not
 * hold up. */
static double filling(const struct mr_tuner *u, const struct mr_strategy *s)
{
	const struct mr_tune_split *sp = &u->t->split[s->split];
	double rate = *u->t->profile ? mr_model_curve(sp->curve, sp->points,
						      s->threads) :
				       s->cold;

	return fills(u, s) ? (double)u->t->sampled / rate : 0;
}

/* What measuring it for so long takes. */
static double takes(const struct mr_tuner *u, const struct mr_strategy *s,
		    double seconds)
{
	return packing(u, s) + filling(u, s) + lasts(u, s, seconds) * u->scale;
}

/* Is there the time to make its set and to measure it? For what takes little,
 * always: what is chosen should have been measured. */
static bool in_time(const struct mr_tuner *u, int i)
{
	double more = takes(u, &u->t->strategy[i], PROOF);

	return u->o->exhaustive || more < LITTLE ||
	       mr_tuner_seconds(u) + more < OVER * u->scale;
}

/* For want of memory, or of room for its set? A set is packed here from one
 * that lies beside it: what can fail is the writing. */
static bool lacks_room(const struct mr_tuner *u, const struct mr_strategy *s,
		       int e)
{
	const struct mr_strategy set = mr_strategy_set(s);

	return e == MR_ELIMIT || e == MR_ENOMEM ||
	       (e == MR_EIO && !mr_tuner_has(u, &set));
}

/* What there is no room to measure is left as it was predicted; what the
 * memory does not hold could not be used either. */
static int prove(struct mr_tuner *u, int i, struct mr_err *err)
{
	struct mr_strategy *s = &u->t->strategy[i];
	int e;

	if (s->measured.n || s->tried || !mr_strategy_provable(u->t, s))
		return 0;
	s->tried = true;
	e = measure(u, s, PROOF, u->o->exhaustive ? u->o->repeats : 1,
		    &s->measured, err);
	if (!lacks_room(u, s, e))
		return e;
	s->refused = e != MR_EIO;
	if (!u->passed++)
		u->why = *err;
	return 0;
}

static void note_passed(struct mr_tuner *u)
{
	char n[32];

	if (!u->passed)
		return;
	mr_str_addf(&u->t->notes,
		    "%s %s not measured, for want of room%s: %.*s\n",
		    mr_str_count(n, (unsigned long long)u->passed),
		    u->passed > 1 ? "strategies were" : "strategy was",
		    u->passed > 1 ? "; the first of them" : "",
		    (int)strcspn(u->why.text, "\n"), u->why.text);
}

/* ---- finals ---- */

/* Is there the time for another turn? */
static bool turn_in_time(const struct mr_tuner *u, const int *who, int n)
{
	double end = mr_tuner_seconds(u);

	for (int k = 0; k < n; k++)
		end += takes(u, &u->t->strategy[who[k]], TURN);
	return u->o->exhaustive || end < OVER * u->scale;
}

/* One turn of each. */
static int take_turn(struct mr_tuner *u, const int *who, int n,
		     double mean[FINALISTS], struct mr_err *err)
{
	int e = 0;

	for (int k = 0; !e && k < n; k++) {
		struct mr_figure f = { 0 };

		e = measure(u, &u->t->strategy[who[k]],
			    u->o->exhaustive ? LONG_TURN : TURN, 1, &f, err);
		if (lacks_room(u, &u->t->strategy[who[k]], e))
			e = 0;
		/* A cache that was not filled this time tells nothing. */
		mean[k] = f.n ? f.mean : u->t->strategy[who[k]].measured.mean;
	}
	return e;
}

/* Those at the top, in turns, so that what else the machine does falls on all
 * of them alike. */
static int finals(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	double mean[TURNS][FINALISTS], of[TURNS];
	int who[FINALISTS], n = 0, turns = 0, e = 0;

	while (t->best >= 0 && n < FINALISTS &&
	       (who[n] = mr_tuning_finalist(t, who, n)) >= 0)
		n++;
	if (n < 2)
		return 0;
	while (!e && turns < TURNS && turn_in_time(u, who, n))
		e = take_turn(u, who, n, mean[turns++], err);
	if (e || turns < 2)
		return e;
	for (int k = 0; k < n; k++) {
		for (int i = 0; i < turns; i++)
			of[i] = mean[i][k];
		t->strategy[who[k]].measured = mr_figure_of(of, turns);
	}
	mr_tuning_judge(t);
	return 0;
}

/* ---- which ---- */

/* Whatever has come to the top by what was measured. */
static int prove_top(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	int e = 0;

	for (int i = 0; !e && i < ROUNDS && t->best >= 0; i++) {
		const struct mr_strategy *best = &t->strategy[t->best];

		if (best->tried || !mr_strategy_provable(t, best) ||
		    !in_time(u, t->best))
			break;
		e = prove(u, t->best, err);
		mr_tuning_judge(t);
	}
	return e;
}

/* The extremes and the first few. */
static int prove_best(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	int e = 0;

	if (t->online >= 0)
		e = prove(u, t->online, err);
	if (!e && t->offline >= 0)
		e = prove(u, t->offline, err);
	for (int i = 0; !e && i < BEST; i++) {
		int k = mr_tuning_next(t);

		if (k < 0 || !in_time(u, k))
			break;
		e = prove(u, k, err);
	}
	mr_tuning_judge(t);
	return e;
}

/* All of them, those of one set after another. */
static int prove_all(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	int e = 0;

	for (int i = 0; !e && i < t->strategies; i++) {
		struct mr_strategy s = mr_strategy_set(&t->strategy[i]), next;
		bool last = i + 1 == t->strategies;

		if (!last) {
			next = mr_strategy_set(&t->strategy[i + 1]);
			last = next.split != s.split || next.codec != s.codec;
		}
		u->part = (i + 1.0) / t->strategies;
		e = prove(u, i, err);
		if (last && s.codec > 0)
			mr_tuner_drop(u, &s);
	}
	mr_tuning_judge(t);
	return e;
}

int mr_tuner_prove(struct mr_tuner *u, struct mr_err *err)
{
	int e;

	mr_tuning_judge(u->t);
	e = u->o->exhaustive ? prove_all(u, err) : prove_best(u, err);
	if (!e)
		e = prove_top(u, err);
	if (!e)
		e = finals(u, err);
	if (!e)
		e = prove_top(u, err);
	note_passed(u);
	return e;
}
