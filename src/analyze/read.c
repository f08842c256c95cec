/* SPDX-License-Identifier: Apache-2.0 */
/* A trace, read once from its first chunk to its last. */
#include "analyze/summary.h"
#include "core/le.h"
#include "core/mem.h"
#include "core/str.h"

enum {
	THREADS_MAX = 1 << 20,
	BATCHES_MAX = 1 << 27, /* of 32 bytes at least in the file */
};

const char *mr_trace_step_name(const struct mr_trace *t, uint8_t step)
{
	if (t->step[step])
		return t->step[step];
	return step ? "?" : "read";
}

/* ---- what there is beside spans ---- */

/* NULL when there is no memory, or the number is out of range. */
static struct mr_trace_thread *thread_of(struct mr_trace *t, uint32_t number,
					 struct mr_err *err)
{
	if (number >= THREADS_MAX) {
		mr_err_set(err, MR_EDATA, "a thread has the number %u", number);
		return NULL;
	}
	if (number >= t->threads) {
		if (mr_grow(&t->thread, &t->thread_cap, number + 1,
			    sizeof(*t->thread), THREADS_MAX, err))
			return NULL;
		memset(t->thread + t->threads, 0,
		       (number + 1 - t->threads) * sizeof(*t->thread));
		t->threads = number + 1;
	}
	return &t->thread[number];
}

static int take_thread(struct mr_trace *t, const struct mr_mrt_chunk *c,
		       struct mr_err *err)
{
	struct mr_trace_thread *h = thread_of(t, c->thread, err);

	if (!h)
		return err->code;
	mr_told_thread(c, &h->is);
	return 0;
}

static int take_name(struct mr_trace *t, const struct mr_mrt_chunk *c,
		     struct mr_err *err)
{
	char *name;

	if (c->size < 1)
		return 0;
	name = strndup((const char *)c->data + 1, c->size - 1);
	if (!name)
		return mr_err_nomem(err, c->size);
	free(t->step[c->data[0]]);
	t->step[c->data[0]] = name;
	return 0;
}

/* The last one counts for what both say. */
static int take_meta(struct mr_trace *t, const struct mr_mrt_chunk *c,
		     struct mr_err *err)
{
	struct json_object *old = t->meta ? json_tokener_parse(t->meta) : NULL;
	struct json_object *j = mr_told(c), *v;
	const char *text;

	if (!j) {
		json_object_put(old);
		return 0;
	}
	if (old) {
		mr_told_add(old, j);
		json_object_put(j);
		j = old;
	}
	t->foreign =
		t->foreign || (json_object_object_get_ex(j, "foreign", &v) &&
			       json_object_get_boolean(v));
	text = json_object_to_json_string_ext(j,
					      JSON_C_TO_STRING_NOSLASHESCAPE);
	free(t->meta);
	t->meta = text ? strdup(text) : NULL;
	json_object_put(j);
	return t->meta ? 0 : mr_err_nomem(err, c->size);
}

/* Only of the slowest ones: they are known by then. A thread may read several
 * data sets, whose samples have the same numbers: its chunks say which one is
 * meant by the time that it took. */
static int take_keys(struct mr_trace *t, const struct mr_mrt_chunk *c,
		     struct mr_err *err)
{
	size_t at = 0, head = c->thread ? 16 : 8;

	while (c->size - at >= head) {
		uint64_t v = mr_le64(c->data + at);
		uint64_t ns = c->thread ? mr_le64(c->data + at + 8) : 0;
		uint64_t sample = v & (((uint64_t)1 << 48) - 1);
		size_t n = (size_t)(v >> 48);

		at += head;
		if (n > c->size - at)
			return 0;
		for (size_t i = 0; i < t->slow; i++) {
			struct mr_trace_sample *s = &t->slowest[i];

			if (s->sample != sample || s->key ||
			    (c->thread &&
			     (c->thread != s->thread || ns != s->ns)))
				continue;
			s->key = strndup((const char *)c->data + at, n);
			if (!s->key)
				return mr_err_nomem(err, n);
		}
		at += n;
	}
	return 0;
}

/* ---- spans ---- */

/* Numbers may lie far apart: there is only what is named. */
static struct mr_trace_batch *batch_of(struct mr_trace *t, uint64_t number,
				       struct mr_err *err)
{
	uint32_t at = (uint32_t)t->batches;

	if (mr_map64_get(&t->batch_at, number, &at))
		return &t->batch[at];
	if (mr_grow(&t->batch, &t->batch_cap, t->batches + 1, sizeof(*t->batch),
		    BATCHES_MAX, err) ||
	    mr_map64_put(&t->batch_at, number, at, err))
		return NULL;
	t->batch[t->batches++] = (struct mr_trace_batch){ .number = number };
	return &t->batch[at];
}

static int by_number(const void *a, const void *b)
{
	const struct mr_trace_batch *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static int take_batch_span(struct mr_trace *t, const struct mr_mrt_span *s,
			   uint32_t thread, struct mr_err *err)
{
	struct mr_trace_thread *h = &t->thread[thread];
	struct mr_trace_batch *b;
	uint64_t end = s->start + s->duration;

	if (s->batch == MR_NO_BATCH)
		return 0;
	b = batch_of(t, s->batch, err);
	if (!b)
		return err->code;
	if (s->kind == MR_SPAN_BATCH) {
		b->begun = s->start;
		b->ready = end;
		b->thread = thread;
		h->made = s->batch + 1;
		t->bytes += s->bytes;
	} else if (s->kind == MR_SPAN_NEXT) {
		b->consumer = thread;
		b->line = s->line;
		b->asked = s->start;
		b->taken = end;
		h->own += h->made == s->batch + 1 ? s->duration : 0;
	} else {
		b->consumed = end;
	}
	return 0;
}

/* Samples that took longest, in order; steps come before their sample. */
static void note_slow(struct mr_trace *t, const struct mr_mrt_span *s,
		      uint32_t thread)
{
	const struct mr_trace_thread *h = &t->thread[thread];
	size_t at = t->slow;
	bool known = h->sample == s->sample && h->batch == s->batch;

	if (t->slow == MR_TRACE_SLOWEST && s->duration <= t->slowest[at - 1].ns)
		return;
	if (t->slow < MR_TRACE_SLOWEST)
		t->slow++;
	else
		free(t->slowest[--at].key);
	for (; at > 0 && t->slowest[at - 1].ns < s->duration; at--)
		t->slowest[at] = t->slowest[at - 1];
	t->slowest[at] = (struct mr_trace_sample){
		.sample = s->sample,
		.batch = s->batch,
		.start = s->start,
		.ns = s->duration,
		.thread = thread,
		.step = known ? h->step : 0,
		.step_ns = known ? h->step_ns : 0,
	};
}

static bool take_step(struct mr_trace *t, struct mr_trace_thread *h,
		      const struct mr_mrt_span *s)
{
	if (!s->step)
		h->read += s->duration;
	else if (s->sample == MR_NO_SAMPLE)
		h->after += s->duration;
	t->step_bytes[s->step] += s->bytes;
	if (h->sample != s->sample || h->batch != s->batch)
		h->step_ns = 0;
	h->sample = s->sample;
	h->batch = s->batch;
	if (s->duration >= h->step_ns) {
		h->step = s->step;
		h->step_ns = s->duration;
	}
	return mr_times_add(&t->of_step[s->step], s->duration);
}

static int take_span(struct mr_trace *t, uint32_t thread,
		     const struct mr_mrt_span *s, struct mr_err *err)
{
	struct mr_trace_thread *h = &t->thread[thread];
	uint64_t end = s->start + s->duration;
	bool ok = true;

	if (end < s->start || s->kind == 0 || s->kind >= MR_SPAN_KINDS)
		return 0; /* nothing that we know */
	h->sum[s->kind] += s->duration;
	h->first = h->spans && h->first < s->start ? h->first : s->start;
	h->last = h->last > end ? h->last : end;
	t->start = t->spans && t->start < s->start ? t->start : s->start;
	t->end = t->end > end ? t->end : end;
	h->spans++;
	t->spans++;
	switch (s->kind) {
	case MR_SPAN_STEP:
		ok = take_step(t, h, s);
		break;
	case MR_SPAN_SAMPLE:
		t->samples++;
		t->failed += s->flags & MR_SPAN_FAILED ? 1 : 0;
		ok = mr_times_add(&t->of_sample, s->duration);
		note_slow(t, s, thread);
		h->step_ns = 0; /* the next one may have no number, either */
		break;
	case MR_SPAN_COLLATE:
		ok = mr_times_add(&t->of_collate, s->duration);
		break;
	case MR_SPAN_FETCH:
		ok = mr_times_add(&t->of_fetch, s->duration);
		break;
	case MR_SPAN_BATCH:
	case MR_SPAN_NEXT:
	case MR_SPAN_CONSUME:
		return take_batch_span(t, s, thread, err);
	default:
		break;
	}
	return ok ? 0 : mr_err_nomem(err, sizeof(uint32_t) * MR_TIMES_BUCKETS);
}

static int take_spans(struct mr_trace *t, const struct mr_mrt_chunk *c,
		      struct mr_err *err)
{
	if (!thread_of(t, c->thread, err))
		return err->code;
	for (size_t at = 0; c->size - at >= MR_MRT_SPAN; at += MR_MRT_SPAN) {
		struct mr_mrt_span s;
		int e;

		mr_mrt_get_span(&s, c->data + at);
		e = take_span(t, c->thread, &s, err);
		if (e)
			return e;
	}
	return 0;
}

/* ---- all of it ---- */

static int take(struct mr_trace *t, const struct mr_mrt_chunk *c,
		struct mr_err *err)
{
	if (c->kind == MR_MRT_KIND("SPAN"))
		return take_spans(t, c, err);
	if (c->kind == MR_MRT_KIND("THRD"))
		return take_thread(t, c, err);
	if (c->kind == MR_MRT_KIND("NAME"))
		return take_name(t, c, err);
	if (c->kind == MR_MRT_KIND("META"))
		return take_meta(t, c, err);
	if (c->kind == MR_MRT_KIND("KEYS"))
		return take_keys(t, c, err);
	if (c->kind == MR_MRT_KIND("DROP") && c->size >= 8) {
		if (!thread_of(t, c->thread, err))
			return err->code;
		t->thread[c->thread].lost = mr_le64(c->data);
	}
	if (c->kind == MR_MRT_KIND("DONE") && c->size >= 24) {
		t->lost = mr_le64(c->data + 8);
		t->whole = true;
	}
	return 0;
}

int mr_trace_read(struct mr_trace *t, const char *path, struct mr_err *err)
{
	struct mr_mrt m;
	struct mr_mrt_chunk c;
	int e;

	memset(t, 0, sizeof(*t));
	e = mr_mrt_open(&m, path, err);
	if (e)
		return e;
	t->header = m.header;
	while (!e && mr_mrt_next(&m, &c))
		e = take(t, &c, err);
	if (e)
		mr_err_prefix(err, "%s: ", path);
	if (m.cut)
		t->cut = m.reason;
	else if (!t->whole)
		t->cut = "the recording was not ended";
	if (!t->whole)
		for (size_t i = 0; i < t->threads; i++)
			t->lost += t->thread[i].lost;
	mr_mrt_close(&m);
	mr_map64_fini(&t->batch_at);
	if (t->batches)
		qsort(t->batch, t->batches, sizeof(*t->batch), by_number);
	if (!e)
		e = mr_trace_conclude(t, err);
	if (e)
		mr_trace_fini(t);
	return e;
}

void mr_trace_fini(struct mr_trace *t)
{
	for (int i = 0; i < 256; i++) {
		free(t->step[i]);
		mr_times_fini(&t->of_step[i]);
	}
	for (size_t i = 0; i < t->slow; i++)
		free(t->slowest[i].key);
	mr_times_fini(&t->of_sample);
	mr_times_fini(&t->of_collate);
	mr_times_fini(&t->of_fetch);
	mr_times_fini(&t->prepare);
	mr_times_fini(&t->wait);
	mr_times_fini(&t->delay);
	mr_times_fini(&t->consume);
	free(t->meta);
	free(t->thread);
	free(t->batch);
}
