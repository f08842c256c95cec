/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/diagnosis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/remedy.h"
#include "core/mem.h"

/* Less waiting than this is none. */
#define FED 0.05

/* More than this, and nobody would say that the accelerator sets the pace. */
#define MOSTLY 0.5

/* The model may be off by so much without a word. */
#define OFF 0.10

#define NEAR 1.1 /* times as fast is about as fast: mr_model_limit()'s */

/* A job of fewer is too short to tell how evenly its batches come. */
enum { WINDOWS_MIN = 4, BATCHES_MIN = 8 };

/* Student's t for 95 %, by degrees of freedom from 1 on. */
static const double student[] = {
	12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
};

struct mr_figure mr_figure_of(const double *value, size_t n)
{
	double sum = 0, squares = 0, half;
	struct mr_figure f = { .n = (unsigned)n };

	if (!n)
		return f;
	for (size_t i = 0; i < n; i++)
		sum += value[i];
	f.mean = f.low = f.high = sum / (double)n;
	if (n < 2)
		return f;
	for (size_t i = 0; i < n; i++)
		squares += (value[i] - f.mean) * (value[i] - f.mean);
	half = sqrt(squares / (double)(n - 1) / (double)n) *
	       (n - 1 <= MR_COUNT(student) ? student[n - 2] : 2.0);
	f.low = f.mean - half > 0 ? f.mean - half : 0;
	f.high = f.mean + half;
	return f;
}

void mr_diagnosis_fini(struct mr_diagnosis *d)
{
	free(d->pipeline);
	free(d->command);
	mr_str_fini(&d->notes);
	d->pipeline = d->command = NULL;
}

/* ---- the verdict ---- */

/* What each of the three could do with the job's cache; 0: not known, or no
 * limit. Where it was not measured alone, the job itself tells when it is the
 * slower one. */
struct rates {
	double g, p, s;
};

static struct rates alone(const struct mr_diagnosis *d)
{
	struct rates r = { .g = d->g.n ? d->g.mean : d->as_g.mean };

	if (d->p.n)
		r.p = mr_model_cached(d, d->p.mean, d->cache_share);
	else if (d->as_p.n && d->as_p.mean < d->as_g.mean * (1 - FED))
		r.p = d->as_p.mean;
	if (d->s.n && d->cache_share < 1)
		r.s = d->s.mean / (1 - d->cache_share);
	else if (!d->s.n && d->as_f.n &&
		 d->as_f.mean < d->as_p.mean * (1 - FED))
		r.s = d->as_f.mean;
	return r;
}

static const char *count(char *buf, double n)
{
	if (n < 99.95 && n > 0)
		snprintf(buf, 32, n < 9.995 ? "%.2f" : "%.1f", n);
	else
		mr_str_count(buf, (unsigned long long)(n + 0.5));
	return buf;
}

static double lowest(const struct rates *r)
{
	double low = r->g;

	if (r->p > 0 && r->p < low)
		low = r->p;
	if (r->s > 0 && r->s < low)
		low = r->s;
	return low;
}

static void say_balanced(const struct mr_diagnosis *d, const struct rates *r,
			 struct mr_str *v)
{
	const struct {
		const char *name;
		double rate;
	} all[] = { { "the storage", r->s },
		    { "the preparation", r->p },
		    { "the accelerator", r->g } };
	double low = lowest(r);
	int said = 0;
	char n[32];

	mr_str_add(v, "balanced: ");
	for (size_t i = 0; i < MR_COUNT(all); i++)
		if (all[i].rate > 0 && all[i].rate <= low * NEAR)
			mr_str_addf(v, "%s%s (%s samples/s)",
				    said++ ? " and " : "", all[i].name,
				    count(n, all[i].rate));
	mr_str_addf(v,
		    " are about equally fast; %.0f %% of an epoch is waiting",
		    100 * (d->prep_stall + d->fetch_stall));
}

static bool few_batches(const struct mr_diagnosis *d)
{
	return d->batch && d->samples / d->batch < BATCHES_MIN;
}

/* Each alone would keep up, but they wait for each other. */
static void say_in_turn(const struct mr_diagnosis *d, const struct rates *r,
			struct mr_str *v)
{
	bool storage = !strcmp(d->bottleneck, "storage");
	char a[32], b[32];

	mr_str_addf(v,
		    "%s: %s would give %s samples/s alone, but not beside the "
		    "accelerator, which takes %s",
		    storage ? "fetch-bound" : "prep-bound",
		    storage ? "the storage" : "the preparation",
		    count(a, storage ? r->s : r->p), count(b, r->g));
	if (d->command && !d->threads)
		mr_str_add(v, ": without workers one waits for the other");
	else if (few_batches(d))
		mr_str_add(v, ": an epoch of so few batches is over as soon as "
			      "it is under way");
	mr_str_addf(v, "; %.0f %% of an epoch is waiting",
		    100 * (d->prep_stall + d->fetch_stall));
}

/* It is the slowest, which does not say that it never waits. */
static void say_accelerator(const struct mr_diagnosis *d, const struct rates *r,
			    struct mr_str *v)
{
	const struct mr_figure *f = d->as_f.n ? &d->as_f : &d->as_p;
	double wait = d->prep_stall + d->fetch_stall;
	char n[32];

	if (wait < FED)
		mr_str_addf(v,
			    "accelerator-bound: it takes %s samples/s and gets "
			    "them; %.0f %% of an epoch is waiting",
			    count(n, r->g), 100 * wait);
	else
		mr_str_addf(v,
			    "accelerator-bound: on average all else is faster "
			    "than the %s samples/s that it takes; yet %.0f %% "
			    "of an epoch is waiting: %s",
			    count(n, r->g), 100 * wait,
			    few_batches(d) ? "it has so few batches that its "
					     "start counts" :
			    f->n < WINDOWS_MIN ? "too few batches were seen to "
						 "tell why" :
						 "batches come unevenly");
}

static bool in_turn(const struct mr_diagnosis *d, const struct rates *r)
{
	return (!strcmp(d->bottleneck, "storage") && r->s * NEAR > r->g) ||
	       (!strcmp(d->bottleneck, "cpu") && r->p * NEAR > r->g);
}

static void say_verdict(struct mr_diagnosis *d, const struct rates *r)
{
	double wait = 100 * (d->prep_stall + d->fetch_stall);
	struct mr_str v = { 0 };
	char a[32], b[32];

	if (d->command && !d->as_p.n)
		mr_str_addf(&v,
			    "the accelerator takes %s samples/s; whether it "
			    "waits for them is not known",
			    count(b, r->g));
	else if (!strcmp(d->bottleneck, "balanced"))
		say_balanced(d, r, &v);
	else if (in_turn(d, r))
		say_in_turn(d, r, &v);
	else if (!strcmp(d->bottleneck, "storage"))
		mr_str_addf(&v,
			    "fetch-bound: the storage gives %s of the %s "
			    "samples/s that the accelerator takes; %.0f %% of "
			    "an epoch is waiting",
			    count(a, r->s), count(b, r->g), wait);
	else if (!strcmp(d->bottleneck, "cpu"))
		mr_str_addf(&v,
			    "prep-bound: %d %s %s of the %s samples/s that the "
			    "accelerator takes; %.0f %% of an epoch is waiting",
			    d->threads,
			    d->command ? "workers prepare" : "threads prepare",
			    count(a, r->p), count(b, r->g), wait);
	else
		say_accelerator(d, r, &v);
	if (few_batches(d) && !in_turn(d, r) &&
	    100 * (1 - lowest(r) / r->g) < wait - 100 * FED &&
	    strcmp(d->bottleneck, "accelerator") != 0)
		mr_str_add(&v, ", for it has so few batches that its start "
			       "counts");
	if (d->command && d->as_p.n && !d->as_f.n)
		mr_str_add(&v, "; how long it waits for the storage is not "
			       "known");
	snprintf(d->verdict, sizeof(d->verdict), "%s", v.text ? v.text : "");
	mr_str_fini(&v);
}

/* Does what each could do alone say who it is that keeps the job? Not if the
 * accelerator is among the slowest, and waits for most of the time. */
static bool fed_alone(const struct mr_diagnosis *d, const struct rates *r)
{
	bool slow = (!(r->p > 0) || r->g <= r->p * NEAR) &&
		    (!(r->s > 0) || r->g <= r->s * NEAR);

	if (d->command && strcmp(d->bottleneck, "accelerator") == 0)
		return false;
	return !slow || d->prep_stall + d->fetch_stall <= MOSTLY;
}

void mr_diagnosis_conclude(struct mr_diagnosis *d)
{
	const struct mr_figure *f = d->as_f.n ? &d->as_f : &d->as_p;
	const struct mr_figure *p = d->as_p.n ? &d->as_p : f;
	struct rates r = alone(d);

	d->rate = f->n ? f->mean : d->as_g.mean;
	mr_model_stalls(d->as_g.mean, p->n ? p->mean : d->as_g.mean, d->rate,
			&d->prep_stall, &d->fetch_stall);
	d->au = 1 - d->prep_stall - d->fetch_stall;
	d->bottleneck = mr_model_limit(r.g, r.p, r.s);
	/* What was seen counts more than what each could do alone. */
	if (d->prep_stall + d->fetch_stall < FED &&
	    strcmp(d->bottleneck, "balanced") != 0)
		d->bottleneck = "accelerator";
	else if (!fed_alone(d, &r))
		d->bottleneck =
			d->fetch_stall > d->prep_stall ? "storage" : "cpu";
	say_verdict(d, &r);
	mr_remedies(d);
}

/* ---- for people ---- */

/* An accelerator is as fast as it is said to be, and so is what waits for
 * nothing else; that need not be measured. */
static bool is_given(const struct mr_diagnosis *d, const struct mr_figure *f)
{
	return !d->command && d->as_g.n == 1 && f->n == 1 &&
	       f->mean == d->as_g.mean;
}

static void row(const struct mr_diagnosis *d, struct mr_str *s,
		const char *name, const struct mr_figure *f, const char *what)
{
	char n[32], low[32], high[32];

	if (f->n < 2) {
		mr_str_addf(s, "  %-4s %10s  %-19s  %s\n", name,
			    f->n ? count(n, f->mean) : "-",
			    is_given(d, f) ? "as given" :
			    f->n	   ? "one measurement" :
					     "not measured",
			    what);
		return;
	}
	mr_str_addf(s, "  %-4s %10s  %8s .. %-7s  %s\n", name,
		    count(n, f->mean), count(low, f->low), count(high, f->high),
		    what);
}

static void say_rates(const struct mr_diagnosis *d, struct mr_str *s)
{
	char n[32];

	mr_str_add(s, "\nsamples/s, with 95 % intervals\n");
	row(d, s, "G", &d->as_g, "the accelerator, fed with ready batches");
	row(d, s, "P", &d->p, "the preparation alone, everything in memory");
	row(d, s, "S", &d->s, "the storage alone, cold");
	row(d, s, "C", &d->c, "reading alone, everything in memory");
	row(d, s, "G+P", &d->as_p, "accelerator and preparation, in memory");
	row(d, s, "F", &d->as_f, "all of it, from the storage: the job");
	if (d->page.n)
		row(d, s, "LRU", &d->page,
		    "the same with a page cache instead of `cache ram=`");
	if (d->points > 1) {
		mr_str_add(s, "  P by threads:");
		for (int i = 0; i < d->points; i++)
			mr_str_addf(s, "%s %d: %s", i ? "," : "",
				    d->curve[i].threads,
				    count(n, d->curve[i].rate.mean));
		mr_str_add(s, "\n");
	}
}

/* "12.3 s", "45.6 ms". */
static const char *span(char *buf, double s)
{
	snprintf(buf, 32, s < 1 ? "%.1f ms" : "%.1f s", s < 1 ? 1e3 * s : s);
	return buf;
}

static void say_epoch(const struct mr_diagnosis *d, struct mr_str *s)
{
	double t = d->rate > 0 ? (double)d->samples / d->rate : 0;
	char a[32];
	const struct {
		const char *name;
		double share;
		bool known;
	} part[] = {
		{ "computing", 1 - d->prep_stall - d->fetch_stall, true },
		{ "waiting for the preparation", d->prep_stall, d->as_p.n > 0 },
		{ "waiting for the storage", d->fetch_stall, d->as_f.n > 0 },
	};

	mr_str_addf(s, "\nan epoch of the accelerator: %s\n", span(a, t));
	for (size_t i = 0; i < MR_COUNT(part); i++) {
		char bar[31];
		int n = (int)(part[i].share * 30 + 0.5);

		if (d->command && !part[i].known) {
			mr_str_addf(s, "  %-28s   not known\n", part[i].name);
			continue;
		}
		memset(bar, '#', sizeof(bar));
		mr_str_addf(s, "  %-28s %12s %5.1f %%  %.*s\n", part[i].name,
			    span(a, part[i].share * t), 100 * part[i].share,
			    n < 0 ? 0 : n, bar);
	}
	if (d->command && !d->as_f.n)
		mr_str_add(s, "  accelerator utilisation (AU): not known\n");
	else
		mr_str_addf(s, "  accelerator utilisation (AU): %.1f %%\n",
			    100 * d->au);
}

static void say_remedies(const struct mr_diagnosis *d, struct mr_str *s)
{
	double off = mr_model_error(d);
	char n[32];

	mr_str_add(s, "\nwhat would help, predicted");
	if (d->remedies && fabs(off) > OFF)
		mr_str_addf(s, " (the model is off by %+.0f %% here)",
			    100 * off);
	mr_str_add(s, "\n");
	if (!d->remedies)
		mr_str_addf(s, "  nothing%s\n",
			    d->prep_stall + d->fetch_stall < FED ?
				    ": the accelerator has all it takes" :
				    " that can be predicted from this");
	for (int i = 0; i < d->remedies; i++) {
		const struct mr_remedy *r = &d->remedy[i];

		mr_str_addf(s, "  %d. %.2fx, %s samples/s: %s\n", i + 1,
			    r->gain, count(n, r->rate), r->what);
		if (*r->cost)
			mr_str_addf(s, "     costs %s\n", r->cost);
		if (*r->how)
			mr_str_addf(s, "     %s\n", r->how);
	}
}

static void say_rank_rate(const struct mr_figure *f, struct mr_str *s)
{
	if (f->n)
		mr_str_addf(s, " %10.1f", f->mean);
	else
		mr_str_addf(s, " %10s", "-");
}

static void say_ranks(const struct mr_diagnosis *d, struct mr_str *s)
{
	if (d->ranks < 2)
		return;
	mr_str_add(s, "\nranks: samples/s of G, G+P, F\n");
	for (int i = 0; i < d->ranks; i++) {
		const struct mr_diag_rank *r = &d->rank[i];

		mr_str_addf(s, "  %3d", r->rank);
		say_rank_rate(&r->as_g, s);
		say_rank_rate(&r->as_p, s);
		say_rank_rate(&r->as_f, s);
		mr_str_add(s, "\n");
	}
}

static void say_head(const struct mr_diagnosis *d, struct mr_str *s)
{
	char n[32], k[32], size[32];

	mr_str_addf(s, "%s\n\n%s\n", d->pipeline ? d->pipeline : d->command,
		    d->verdict);
	mr_str_addf(s,
		    "\n%s sample%s of %s from the storage%s, batches of "
		    "%llu, %d %s%s; measured on %s of them in %.0f s\n",
		    mr_str_count(n, d->samples), d->samples == 1 ? "" : "s",
		    mr_str_size(size, d->sample_bytes),
		    d->samples == 1 ? "" : " each",
		    (unsigned long long)d->batch, d->threads,
		    d->command ? "worker" : "thread",
		    d->threads == 1 ? "" : "s", mr_str_count(k, d->sampled),
		    d->seconds);
	if (*d->profile)
		mr_str_addf(s, "storage as %s\n", d->profile);
	if (d->cache_share > 0)
		mr_str_addf(s, "a cache of %s holds %.0f %% of the data set\n",
			    mr_str_size(size, d->cache_bytes),
			    100 * d->cache_share);
}

char *mr_diagnosis_text(const struct mr_diagnosis *d)
{
	struct mr_str s = { 0 };

	say_head(d, &s);
	say_rates(d, &s);
	say_epoch(d, &s);
	say_ranks(d, &s);
	say_remedies(d, &s);
	if (d->notes.len)
		mr_str_addf(&s, "\n%s", d->notes.text);
	return mr_str_take(&s);
}
