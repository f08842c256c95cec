/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A diagnosis as JSON, there and back. What was measured is one table, so
 * that what is written can be read; what was concluded is written only, and
 * concluded again when read.
 */
#include <json-c/json.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/diagnosis.h"
#include "core/machine.h"
#include "core/mem.h"

enum kind { REAL, INT, UINT, BOOL, TEXT, FIGURE };

struct key {
	const char *name;
	enum kind kind;
	size_t at, size; /* size: of a text */
	bool must;
};

#define D struct mr_diagnosis
#define KEY(type, member, kind)                            \
	{                                                  \
#member, kind, offsetof(type, member),     \
			sizeof(((type *)0)->member), false \
	}
#define MUST(type, member, kind)                          \
	{                                                 \
#member, kind, offsetof(type, member),    \
			sizeof(((type *)0)->member), true \
	}

static const struct key measured[] = {
	MUST(D, samples, UINT),	    MUST(D, batch, UINT),
	MUST(D, threads, INT),	    KEY(D, cores, INT),
	KEY(D, sampled, UINT),	    KEY(D, seconds, REAL),
	KEY(D, sample_bytes, REAL), KEY(D, sample_requests, REAL),
	KEY(D, accelerator, TEXT),  KEY(D, step_seconds, REAL),
	KEY(D, profile, TEXT),	    KEY(D, depth, REAL),
	KEY(D, cache_bytes, REAL),  KEY(D, cache_share, REAL),
	KEY(D, entry_bytes, REAL),  KEY(D, direct, BOOL),
	KEY(D, cold_stayed, REAL),  KEY(D, warm_resident, REAL),
	KEY(D, g, FIGURE),	    KEY(D, p, FIGURE),
	KEY(D, s, FIGURE),	    KEY(D, c, FIGURE),
	KEY(D, pc, FIGURE),	    KEY(D, pa, FIGURE),
	MUST(D, as_g, FIGURE),	    KEY(D, as_p, FIGURE),
	KEY(D, as_f, FIGURE),	    KEY(D, page, FIGURE),
};

#define L struct mr_storage_limits

static const struct key limits[] = {
	KEY(L, bw, REAL),
	KEY(L, stream, REAL),
	KEY(L, latency, REAL),
	KEY(L, iops, REAL),
};

#define S struct mr_diag_step

static const struct key step[] = {
	KEY(S, name, TEXT),
	KEY(S, us, REAL),
	KEY(S, bytes_out, REAL),
	KEY(S, fixed, BOOL),
};

#define C struct mr_diag_codec

static const struct key codec[] = {
	KEY(C, name, TEXT),
	KEY(C, ratio, REAL),
	KEY(C, unpack, REAL),
};

#define R struct mr_diag_rank

static const struct key rank[] = {
	KEY(R, rank, INT),
	KEY(R, as_g, FIGURE),
	KEY(R, as_p, FIGURE),
	KEY(R, as_f, FIGURE),
};

#define P struct mr_diag_point

static const struct key point[] = {
	KEY(P, threads, INT),
	KEY(P, rate, FIGURE),
};

#define M struct mr_remedy

static const struct key remedy[] = {
	KEY(M, what, TEXT), KEY(M, how, TEXT),	KEY(M, cost, TEXT),
	KEY(M, rate, REAL), KEY(M, gain, REAL),
};

#define LIST(type, n, list, max, keys)                                     \
	{                                                                  \
#n, offsetof(type, n), offsetof(type, list), max,          \
			sizeof(((type *)0)->list[0]), keys, MR_COUNT(keys) \
	}

static const struct list {
	const char *name;
	size_t n, at, max, size;
	const struct key *key;
	size_t keys;
} lists[] = {
	LIST(D, points, curve, MR_CURVE_MAX, point),
	LIST(D, steps, step, MR_DIAG_STEPS, step),
	LIST(D, codecs, codec, MR_DIAG_CODECS, codec),
	LIST(D, ranks, rank, MR_DIAG_RANKS, rank),
};

/* ---- writing ---- */

static void put_figure(struct mr_json *j, const char *name,
		       const struct mr_figure *f)
{
	if (!f->n) {
		mr_json_raw(j, name, "null");
		return;
	}
	mr_json_open(j, name, '{');
	mr_json_real(j, "mean", f->mean, 7);
	/* one measurement has no interval */
	mr_json_real(j, "low", f->n > 1 ? f->low : NAN, 7);
	mr_json_real(j, "high", f->n > 1 ? f->high : NAN, 7);
	mr_json_uint(j, "n", f->n);
	mr_json_close(j, '}');
}

static void put(struct mr_json *j, const struct key *k, const void *of)
{
	const void *at = (const char *)of + k->at;

	switch (k->kind) {
	case REAL:
		mr_json_real(j, k->name, *(const double *)at, 9);
		break;
	case INT:
		mr_json_int(j, k->name, *(const int *)at);
		break;
	case UINT:
		mr_json_uint(j, k->name, *(const uint64_t *)at);
		break;
	case BOOL:
		mr_json_bool(j, k->name, *(const bool *)at);
		break;
	case TEXT:
		mr_json_text(j, k->name, at);
		break;
	case FIGURE:
		put_figure(j, k->name, at);
		break;
	}
}

static void put_all(struct mr_json *j, const struct key *k, size_t n,
		    const void *of)
{
	for (size_t i = 0; i < n; i++)
		put(j, &k[i], of);
}

static void put_list(struct mr_json *j, const char *name, const struct key *key,
		     size_t keys, const char *at, size_t size, int n)
{
	mr_json_open(j, name, '[');
	for (int i = 0; i < n; i++, at += size) {
		mr_json_open(j, NULL, '{');
		put_all(j, key, keys, at);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void put_notes(struct mr_json *j, const struct mr_diagnosis *d)
{
	const char *s = d->notes.text ? d->notes.text : "";

	mr_json_open(j, "notes", '[');
	while (*s) {
		struct mr_str line = { 0 };
		size_t n = strcspn(s, "\n");

		mr_str_addn(&line, s, n);
		mr_json_text(j, NULL, line.text ? line.text : "");
		mr_str_fini_into(&line, &j->out);
		s += n + (s[n] == '\n');
	}
	mr_json_close(j, ']');
}

static void put_conclusions(struct mr_json *j, const struct mr_diagnosis *d)
{
	/* null: not known, which is not 0; a pipeline may have no storage */
	bool p = d->as_p.n || !d->command, f = d->as_f.n || !d->command;

	mr_json_real(j, "samples_per_s", d->rate, 7);
	mr_json_real(j, "prep_stall", p ? d->prep_stall : NAN, 5);
	mr_json_real(j, "fetch_stall", f ? d->fetch_stall : NAN, 5);
	mr_json_real(j, "au", f ? d->au : NAN, 5);
	mr_json_real(j, "epoch_seconds",
		     d->rate > 0 ? (double)d->samples / d->rate : NAN, 6);
	mr_json_open(j, "verdict", '{');
	mr_json_text(j, "bottleneck", d->bottleneck);
	mr_json_text(j, "evidence", d->verdict);
	mr_json_close(j, '}');
	put_list(j, "remedies", remedy, MR_COUNT(remedy),
		 (const char *)d->remedy, sizeof(d->remedy[0]), d->remedies);
}

char *mr_diagnosis_json(const struct mr_diagnosis *d)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "kind", "diagnosis");
	mr_json_text(&j, "version", MR_VERSION);
	mr_machine_json(&j);
	if (d->pipeline)
		mr_json_text(&j, "pipeline", d->pipeline);
	if (d->command)
		mr_json_text(&j, "command", d->command);
	put_conclusions(&j, d);
	put_all(&j, measured, MR_COUNT(measured), d);
	mr_json_open(&j, "limits", '{');
	put_all(&j, limits, MR_COUNT(limits), &d->limits);
	mr_json_close(&j, '}');
	for (size_t i = 0; i < MR_COUNT(lists); i++) {
		const struct list *l = &lists[i];

		put_list(&j, l->name, l->key, l->keys, (const char *)d + l->at,
			 l->size, *(const int *)((const char *)d + l->n));
	}
	put_notes(&j, d);
	mr_json_close(&j, '}');
	return mr_str_take(&j.out);
}

/* ---- reading ---- */

struct reading {
	const char *file;
	struct mr_err *err;
};

static int wrong(const struct reading *r, const char *key, const char *want)
{
	return mr_err_set(r->err, MR_EDATA,
			  "%s: '%s': %s; is it what `millrace diagnose --json` "
			  "wrote?",
			  r->file, key, want);
}

/* A number that makes sense: none here is below 0, or beyond all bounds. */
static bool number(struct json_object *o, double *v)
{
	if (!json_object_is_type(o, json_type_double) &&
	    !json_object_is_type(o, json_type_int))
		return false;
	*v = json_object_get_double(o);
	return isfinite(*v) && *v >= -1 && *v < 1e18;
}

/* Of an interval; that of one measurement is null, and not looked at. */
static bool bound(struct json_object *figure, const char *name, double n,
		  double mean, double *v)
{
	struct json_object *o = json_object_object_get(figure, name);

	*v = mean;
	return (!o && n < 2) || number(o, v);
}

static int get_figure(const struct reading *r, const char *name,
		      struct json_object *o, struct mr_figure *f)
{
	double n = 0;

	if (!json_object_is_type(o, json_type_object) ||
	    !number(json_object_object_get(o, "mean"), &f->mean) ||
	    !number(json_object_object_get(o, "n"), &n) || n < 0 ||
	    f->mean < 0 ||
	    !(bound(o, "low", n, f->mean, &f->low) &&
	      bound(o, "high", n, f->mean, &f->high)))
		return wrong(r, name,
			     "want mean, low, high and n, not below 0");
	f->n = n < UINT_MAX ? (unsigned)n : UINT_MAX;
	return 0;
}

static int get(const struct reading *r, const struct key *k,
	       struct json_object *of, void *to)
{
	struct json_object *o = json_object_object_get(of, k->name);
	void *at = (char *)to + k->at;
	double v = 0;

	if (!o)
		return k->must ? wrong(r, k->name, "is missing") : 0;
	switch (k->kind) {
	case FIGURE:
		return get_figure(r, k->name, o, at);
	case BOOL:
		*(bool *)at = json_object_get_boolean(o);
		return 0;
	case TEXT:
		if (!json_object_is_type(o, json_type_string) ||
		    strlen(json_object_get_string(o)) >= k->size)
			return wrong(r, k->name, "want a text, not so long");
		strcpy(at, json_object_get_string(o));
		return 0;
	default:
		break;
	}
	if (!number(o, &v) || (k->kind != REAL && v < 0) ||
	    (k->kind == INT && v > INT_MAX))
		return wrong(r, k->name, "want a number, not below 0");
	if (k->kind == REAL)
		*(double *)at = v;
	else if (k->kind == INT)
		*(int *)at = (int)v;
	else
		*(uint64_t *)at = (uint64_t)v;
	return 0;
}

static int get_all(const struct reading *r, const struct key *k, size_t n,
		   struct json_object *of, void *to)
{
	int e = 0;

	if (!json_object_is_type(of, json_type_object))
		return wrong(r, n ? k->name : "", "want an object around it");
	for (size_t i = 0; !e && i < n; i++)
		e = get(r, &k[i], of, to);
	return e;
}

static int get_list(const struct reading *r, const struct list *l,
		    struct json_object *of, struct mr_diagnosis *d)
{
	struct json_object *o = json_object_object_get(of, l->name);
	size_t n;
	int e = 0;

	if (!o)
		return 0;
	if (!json_object_is_type(o, json_type_array))
		return wrong(r, l->name, "want a list");
	n = json_object_array_length(o);
	if (n > l->max)
		return wrong(r, l->name, "is too long");
	for (size_t i = 0; !e && i < n; i++)
		e = get_all(r, l->key, l->keys, json_object_array_get_idx(o, i),
			    (char *)d + l->at + i * l->size);
	*(int *)((char *)d + l->n) = (int)n;
	return e;
}

static int get_text(struct json_object *of, const char *key, char **to,
		    struct mr_err *err)
{
	struct json_object *o = json_object_object_get(of, key);

	if (!json_object_is_type(o, json_type_string))
		return 0;
	*to = mr_strdup(json_object_get_string(o), err);
	return *to ? 0 : MR_ENOMEM;
}

static void get_notes(struct json_object *of, struct mr_str *to)
{
	struct json_object *o = json_object_object_get(of, "notes");
	size_t n = json_object_is_type(o, json_type_array) ?
			   json_object_array_length(o) :
			   0;

	for (size_t i = 0; i < n; i++)
		mr_str_addf(to, "%s\n",
			    json_object_get_string(
				    json_object_array_get_idx(o, i)));
}

static int get_diagnosis(const struct reading *r, struct json_object *o,
			 struct mr_diagnosis *d)
{
	int e = get_all(r, measured, MR_COUNT(measured), o, d);

	if (!e && json_object_object_get(o, "limits"))
		e = get_all(r, limits, MR_COUNT(limits),
			    json_object_object_get(o, "limits"), &d->limits);
	for (size_t i = 0; !e && i < MR_COUNT(lists); i++)
		e = get_list(r, &lists[i], o, d);
	/* The curve is looked up: by threads, ascending. */
	for (int i = 0; !e && i < d->points; i++)
		if (d->curve[i].threads <= (i ? d->curve[i - 1].threads : 0) ||
		    !d->curve[i].rate.n)
			e = wrong(r, "points", "want threads to ascend");
	if (!e)
		e = get_text(o, "pipeline", &d->pipeline, r->err);
	if (!e)
		e = get_text(o, "command", &d->command, r->err);
	if (!e && !d->pipeline && !d->command)
		e = wrong(r, "pipeline", "is missing, and so is 'command'");
	get_notes(o, &d->notes);
	return e;
}

int mr_diagnosis_parse(struct mr_diagnosis *d, const char *json,
		       const char *file, struct mr_err *err)
{
	struct reading r = { file, err };
	struct json_object *o = json_tokener_parse(json);
	int e;

	memset(d, 0, sizeof(*d));
	if (!json_object_is_type(o, json_type_object))
		e = mr_err_set(err, MR_EDATA,
			       "%s is not JSON; want what `millrace diagnose "
			       "--json` wrote",
			       file);
	else
		e = get_diagnosis(&r, o, d);
	json_object_put(o);
	if (e)
		mr_diagnosis_fini(d);
	else
		mr_diagnosis_conclude(d);
	return e;
}
