/* SPDX-License-Identifier: Apache-2.0 */
/* The best few, and the extremes, for real: on the sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tune/tuner.h"

enum { BEST = 3, ROUNDS = 6, REPEATS = 3 };

#define PROOF 1.5 /* seconds, at a scale of 1 */

/* Can it be seen here? A page cache that holds a part needs a storage that is
 * imitated. */
static bool provable(const struct mr_tuning *t, const struct mr_strategy *s)
{
	return s->cache != MR_CACHE_PAGE || *t->profile || s->cache_share >= 1;
}

/* The storage as the strategy has it. */
static void storage_of(const struct mr_tuner *u, const struct mr_strategy *s,
		       char *to, size_t cap)
{
	const struct mr_tuning *t = u->t;

	snprintf(to, cap, "%s", t->profile);
	if (s->cache == MR_CACHE_PAGE && *t->profile)
		snprintf(to, cap, "%s,cache=%.0f", t->profile,
			 1 + s->cache_share * (double)t->sampled *
					 mr_strategy_bytes(t, s) * 1.02);
}

/* Several times from the start; the interval is that of the means. */
static int time_often(struct mr_tuner *u, const struct mr_timed *r,
		      struct mr_figure *f, struct mr_err *err)
{
	double mean[REPEATS];
	int e = 0;

	for (int i = 0; !e && i < REPEATS; i++) {
		e = mr_tuner_time(u, r, f, NULL, err);
		mean[i] = f->mean;
	}
	if (!e)
		*f = mr_figure_of(mean, REPEATS);
	return e;
}

static int time_one(struct mr_tuner *u, struct mr_strategy *s, const char *dir,
		    struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	double part = (double)t->sampled / (double)t->samples;
	char profile[256],
		*text = mr_strategy_text(t, s, dir, s->cache_bytes * part);
	struct mr_timed r = {
		.text = text,
		.threads = s->threads,
		.order = s->order,
		.block = mr_tuning_block(t, s, t->sampled),
		.subset = t->split[s->split].stage < 0 ? t->sampled : 0,
		.storage = profile,
		.fill = s->cache != MR_CACHE_NONE || u->wide,
		.evict = !*t->profile && s->cache == MR_CACHE_NONE &&
			 (t->split[s->split].stage >= 0 || !u->remote),
		.seconds = PROOF
	};
	int e;

	if (!text)
		return mr_err_nomem(err, 1);
	storage_of(u, s, profile, sizeof(profile));
	e = u->o->exhaustive ? time_often(u, &r, &s->measured, err) :
			       mr_tuner_time(u, &r, &s->measured, NULL, err);
	free(text);
	return e;
}

static int prove(struct mr_tuner *u, int i, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	struct mr_strategy *s = &t->strategy[i];
	struct mr_str words = { 0 };
	char dir[4096] = "";
	int e = 0;

	if (s->measured.n || !provable(t, s))
		return 0;
	mr_strategy_words(t, s, &words);
	if (mr_tuner_tell(u, words.text))
		e = mr_err_set(err, MR_ESTATE, "stopped");
	if (!e && t->split[s->split].stage >= 0)
		e = mr_tuner_store(u, s, dir, sizeof(dir), NULL, NULL, err);
	if (!e)
		e = time_one(u, s, dir, err);
	if (e && e != MR_ESTATE)
		mr_err_prefix(err, "%s: ", words.text ? words.text : "");
	u->what = "";
	mr_str_fini(&words);
	return e;
}

/* The best that has not been measured, unlike all that have; -1: there is
 * none. */
static int next_best(const struct mr_tuning *t)
{
	int best = -1;

	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];
		bool known = !s->allowed || s->threads != t->threads ||
			     !provable(t, s);

		for (int k = 0; k < t->strategies && !known; k++)
			known = t->strategy[k].measured.n &&
				mr_strategy_alike(s, &t->strategy[k]);
		if (!known && (best < 0 || s->score > t->strategy[best].score))
			best = i;
	}
	return best;
}

/* The extremes and the first few; then whatever has come to the top by it. */
static int prove_best(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	int e = 0;

	if (t->online >= 0)
		e = prove(u, t->online, err);
	if (!e && t->offline >= 0)
		e = prove(u, t->offline, err);
	for (int i = 0; !e && i < BEST; i++) {
		int k = next_best(t);

		if (k < 0)
			break;
		e = prove(u, k, err);
	}
	mr_tuning_judge(t);
	for (int i = 0; !e && i < ROUNDS && t->best >= 0; i++) {
		const struct mr_strategy *best = &t->strategy[t->best];

		if (best->measured.n || !provable(t, best))
			break;
		e = prove(u, t->best, err);
		mr_tuning_judge(t);
	}
	return e;
}

/* All that differ in more than threads, those of one set after another. */
static int prove_all(struct mr_tuner *u, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	int e = 0;

	for (int i = 0; !e && i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];
		bool last = i + 1 == t->strategies || s[1].split != s->split ||
			    s[1].codec != s->codec;

		u->part = (i + 1.0) / t->strategies;
		if (s->threads == t->threads)
			e = prove(u, i, err);
		if (last && s->codec > 0) {
			char dir[4200];

			snprintf(dir, sizeof(dir), "%s/%d-%d", u->scratch.path,
				 s->split, s->codec);
			mr_scratch_drop(dir);
		}
	}
	mr_tuning_judge(t);
	return e;
}

int mr_tuner_prove(struct mr_tuner *u, struct mr_err *err)
{
	mr_tuning_judge(u->t);
	return u->o->exhaustive ? prove_all(u, err) : prove_best(u, err);
}
