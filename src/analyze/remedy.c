/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/remedy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"

enum { THREADS_MAX = 256 };

/* Gains below this are none, and such differences no reason to pay more. */
#define WORTH 1.03

/* A cache is made a little larger than it has to be. */
#define SPARE 1.02

struct advice {
	struct mr_diagnosis *d;
	struct mr_setting now;
	struct mr_outcome as_is;
};

/* Adds one, if it gains something; they come in the order of their price. */
static struct mr_remedy *add(struct advice *a, const struct mr_setting *s)
{
	struct mr_diagnosis *d = a->d;
	struct mr_outcome o;
	struct mr_remedy *r;

	mr_predict(d, s, &o);
	if (d->remedies == MR_REMEDIES || a->as_is.rate <= 0 || d->rate <= 0 ||
	    o.rate < a->as_is.rate * WORTH || o.rate < d->rate * WORTH)
		return NULL;
	r = &d->remedy[d->remedies++];
	memset(r, 0, sizeof(*r));
	r->rate = o.rate;
	r->gain = o.rate / d->rate;
	return r;
}

#define SAY(to, ...) snprintf(to, sizeof(to), __VA_ARGS__)

/* ---- threads ---- */

/* The fewest that leave the preparation no longer the slowest. */
static int threads_needed(const struct advice *a)
{
	struct mr_setting s = a->now;
	struct mr_outcome best, o;
	int n = (int)s.threads;

	s.threads = THREADS_MAX;
	mr_predict(a->d, &s, &best);
	for (; n < THREADS_MAX; n++) {
		s.threads = n;
		mr_predict(a->d, &s, &o);
		if (o.rate >= best.rate * 0.97)
			break;
	}
	return n;
}

static void say_threads(const struct mr_diagnosis *d, const char *which, int n,
			struct mr_remedy *r)
{
	int ranks = d->ranks > 1 ? d->ranks : 1;

	if (d->command && !d->threads)
		SAY(r->what,
		    "num_workers=%d: workers prepare while the loop computes",
		    (n + ranks - 1) / ranks);
	else
		SAY(r->what, "%s%d %s instead of %d", which, n,
		    d->command ? "workers" : "threads", d->threads);
}

static void more_threads(struct advice *a)
{
	int n = threads_needed(a), cores = a->d->cores;
	struct mr_setting s = a->now;
	char all[40];
	struct mr_remedy *r;

	if (n > cores && cores > a->d->threads) {
		s.threads = cores;
		r = add(a, &s);
		if (r) {
			SAY(all, "all %d cores: ", cores);
			say_threads(a->d, all, cores, r);
			SAY(r->cost, "nothing but the cores");
		}
	}
	s.threads = n;
	r = n > a->d->threads ? add(a, &s) : NULL;
	if (!r)
		return;
	say_threads(a->d, "", n, r);
	if (n <= cores)
		SAY(r->cost, "nothing but the cores, which are there");
	else
		SAY(r->cost, "a machine of %d cores; this one has %d", n,
		    cores);
}

/* ---- a cache ---- */

/* Where the first stage ends, which a cache is put behind. */
static size_t source_end(const char *text)
{
	char quote = 0;
	size_t i;

	for (i = 0; text[i]; i++) {
		if (quote)
			quote = text[i] == quote ? 0 : quote;
		else if (text[i] == '"' || text[i] == '\'')
			quote = text[i];
		else if (text[i] == '|' || (text[i] == '\n' && i > 0))
			break;
	}
	while (i > 0 && text[i - 1] == ' ')
		i--;
	return i;
}

/* As a whole, or not at all. */
static void say_how(struct mr_remedy *r, struct mr_str *how)
{
	if (how->text && how->len < sizeof(r->how))
		strcpy(r->how, how->text);
	mr_str_fini(how);
}

static void say_cache(const struct mr_diagnosis *d, double bytes,
		      struct mr_remedy *r)
{
	double m = bytes / (1 << 20) + 1;
	struct mr_str how = { 0 };
	size_t end;

	if (!d->pipeline || strstr(d->pipeline, "cache ram="))
		return;
	end = source_end(d->pipeline);
	mr_str_addf(&how, "%.*s | cache ram=%.0fM%s", (int)end, d->pipeline, m,
		    d->pipeline + end);
	say_how(r, &how);
}

/* The smallest that leaves the storage no longer the slowest. */
static void a_cache(struct advice *a)
{
	const struct mr_diagnosis *d = a->d;
	double each = d->entry_bytes > 0 ? d->entry_bytes : d->sample_bytes;
	double all = (double)d->samples * each, share, other;
	struct mr_setting s = a->now;
	struct mr_outcome o;
	struct mr_remedy *r;
	char size[32];

	s.cache = 1;
	mr_predict(d, &s, &o);
	other = o.p > 0 && o.p < o.g ? o.p : o.g;
	if (all <= 0 || a->as_is.s <= 0 || other <= 0)
		return;
	/* beyond balance, where both still wait for one another */
	share = 1 - a->as_is.s / (other * 1.1);
	if (share <= d->cache_share)
		return;
	s.cache = share * SPARE < 1 ? share * SPARE : 1;
	r = add(a, &s);
	if (!r)
		return;
	SAY(r->what, "a cache of %s, %.0f %% of the data set",
	    mr_str_size(size, s.cache * all), 100 * s.cache);
	SAY(r->cost, "that much memory; the first epoch stays as it is");
	say_cache(d, s.cache * all, r);
}

/* ---- preparing ---- */

static double us_from(const struct mr_diagnosis *d, int k)
{
	double us = 0;

	for (int i = k; i < d->steps; i++)
		us += d->step[i].us;
	return us;
}

/* Stored after step k: the steps up to there are not run, and so many bytes
 * are read, one request each. */
static void set_split(const struct advice *a, int k, struct mr_setting *s)
{
	const struct mr_diagnosis *d = a->d;
	double all = us_from(d, 0), rest = us_from(d, k + 1);
	double read = d->step[0].us;

	*s = a->now;
	s->bytes = d->step[k].bytes_out;
	s->requests = 1;
	if (d->sample_bytes > 0)
		read *= s->bytes / d->sample_bytes;
	s->cpu = rest + read > 0 ? all / (rest + read) : 1;
}

static int best_split(const struct advice *a)
{
	struct mr_setting s;
	struct mr_outcome o;
	double best = 0;
	int at = -1;

	for (int k = 1; k < a->d->steps && a->d->step[k].fixed; k++) {
		if (a->d->step[k].bytes_out <= 0)
			continue;
		set_split(a, k, &s);
		mr_predict(a->d, &s, &o);
		if (o.rate > best * WORTH) {
			best = o.rate;
			at = k;
		}
	}
	return at;
}

static void a_split(struct advice *a)
{
	const struct mr_diagnosis *d = a->d;
	int k = d->pipeline ? best_split(a) : -1;
	struct mr_setting s;
	struct mr_str how = { 0 };
	struct mr_remedy *r;
	double once;
	char size[32];

	if (k < 0)
		return;
	set_split(a, k, &s);
	r = add(a, &s);
	if (!r)
		return;
	once = a->as_is.p;
	if (a->as_is.s > 0 && a->as_is.s < once)
		once = a->as_is.s;
	SAY(r->what, "store the samples as they are after '%s', once",
	    d->step[k].name);
	SAY(r->cost, "%s of disk space and about %.0f s, once",
	    mr_str_size(size, s.bytes * (double)d->samples),
	    once > 0 ? (double)d->samples / once : 0);
	mr_str_addf(&how, "millrace prepare --out DIR --until %s ",
		    d->step[k].name);
	mr_str_add_shell(&how, d->pipeline);
	say_how(r, &how);
}

/* ---- packing ---- */

static void say_codec(struct advice *a, const struct mr_diag_codec *c)
{
	const struct mr_diagnosis *d = a->d;
	struct mr_setting with;
	struct mr_str how = { 0 };
	struct mr_remedy *r;
	char *source;

	mr_setting_pack(d, &a->now, c, &with);
	r = add(a, &with);
	if (!r)
		return;
	SAY(r->what,
	    "pack the samples with %s, which makes them %.2f times smaller",
	    c->name, c->ratio);
	SAY(r->cost,
	    "a copy of the data set, and %.0f us of CPU time per sample",
	    d->sample_bytes / c->unpack * 1e6);
	source = d->pipeline ? strndup(d->pipeline, source_end(d->pipeline)) :
			       NULL;
	if (!source)
		return;
	mr_str_addf(&how, "millrace convert --to records --codec %s --out DIR ",
		    c->name);
	mr_str_add_shell(&how, source);
	free(source);
	say_how(r, &how);
}

static void a_codec(struct advice *a)
{
	const struct mr_diagnosis *d = a->d;
	const struct mr_diag_codec *best = NULL;
	struct mr_setting s = a->now, with;
	struct mr_outcome o;
	double rate = 0;

	for (int i = 0; i < d->codecs; i++) {
		const struct mr_diag_codec *c = &d->codec[i];

		mr_setting_pack(d, &s, c, &with);
		mr_predict(d, &with, &o);
		if (o.rate > rate * WORTH) {
			rate = o.rate;
			best = c;
		}
	}
	if (best)
		say_codec(a, best);
}

/* ---- another storage ---- */

static void a_storage(struct advice *a)
{
	const struct mr_diagnosis *d = a->d;
	struct mr_setting s = a->now;
	struct mr_outcome o;
	struct mr_remedy *r;
	double need;
	char size[32], from[32];

	mr_setting_store(&s, &(struct mr_storage_limits){ 0 }, s.depth);
	mr_predict(d, &s, &o);
	need = o.rate * (1 - o.hits);
	r = add(a, &s);
	if (!r)
		return;
	SAY(r->what, "a storage that gives %.0f reads, %s, a second",
	    need * (d->sample_requests > 0 ? d->sample_requests : 1),
	    mr_str_size(size, need * d->sample_bytes));
	SAY(r->cost, "%.1f times what this one gives (%s/s)",
	    a->as_is.s > 0 ? need / a->as_is.s : 0,
	    mr_str_size(from, a->as_is.s * d->sample_bytes));
}

/* By gain; of those that gain the same the cheaper one stays before. */
static void rank(struct mr_diagnosis *d)
{
	for (int i = 1; i < d->remedies; i++)
		for (int k = i; k > 0; k--) {
			struct mr_remedy *a = &d->remedy[k - 1], *b = a + 1, t;

			if (b->rate < a->rate * WORTH)
				break;
			t = *a;
			*a = *b;
			*b = t;
		}
}

void mr_remedies(struct mr_diagnosis *d)
{
	struct advice a = { .d = d };

	d->remedies = 0;
	if (d->prep_stall + d->fetch_stall < 0.05)
		return;
	mr_setting_of(d, &a.now);
	mr_setting_fit(d, &a.now);
	mr_predict(d, &a.now, &a.as_is);
	more_threads(&a);
	a_cache(&a);
	a_split(&a);
	a_codec(&a);
	a_storage(&a);
	rank(d);
}
