/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Buffers between the three are finite, and each is unsteady: where two are
 * about equally fast, each waits for the other now and then, and the job is a
 * little slower than the slower of them. The exponent says how little, where
 * two are equal: 3 %, as was seen of accelerators and of storages that are read
 * ahead.
 */
#define SOFT 22.0

#define BALANCED 0.10

/* What is seen of a job may differ from the model by that factor; beyond it is
 * something that the model knows nothing about. */
#define FIT_MOST 2.0

enum { FIT_ROUNDS = 12 };

double mr_model_lru(double share)
{
	if (!(share > 0))
		return 0;
	if (share >= 1)
		return 1;
	return share + (1 - share) * log(1 - share);
}

int mr_model_cache(const char *name, const char *text, double all,
		   double *bytes, struct mr_err *err)
{
	static const char units[] = "KMG";
	char *end;
	double v = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end != text && isfinite(v) && v >= 0 && v < 1e18) {
		if (!strcmp(end, "%") && v <= 100) {
			*bytes = v / 100 * all;
			return 0;
		}
		if (!*end || (unit && !end[1])) {
			*bytes = ldexp(v,
				       unit ? 10 * (int)(unit - units + 1) : 0);
			return 0;
		}
	}
	return mr_err_set(err, MR_EINVAL,
			  "%s '%s': want a share of the data set, up to 100%%, "
			  "such as 35%%, or a size, such as 8G",
			  name, text);
}

/* ---- preparation ---- */

/* What of n threads' work is lost for each of the others: as in the law of
 * universal scalability, without its square. */
static double loss(double one, double many, double n)
{
	double l = (n * one / many - 1) / (n - 1);

	return l > 0 ? l : 0;
}

/* How many P is of. A script's loop without workers is one by itself. */
static double preparers(const struct mr_diagnosis *d)
{
	if (d->threads > 0)
		return d->threads;
	return d->ranks > 1 ? d->ranks : 1;
}

double mr_model_curve(const struct mr_diag_point *curve, int points,
		      double threads)
{
	const struct mr_diag_point *last = &curve[points - 1];
	double n0 = 0, r0 = 0;

	if (threads > last->threads) {
		double one = curve[0].rate.mean / curve[0].threads;

		if (last->threads <= 1)
			return threads * one;
		return threads * one /
		       (1 + loss(one, last->rate.mean, last->threads) *
				    (threads - 1));
	}
	for (int i = 0; i < points; i++) {
		double n1 = curve[i].threads, r1 = curve[i].rate.mean;

		if (threads <= n1)
			return n1 > n0 ? r0 + (r1 - r0) * (threads - n0) /
							 (n1 - n0) :
					 r1;
		n0 = n1;
		r0 = r1;
	}
	return r0;
}

double mr_model_prep(const struct mr_diagnosis *d, double threads)
{
	if (d->points)
		return mr_model_curve(d->curve, d->points, threads);
	return threads > 0 ? d->p.mean * threads / preparers(d) : d->p.mean;
}

/* ---- storage ---- */

static double lower(double a, double b)
{
	return a <= 0 || (b > 0 && b < a) ? b : a;
}

double mr_model_storage(const struct mr_storage_limits *l, double bytes,
			double requests, double depth)
{
	double rate = 0, each;

	if (!(requests > 0))
		requests = 1;
	each = l->latency + (l->stream > 0 ? bytes / requests / l->stream : 0);
	if (l->bw > 0 && bytes > 0)
		rate = lower(rate, l->bw / bytes);
	if (l->iops > 0)
		rate = lower(rate, l->iops / requests);
	if (each > 0 && depth > 0)
		rate = lower(rate, depth / each / requests);
	return rate;
}

/* ---- the job ---- */

const char *mr_model_limit(double g, double p, double s)
{
	double low = lower(lower(g, p), s);
	const struct {
		const char *name;
		double rate;
	} all[] = { { "accelerator", g }, { "cpu", p }, { "storage", s } };
	const char *name = "accelerator";
	int near = 0;

	for (size_t i = 0; i < 3; i++) {
		if (!(all[i].rate > 0))
			continue;
		if (all[i].rate <= low * (1 + BALANCED))
			near++;
		if (all[i].rate <= low)
			name = all[i].name;
	}
	return near > 1 ? "balanced" : name;
}

void mr_model_stalls(double as_g, double as_p, double as_f, double *prep,
		     double *fetch)
{
	*prep = *fetch = 0;
	if (!(as_f > 0))
		return;
	/* Measured rates are not exact: none of them is a negative wait. */
	if (as_p < as_f)
		as_p = as_f;
	if (as_g < as_p)
		as_g = as_p;
	*prep = (1 / as_p - 1 / as_g) * as_f;
	*fetch = (1 / as_f - 1 / as_p) * as_f;
}

void mr_setting_of(const struct mr_diagnosis *d, struct mr_setting *s)
{
	*s = (struct mr_setting){
		.g = d->g.n ? d->g.mean : d->as_g.mean,
		.threads = d->threads,
		.cpu = 1,
		.bytes = d->sample_bytes,
		.requests = d->sample_requests,
		.measured = d->s.n > 0,
		.limits = d->limits,
		.depth = d->depth,
		.cache = d->cache_share,
		.nodes = 1,
	};
}

void mr_setting_store(struct mr_setting *s, const struct mr_storage_limits *l,
		      double depth)
{
	s->measured = false;
	s->limits = *l;
	s->depth = depth;
	s->fit_s = 0;
}

double mr_model_error(const struct mr_diagnosis *d)
{
	struct mr_setting s;
	struct mr_outcome o;

	if (!(d->as_f.n || d->as_p.n) || !(d->rate > 0))
		return 0;
	mr_setting_of(d, &s);
	mr_predict(d, &s, &o);
	return o.rate / d->rate - 1;
}

void mr_setting_fit(const struct mr_diagnosis *d, struct mr_setting *s)
{
	bool cpu = strcmp(d->bottleneck, "storage") != 0;
	bool storage = strcmp(d->bottleneck, "cpu") != 0;
	struct mr_setting now;
	struct mr_outcome o;
	double fit = 1;

	if (!strcmp(d->bottleneck, "accelerator") || !(d->rate > 0) ||
	    !(d->as_f.n || d->as_p.n))
		return;
	mr_setting_of(d, &now);
	for (int i = 0; i < FIT_ROUNDS; i++) {
		now.fit_p = cpu ? fit : 0;
		now.fit_s = storage ? fit : 0;
		mr_predict(d, &now, &o);
		if (!(o.rate > 0))
			return;
		fit *= d->rate / o.rate;
	}
	if (!(fit > 1 / FIT_MOST && fit < FIT_MOST))
		return;
	s->fit_p = now.fit_p;
	s->fit_s = now.fit_s;
}

void mr_setting_pack(const struct mr_diagnosis *d, const struct mr_setting *s,
		     const struct mr_diag_codec *c, struct mr_setting *out)
{
	double p = mr_model_prep(d, s->threads) * s->cpu, us, unpack;

	*out = *s;
	if (!(c->ratio > 0) || !(c->unpack > 0))
		return;
	out->bytes = s->bytes / c->ratio;
	/* of one thread, in seconds per sample */
	us = p > 0 ? s->threads / p : 0;
	unpack = s->bytes / c->unpack;
	if (us > 0)
		out->cpu = s->cpu * us / (us + unpack);
}

double mr_model_meet(double a, double b)
{
	double low = lower(a, b);

	if (!(a > 0) || !(b > 0))
		return low;
	return low / pow(pow(low / a, SOFT) + pow(low / b, SOFT), 1 / SOFT);
}

double mr_model_all_hits(double p, double measured, double saves)
{
	double most = saves < 1 / p ? 1 / (1 / p - saves) : measured;

	if (measured < p)
		return p;
	return measured < most ? measured : most;
}

double mr_model_cached(const struct mr_diagnosis *d, double rate, double hits)
{
	double cached;

	if (!d->pc.n || !d->p.n || !(d->p.mean > 0) || !(d->pc.mean > 0) ||
	    !(rate > 0))
		return rate;
	cached = rate * d->pc.mean / d->p.mean;
	return 1 / (hits / cached + (1 - hits) / rate);
}

/* What the job lacks of P goes with its reads where these are made ahead: with
 * all samples in a cache nothing was seen to be lacking. */
static bool lacks_by_reading(const struct mr_diagnosis *d)
{
	return !d->direct && d->pa.n;
}

static double prepares(const struct mr_diagnosis *d, const struct mr_setting *s)
{
	return mr_model_prep(d, s->threads) * s->cpu *
	       (s->fit_p > 0 && !lacks_by_reading(d) ? s->fit_p : 1);
}

static double prep_rate(const struct mr_diagnosis *d,
			const struct mr_setting *s, double hits)
{
	double p = prepares(d, s);

	return s->lru ? p : mr_model_cached(d, p, hits);
}

/* The same while samples are read ahead, which takes CPU time as well: of
 * those that a cache of ours does not have. */
static double ahead_rate(const struct mr_diagnosis *d,
			 const struct mr_setting *s, const struct mr_outcome *o)
{
	double p = prepares(d, s), more = 0;
	double read = s->lru ? 1 : 1 - o->hits;

	if (!(p > 0) || o->hits >= 1)
		return o->p;
	if (d->pa.n && d->pa.mean > 0 && d->pa.mean < d->p.mean)
		more = d->p.mean / d->pa.mean - 1;
	if (s->fit_p > 0 && lacks_by_reading(d))
		more += 1 / s->fit_p - 1;
	return 1 / (1 / o->p + read * more / p);
}

static double storage_rate(const struct mr_diagnosis *d,
			   const struct mr_setting *s)
{
	double rate;

	if (!s->measured)
		return mr_model_storage(&s->limits, s->bytes, s->requests,
					s->depth);
	rate = d->s.mean;
	/* The one that was measured, with samples of another size. */
	if (d->sample_bytes > 0 && s->bytes > 0 && s->bytes != d->sample_bytes)
		rate *= d->sample_bytes / s->bytes;
	return s->fit_s > 0 ? rate * s->fit_s : rate;
}

/*
 * Workers that read by themselves prepare nothing meanwhile: a sample then
 * takes the time of both, one after the other.
 */
static double one_after_another(const struct mr_diagnosis *d,
				const struct mr_setting *s,
				const struct mr_outcome *o)
{
	double n = s->threads > 0 ? s->threads : preparers(d);
	double q = s->requests > 0 ? s->requests : 1;
	double read, miss = 1 - o->hits;

	if (s->measured && o->s > 0)
		read = 1 / o->s - (d->c.n && d->c.mean > 0 ? 1 / d->c.mean : 0);
	else
		read = (q * s->limits.latency +
			(s->limits.stream > 0 ? s->bytes / s->limits.stream :
						0)) /
		       n;
	if (!(read > 0) || !(o->p > 0))
		return o->p;
	return 1 / (1 / o->p + miss * read);
}

/*
 * A script's loop without workers has nobody who prepares while it computes:
 * all of it takes its turn.
 */
static bool in_turn(const struct mr_diagnosis *d, const struct mr_setting *s,
		    const struct mr_outcome *o)
{
	return d->command && !(s->threads > 0) && o->g > 0 && o->p > 0;
}

void mr_predict(const struct mr_diagnosis *d, const struct mr_setting *s,
		struct mr_outcome *o)
{
	double nodes = s->nodes > 1 ? s->nodes : 1;
	double cache = s->cache * nodes, fetch, as_p, both;

	memset(o, 0, sizeof(*o));
	if (cache > 1)
		cache = 1;
	o->hits = s->lru ? mr_model_lru(cache) : cache;
	o->g = s->g;
	o->p = prep_rate(d, s, o->hits);
	o->s = storage_rate(d, s);
	o->beyond = d->points && s->threads > d->curve[d->points - 1].threads;
	/* A storage that all nodes share. */
	fetch = o->hits < 1 ? o->s / nodes / (1 - o->hits) : 0;
	as_p = mr_model_meet(o->g, o->p);
	both = d->direct ? one_after_another(d, s, o) : ahead_rate(d, s, o);
	both = mr_model_meet(both, fetch);
	o->rate = mr_model_meet(o->g, both);
	if (in_turn(d, s, o)) {
		both = lower(one_after_another(d, s, o), fetch);
		as_p = 1 / (1 / o->g + 1 / o->p);
		o->rate = 1 / (1 / o->g + 1 / both);
	}
	mr_model_stalls(o->g, as_p, o->rate, &o->prep_stall, &o->fetch_stall);
	o->au = o->g > 0 ? o->rate / o->g : 1;
	o->bottleneck = mr_model_limit(o->g, o->p, fetch);
	o->rate *= nodes;
}
