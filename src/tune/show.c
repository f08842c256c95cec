/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning for people. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tune/tuning.h"

enum { LINES = 12 };

/* "1.3 s", "4.2 min", "7.5 h"; buf holds 32. */
static const char *span(char *buf, double s)
{
	if (!(s >= 0) || isinf(s))
		snprintf(buf, 32, "?");
	else if (s < 100)
		snprintf(buf, 32, "%.3g s", s);
	else if (s < 6000)
		snprintf(buf, 32, "%.3g min", s / 60);
	else
		snprintf(buf, 32, "%.3g h", s / 3600);
	return buf;
}

static const char *rate(char *buf, double v)
{
	if (v < 10)
		snprintf(buf, 32, "%.2f", v);
	else
		mr_str_count(buf, (unsigned long long)(v + 0.5));
	return buf;
}

static void add_head(const struct mr_tuning *t, struct mr_str *o)
{
	const struct mr_tune_goal *g = &t->goal;
	char a[32], b[32];

	mr_str_addf(o, "%s sample%s of %s; storage %s%s; ",
		    mr_str_count(a, t->samples), t->samples == 1 ? "" : "s",
		    mr_str_size(b, t->split[0].bytes),
		    *t->profile ? "as " : "as it is", t->profile);
	if (t->memory > 0)
		mr_str_addf(o, "%s for caches; ", mr_str_size(a, t->memory));
	else
		mr_str_add(o, "no caches; ");
	if (g->weighted)
		mr_str_addf(o, "weights %g, %g, %g", g->weight[0], g->weight[1],
			    g->weight[2]);
	else
		mr_str_addf(o, "%.0f epochs", g->epochs);
	if (g->accelerator > 0)
		mr_str_addf(o, "; an accelerator of %s/s",
			    rate(a, g->accelerator));
	mr_str_addf(o, "\n%d strategies from a look at %s sample%s, %.0f s\n\n",
		    t->strategies, mr_str_count(a, t->sampled),
		    t->sampled == 1 ? "" : "s", t->seconds);
}

/* Splits, as they were measured. */
static void add_splits(const struct mr_tuning *t, struct mr_str *o)
{
	mr_str_addf(o, "%-18s %10s %12s %12s %12s  %s\n", "stored after",
		    "a sample", "made/s", "rest/s", "1 thread/s", "packs best");
	for (int i = 0; i < t->splits; i++) {
		const struct mr_tune_split *s = &t->split[i];
		char size[32], made[32], rest[32], one[32];
		int best = 0;

		for (int k = 1; k < s->codecs; k++)
			if (s->codec[k].ratio > s->codec[best].ratio)
				best = k;
		mr_str_addf(o, "%-18s %10s %12s %12s %12s  ",
			    i ? s->name : "(nothing)",
			    mr_str_size(size, s->bytes),
			    i ? rate(made, s->offline.mean) : "",
			    rate(rest, s->curve[s->points - 1].rate.mean),
			    rate(one, s->curve[0].rate.mean));
		if (best)
			mr_str_addf(o, "%.1fx %s\n", s->codec[best].ratio,
				    s->codec[best].name);
		else
			mr_str_add(o, i ? "nothing gains\n" : "\n");
	}
	mr_str_add(o, "(made/s: samples that are stored a second; rest/s: "
		      "through the steps that are left,\n"
		      " from memory, by all threads, and by 1 thread; packs "
		      "best: the codec that makes\n them smallest)\n\n");
}

/* Letters of the longest one that is shown. */
static int width(const struct mr_tuning *t)
{
	size_t most = strlen("strategy");

	for (int i = 0; i < t->shown && i < LINES; i++) {
		struct mr_str words = { 0 };

		mr_strategy_words(t, &t->strategy[t->show[i]], &words);
		if (words.len > most)
			most = words.len;
		mr_str_fini(&words);
	}
	return (int)most;
}

static void add_strategy(const struct mr_tuning *t, int id, int wide,
			 struct mr_str *o)
{
	const struct mr_strategy *s = &t->strategy[id];
	struct mr_str words = { 0 };
	char size[32], make[32], fast[32], all[32];

	mr_strategy_words(t, s, &words);
	mr_str_addf(o, "%s %-*s %9s %8s %11s %9s", id == t->best ? "*" : " ",
		    wide, words.text ? words.text : "",
		    mr_str_size(size, s->storage),
		    s->added > 0 ? span(make, s->offline) : "-",
		    rate(fast, s->warm), span(all, s->total));
	if (s->measured.n)
		mr_str_addf(o, "  %+.0f %%",
			    100 * (s->sampled / s->measured.mean - 1));
	mr_str_addf(o, "%s\n", s->allowed ? "" : "  over a limit");
	mr_str_fini_into(&words, o);
}

static void add_shown(const struct mr_tuning *t, struct mr_str *o)
{
	int wide = width(t);
	char n[32];

	snprintf(n, sizeof(n), "%.0f epochs", t->goal.epochs);
	mr_str_addf(o, "  %-*s %9s %8s %11s %9s  %s\n", wide, "strategy",
		    "reads", "once", "samples/s", n, "model off by");
	for (int i = 0; i < t->shown && i < LINES; i++)
		add_strategy(t, t->show[i], wide, o);
	mr_str_add(o, "(reads: what an epoch is read from; once: the time to "
		      "make that; samples/s: from the\n second epoch on; model "
		      "off by: of those that were measured, what was predicted "
		      "of\n them against it)\n");
	if (t->ties) {
		mr_str_add(o, "As good, as far as this can tell:");
		for (int i = 0; i < t->ties && i < 3; i++) {
			mr_str_add(o, i ? "; " : " ");
			mr_strategy_words(t, &t->strategy[t->tie[i]], o);
		}
		if (t->ties > 3)
			mr_str_addf(o, "; and %d more", t->ties - 3);
		mr_str_add(o, "\n");
	}
	mr_str_add(o, "\n");
}

static void add_commands(const struct mr_tuning *t, const char *dir,
			 struct mr_str *o)
{
	const struct mr_strategy *s = &t->strategy[t->best];
	struct mr_str prepare = { 0 };

	mr_strategy_prepare(t, s, dir, &prepare);
	if (prepare.text)
		mr_str_addf(o, "  %s\n", prepare.text);
	mr_str_add(o, "  ");
	mr_strategy_run(t, s, dir, o);
	mr_str_add(o, "\n");
	if (prepare.text && !strcmp(dir, "DIR"))
		mr_str_add(o, "or --apply DIR, which makes the set and checks "
			      "that batches are the same\n");
	mr_str_fini_into(&prepare, o);
}

char *mr_tuning_text(const struct mr_tuning *t, const char *dir)
{
	struct mr_str o = { 0 };

	add_head(t, &o);
	mr_str_add(&o, "best: ");
	mr_tuning_answer(t, &o);
	mr_str_add(&o, "\n\n");
	add_shown(t, &o);
	add_splits(t, &o);
	if (t->best >= 0)
		add_commands(t, dir, &o);
	if (t->notes.len)
		mr_str_addf(&o, "\n%s", t->notes.text);
	return mr_str_take(&o);
}
