/* SPDX-License-Identifier: Apache-2.0 */
/* Which strategies are to be measured. */
#include "tune/tuning.h"

#define NEAR 0.1 /* the best one: finalists */

bool mr_strategy_provable(const struct mr_tuning *t,
			  const struct mr_strategy *s)
{
	return s->cache != MR_CACHE_PAGE || *t->profile || s->cache_share >= 1;
}

int mr_tuning_next(const struct mr_tuning *t)
{
	int best = -1;

	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];
		bool known = !s->allowed || s->threads != t->threads ||
			     s->tried || !mr_strategy_provable(t, s);

		for (int k = 0; k < t->strategies && !known; k++)
			known = t->strategy[k].measured.n &&
				mr_strategy_alike(s, &t->strategy[k]);
		if (!known && (best < 0 || s->score > t->strategy[best].score))
			best = i;
	}
	return best;
}

int mr_tuning_finalist(const struct mr_tuning *t, const int *have, int n)
{
	int next = -1;

	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];
		bool out = !s->allowed || !s->measured.n ||
			   s->threads != t->threads ||
			   s->score < t->strategy[t->best].score * (1 - NEAR);

		for (int k = 0; k < n; k++)
			out |= have[k] == i;
		if (!out && (next < 0 || s->score > t->strategy[next].score))
			next = i;
	}
	return next;
}
