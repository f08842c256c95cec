/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sink/roll.h"

#include <stdio.h>

#include "core/le.h"
#include "core/mem.h"
#include "trace/told.h"

/* How often a batch was made, taken and used: two bits each, up to 2. */
enum {
	MADE = 0,
	TAKEN = 2,
	USED = 4,
	ONCE = 1 << MADE | 1 << TAKEN | 1 << USED
};

/* ---- threads ---- */

static struct mr_roll_thread *thread_of(struct mr_roll *r, uint32_t number,
					struct mr_err *err)
{
	if (!number || number > MR_ROLL_THREADS)
		return NULL;
	if (mr_grow(&r->thread, &r->thread_cap, number, sizeof(*r->thread),
		    MR_ROLL_THREADS, err))
		return NULL;
	for (; r->threads < number; r->threads++) {
		struct mr_roll_thread *t = &r->thread[r->threads];

		*t = (struct mr_roll_thread){
			.number = (uint32_t)r->threads + 1,
			.is.pid = (int)r->header.pid,
			.is.role = "thread",
		};
		snprintf(t->is.name, sizeof(t->is.name), "thread %u",
			 t->number);
	}
	return &r->thread[number - 1];
}

static void take_thread(struct mr_roll *r, const struct mr_mrt_chunk *c,
			struct mr_err *err)
{
	struct mr_roll_thread *t = thread_of(r, c->thread, err);

	if (t)
		mr_told_thread(c, &t->is);
}

static int by_lane(const void *a, const void *b)
{
	const struct mr_roll_thread *x = *(struct mr_roll_thread *const *)a;
	const struct mr_roll_thread *y = *(struct mr_roll_thread *const *)b;

	if (x->is.pid != y->is.pid)
		return x->is.pid < y->is.pid ? -1 : 1;
	if (x->is.tid != y->is.tid)
		return x->is.tid < y->is.tid ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

/* The system's number, if no other thread of the process has it too: numbers
 * of threads that have ended are used again. */
static int give_lanes(struct mr_roll *r, struct mr_err *err)
{
	enum { BEYOND = 1 << 22 }; /* what the system gives */
	struct mr_roll_thread **of =
		mr_alloc(r->threads, sizeof(struct mr_roll_thread *), err);

	if (!of)
		return MR_ENOMEM;
	for (size_t i = 0; i < r->threads; i++)
		of[i] = &r->thread[i];
	qsort(of, r->threads, sizeof(*of), by_lane);
	for (size_t i = 0; i < r->threads; i++) {
		struct mr_roll_thread *t = of[i];
		bool again = i && of[i - 1]->is.pid == t->is.pid &&
			     of[i - 1]->is.tid == t->is.tid;

		t->lane = again || t->is.tid <= 0 || t->is.tid > BEYOND ?
				  (int64_t)BEYOND + t->number :
				  t->is.tid;
	}
	free(of);
	return 0;
}

/* ---- the other chunks ---- */

static void take_name(struct mr_roll *r, const struct mr_mrt_chunk *c,
		      struct mr_err *err)
{
	char *name;

	if (!c->size)
		return;
	name = strndup((const char *)c->data + 1, c->size - 1);
	if (!name) {
		mr_err_nomem(err, c->size);
		return;
	}
	free(r->step[c->data[0]]);
	r->step[c->data[0]] = name;
}

/* A later one adds to those before. */
static void take_meta(struct mr_roll *r, const struct mr_mrt_chunk *c)
{
	struct json_object *j = mr_told(c);

	if (!j || !r->meta) {
		r->meta = j ? j : r->meta;
		return;
	}
	mr_told_add(r->meta, j);
	json_object_put(j);
}

/* Of a thread's samples it is said, too, how long each took. */
static void take_keys(struct mr_roll *r, const struct mr_mrt_chunk *c,
		      struct mr_err *err)
{
	size_t head = c->thread ? 16 : 8;

	for (size_t at = 0, n; c->size - at >= head; at += head + n) {
		uint64_t v = mr_le64(c->data + at);

		n = (size_t)(v >> 48);
		if (n > c->size - at - head || r->keys == MR_ROLL_KEYS ||
		    mr_grow(&r->key, &r->key_cap, r->keys + 1, sizeof(*r->key),
			    MR_ROLL_KEYS, err))
			return;
		r->key[r->keys++] = (struct mr_roll_key){
			.sample = v & (((uint64_t)1 << 48) - 1),
			.ns = c->thread ? mr_le64(c->data + at + 8) : 0,
			.thread = c->thread,
			.text = (const char *)c->data + at + head,
			.length = n,
		};
	}
}

static int by_sample(const void *a, const void *b)
{
	const struct mr_roll_key *x = a, *y = b;

	if (x->sample != y->sample)
		return x->sample < y->sample ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* ---- spans ---- */

static void get_span(struct mr_mrt_span *s, const uint8_t *from)
{
	mr_mrt_get_span(s, from);
	if (s->duration > UINT64_MAX - s->start)
		s->duration = UINT64_MAX - s->start;
}

static void note_batch(struct mr_roll *r, const struct mr_mrt_span *s)
{
	int shift = s->kind == MR_SPAN_BATCH   ? MADE :
		    s->kind == MR_SPAN_NEXT    ? TAKEN :
		    s->kind == MR_SPAN_CONSUME ? USED :
						 -1;

	if (shift < 0 || s->batch >= MR_ROLL_BATCHES)
		return;
	if ((r->batch[s->batch] >> shift & 3) < 2)
		r->batch[s->batch] += (uint8_t)(1 << shift);
}

static void take_spans(struct mr_roll *r, const struct mr_mrt_chunk *c,
		       struct mr_err *err)
{
	struct mr_roll_thread *t = thread_of(r, c->thread, err);
	size_t n = c->size / MR_MRT_SPAN;
	struct mr_mrt_span s;

	if (!t) {
		r->left_out += n;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		get_span(&s, c->data + i * MR_MRT_SPAN);
		if (s.start < r->start)
			r->start = s.start;
		if (s.start + s.duration > r->end)
			r->end = s.start + s.duration;
		if (s.kind == MR_SPAN_TURN)
			continue;
		r->kind[s.kind]++;
		t->kinds |= s.kind < 32 ? 1u << s.kind : 0;
		note_batch(r, &s);
	}
	t->spans += n;
	r->spans += n;
}

static void take_drop(struct mr_roll *r, const struct mr_mrt_chunk *c,
		      struct mr_err *err)
{
	struct mr_roll_thread *t = thread_of(r, c->thread, err);

	if (!t || c->size < 8)
		return;
	r->lost -= t->lost;
	t->lost = mr_le64(c->data);
	r->lost += t->lost;
}

static void take(struct mr_roll *r, const struct mr_mrt_chunk *c,
		 struct mr_err *err)
{
	if (c->kind == MR_MRT_KIND("SPAN"))
		take_spans(r, c, err);
	else if (c->kind == MR_MRT_KIND("THRD"))
		take_thread(r, c, err);
	else if (c->kind == MR_MRT_KIND("NAME"))
		take_name(r, c, err);
	else if (c->kind == MR_MRT_KIND("META"))
		take_meta(r, c);
	else if (c->kind == MR_MRT_KIND("KEYS"))
		take_keys(r, c, err);
	else if (c->kind == MR_MRT_KIND("DROP"))
		take_drop(r, c, err);
	else if (c->kind == MR_MRT_KIND("DONE"))
		r->done = true;
}

int mr_roll_read(struct mr_roll *r, struct mr_mrt *m, struct mr_err *err)
{
	struct mr_mrt_chunk c;
	struct mr_err why = { 0 };

	*r = (struct mr_roll){ .header = m->header };
	r->start = r->end = m->header.monotonic;
	r->batch = mr_map(MR_ROLL_BATCHES, &why);
	mr_mrt_rewind(m);
	while (!why.code && mr_mrt_next(m, &c))
		take(r, &c, &why);
	r->read = m->at;
	r->cut = m->cut ? m->reason : NULL;
	if (r->keys)
		qsort(r->key, r->keys, sizeof(*r->key), by_sample);
	if (!why.code)
		give_lanes(r, &why);
	if (!why.code)
		return 0;
	mr_roll_fini(r);
	if (err)
		*err = why;
	return why.code;
}

void mr_roll_fini(struct mr_roll *r)
{
	json_object_put(r->meta);
	for (int i = 0; i < 256; i++)
		free(r->step[i]);
	free(r->thread);
	free(r->key);
	mr_unmap(r->batch, MR_ROLL_BATCHES);
	*r = (struct mr_roll){ 0 };
}

/* It may end with a whole chunk, and yet not be at its end. */
const char *mr_roll_cut(const struct mr_roll *r)
{
	return r->cut || r->done ? r->cut : "the recording was not ended";
}

void mr_roll_spans(struct mr_roll *r, struct mr_mrt *m, mr_roll_fn one,
		   void *self)
{
	struct mr_mrt_chunk c;
	struct mr_mrt_span s;

	mr_mrt_rewind(m);
	while (m->at < r->read && mr_mrt_next(m, &c)) {
		if (c.kind != MR_MRT_KIND("SPAN") || !c.thread ||
		    c.thread > r->threads)
			continue;
		for (size_t i = 0; i < c.size / MR_MRT_SPAN; i++) {
			get_span(&s, c.data + i * MR_MRT_SPAN);
			if (s.kind != MR_SPAN_TURN)
				one(self, &r->thread[c.thread - 1], &s);
		}
	}
}

/* ---- what things are called ---- */

const char *mr_roll_name(const struct mr_roll *r, const struct mr_mrt_span *s)
{
	if (s->kind != MR_SPAN_STEP)
		return mr_span_name(s->kind);
	if (r->step[s->step] && r->step[s->step][0])
		return r->step[s->step];
	return s->step ? "unnamed step" : "read";
}

/* Two ranks may have different samples of one number. */
static bool says_else(const struct mr_roll_key *a, const struct mr_roll_key *b)
{
	return by_sample(a, b) == 0 &&
	       (a->length != b->length ||
		memcmp(a->text, b->text, a->length) != 0);
}

static const struct mr_roll_key *
find_key(const struct mr_roll *r, uint32_t thread, uint64_t sample, uint64_t ns)
{
	struct mr_roll_key k = { .sample = sample, .thread = thread, .ns = ns };
	const struct mr_roll_key *p =
		bsearch(&k, r->key, r->keys, sizeof(k), by_sample);

	if (!p || (p > r->key && says_else(p, p - 1)) ||
	    (p + 1 < r->key + r->keys && says_else(p, p + 1)))
		return NULL;
	return p;
}

const struct mr_roll_key *mr_roll_key(const struct mr_roll *r, uint32_t thread,
				      uint64_t sample, uint64_t ns)
{
	const struct mr_roll_key *p;

	if (!r->keys || sample == MR_NO_SAMPLE)
		return NULL;
	p = find_key(r, thread, sample, ns);
	return p ? p : find_key(r, 0, sample, 0);
}

bool mr_roll_batch(const struct mr_roll *r, uint64_t batch)
{
	return batch < MR_ROLL_BATCHES && r->batch[batch] == ONCE;
}

const char *mr_roll_meta(const struct mr_roll *r, const char *key)
{
	struct json_object *v;

	if (!r->meta || !json_object_object_get_ex(r->meta, key, &v) || !v)
		return "";
	return json_object_get_string(v);
}
