/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/trial.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/param.h"
#include "pipe/loader.h"

/* Seconds at first that are not counted, at a scale of 1. */
#define SETTLE	    0.4
#define SETTLE_SLOW 0.7

enum { ROUNDS = 8 }; /* cold ones, at most */

double mr_trial_limit(const struct mr_setup *w, double seconds)
{
	return seconds * (w->scale > 1 ? w->scale : 1);
}

int mr_trial_threads(int n, int most)
{
	return n < most && 2 * n > most ? most : 2 * n;
}

/* ---- opening ---- */

/* Is there a cache for what is only read? */
static bool holds(const struct mr_setup *w, const struct mr_trial *t)
{
	return t->in_memory && w->hold > 0;
}

/* To be freed; NULL when out of memory. */
static char *text_of(const struct mr_setup *w, const struct mr_trial *t)
{
	const struct mr_job *j = w->job;
	struct mr_str s = { 0 };

	mr_str_add(&s, j->source);
	if (holds(w, t))
		mr_str_addf(&s, " | cache ram=%.0f", w->hold);
	if (t->parts == MR_TRIAL_SOURCE) {
		mr_str_addf(&s, " | batch %d",
			    j->batch < 16 ? (int)j->batch : 16);
		return mr_str_take(&s);
	}
	if (*j->before)
		mr_str_addf(&s, " | %s", j->before);
	if (t->parts == MR_TRIAL_CACHE)
		mr_str_addf(&s, " | cache ram=%.0f", t->ram);
	if (*j->after)
		mr_str_addf(&s, " | %s", j->after);
	return mr_str_take(&s);
}

/* What made-up samples cost stands for their preparation, not for a read. */
static int free_of_charge(const struct mr_edit *edit, struct mr_pipeline *p,
			  struct mr_err *err)
{
	const struct mr_source *s = p->stage[0].source;
	const struct mr_param *cost = mr_param_find(s->params, "cost");

	(void)edit;
	if (!(s->flags & MR_SOURCE_MADE) || !cost)
		return 0;
	return mr_param_set(cost, p->stage[0].self, "0", NULL, err);
}

int mr_trial_open(const struct mr_setup *w, const struct mr_trial *t,
		  struct mr_loader **l, struct mr_err *err)
{
	struct mr_options opt = w->job->opt;
	const struct mr_edit no_cost = { .apply = free_of_charge };
	char *text = text_of(w, t);
	int e;

	*l = NULL;
	if (!text)
		return mr_err_nomem(err, 1);
	opt.subset = w->subset;
	opt.storage = t->storage;
	opt.cold = false;
	if (t->threads)
		opt.threads = t->threads;
	if (t->ahead)
		opt.fetch = MR_FETCH_AHEAD;
	e = mr_loader_open_edited(l, text, &opt,
				  t->parts == MR_TRIAL_SOURCE ? &no_cost : NULL,
				  err);
	free(text);
	return e;
}

/* ---- measuring ---- */

struct mr_pace mr_trial_pace(const struct mr_setup *w, const struct mr_trial *t)
{
	/* Reading ahead takes a while to find out what is in its way. */
	bool slow = t->storage && *t->storage;
	double few = w->scale < 1.0 / 3 ? 3 * w->scale : 1;

	return (struct mr_pace){
		.step = t->paced ? w->step : 0,
		.batch = w->job->batch,
		.seconds = t->seconds * w->scale,
		.until = w->until,
		.warm = slow ? SETTLE_SLOW * few : SETTLE * w->scale,
		.to_end = t->evict,
		.whole = t->whole,
		.stop = w->stop,
		.data = w->data,
	};
}

int mr_trial_rest(struct mr_loader *l, struct mr_err *err)
{
	struct mr_state at;

	mr_loader_state(l, &at);
	return mr_loader_seek(l, &at, err);
}

static int fill(const struct mr_setup *w, const struct mr_trial *t,
		struct mr_loader *l, bool *unfilled, struct mr_err *err)
{
	struct mr_pace pace = mr_trial_pace(w, t);
	int e = 0;

	if (l->shape)
		mr_shape_pause(l->shape, true);
	for (int i = 0; !e && i < (t->epochs ? t->epochs : 1); i++)
		e = mr_pace_skip(l, mr_loader_epoch_samples(l),
				 mr_trial_limit(w, MR_TRIAL_FILL), &pace, NULL,
				 err);
	*unfilled = e == MR_AGAIN;
	if (!e || *unfilled)
		e = mr_trial_rest(l, err);
	/* Not before: what is in flight would take its turns. */
	if (l->shape)
		mr_shape_pause(l->shape, false);
	return e;
}

/* Cold rounds: what has been read once is in memory. */
static int run_cold(const struct mr_pace *pace, struct mr_loader *l,
		    struct mr_paced *out, double *stayed, struct mr_err *err)
{
	uint64_t until =
		mr_clock_ns() + (uint64_t)((pace->seconds + pace->warm) * 1e9);
	struct mr_stats st;
	int e, rounds = 0;

	do {
		e = mr_loader_evict(l, NULL, NULL, err);
		if (!e)
			e = mr_trial_rest(l, err);
		if (!e)
			e = mr_pace(l, pace, out, err);
		rounds++;
	} while (!e && mr_clock_ns() < until && rounds < ROUNDS);
	mr_loader_stats(l, &st);
	*stayed = st.cold.unknown || !st.cold.bytes ?
			  -1 :
			  (double)st.cold.stayed / (double)st.cold.bytes;
	return e;
}

int mr_trial_measure(const struct mr_setup *w, const struct mr_trial *t,
		     struct mr_loader *l, struct mr_trial_found *found,
		     struct mr_err *err)
{
	struct mr_pace pace = mr_trial_pace(w, t);
	struct mr_trial_found got = { 0 };
	struct mr_paced paced = { 0 };
	bool first = holds(w, t) && !l->head;
	int e = t->fill || first ? fill(w, t, l, &got.unfilled, err) : 0;

	if (!e && t->evict)
		e = run_cold(&pace, l, &paced, &got.stayed, err);
	else if (!e)
		e = mr_pace(l, &pace, &paced, err);
	if (e)
		return e;
	got.rate = mr_paced_figure(&paced);
	if (paced.short_runs > 0)
		got.start = paced.waited / paced.short_runs;
	*found = got;
	return 0;
}

int mr_trial_run(const struct mr_setup *w, const struct mr_trial *t,
		 struct mr_trial_found *found, struct mr_stats *st,
		 struct mr_err *err)
{
	struct mr_loader *l;
	int e = mr_trial_open(w, t, &l, err);

	if (!e)
		e = mr_trial_measure(w, t, l, found, err);
	if (!e && st)
		mr_loader_stats(l, st);
	mr_loader_close(l);
	return e;
}
