/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures: a part of the samples is stored, the others go through all steps.
 * They win where there is room or time for a part only, or where what is
 * stored keeps the storage busy and what is not the CPU.
 */
#include <math.h>
#include <stdlib.h>

#include "tune/tuning.h"

/* By how much a mixture must be better than all that is simpler. */
#define WORTH 1.03

enum { SHARES = 20 };

static struct mr_strategy *same(const struct mr_tuning *t,
				const struct mr_strategy *s)
{
	for (int i = 0; i < t->strategies; i++)
		if (mr_strategy_alike(&t->strategy[i], s) &&
		    t->strategy[i].threads == s->threads)
			return &t->strategy[i];
	return NULL;
}

/* The part that the limits leave of what would be stored. */
static double room(const struct mr_tuning *t, struct mr_strategy s)
{
	const struct mr_tune_goal *g = &t->goal;
	double most = 1, bytes = mr_goal_storage(g);

	s.part = 1;
	mr_strategy_judge(t, &s);
	if (bytes > 0 && s.added > 0)
		most = fmin(most, bytes / s.added);
	if (g->max_prepare > 0 && s.offline > 0)
		most = fmin(most, g->max_prepare / s.offline);
	return most;
}

static void try_part(const struct mr_tuning *t, struct mr_strategy *best,
		     double part)
{
	struct mr_strategy s = *best;

	/* as many samples as can be said, for the sample and for all */
	s.part = floor(part * (double)t->sampled) / (double)t->sampled;
	if (!(s.part > 0) || s.part >= 1)
		return;
	mr_strategy_judge(t, &s);
	if (s.allowed &&
	    (!(best->part > 0) ||
	     mr_strategy_price(t, &s) < mr_strategy_price(t, best)))
		*best = s;
}

/* Sets best->part, or leaves it 0. */
static void find_part(const struct mr_tuning *t, struct mr_strategy *best)
{
	double most = room(t, *best);

	best->part = 0;
	for (int i = 1; i < SHARES; i++)
		if ((double)i / SHARES < most)
			try_part(t, best, (double)i / SHARES);
	try_part(t, best, most);
}

static double least_price(const struct mr_tuning *t)
{
	double least = INFINITY;

	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];

		if (!s->mixed && s->allowed && s->threads == t->threads)
			least = fmin(least, mr_strategy_price(t, s));
	}
	return least;
}

/* Those that were not measured are thought of anew, unless it was in vain. */
static void forget(struct mr_tuning *t)
{
	while (t->strategies && t->strategy[t->strategies - 1].mixed &&
	       !t->strategy[t->strategies - 1].measured.n &&
	       !t->strategy[t->strategies - 1].tried)
		t->strategies--;
}

void mr_tuning_mix(struct mr_tuning *t)
{
	double least;
	struct mr_err ignored;

	forget(t);
	if (!t->mixes || t->goal.weighted)
		return;
	least = least_price(t);
	for (int k = 1; k < t->splits; k++) {
		for (int c = 0; c < t->split[k].codecs; c++) {
			struct mr_strategy s = { .mixed = true,
						 .with = k,
						 .with_codec = c,
						 .threads = t->threads,
						 .order = t->order };

			if (same(t, &s))
				continue;
			find_part(t, &s);
			if (s.part > 0 &&
			    mr_strategy_price(t, &s) * WORTH < least &&
			    mr_tuning_add(t, &s, &ignored))
				return;
		}
	}
}
