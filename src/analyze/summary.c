/* SPDX-License-Identifier: Apache-2.0 */
/* A trace's summary, as text and as JSON. */
#include "analyze/summary.h"

#include <json-c/json.h>
#include <stdio.h>

#include "analyze/hardware.h"
#include "core/json.h"
#include "core/mem.h"

#define WAIT_IN	 "waiting for bytes"
#define CONSUMER "the consumer's own time"

#define BUDGET(X)                                   \
	X(steps, "steps")                           \
	X(fetch, "reading")                         \
	X(samples, "samples, outside of the steps") \
	X(collate, "collating")                     \
	X(wait_in, WAIT_IN)                         \
	X(wait_out, "waiting for a free place")     \
	X(engine, "engine")                         \
	X(consumer, CONSUMER)                       \
	X(unattributed, "unattributed")

enum { BLAMED = 5 };

/* ---- numbers ---- */

static double per(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static double mean_ms(const struct mr_times *t)
{
	return per((double)t->total * 1e-6, (double)t->n);
}

static double quantile_ms(const struct mr_times *t, double q)
{
	return mr_times_quantile(t, q) * 1e-6;
}

/* The pipeline or the command, from META. */
static char *pipeline_of(const struct mr_trace *t)
{
	struct json_object *j = t->meta ? json_tokener_parse(t->meta) : NULL;
	struct json_object *v;
	char *text = NULL;

	if (j && json_object_object_get_ex(j, "pipeline", &v))
		text = strdup(json_object_get_string(v));
	json_object_put(j);
	return text;
}

/* The batches that held up others longest, longest first; how many. */
static size_t blamed(const struct mr_trace *t,
		     const struct mr_trace_batch *most[BLAMED])
{
	size_t n = 0;

	for (size_t i = 0; i < t->batches; i++) {
		const struct mr_trace_batch *b = &t->batch[i];
		size_t at = n < BLAMED ? n : BLAMED - 1;

		if (!b->blocked ||
		    (n == BLAMED && b->blocked <= most[at]->blocked))
			continue;
		n += n < BLAMED;
		for (; at > 0 && most[at - 1]->blocked < b->blocked; at--)
			most[at] = most[at - 1];
		most[at] = b;
	}
	return n;
}

static const char *thread_name(const struct mr_trace *t, uint32_t number)
{
	return number < t->threads && *t->thread[number].is.name ?
		       t->thread[number].is.name :
		       "?";
}

/* ---- text ---- */

static void add_head(struct mr_str *s, const struct mr_trace *t)
{
	char *pipeline = pipeline_of(t), n[32], b[32], k[32];

	if (pipeline)
		mr_str_addf(s, "%s\n", pipeline);
	free(pipeline);
	mr_str_addf(s,
		    "%s samples in %s batches, %.3f s: %.0f samples/s; %s "
		    "spans",
		    mr_str_count(n, t->samples), mr_str_count(b, t->prepare.n),
		    t->seconds, per((double)t->samples, t->seconds),
		    mr_str_count(k, t->spans));
	if (t->failed)
		mr_str_addf(s, "; %s samples failed",
			    mr_str_count(n, t->failed));
	mr_str_add(s, "\n");
	if (t->lost)
		mr_str_addf(s,
			    "LOST: %s spans found no room in their ring: what "
			    "follows is without them\n",
			    mr_str_count(n, t->lost));
	if (t->cut)
		mr_str_addf(s,
			    "CUT OFF: %s; this is what there is until "
			    "then\n",
			    t->cut);
}

static void add_times(struct mr_str *s, const char *name,
		      const struct mr_times *m, double share)
{
	mr_str_addf(s, "%-22s %9llu %10.1f %9.3f %9.3f %9.3f %9.3f", name,
		    (unsigned long long)m->n, (double)m->total * 1e-6,
		    mean_ms(m), quantile_ms(m, 0.5), quantile_ms(m, 0.9),
		    quantile_ms(m, 0.99));
	mr_str_addf(s, " %6.1f%% %6.1f%%",
		    100 * per((double)m->below_100us, (double)m->n),
		    100 * per((double)m->below_10ms, (double)m->n));
	if (share >= 0)
		mr_str_addf(s, " %6.1f%%", 100 * share);
	mr_str_add(s, "\n");
}

static void add_steps(struct mr_str *s, const struct mr_trace *t)
{
	double all = t->thread_seconds;

	mr_str_addf(s, "\n%-22s %9s %10s %9s %9s %9s %9s %7s %7s %7s\n", "step",
		    "calls", "total ms", "mean ms", "p50", "p90", "p99",
		    "<100us", "<10ms", "share");
	for (int i = 0; i < 256; i++)
		if (t->of_step[i].n)
			add_times(s, mr_trace_step_name(t, (uint8_t)i),
				  &t->of_step[i],
				  per((double)t->of_step[i].total * 1e-9, all));
	if (t->of_sample.n)
		add_times(s, "(whole sample)", &t->of_sample, -1);
	if (t->of_collate.n)
		add_times(s, "(collate)", &t->of_collate,
			  per((double)t->of_collate.total * 1e-9, all));
	if (t->of_fetch.n)
		add_times(s, "(request sent ahead)", &t->of_fetch, -1);
}

static void add_batches(struct mr_str *s, const struct mr_trace *t)
{
	const struct mr_trace_batch *most[BLAMED];
	size_t n = blamed(t, most);

	mr_str_addf(s, "\n%-22s %9s %10s %9s %9s %9s %9s %7s %7s\n", "batch",
		    "count", "total ms", "mean ms", "p50", "p90", "p99",
		    "<100us", "<10ms");
	add_times(s, "preparation", &t->prepare, -1);
	add_times(s, "wait (consumer's)", &t->wait, -1);
	add_times(s, "delay (ready, unused)", &t->delay, -1);
	add_times(s, "consumed", &t->consume, -1);
	mr_str_addf(s,
		    "out of order: %llu batches were ready after a later one; "
		    "head-of-line blocking: %.3f s\n",
		    (unsigned long long)t->late, (double)t->blocked * 1e-9);
	for (size_t i = 0; i < n; i++)
		mr_str_addf(s,
			    "  batch %llu held up others for %.1f ms: %.1f ms "
			    "in preparation by %s\n",
			    (unsigned long long)most[i]->number,
			    (double)most[i]->blocked * 1e-6,
			    (double)(most[i]->ready - most[i]->begun) * 1e-6,
			    thread_name(t, most[i]->thread));
	mr_str_addf(s,
		    "the consumer waited %.3f s for batches and used them "
		    "%.3f s: it waited %.1f %% of its time\n",
		    t->waiting_consumer, t->busy_consumer,
		    100 * per(t->waiting_consumer,
			      t->waiting_consumer + t->busy_consumer));
}

static void add_slowest(struct mr_str *s, const struct mr_trace *t)
{
	if (t->slow)
		mr_str_add(s, "\nslowest samples\n");
	for (size_t i = 0; i < t->slow; i++) {
		const struct mr_trace_sample *m = &t->slowest[i];

		mr_str_addf(s, "%10.3f ms", (double)m->ns * 1e-6);
		if (m->step_ns)
			mr_str_addf(s, "  %s %.3f ms",
				    mr_trace_step_name(t, m->step),
				    (double)m->step_ns * 1e-6);
		if (m->batch != MR_NO_BATCH)
			mr_str_addf(s, "  batch %llu",
				    (unsigned long long)m->batch);
		if (m->key)
			mr_str_addf(s, "  %s", m->key);
		else if (m->sample != MR_NO_SAMPLE)
			mr_str_addf(s, "  sample %llu",
				    (unsigned long long)m->sample);
		mr_str_add(s, "\n");
	}
}

/* PyTorch's workers read by themselves: they wait for what to do. */
static const char *budget_name(const struct mr_trace *t, const char *name)
{
	return t->foreign && strcmp(name, WAIT_IN) == 0 ? "waiting for a task" :
							  name;
}

static void add_part(struct mr_str *s, const char *name, double part,
		     double all)
{
	if (part > 0 || strcmp(name, CONSUMER) != 0)
		mr_str_addf(s, "  %-32s %9.3f s %6.1f%%\n", name, part,
			    100 * per(part, all));
}

static void add_budget(struct mr_str *s, const struct mr_trace *t)
{
	double all = t->thread_seconds, sum = 0;

	mr_str_addf(s, "\nbudget: %d workers", t->workers);
	if (t->worker_threads > t->workers)
		mr_str_addf(s, " at a time, %d in all", t->worker_threads);
	mr_str_addf(s, ", %.3f s: %.3f thread-seconds\n", t->seconds, all);
#define LINE(key, name)                                        \
	add_part(s, budget_name(t, name), t->budget.key, all); \
	sum += t->budget.key;
	BUDGET(LINE)
#undef LINE
	add_part(s, "together", sum, all);
}

/* ---- JSON ---- */

static void json_times(struct mr_json *j, const char *name,
		       const struct mr_times *m)
{
	mr_json_open(j, name, '{');
	mr_json_uint(j, "count", m->n);
	mr_json_real(j, "total_ms", (double)m->total * 1e-6, 9);
	mr_json_real(j, "mean_ms", mean_ms(m), 6);
	mr_json_real(j, "p50_ms", quantile_ms(m, 0.5), 6);
	mr_json_real(j, "p90_ms", quantile_ms(m, 0.9), 6);
	mr_json_real(j, "p99_ms", quantile_ms(m, 0.99), 6);
	mr_json_real(j, "max_ms", (double)m->most * 1e-6, 9);
	mr_json_real(j, "below_100us",
		     per((double)m->below_100us, (double)m->n), 6);
	mr_json_real(j, "below_10ms", per((double)m->below_10ms, (double)m->n),
		     6);
	mr_json_close(j, '}');
}

/* Names come from files: what JSON cannot hold is not said. */
static const char *said(const char *text)
{
	return mr_json_can(text) ? text : "?";
}

static void json_steps(struct mr_json *j, const struct mr_trace *t)
{
	mr_json_open(j, "steps", '[');
	for (int i = 0; i < 256; i++) {
		if (!t->of_step[i].n)
			continue;
		mr_json_open(j, NULL, '{');
		mr_json_text(j, "name",
			     said(mr_trace_step_name(t, (uint8_t)i)));
		json_times(j, "time", &t->of_step[i]);
		mr_json_uint(j, "bytes_out", t->step_bytes[i]);
		mr_json_real(j, "share",
			     per((double)t->of_step[i].total * 1e-9,
				 t->thread_seconds),
			     6);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void json_blocking(struct mr_json *j, const struct mr_trace *t)
{
	const struct mr_trace_batch *most[BLAMED];
	size_t n = blamed(t, most);

	mr_json_real(j, "head_of_line_seconds", (double)t->blocked * 1e-9, 9);
	mr_json_open(j, "held_up_by", '[');
	for (size_t i = 0; i < n; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_uint(j, "batch", most[i]->number);
		mr_json_real(j, "blocked_ms", (double)most[i]->blocked * 1e-6,
			     9);
		mr_json_real(j, "prepared_ms",
			     (double)(most[i]->ready - most[i]->begun) * 1e-6,
			     9);
		mr_json_text(j, "thread",
			     said(thread_name(t, most[i]->thread)));
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void json_slowest(struct mr_json *j, const struct mr_trace *t)
{
	mr_json_open(j, "slowest", '[');
	for (size_t i = 0; i < t->slow; i++) {
		const struct mr_trace_sample *m = &t->slowest[i];

		mr_json_open(j, NULL, '{');
		if (m->sample != MR_NO_SAMPLE)
			mr_json_uint(j, "sample", m->sample);
		if (m->key)
			mr_json_text(j, "key", said(m->key));
		if (m->batch != MR_NO_BATCH)
			mr_json_uint(j, "batch", m->batch);
		mr_json_real(j, "ms", (double)m->ns * 1e-6, 9);
		if (m->step_ns) {
			mr_json_text(j, "step",
				     said(mr_trace_step_name(t, m->step)));
			mr_json_real(j, "step_ms", (double)m->step_ns * 1e-6,
				     9);
		}
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void json_head(struct mr_json *j, const struct mr_trace *t)
{
	mr_json_uint(j, "samples", t->samples);
	mr_json_uint(j, "batches", t->prepare.n);
	mr_json_uint(j, "bytes_out", t->bytes);
	mr_json_real(j, "seconds", t->seconds, 9);
	mr_json_real(j, "samples_per_s", per((double)t->samples, t->seconds),
		     6);
	mr_json_uint(j, "spans", t->spans);
	mr_json_uint(j, "lost", t->lost);
	mr_json_uint(j, "failed_samples", t->failed);
	mr_json_bool(j, "whole", !t->cut);
	if (t->cut)
		mr_json_text(j, "cut", t->cut);
	mr_json_int(j, "rank", t->header.rank);
	mr_json_int(j, "ranks", t->header.ranks);
	if (t->meta)
		mr_json_raw(j, "meta", t->meta);
}

/* But for its end: add_hardware() comes after. */
static void to_json(struct mr_json *j, const struct mr_trace *t)
{
	mr_json_open(j, NULL, '{');
	json_head(j, t);
	json_steps(j, t);
	json_times(j, "sample", &t->of_sample);
	json_times(j, "collate", &t->of_collate);
	json_times(j, "fetch", &t->of_fetch);
	json_times(j, "prepare", &t->prepare);
	json_times(j, "wait", &t->wait);
	json_times(j, "delay", &t->delay);
	json_times(j, "consume", &t->consume);
	mr_json_uint(j, "out_of_order", t->late);
	json_blocking(j, t);
	json_slowest(j, t);
	mr_json_int(j, "workers", t->workers);
	mr_json_int(j, "worker_threads", t->worker_threads);
	mr_json_real(j, "thread_seconds", t->thread_seconds, 9);
	mr_json_open(j, "budget", '{');
#define PART(key, name) mr_json_real(j, #key, t->budget.key, 9);
	BUDGET(PART)
#undef PART
	mr_json_close(j, '}');
	mr_json_real(j, "consumer_wait", t->waiting_consumer, 9);
	mr_json_real(j, "consumer_busy", t->busy_consumer, 9);
}

/* Counters and functions per step, where the trace has them. */
static int add_hardware(struct mr_json *j, const char *file, bool json,
			struct mr_err *err)
{
	char *text;
	int e = mr_hardware_text(file, json, &text, err);

	if (e)
		return e;
	if (json) {
		if (*text)
			mr_json_raw(j, "hardware", text);
		mr_json_close(j, '}');
	} else if (*text) {
		mr_str_addf(&j->out, "\n%s", text);
	}
	free(text);
	return 0;
}

int mr_trace_summary(const char *file, bool json, char **text,
		     struct mr_err *err)
{
	struct mr_trace *t = mr_alloc(1, sizeof(*t), err);
	struct mr_json j = { 0 };
	int e;

	*text = NULL;
	if (!t)
		return MR_ENOMEM;
	e = mr_trace_read(t, file, err);
	if (e) {
		free(t);
		return e;
	}
	if (json) {
		to_json(&j, t);
	} else {
		add_head(&j.out, t);
		add_steps(&j.out, t);
		add_batches(&j.out, t);
		add_slowest(&j.out, t);
		add_budget(&j.out, t);
	}
	mr_trace_fini(t);
	free(t);
	e = add_hardware(&j, file, json, err);
	*text = mr_str_take(&j.out);
	if (e) {
		free(*text);
		*text = NULL;
		return e;
	}
	return *text ? 0 : mr_err_set(err, MR_ENOMEM, "out of memory");
}
