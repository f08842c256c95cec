/* SPDX-License-Identifier: Apache-2.0 */
/* Which strategy is the best, by the goal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tune/tuning.h"

/* Differences below are not worth anything, and not certain either. */
#define TIE	  0.02
#define TIE_SCORE 0.01
/* What is further behind is not as good, however unsure it was measured. */
#define TIE_MOST 0.1

enum { EVEN_OF = 6 };

double mr_tuning_epoch(const struct mr_tuning *t)
{
	return (double)t->samples / (double)(t->ranks > 1 ? t->ranks : 1);
}

static double epoch_total(const struct mr_tuning *t,
			  const struct mr_strategy *s, double epochs)
{
	double n = mr_tuning_epoch(t);

	return s->offline + n / s->cold + (epochs - 1) * n / s->warm;
}

/* ---- what was measured corrects what was predicted ---- */

/* Of the same split, and read in the same way. */
static bool of_a_kind(const struct mr_strategy *a, const struct mr_strategy *b)
{
	return a->split == b->split && a->order == b->order &&
	       a->cache == b->cache && a->mixed == b->mixed &&
	       (!a->mixed || a->with == b->with);
}

/*
 * By how much the model is off: for a strategy that was measured, exactly; for
 * others, as for those of their kind.
 */
static double measured_so(const struct mr_tuning *t,
			  const struct mr_strategy *s)
{
	double sum = 0;
	int n = 0;

	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *m = &t->strategy[i];

		if (!m->measured.n || !of_a_kind(m, s))
			continue;
		if (mr_strategy_alike(m, s) && m->threads == s->threads)
			return m->measured.mean / m->sampled;
		sum += log(m->measured.mean / m->sampled);
		n++;
	}
	return n ? exp(sum / n) : 0;
}

/* A mixture's as its two parts have it. */
static double correction(const struct mr_tuning *t, const struct mr_strategy *s)
{
	struct mr_strategy set = mr_strategy_set(s), others = *s;
	double c = measured_so(t, s);

	if (c > 0)
		return c;
	if (!s->mixed)
		return 1;
	others.mixed = false;
	return pow(correction(t, &set), s->part) *
	       pow(correction(t, &others), 1 - s->part);
}

/* What the accelerator takes. */
static double of_use(const struct mr_tuning *t, double rate)
{
	double most = t->goal.accelerator;

	return most > 0 && rate > most ? most : rate;
}

static void correct(const struct mr_tuning *t, struct mr_strategy *s)
{
	struct mr_strategy first = *s;

	/* The first epoch of a cache is as if there were none. */
	first.cache = MR_CACHE_NONE;
	s->cold = of_use(t, s->cold * correction(t, &first));
	s->warm = of_use(t, s->warm * correction(t, s));
}

/* ---- the goal ---- */

double mr_goal_storage(const struct mr_tune_goal *g)
{
	return g->room > 0 && !(g->max_storage > 0 &&
				g->max_storage < g->room) ?
		       g->room :
		       g->max_storage;
}

static void weigh_cost(const struct mr_tuning *t, struct mr_strategy *s)
{
	const struct mr_tune_goal *g = &t->goal;
	double most = mr_goal_storage(g);

	s->total = epoch_total(t, s, g->epochs);
	s->cost =
		s->total / 3600 * g->price_hour + s->added / 1e9 * g->price_gb;
	s->allowed = (!(most > 0) || s->added <= most) &&
		     (!(g->max_prepare > 0) || s->offline <= g->max_prepare) &&
		     !s->refused && isfinite(s->total);
}

double mr_strategy_price(const struct mr_tuning *t, const struct mr_strategy *s)
{
	return t->goal.price_hour > 0 || t->goal.price_gb > 0 ? s->cost :
								s->total;
}

struct range {
	double low, high;
};

static void widen(struct range *r, double v)
{
	if (v < r->low)
		r->low = v;
	if (v > r->high)
		r->high = v;
}

/* 0 for the lowest, 1 for the highest; all equal: none is the better one. */
static double within(const struct range *r, double v)
{
	return r->high > r->low ? (v - r->low) / (r->high - r->low) : 0;
}

/* Those with fewer threads are there to be compared. */
static bool candidate(const struct mr_tuning *t, const struct mr_strategy *s)
{
	return s->allowed && s->threads == t->threads;
}

static void score_weights(struct mr_tuning *t)
{
	const double *w = t->goal.weight;
	struct range time = { INFINITY, -INFINITY }, room = time, rate = time;
	double all = w[0] + w[1] + w[2];

	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];

		if (!candidate(t, s))
			continue;
		widen(&time, s->offline);
		widen(&room, s->storage);
		widen(&rate, s->warm);
	}
	for (int i = 0; i < t->strategies; i++) {
		struct mr_strategy *s = &t->strategy[i];

		s->score =
			(w[0] * (1 - within(&time, s->offline)) +
			 w[1] * (1 - within(&room, s->storage)) +
			 w[2] * (rate.high > rate.low ? within(&rate, s->warm) :
							1)) /
			all;
	}
}

static void score_epochs(struct mr_tuning *t)
{
	double least = INFINITY;

	for (int i = 0; i < t->strategies; i++)
		if (candidate(t, &t->strategy[i]))
			least = fmin(least,
				     mr_strategy_price(t, &t->strategy[i]));
	for (int i = 0; i < t->strategies; i++) {
		struct mr_strategy *s = &t->strategy[i];
		double p = mr_strategy_price(t, s);

		s->score = p > 0 && isfinite(least) ? least / p : 0;
	}
}

/* ---- the best ---- */

/* Of two that are as good: the simpler one. Nothing in it was timed, so that
 * two runs agree. */
static int simpler(const struct mr_tuning *t, const struct mr_strategy *a,
		   const struct mr_strategy *b)
{
	bool plain_a = a->codec == 0, plain_b = b->codec == 0;

	if (a->mixed != b->mixed)
		return a->mixed ? 1 : -1;
	if (a->added != b->added)
		return a->added < b->added ? -1 : 1;
	if (a->cache_bytes != b->cache_bytes)
		return a->cache_bytes < b->cache_bytes ? -1 : 1;
	if (plain_a != plain_b)
		return plain_a ? -1 : 1;
	return (a->order != t->order) - (b->order != t->order);
}

static bool as_good(const struct mr_tuning *t, const struct mr_strategy *s,
		    double best)
{
	return t->goal.weighted ? s->score >= best - TIE_SCORE :
				  s->score >= best / (1 + TIE);
}

/* Half of its interval, as a share. */
static double doubt(const struct mr_strategy *s)
{
	const struct mr_figure *f = &s->measured;

	return f->n > 1 ? fmin((f->high - f->low) / 2 / f->mean, TIE_MOST) : 0;
}

/* Not worse than the best one, as far as measuring can tell: another run might
 * put it first. */
static bool may_be_as_good(const struct mr_tuning *t,
			   const struct mr_strategy *s, double top)
{
	const struct mr_strategy *best = &t->strategy[t->best];

	return as_good(t, s, top) ||
	       (s->measured.n && best->measured.n &&
		s->score >= best->score * (1 - TIE_MOST) &&
		s->score * (1 + doubt(s)) >= best->score * (1 - doubt(best)));
}

static void find_best(struct mr_tuning *t)
{
	double top = -1;

	t->best = -1;
	for (int i = 0; i < t->strategies; i++)
		if (candidate(t, &t->strategy[i]) && t->strategy[i].score > top)
			top = t->strategy[i].score;
	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];

		if (candidate(t, s) && as_good(t, s, top) &&
		    (t->best < 0 || simpler(t, s, &t->strategy[t->best]) < 0))
			t->best = i;
	}
	t->ties = 0;
	for (int i = 0; i < t->strategies && t->best >= 0; i++) {
		const struct mr_strategy *s = &t->strategy[i];
		bool known = mr_strategy_alike(s, &t->strategy[t->best]);

		for (int k = 0; k < t->ties; k++)
			known |= mr_strategy_alike(s, &t->strategy[t->tie[k]]);
		if (!known && candidate(t, s) && may_be_as_good(t, s, top) &&
		    t->ties < MR_TUNE_SHOWN)
			t->tie[t->ties++] = i;
	}
}

/* ---- the front ---- */

/* Is a as good as b in every respect, and better in one? */
static bool beats(const struct mr_tuning *t, const struct mr_strategy *a,
		  const struct mr_strategy *b)
{
	double da = a->added, db = b->added;

	/* Another order than the one asked for is a price, too. */
	if (a->order != t->order && b->order == t->order)
		return false;
	return a->warm >= b->warm && a->cold >= b->cold && da <= db &&
	       a->offline <= b->offline && a->cache_bytes <= b->cache_bytes &&
	       (a->warm > b->warm || a->cold > b->cold || da < db ||
		a->offline < b->offline || a->cache_bytes < b->cache_bytes ||
		a < b);
}

static void find_front(struct mr_tuning *t)
{
	for (int i = 0; i < t->strategies; i++) {
		struct mr_strategy *s = &t->strategy[i];

		s->pareto = candidate(t, s);
		for (int k = 0; k < t->strategies && s->pareto; k++)
			s->pareto = k == i || !candidate(t, &t->strategy[k]) ||
				    !beats(t, &t->strategy[k], s);
	}
}

/* ---- what to show ---- */

static void show(struct mr_tuning *t, int i)
{
	for (int k = 0; k < t->shown; k++)
		if (t->show[k] == i)
			return;
	if (i >= 0 && t->shown < MR_TUNE_SHOWN)
		t->show[t->shown++] = i;
}

static void sort_shown(struct mr_tuning *t)
{
	for (int i = 1; i < t->shown; i++)
		for (int k = i;
		     k > 1 && t->strategy[t->show[k]].score >
				      t->strategy[t->show[k - 1]].score;
		     k--) {
			int swap = t->show[k];

			t->show[k] = t->show[k - 1];
			t->show[k - 1] = swap;
		}
}

static void choose_shown(struct mr_tuning *t)
{
	t->shown = 0;
	show(t, t->best);
	show(t, t->online);
	show(t, t->usual);
	show(t, t->offline);
	for (int i = 0; i < t->strategies; i++)
		if (t->strategy[i].measured.n && t->shown < 10)
			show(t, i);
	/* The fastest of each split, in the order that is asked for. */
	for (int k = 0; k < t->splits; k++) {
		int best = -1;

		for (int i = 0; i < t->strategies; i++) {
			const struct mr_strategy *s = &t->strategy[i];

			if (s->split == k && !s->mixed && candidate(t, s) &&
			    (best < 0 || s->score > t->strategy[best].score))
				best = i;
		}
		show(t, best);
	}
	sort_shown(t);
}

/* From which epoch on is a ahead of b, which is ahead at first? */
static void add_even(struct mr_tuning *t, int a, int b)
{
	const struct mr_strategy *x = &t->strategy[a], *y = &t->strategy[b];
	double n = mr_tuning_epoch(t);
	double first = epoch_total(t, x, 1) - epoch_total(t, y, 1);
	double each = n / y->warm - n / x->warm;

	if (first > 0 && each > 0 && t->evens < MR_TUNE_EVEN)
		t->even[t->evens++] =
			(struct mr_tune_even){ a, b, 1 + first / each };
}

static void find_evens(struct mr_tuning *t)
{
	int n = t->shown < EVEN_OF ? t->shown : EVEN_OF;

	t->evens = 0;
	if (t->best >= 0 && t->usual >= 0 && t->usual != t->online)
		add_even(t, t->best, t->usual);
	/* Against all online, each; then the first few among themselves. */
	for (int i = 0; i < t->shown && t->online >= 0; i++)
		add_even(t, t->show[i], t->online);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			if (i != k && t->show[k] != t->online &&
			    (t->show[i] != t->best || t->show[k] != t->usual))
				add_even(t, t->show[i], t->show[k]);
}

/* With all threads, in the order asked for, as it is. */
static int extreme(const struct mr_tuning *t, int split,
		   enum mr_tune_cache cache)
{
	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];

		if (s->split == split && s->codec == 0 && !s->mixed &&
		    s->order == t->order && s->threads == t->threads &&
		    s->cache == cache)
			return i;
	}
	return -1;
}

static int find_usual(const struct mr_tuning *t)
{
	int i = extreme(t, 0, MR_CACHE_PAGE);

	return i >= 0 && t->strategy[i].cache_share >= 1 ? i : t->online;
}

void mr_strategy_judge(const struct mr_tuning *t, struct mr_strategy *s)
{
	mr_strategy_predict(t, s);
	correct(t, s);
	weigh_cost(t, s);
}

void mr_tuning_judge(struct mr_tuning *t)
{
	for (int i = 0; i < t->strategies; i++)
		mr_strategy_judge(t, &t->strategy[i]);
	mr_tuning_mix(t);
	if (t->goal.weighted)
		score_weights(t);
	else
		score_epochs(t);
	t->online = extreme(t, 0, MR_CACHE_NONE);
	t->usual = find_usual(t);
	t->offline =
		t->splits > 1 ? extreme(t, t->splits - 1, MR_CACHE_NONE) : -1;
	find_best(t);
	find_front(t);
	choose_shown(t);
	find_evens(t);
}

void mr_tuning_fini(struct mr_tuning *t)
{
	free(t->pipeline);
	free(t->tail);
	for (int i = 0; i < t->stages; i++)
		free(t->word[i]);
	free(t->strategy);
	mr_str_fini(&t->notes);
	mr_str_fini(&t->job_also);
	mr_str_fini(&t->store_also);
}
