/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/script.h"

#include <dirent.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/mem.h"
#include "millrace/millrace.h"
#include "trace/told.h"

enum {
	LARGEST = 1 << 20, /* of a file, in bytes */
	WINDOWS = 256,
	NOTE = 400,
};

/* One rank's file. */
struct part {
	int rank;
	struct json_object *o;
};

struct parts {
	struct part at[MR_DIAG_RANKS];
	int n;
	bool left_out;
};

/* ---- JSON ---- */

/* A number within [0, most]; `otherwise` when there is none. */
static double number(struct json_object *o, const char *key, double most,
		     double otherwise)
{
	struct json_object *v = mr_told_member(o, key);
	double x;

	if (!json_object_is_type(v, json_type_int) &&
	    !json_object_is_type(v, json_type_double))
		return otherwise;
	x = json_object_get_double(v);
	return isfinite(x) && x >= 0 && x <= most ? x : otherwise;
}

static uint64_t whole(struct json_object *o, const char *key)
{
	return (uint64_t)number(o, key, 1e15, 0);
}

/* Seconds per sample become samples per second. */
static struct mr_figure figure(struct json_object *phase)
{
	struct json_object *list = mr_told_member(phase, "seconds_per_sample");
	struct mr_figure f = { 0 }, t;
	double v[WINDOWS], least = INFINITY;
	size_t n = 0, all;

	if (!json_object_is_type(list, json_type_array))
		return f;
	all = json_object_array_length(list);
	for (size_t i = 0; i < all && n < WINDOWS; i++) {
		double x = json_object_get_double(
			json_object_array_get_idx(list, i));

		if (!isfinite(x) || x <= 0)
			continue;
		v[n++] = x;
		least = x < least ? x : least;
	}
	if (!n)
		return f;
	t = mr_figure_of(v, n);
	f.n = (unsigned)n;
	f.mean = 1 / t.mean;
	f.low = 1 / (t.high > t.mean ? t.high : t.mean);
	/* The interval of few, uneven times may go beyond 0. */
	f.high = 1 / (t.low > least / 2 ? t.low : least);
	return f;
}

static struct json_object *phase(const struct part *p, const char *name)
{
	return mr_told_member(mr_told_member(p->o, "phases"), name);
}

/* ---- the files ---- */

static bool ends_in_rank(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".rank") == 0;
}

static int load(const char *path, struct part *p, struct mr_err *err)
{
	struct stat st;

	if (stat(path, &st))
		return mr_err_sys(err, errno, path, "cannot read");
	if (!S_ISREG(st.st_mode) || st.st_size > LARGEST)
		return mr_err_set(err, MR_EDATA,
				  "%s: not a file of at most %d bytes", path,
				  LARGEST);
	p->o = json_object_from_file(path);
	if (!json_object_is_type(p->o, json_type_object)) {
		json_object_put(p->o);
		return mr_err_set(err, MR_EDATA,
				  "%s: not a measurement: no JSON object",
				  path);
	}
	p->rank = (int)number(p->o, "rank", 1 << 30, 0);
	return 0;
}

/* Sorted by rank; of a rank that is there already, the first one counts. */
static void insert(struct parts *parts, const struct part *p)
{
	int i = parts->n;

	for (int k = 0; k < parts->n; k++)
		if (parts->at[k].rank == p->rank)
			i = -1;
	if (i < 0 || i == MR_DIAG_RANKS) {
		parts->left_out = true;
		json_object_put(p->o);
		return;
	}
	for (; i > 0 && parts->at[i - 1].rank > p->rank; i--)
		parts->at[i] = parts->at[i - 1];
	parts->at[i] = *p;
	parts->n++;
}

static int load_all(const char *folder, struct parts *parts, struct mr_err *err)
{
	DIR *d = opendir(folder);
	struct dirent *x;
	char path[8192];
	int e = 0;

	if (!d)
		return mr_err_sys(err, errno, folder, "cannot read");
	while (!e && (x = readdir(d))) {
		struct part p;

		if (!ends_in_rank(x->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, x->d_name);
		e = load(path, &p, err);
		if (!e)
			insert(parts, &p);
	}
	closedir(d);
	return e;
}

/* ---- what is in them ---- */

static void add(struct mr_figure *to, const struct mr_figure *f, bool first)
{
	if (first) {
		*to = *f;
	} else if (!f->n || !to->n) {
		*to = (struct mr_figure){ 0 };
	} else {
		to->mean += f->mean;
		to->low += f->low;
		to->high += f->high;
		to->n = f->n < to->n ? f->n : to->n;
	}
}

static void add_rates(struct mr_diagnosis *d, const struct part *p, bool first)
{
	const struct {
		const char *name;
		struct mr_figure *to;
	} all[] = {
		{ "g", &d->as_g }, { "p", &d->p },	 { "s", &d->s },
		{ "c", &d->c },	   { "as_p", &d->as_p }, { "as_f", &d->as_f },
	};

	for (size_t i = 0; i < MR_COUNT(all); i++) {
		struct mr_figure f = figure(phase(p, all[i].name));

		add(all[i].to, &f, first);
	}
}

/* What a rank would reach by itself: its step, and its own waits. */
static struct mr_figure by_itself(const struct part *p, const char *name,
				  const struct mr_figure *step)
{
	struct mr_figure f = figure(phase(p, name));
	double batch = number(p->o, "batch", 1e9, 0);
	double wait = number(phase(p, name), "wait", 1e9, 0);
	double rate;

	if (!f.n || !step->n || batch < 1)
		return f;
	rate = batch / (batch / step->mean + wait);
	f.low *= rate / f.mean;
	f.high *= rate / f.mean;
	f.mean = rate;
	return f;
}

static void add_rank(struct mr_diagnosis *d, const struct part *p)
{
	struct mr_diag_rank *r = &d->rank[d->ranks++];

	r->rank = p->rank;
	r->as_g = figure(phase(p, "g"));
	r->as_p = by_itself(p, "as_p", &r->as_g);
	r->as_f = by_itself(p, "as_f", &r->as_g);
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void add_part(struct mr_diagnosis *d, const struct part *p, bool first)
{
	double cores = number(p->o, "cores", 1e6, 0);

	add_rates(d, p, first);
	d->samples = (uint64_t)larger((double)d->samples,
				      (double)whole(p->o, "samples"));
	d->batch += whole(p->o, "batch");
	d->sampled += whole(p->o, "sampled");
	d->threads += (int)number(p->o, "workers", 1e6, 0);
	d->cores = (int)larger(d->cores, cores);
	d->seconds = larger(d->seconds, number(p->o, "seconds", 1e9, 0));
	d->cold_stayed =
		larger(d->cold_stayed, number(p->o, "cold_stayed", 1, 0));
	if (first) {
		d->sample_bytes = number(p->o, "sample_bytes", 1e15, 0);
		d->sample_requests = number(p->o, "sample_requests", 1e9, 0);
		d->warm_resident = number(p->o, "warm_resident", 1, -1);
	}
}

/* ---- what a reader should know ---- */

static void note(struct mr_diagnosis *d, const char *text)
{
	if (d->notes.text && strstr(d->notes.text, text))
		return; /* another rank said it */
	mr_str_add(&d->notes, text);
	mr_str_add(&d->notes, "\n");
}

static void add_notes(struct mr_diagnosis *d, const struct part *p)
{
	struct json_object *list = mr_told_member(p->o, "notes");
	size_t n = json_object_is_type(list, json_type_array) ?
			   json_object_array_length(list) :
			   0;
	char text[NOTE];

	for (size_t i = 0; i < n; i++) {
		const char *s = json_object_get_string(
			json_object_array_get_idx(list, i));

		if (!s || !mr_json_can(s))
			continue;
		snprintf(text, sizeof(text), "%s", s);
		for (char *c = text; *c; c++)
			if (*c == '\n')
				*c = ' ';
		note(d, text);
	}
}

/* A rank that waits for its data makes the others wait for it. */
static void name_straggler(struct mr_diagnosis *d, const struct parts *parts,
			   const char *name, const char *when)
{
	double least = INFINITY, most = -1, step;
	int who = 0;
	char text[NOTE];

	for (int i = 0; i < parts->n; i++) {
		double w = number(phase(&parts->at[i], name), "wait", 1e9, -1);

		if (w < 0)
			return;
		least = w < least ? w : least;
		if (w > most) {
			most = w;
			who = parts->at[i].rank;
		}
	}
	if (!d->as_g.n || !d->batch)
		return;
	step = (double)d->batch / d->as_g.mean;
	if (most - least < 0.1 * (step + most))
		return;
	snprintf(text, sizeof(text),
		 "rank %d is the straggler %s: it waits %.3g ms for a batch, "
		 "the quickest rank %.3g ms; the others wait for it in "
		 "backward()",
		 who, when, most * 1e3, least * 1e3);
	note(d, text);
}

static void conclude_ranks(struct mr_diagnosis *d, const struct parts *parts)
{
	if (parts->n > 1) {
		for (int i = 0; i < parts->n; i++)
			add_rank(d, &parts->at[i]);
		name_straggler(d, parts, "as_p", "with its files in memory");
		name_straggler(d, parts, "as_f", "with its files cold");
	}
	if (parts->left_out)
		note(d, "several processes said to be of the same rank, or "
			"there were too many: one of each is counted");
}

/* ---- the whole ---- */

static int take(struct mr_diagnosis *d, const struct parts *parts,
		const char *folder, struct mr_err *err)
{
	for (int i = 0; i < parts->n; i++) {
		add_part(d, &parts->at[i], i == 0);
		add_notes(d, &parts->at[i]);
	}
	if (!parts->n)
		return mr_err_set(err, MR_EDATA, "%s: nothing was measured",
				  folder);
	if (!d->as_g.n) {
		const char *why = d->notes.text ? d->notes.text : "";

		return mr_err_set(err, MR_EDATA,
				  "the script's loop could not be measured: "
				  "%.*s",
				  (int)strcspn(why, "\n"), why);
	}
	snprintf(d->accelerator, sizeof(d->accelerator), "measured");
	d->g = d->as_g;
	d->step_seconds = (double)d->batch / d->as_g.mean;
	d->depth = d->threads > 0 ? d->threads : 1;
	conclude_ranks(d, parts);
	return 0;
}

int mr_script_read(const char *folder, struct mr_diagnosis *d,
		   struct mr_err *err)
{
	struct parts parts = { 0 };
	int e = load_all(folder, &parts, err);

	if (!e)
		e = take(d, &parts, folder, err);
	for (int i = 0; i < parts.n; i++)
		json_object_put(parts.at[i].o);
	return e;
}

int mr_diagnose_script(const char *folder, const char *command, char **json,
		       struct mr_err *err)
{
	struct mr_diagnosis *d = mr_alloc(1, sizeof(*d), err);
	int e;

	*json = NULL;
	if (!d)
		return MR_ENOMEM;
	d->command = strdup(command);
	e = d->command ? mr_script_read(folder, d, err) : mr_err_nomem(err, 1);
	if (!e) {
		mr_diagnosis_conclude(d);
		*json = mr_diagnosis_json(d);
		if (!*json)
			e = mr_err_nomem(err, 1);
	}
	mr_diagnosis_fini(d);
	free(d);
	return e;
}
