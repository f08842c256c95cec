/* SPDX-License-Identifier: Apache-2.0 */
/* mr_whatif(): how fast a job that was diagnosed would be if something were
 * different, by the model; or a row of such answers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "core/mem.h"
#include "diagnose/accelerator.h"
#include "io/shape.h"
#include "pipe/held.h"

enum { POINTS_MAX = 1001, BAR = 30 };

/* A rate this near to the best of a sweep is as good: the knee. */
#define AS_GOOD 0.98

/* So much of the mean step of a sweep is no less than it. */
#define AS_STEEP 0.5

/* The model may be off by so much without a word. */
#define OFF 0.10

/* Less waiting than this is none. */
#define FED 0.05

void mr_whatif_options_init(struct mr_whatif_options *o)
{
	*o = (struct mr_whatif_options){ .size = sizeof(*o),
					 .cache = "",
					 .storage = "",
					 .accelerator = "",
					 .compress = "",
					 .sweep = "" };
}

/* ---- what is different ---- */

/* "2x" is a multiple of the present one. */
static int set_accelerator(const char *text, struct mr_setting *s,
			   struct mr_err *err)
{
	const char *name;
	char *end;
	double v = strtod(text, &end);

	if (end != text && !strcmp(end, "x")) {
		if (!isfinite(v) || v < 1e-6 || v > 1e9)
			return mr_err_set(err, MR_EINVAL,
					  "accelerator '%s': want a multiple "
					  "above 0, as 2x",
					  text);
		s->g *= v;
		return 0;
	}
	return mr_accelerator_parse(text, &s->g, &name, err);
}

static int set_storage(const char *text, struct mr_setting *s,
		       struct mr_err *err)
{
	struct mr_storage_limits l;
	struct mr_profile p;
	int e = mr_profile_parse(&p, text, err);

	if (e)
		return e;
	l = (struct mr_storage_limits){ (double)p.bw, (double)p.stream,
					p.latency, p.iops };
	/* Fetch would have as many in flight as that storage rewards. */
	mr_setting_store(s, &l, MR_HELD_MAX);
	return 0;
}

static int set_codec(const struct mr_diagnosis *d, const char *name,
		     struct mr_setting *s, struct mr_err *err)
{
	struct mr_setting packed;
	struct mr_str all = { 0 };

	for (int i = 0; i < d->codecs; i++) {
		mr_str_addf(&all, " %s", d->codec[i].name);
		if (strcmp(d->codec[i].name, name) != 0)
			continue;
		mr_setting_pack(d, s, &d->codec[i], &packed);
		*s = packed;
		mr_str_fini(&all);
		return 0;
	}
	mr_err_set(
		err, MR_EINVAL,
		"codec '%s' was not measured in this diagnosis; there are:%s",
		name, all.text ? all.text : " none");
	mr_str_fini(&all);
	return MR_EINVAL;
}

static int set_cache(const struct mr_diagnosis *d, const char *text,
		     struct mr_setting *s, struct mr_err *err)
{
	double each = d->entry_bytes > 0 ? d->entry_bytes : d->sample_bytes;
	double all = (double)d->samples * each, bytes;
	int e = mr_model_cache("cache", text, all, &bytes, err);

	if (e)
		return e;
	s->cache = all > 0 ? bytes / all : 0;
	if (s->cache > 1)
		s->cache = 1;
	return 0;
}

static int apply(const struct mr_diagnosis *d,
		 const struct mr_whatif_options *o, struct mr_setting *s,
		 struct mr_err *err)
{
	int e = 0;

	mr_setting_of(d, s);
	mr_setting_fit(d, s);
	if (*o->accelerator)
		e = set_accelerator(o->accelerator, s, err);
	if (!e && *o->storage)
		e = set_storage(o->storage, s, err);
	if (!e && *o->cache)
		e = set_cache(d, o->cache, s, err);
	if (o->cores > 0)
		s->threads = (double)o->cores;
	if (o->nodes > 0)
		s->nodes = (double)o->nodes;
	s->lru = o->page_cache;
	if (!e && *o->compress)
		e = set_codec(d, o->compress, s, err);
	return e;
}

/* ---- a row of answers ---- */

struct sweep {
	char of[16]; /* cache, cores, accelerator, nodes; "": none */
	double from, to, step;
	int n;
	struct mr_outcome *at;
	int knee; /* -1: it still rises where it ends */
};

static int parse_sweep(struct sweep *w, const char *text, struct mr_err *err)
{
	static const char *const known[] = { "cache", "cores", "accelerator",
					     "nodes" };
	char end;
	double n;

	if (sscanf(text, "%15[a-z]=%lf:%lf:%lf%c", w->of, &w->from, &w->to,
		   &w->step, &end) != 4 ||
	    !isfinite(w->from) || !isfinite(w->to) || !isfinite(w->step) ||
	    w->from < 0 || w->to < w->from || !(w->step > 0))
		return mr_err_set(err, MR_EINVAL,
				  "sweep '%s': want WHAT=FROM:TO:STEP, such as "
				  "cache=0:100:5 (percent) or cores=1:64:1",
				  text);
	for (size_t i = 0; i < MR_COUNT(known); i++)
		if (!strcmp(known[i], w->of))
			break;
		else if (i + 1 == MR_COUNT(known))
			return mr_err_set(err, MR_EINVAL,
					  "sweep '%s': cannot sweep '%s'; want "
					  "cache, cores, accelerator or nodes",
					  text, w->of);
	n = floor((w->to - w->from) / w->step + 1e-9) + 1;
	if (n > POINTS_MAX || (!strcmp(w->of, "cache") && w->to > 100))
		return mr_err_set(err, MR_EINVAL,
				  "sweep '%s': want at most %d points, and a "
				  "cache of 0 to 100 percent",
				  text, POINTS_MAX);
	w->n = (int)n;
	return 0;
}

static double value_at(const struct sweep *w, int i)
{
	return w->from + i * w->step;
}

static void set_point(const struct sweep *w, int i, struct mr_setting *s)
{
	double v = value_at(w, i);

	if (!strcmp(w->of, "cache"))
		s->cache = v / 100;
	else if (!strcmp(w->of, "cores"))
		s->threads = v > 0 ? v : 1;
	else if (!strcmp(w->of, "nodes"))
		s->nodes = v;
	else
		s->g = v > 0 ? v : s->g;
}

/* Does the last step gain as much as those before it? Then there is no telling
 * where it ends, unless all of the data set is cached by then. */
static bool still_rises(const struct sweep *w)
{
	const struct mr_outcome *last = &w->at[w->n - 1];

	if (!strcmp(w->of, "cache") && value_at(w, w->n - 1) >= 100)
		return false;
	return w->n < 2 || (w->at[0].rate < AS_GOOD * last->rate &&
			    (last->rate - last[-1].rate) * (w->n - 1) >
				    AS_STEEP * (last->rate - w->at[0].rate));
}

/* The first from which on nothing is gained. */
static void find_knee(struct sweep *w)
{
	double best = 0;

	for (int i = 0; i < w->n; i++)
		if (w->at[i].rate > best)
			best = w->at[i].rate;
	for (w->knee = 0; w->knee < w->n; w->knee++)
		if (w->at[w->knee].rate >= AS_GOOD * best)
			break;
	if (still_rises(w))
		w->knee = -1;
}

static int do_sweep(const struct mr_diagnosis *d, const struct mr_setting *s,
		    const char *text, struct sweep *w, struct mr_err *err)
{
	int e = parse_sweep(w, text, err);

	if (e)
		return e;
	w->at = mr_alloc((size_t)w->n, sizeof(*w->at), err);
	if (!w->at)
		return MR_ENOMEM;
	for (int i = 0; i < w->n; i++) {
		struct mr_setting one = *s;

		set_point(w, i, &one);
		mr_predict(d, &one, &w->at[i]);
	}
	find_knee(w);
	return 0;
}

/* ---- saying it ---- */

static void json_outcome(struct mr_json *j, const struct mr_outcome *o)
{
	mr_json_real(j, "samples_per_s", o->rate, 7);
	mr_json_real(j, "prep_stall", o->prep_stall, 5);
	mr_json_real(j, "fetch_stall", o->fetch_stall, 5);
	mr_json_real(j, "au", o->au, 5);
	mr_json_text(j, "bottleneck", o->bottleneck);
	mr_json_real(j, "hits", o->hits, 5);
	mr_json_real(j, "g", o->g, 7);
	mr_json_real(j, "p", o->p, 7);
	mr_json_real(j, "s", o->s > 0 ? o->s : NAN, 7);
	mr_json_bool(j, "beyond", o->beyond);
}

static char *as_json(const struct mr_diagnosis *d, const struct mr_outcome *now,
		     const struct mr_outcome *then, const struct sweep *w)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "kind", "whatif");
	mr_json_text(&j, "pipeline", d->pipeline ? d->pipeline : d->command);
	mr_json_open(&j, "measured", '{');
	mr_json_real(&j, "samples_per_s", d->rate, 7);
	mr_json_close(&j, '}');
	mr_json_open(&j, "now", '{');
	json_outcome(&j, now);
	mr_json_close(&j, '}');
	mr_json_real(&j, "model_error", mr_model_error(d), 5);
	json_outcome(&j, then);
	if (w->n) {
		mr_json_open(&j, "sweep", '{');
		mr_json_text(&j, "of", w->of);
		mr_json_real(&j, "knee",
			     w->knee < 0 ? NAN : value_at(w, w->knee), 9);
		mr_json_open(&j, "points", '[');
		for (int i = 0; i < w->n; i++) {
			mr_json_open(&j, NULL, '{');
			mr_json_real(&j, w->of, value_at(w, i), 9);
			json_outcome(&j, &w->at[i]);
			mr_json_close(&j, '}');
		}
		mr_json_close(&j, ']');
		mr_json_close(&j, '}');
	}
	mr_json_close(&j, '}');
	return mr_str_take(&j.out);
}

static void say_outcome(struct mr_str *s, const char *name,
			const struct mr_outcome *o)
{
	mr_str_addf(s, "%-10s %10.1f %7.1f %% %7.1f %% %7.1f %%  %s%s\n", name,
		    o->rate, 100 * o->prep_stall, 100 * o->fetch_stall,
		    100 * o->au, o->bottleneck,
		    o->beyond ? " (with more threads than were measured)" : "");
}

/* Who keeps it waiting. */
static const char *waits_for(const struct mr_outcome *o)
{
	return o->fetch_stall > o->prep_stall ? "the storage" :
						"the preparation";
}

static void say_knee(struct mr_str *s, const struct sweep *w)
{
	const char *unit = strcmp(w->of, "cache") ? "" : " %";
	const struct mr_outcome *o;

	if (w->knee < 0) {
		o = &w->at[w->n - 1];
		mr_str_addf(s, "\n%s at %s %.6g%s: look further\n",
			    w->n > 1 ? "it still rises" : "one point is no row",
			    w->of, value_at(w, w->n - 1), unit);
	} else {
		o = &w->at[w->knee];
		mr_str_addf(s, "\nfrom %s %.6g%s on nothing %sis gained", w->of,
			    value_at(w, w->knee), unit,
			    1 - o->au > FED ? "more " : "");
		if (1 - o->au > FED)
			mr_str_addf(s,
				    ": %s keeps the accelerator waiting for "
				    "%.0f %% of the time",
				    waits_for(o), 100 * (1 - o->au));
		mr_str_add(s, "\n");
	}
}

static void say_sweep(struct mr_str *s, const struct sweep *w)
{
	mr_str_addf(s, "\n%-10s %10s %9s %9s %9s\n", w->of, "samples/s", "prep",
		    "fetch", "AU");
	for (int i = 0; i < w->n; i++) {
		const struct mr_outcome *o = &w->at[i];
		int n = (int)(o->au * BAR + 0.5);
		char bar[BAR + 1];

		memset(bar, '#', sizeof(bar));
		mr_str_addf(s,
			    "%-10.6g %10.1f %7.1f %% %7.1f %% %7.1f %%  "
			    "%.*s%s\n",
			    value_at(w, i), o->rate, 100 * o->prep_stall,
			    100 * o->fetch_stall, 100 * o->au, n, bar,
			    i == w->knee ? " <- knee" : "");
	}
	say_knee(s, w);
}

/* How far to trust it. */
static void say_error(struct mr_str *s, const struct mr_diagnosis *d,
		      const struct mr_whatif_options *o)
{
	double off = mr_model_error(d);
	struct mr_setting fit;

	if (fabs(off) <= OFF)
		return;
	mr_setting_of(d, &fit);
	mr_setting_fit(d, &fit);
	mr_str_addf(s, "\nthe model is off by %+.0f %% here", 100 * off);
	if (fit.fit_p <= 0 && fit.fit_s <= 0)
		mr_str_add(s, ": so may the prediction be");
	else if (!*o->storage || fit.fit_s <= 0)
		mr_str_add(s, ", which the prediction makes up for");
	else
		mr_str_add(s, ", and what it says of another storage may be");
	mr_str_add(s, "\n");
}

static char *as_text(const struct mr_diagnosis *d,
		     const struct mr_whatif_options *o,
		     const struct mr_outcome *now,
		     const struct mr_outcome *then, const struct sweep *w)
{
	struct mr_str s = { 0 };

	mr_str_addf(&s, "%s\n\n%-10s %10s %9s %9s %9s\n",
		    d->pipeline ? d->pipeline : d->command, "", "samples/s",
		    "prep", "fetch", "AU");
	mr_str_addf(&s, "%-10s %10.1f %7.1f %% %7.1f %% %7.1f %%  %s\n",
		    "measured", d->rate, 100 * d->prep_stall,
		    100 * d->fetch_stall, 100 * d->au, d->bottleneck);
	say_outcome(&s, "modelled", now);
	if (w->n)
		say_sweep(&s, w);
	else
		say_outcome(&s, "predicted", then);
	if (!w->n && o->nodes > 1)
		mr_str_addf(&s, "\n%lld nodes together: %.1f samples/s each\n",
			    (long long)o->nodes, then->rate / (double)o->nodes);
	say_error(&s, d, o);
	return mr_str_take(&s);
}

int mr_whatif(const char *json, const char *file,
	      const struct mr_whatif_options *o, bool as, char **text,
	      struct mr_err *err)
{
	struct mr_diagnosis *d = mr_alloc(1, sizeof(*d), err);
	struct mr_setting now, then;
	struct mr_outcome a, b;
	struct sweep w = { 0 };
	int e;

	*text = NULL;
	if (!d)
		return MR_ENOMEM;
	e = mr_diagnosis_parse(d, json, file, err);
	if (e) {
		free(d);
		return e;
	}
	mr_setting_of(d, &now);
	e = apply(d, o, &then, err);
	if (!e && *o->sweep)
		e = do_sweep(d, &then, o->sweep, &w, err);
	if (!e) {
		mr_predict(d, &now, &a);
		mr_predict(d, &then, &b);
		*text = as ? as_json(d, &a, &b, &w) : as_text(d, o, &a, &b, &w);
		e = *text ? 0 : mr_err_nomem(err, 1);
	}
	free(w.at);
	mr_diagnosis_fini(d);
	free(d);
	return e;
}
