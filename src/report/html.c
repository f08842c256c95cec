/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html.h"

#include <json-c/json.h>

#include "analyze/hardware.h"
#include "core/counter.h"
#include "core/json.h"
#include "core/mem.h"
#include "report/gather.h"

extern const char mr_trace_page[]; /* trace.html */

/* Where the data goes in it. */
static const char hole[] = "/*DATA*/null";

static const char *const doings[MR_DOINGS] = {
	"read",	  "steps", "collate", "wait_in", "wait_out",
	"engine", "next",  "consume", "other",
};

/* ---- what was run ---- */

static void put_meta(struct mr_json *j, const struct mr_roll *r)
{
	static const char *const said[] = {
		"pipeline", "version", "threads", "order",   "seed",
		"samples",  "batch",   "clock",	  "foreign",
	};
	static const char *const of_machine[] = { "cpu", "cores", "memory",
						  "kernel" };
	struct json_object *machine = NULL, *v;

	mr_json_open(j, "meta", '{');
	for (size_t i = 0; i < MR_COUNT(said); i++)
		if (*mr_roll_meta(r, said[i]))
			mr_json_text(j, said[i], mr_roll_meta(r, said[i]));
	if (r->meta)
		json_object_object_get_ex(r->meta, "machine", &machine);
	for (size_t i = 0; i < MR_COUNT(of_machine); i++)
		if (json_object_is_type(machine, json_type_object) &&
		    json_object_object_get_ex(machine, of_machine[i], &v) && v)
			mr_json_text(j, of_machine[i],
				     json_object_get_string(v));
	mr_json_close(j, '}');
}

static void put_run(struct mr_json *j, const struct mr_page *p)
{
	const struct mr_roll *r = p->r;

	put_meta(j, r);
	mr_json_int(j, "rank", r->header.rank);
	mr_json_int(j, "ranks", r->header.ranks);
	mr_json_uint(j, "pid", r->header.pid);
	mr_json_uint(j, "unix_ms", r->header.realtime / 1000000);
	mr_json_uint(j, "ns", r->end - r->start);
	mr_json_uint(j, "spans", r->spans);
	mr_json_uint(j, "lost", r->lost);
	mr_json_uint(j, "left_out", r->left_out);
	mr_json_bool(j, "done", r->done);
	mr_json_text(j, "cut", r->cut ? r->cut : "");
	mr_json_uint(j, "all_lanes", p->all_lanes);
}

/* ---- durations ---- */

static void put_tally(struct mr_json *j, const struct mr_page *p, uint8_t kind,
		      uint8_t step, const struct mr_tally *t)
{
	struct mr_mrt_span s = { .kind = kind, .step = step };

	mr_json_open(j, NULL, '{');
	mr_json_text(j, "name", mr_roll_name(p->r, &s));
	mr_json_uint(j, "kind", kind);
	mr_json_uint(j, "step", step);
	mr_json_uint(j, "n", t->n);
	mr_json_uint(j, "total", t->total);
	mr_json_uint(j, "most", t->most);
	mr_json_uint(j, "bytes", t->bytes);
	mr_json_real(j, "p50", mr_hist_quantile(t->bucket, 0.5), 4);
	mr_json_real(j, "p90", mr_hist_quantile(t->bucket, 0.9), 4);
	mr_json_real(j, "p99", mr_hist_quantile(t->bucket, 0.99), 4);
	mr_json_open(j, "hist", '[');
	for (unsigned i = 0; i < MR_PAGE_BUCKETS; i++) {
		if (!t->bucket[i])
			continue;
		mr_json_uint(j, NULL, i);
		mr_json_uint(j, NULL, t->bucket[i]);
	}
	mr_json_close(j, ']');
	mr_json_close(j, '}');
}

static void put_tallies(struct mr_json *j, const struct mr_page *p)
{
	mr_json_open(j, "tallies", '[');
	for (int i = 0; i < 256; i++)
		if (p->step[i])
			put_tally(j, p, MR_SPAN_STEP, (uint8_t)i, p->step[i]);
	for (int i = 0; i < 64; i++)
		if (p->kind[i])
			put_tally(j, p, (uint8_t)i, 0, p->kind[i]);
	mr_json_close(j, ']');
}

/* ---- threads and the consumer over time ---- */

/* A letter for each column: how much of it, in 63 parts. */
static void put_shares(struct mr_json *j, const struct mr_page *p, size_t lane,
		       int d)
{
	double column = (double)(p->r->end - p->r->start) / MR_PAGE_COLUMNS;
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz0123456789+-";
	char text[MR_PAGE_COLUMNS + 1];
	bool any = false;

	for (size_t i = 0; i < MR_PAGE_COLUMNS; i++) {
		const uint64_t *of = p->doing[lane][i];
		double ns = (double)of[d], share;

		for (int k = 0; d == MR_DOING_WORK && k < MR_DOING_WORK; k++)
			ns -= (double)of[k]; /* what is left is the engine's */
		share = column > 0 && ns > 0 ? ns / column : 0;
		any |= share > 0;
		text[i] = letters[share < 1 ? (int)(share * 63 + 0.5) : 63];
	}
	text[MR_PAGE_COLUMNS] = 0;
	if (any)
		mr_json_text(j, doings[d], text);
}

static void put_lanes(struct mr_json *j, const struct mr_page *p)
{
	mr_json_open(j, "lanes", '[');
	for (size_t i = 0; i < p->lanes; i++) {
		const struct mr_roll_thread *t = p->lane[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "name", t->is.name);
		mr_json_text(j, "role", t->is.role);
		mr_json_int(j, "pid", t->is.pid);
		mr_json_int(j, "tid", t->is.tid);
		mr_json_uint(j, "spans", t->spans);
		mr_json_open(j, "doing", '{');
		for (int d = 0; d < MR_DOINGS; d++)
			put_shares(j, p, i, d);
		mr_json_close(j, '}');
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void put_columns(struct mr_json *j, const struct mr_page *p)
{
	mr_json_open(j, "columns", '[');
	for (size_t i = 0; i < MR_PAGE_COLUMNS; i++) {
		const struct mr_column *c = &p->column[i];

		mr_json_open(j, NULL, '[');
		mr_json_uint(j, NULL, c->samples);
		mr_json_uint(j, NULL, c->waits);
		mr_json_uint(j, NULL, c->wait);
		mr_json_uint(j, NULL, c->wait_most);
		mr_json_uint(j, NULL, c->delays);
		mr_json_uint(j, NULL, c->delay);
		mr_json_uint(j, NULL, c->delay_most);
		mr_json_close(j, ']');
	}
	mr_json_close(j, ']');
}

/* ---- lists ---- */

static void put_worst(struct mr_json *j, const struct mr_page *p)
{
	uint64_t start = p->r->start;

	mr_json_open(j, "worst", '[');
	for (size_t i = 0; i < p->worsts; i++) {
		const struct mr_worst *w = &p->worst[i];

		mr_json_open(j, NULL, '[');
		mr_json_uint(j, NULL, w->batch);
		mr_json_uint(j, NULL, w->begun - start);
		mr_json_uint(j, NULL, w->ready - start);
		mr_json_uint(j, NULL, w->asked - start);
		mr_json_uint(j, NULL, w->taken - start);
		mr_json_close(j, ']');
	}
	mr_json_close(j, ']');
}

static void put_slow(struct mr_json *j, const struct mr_page *p)
{
	mr_json_open(j, "slow", '[');
	for (size_t i = 0; i < p->slows; i++) {
		const struct mr_slow *s = &p->slow[i];
		const struct mr_roll_key *k =
			mr_roll_key(p->r, s->thread, s->sample, s->ns);
		char key[1024] = "";

		if (k)
			memcpy(key, k->text,
			       k->length < sizeof(key) - 1 ? k->length :
							     sizeof(key) - 1);
		mr_json_open(j, NULL, '{');
		if (s->sample != MR_NO_SAMPLE)
			mr_json_uint(j, "sample", s->sample);
		if (s->batch != MR_NO_BATCH)
			mr_json_uint(j, "batch", s->batch);
		mr_json_uint(j, "at", s->start - p->r->start);
		mr_json_uint(j, "ns", s->ns);
		mr_json_uint(j, "lane", s->lane);
		mr_json_bool(j, "failed", s->failed);
		mr_json_text(j, "key", key);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

/* ---- windows ---- */

static void put_number(struct mr_str *out, uint64_t v, bool known, char end)
{
	if (known)
		mr_str_addf(out, "%llu%c", (unsigned long long)v, end);
	else
		mr_str_addf(out, "-1%c", end);
}

/* Seven numbers for each span: lane, kind, step, start, ns, batch, sample;
 * a start may lie before the window. */
static void put_window(struct mr_json *j, const struct mr_page *p,
		       const struct mr_window *w)
{
	struct mr_str list = { 0 };

	mr_str_add(&list, "[");
	for (size_t i = 0; i < w->count; i++) {
		const struct mr_drawn *s = &w->s[i];

		mr_str_addf(&list, "%s%u,%u,%u,%lld,%llu,", i ? "," : "",
			    s->lane, s->kind | s->flags, s->step,
			    (long long)(s->start - w->from),
			    (unsigned long long)s->duration);
		put_number(&list, s->batch, s->batch != MR_NO_BATCH, ',');
		put_number(&list, s->sample, s->sample != MR_NO_SAMPLE, ' ');
	}
	mr_str_add(&list, "]");
	mr_json_open(j, NULL, '{');
	mr_json_text(j, "title", w->title);
	mr_json_uint(j, "from", w->from - p->r->start);
	mr_json_uint(j, "ns", w->to - w->from);
	mr_json_uint(j, "least", w->least);
	mr_json_uint(j, "seen", w->seen);
	if (!list.failed)
		mr_json_raw(j, "s", list.text);
	mr_str_fini_into(&list, &j->out);
	mr_json_close(j, '}');
}

static void put_names(struct mr_json *j, const struct mr_page *p)
{
	mr_json_open(j, "steps", '{');
	for (int i = 0; i < 256; i++) {
		struct mr_mrt_span s = { .kind = MR_SPAN_STEP,
					 .step = (uint8_t)i };
		char number[8] = { 0 };
		struct mr_str n = { 0 };

		if (!p->step[i])
			continue;
		mr_str_addf(&n, "%d", i);
		if (!n.failed)
			memcpy(number, n.text, n.len);
		mr_str_fini_into(&n, &j->out);
		mr_json_text(j, number, mr_roll_name(p->r, &s));
	}
	mr_json_close(j, '}');
	mr_json_open(j, "kinds", '[');
	for (unsigned i = 0; i < MR_SPAN_KINDS; i++)
		mr_json_text(j, NULL, mr_span_name(i));
	mr_json_close(j, ']');
}

/* ---- the page ---- */

/* A script's end is the only thing that a script cannot hold. */
static void put_data(struct mr_out *o, const struct mr_str *s)
{
	const char *p = s->text, *end = s->text + s->len;

	while (p < end) {
		const char *q = memchr(p, '<', (size_t)(end - p));

		mr_out_add(o, p, (size_t)((q ? q : end) - p));
		if (!q)
			return;
		mr_out_text(o, "\\u003c");
		p = q + 1;
	}
}

/* hardware: what counters and samples said of the steps, as JSON. */
static int put_page(struct mr_out *o, const struct mr_page *p,
		    const char *hardware, struct mr_err *err)
{
	const char *at = strstr(mr_trace_page, hole);
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	put_run(&j, p);
	put_names(&j, p);
	put_tallies(&j, p);
	put_lanes(&j, p);
	put_columns(&j, p);
	put_worst(&j, p);
	put_slow(&j, p);
	mr_json_open(&j, "windows", '[');
	for (size_t i = 0; i < p->windows; i++)
		put_window(&j, p, &p->window[i]);
	mr_json_close(&j, ']');
	mr_json_raw(&j, "hardware", hardware);
	mr_json_close(&j, '}');
	if (j.out.failed) {
		mr_str_fini(&j.out);
		return mr_err_nomem(err, j.out.len);
	}
	mr_out_add(o, mr_trace_page, (size_t)(at - mr_trace_page));
	put_data(o, &j.out);
	mr_out_text(o, at + sizeof(hole) - 1);
	mr_str_fini(&j.out);
	return 0;
}

int mr_html_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		  struct mr_err *err)
{
	struct mr_page *p = mr_alloc(1, sizeof(*p), err);
	char *hardware = NULL;
	int e;

	if (!p)
		return MR_ENOMEM;
	e = mr_page_gather(p, r, m, err);
	if (!e)
		e = mr_hardware_text(m->path, true, &hardware, err);
	if (!e)
		e = put_page(o, p, hardware, err);
	free(hardware);
	mr_page_fini(p);
	free(p);
	return e;
}
