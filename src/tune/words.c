/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies in words, and as pipelines and commands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipe/order.h"
#include "tune/tuning.h"

void mr_strategy_words(const struct mr_tuning *t, const struct mr_strategy *s,
		       struct mr_str *out)
{
	const struct mr_strategy set = mr_strategy_set(s);
	const struct mr_tune_split *sp = &t->split[set.split];
	char size[32];

	if (s->mixed)
		mr_str_addf(out, "%.0f %% ", 100 * s->part);
	if (sp->stage < 0)
		mr_str_add(out, "all online");
	else if (sp->stage == 0)
		mr_str_add(out, "stored as read");
	else
		mr_str_addf(out, "stored after %s", sp->name);
	if (set.codec > 0)
		mr_str_addf(out, ", %s", sp->codec[set.codec].name);
	if (s->mixed)
		mr_str_add(out, ", the rest online");
	if (s->order != t->order)
		mr_str_addf(out, ", %s order", mr_order_names[s->order]);
	if (s->cache == MR_CACHE_PAGE)
		mr_str_addf(out, ", page cache of %s",
			    mr_str_size(size, s->cache_bytes));
	if (s->cache == MR_CACHE_RAM)
		mr_str_addf(out, ", cache of %s after %s",
			    mr_str_size(size, s->cache_bytes),
			    t->split[s->cache_at].stage > 0 ?
				    t->split[s->cache_at].name :
				    "the source");
	if (s->threads != t->threads)
		mr_str_addf(out, ", %d thread%s", s->threads,
			    s->threads > 1 ? "s" : "");
}

/* A folder's name as a word: one with '=' would be a parameter. */
static void add_dir(struct mr_str *out, const char *dir)
{
	mr_str_add_quoted(out, dir, !*dir || strchr(dir, '='));
}

/* So many bytes, or for 0 the strategy's own, in words: rounded up if it is to
 * hold all there is, else down, to keep to what may be used. */
static void add_cache(struct mr_str *out, const struct mr_strategy *s,
		      double bytes)
{
	bool own = !(bytes > 0);
	double unit;

	if (own)
		bytes = s->cache_bytes;
	unit = bytes < 10 << 10 ? 1 : bytes < 10 << 20 ? 1 << 10 : 1 << 20;
	if (bytes < 4096)
		bytes = 4096; /* the least that there is */
	if (!own || unit < 2)
		mr_str_addf(out, " | cache ram=%.0f", bytes);
	else
		mr_str_addf(out, " | cache ram=%.0f%c",
			    s->cache_share < 1 ? floor(bytes / unit) :
						 ceil(bytes / unit),
			    unit > 1 << 10 ? 'M' : 'K');
}

/* Samples that a mixture's set has of so many; a sample's own set may have been
 * packed from another one. */
static uint64_t set_samples(const struct mr_strategy *s, uint64_t of)
{
	return (uint64_t)(s->part * (double)of + 0.5);
}

char *mr_strategy_text(const struct mr_tuning *t, const struct mr_strategy *s,
		       const char *dir, double cache_bytes, uint64_t of)
{
	int at = t->split[s->split].stage;
	int stored = s->mixed ? t->split[s->with].stage : -2;
	int cached =
		s->cache == MR_CACHE_RAM ? t->split[s->cache_at].stage : -2;
	struct mr_str out = { 0 };

	if (at < 0) {
		mr_str_add(&out, t->word[0]);
		at = 0;
	} else {
		mr_str_add(&out, "records ");
		add_dir(&out, dir);
	}
	for (int i = at; i < t->stages; i++) {
		if (i > at)
			mr_str_addf(&out, " | %s", t->word[i]);
		if (i == stored) {
			mr_str_add(&out, " | stored ");
			add_dir(&out, dir);
		}
		if (i == stored && of)
			mr_str_addf(&out, " first=%llu check=no",
				    (unsigned long long)set_samples(s, of));
		if (i == cached)
			add_cache(&out, s, cache_bytes);
	}
	mr_str_addf(&out, " | %s", t->tail);
	return mr_str_take(&out);
}

void mr_strategy_prepare(const struct mr_tuning *t, const struct mr_strategy *s,
			 const char *dir, struct mr_str *out)
{
	const struct mr_strategy set = mr_strategy_set(s);
	const struct mr_tune_split *sp = &t->split[set.split];
	const struct mr_tune_codec *c = &sp->codec[set.codec];

	if (sp->stage < 0)
		return;
	mr_str_add(out, "millrace prepare ");
	mr_str_add_shell(out, t->pipeline);
	mr_str_addf(out, " --until %d --literal", sp->until);
	if (s->mixed)
		mr_str_addf(out, " --first %llu",
			    (unsigned long long)set_samples(s, t->samples));
	if (set.codec > 0) {
		mr_str_addf(out, " --codec %s", c->codec);
		if (c->level >= 0)
			mr_str_addf(out, " --level %d", c->level);
		mr_str_addf(out, " --shuffle %s", c->shuffle ? "yes" : "no");
	}
	mr_str_addf(out, "%s --out ",
		    t->store_also.text ? t->store_also.text : "");
	mr_str_add_shell(out, dir);
}

void mr_strategy_options(const struct mr_tuning *t, const struct mr_strategy *s,
			 struct mr_str *out)
{
	mr_str_addf(out, "--threads %d", s->threads);
	if (s->order != MR_ORDER_SHUFFLE)
		mr_str_addf(out, " --order %s", mr_order_names[s->order]);
	if (s->order == MR_ORDER_BLOCK)
		mr_str_addf(
			out, " --block %llu",
			(unsigned long long)mr_tuning_block(t, s, t->samples));
	mr_str_add(out, t->job_also.text ? t->job_also.text : "");
}

void mr_strategy_run(const struct mr_tuning *t, const struct mr_strategy *s,
		     const char *dir, struct mr_str *out)
{
	char *text = mr_strategy_text(t, s, dir, 0, 0);

	mr_str_add(out, "millrace run ");
	mr_str_add_shell(out, text ? text : "");
	mr_str_add(out, " ");
	mr_strategy_options(t, s, out);
	free(text);
}

void mr_strategy_store(const struct mr_tuning *t, const struct mr_strategy *s,
		       char until[16], struct mr_store_options *o)
{
	const struct mr_strategy set = mr_strategy_set(s);
	const struct mr_tune_split *sp = &t->split[set.split];
	const struct mr_tune_codec *c = &sp->codec[set.codec];

	snprintf(until, 16, "%d", sp->until);
	mr_store_options_init(o);
	o->until = until;
	o->literal = true;
	o->codec = c->codec;
	o->level = c->level;
	o->shuffle = c->shuffle ? MR_SHUFFLE_YES : MR_SHUFFLE_NO;
	o->first = s->mixed ? set_samples(s, t->samples) : 0;
}

/* ---- the answer ---- */

static void gain(const struct mr_tuning *t, struct mr_str *out)
{
	const struct mr_strategy *best = &t->strategy[t->best];
	int than = t->best == t->usual ? t->online : t->usual;
	const struct mr_strategy *online =
		than >= 0 ? &t->strategy[than] : NULL;
	char a[32], b[32];

	mr_str_addf(out, ": %s samples/s",
		    mr_str_count(a, (unsigned long long)(best->warm + 0.5)));
	if (online && best != online && online->warm > 0)
		mr_str_addf(out, ", %.*f times the %s of all online%s",
			    best->warm < 9.95 * online->warm ? 1 : 0,
			    best->warm / online->warm,
			    mr_str_count(b, (unsigned long long)(online->warm +
								 0.5)),
			    online->cache == MR_CACHE_PAGE ?
				    " from the page cache" :
				    " from the storage in every epoch");
}

static void price(const struct mr_tuning *t, struct mr_str *out)
{
	const struct mr_strategy *s = &t->strategy[t->best];
	char size[32];

	if (s->added > 0)
		mr_str_addf(out, ", for %s on disk and %.3g s once",
			    mr_str_size(size, s->added), s->offline);
	if (s->cache == MR_CACHE_RAM)
		mr_str_addf(out, ", with %s of memory",
			    mr_str_size(size, s->cache_bytes));
	for (int i = 0; i < t->evens; i++)
		if (t->even[i].a == t->best && t->even[i].b == t->usual)
			mr_str_addf(out, "; it pays from epoch %.0f on",
				    t->even[i].epoch < 1e9 ?
					    t->even[i].epoch + 0.5 :
					    1e9);
}

void mr_tuning_answer(const struct mr_tuning *t, struct mr_str *out)
{
	struct mr_str words = { 0 };

	if (t->best < 0) {
		mr_str_add(out, "no strategy keeps within the limits; the "
				"least storage is none, with all steps in "
				"each epoch: raise --max-prepare, "
				"--max-storage or --max-memory");
		return;
	}
	mr_strategy_words(t, &t->strategy[t->best], &words);
	mr_str_add(out, words.text ? words.text : "");
	gain(t, out);
	price(t, out);
	mr_str_fini_into(&words, out);
}
