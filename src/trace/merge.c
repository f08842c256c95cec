/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/merge.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/le.h"
#include "core/mem.h"
#include "trace/mrt.h"
#include "trace/pooled.h"
#include "trace/touched.h"

enum {
	MAX_PARTS = 1 << 20,
	MAX_THREADS = 1 << 20,
	NAMES = 256,
	OUTSIDE = 255,
	JOINED = 64 << 10, /* bytes up to which chunks become one */
};

/* A process's file, as the first look at it told. */
struct part {
	char *path;
	struct mr_mrt_header head;
	uint32_t owner; /* the process that it works for; its own else */
	uint64_t batches, spans;
	uint64_t lost, end;
	bool done;
	uint64_t shift; /* ns, from its clock to that of the trace */
	bool ranked;	/* its threads are told with their rank */
};

struct merge {
	struct part *part;
	size_t n, cap;
	uint32_t *live;
	size_t live_n, live_cap;
	struct mr_touched touched;
	uint8_t *body; /* a chunk that is changed */
	size_t largest;
	struct mr_merged *got;
	struct mr_err *err;
};

/* A trace that is being written. */
struct output {
	FILE *f;
	const char *path;
	uint32_t threads; /* numbers given so far */
	char *name[NAMES];
	unsigned names;
	uint64_t spans, lost, end, batch0;
	uint64_t batches; /* of the owner at hand */
	bool complete;
	struct mr_pooled events;
	/* of the part at hand, the last CNTR of each of its threads */
	struct mr_mrt_chunk *counts;
	size_t counts_n, counts_cap;
	/* what waits for more of the same kind and thread */
	struct mr_mrt_chunk last;
	uint8_t *joined;
	size_t joined_cap;
};

/* ---- the first look ---- */

static int note_live(struct merge *m, const struct mr_mrt_chunk *c)
{
	for (size_t i = 0; i + 4 <= c->size; i += 4) {
		if (mr_grow(&m->live, &m->live_cap, m->live_n + 1,
			    sizeof(*m->live), MAX_PARTS, m->err))
			return m->err->code;
		m->live[m->live_n++] = mr_le32(c->data + i);
	}
	return 0;
}

static void note_spans(struct part *p, const struct mr_mrt_chunk *c)
{
	struct mr_mrt_span s;

	for (size_t i = 0; i + MR_MRT_SPAN <= c->size; i += MR_MRT_SPAN) {
		mr_mrt_get_span(&s, c->data + i);
		if (s.batch != MR_NO_BATCH && s.batch >= p->batches)
			p->batches = s.batch + 1;
		if (s.start + s.duration > p->end)
			p->end = s.start + s.duration;
	}
	p->spans += c->size / MR_MRT_SPAN;
}

static int look(struct merge *m, struct part *p)
{
	struct mr_mrt t;
	struct mr_mrt_chunk c;
	struct mr_err ignored;
	int e = 0;

	if (mr_mrt_open(&t, p->path, &ignored))
		return 1;
	p->head = t.header;
	p->owner = p->head.pid;
	while (!e && mr_mrt_next(&t, &c)) {
		if (c.size > m->largest)
			m->largest = c.size;
		if (c.kind == MR_MRT_KIND("PART") && c.size == 4) {
			p->owner = mr_le32(c.data);
		} else if (c.kind == MR_MRT_KIND("LIVE")) {
			e = note_live(m, &c);
		} else if (c.kind == MR_MRT_KIND("SPAN")) {
			note_spans(p, &c);
		} else if (c.kind == MR_MRT_KIND("SMPL")) {
			mr_touched_add(&m->touched, c.data, c.size);
		} else if (c.kind == MR_MRT_KIND("DONE") && c.size == 24) {
			p->done = true;
			p->lost = mr_le64(c.data + 8);
		}
	}
	mr_mrt_close(&t);
	return e;
}

/* 1: not a trace. The path becomes the part's. */
static int add_path(struct merge *m, char *path)
{
	struct part p = { .path = path };
	int e = look(m, &p);

	if (!e)
		e = mr_grow(&m->part, &m->cap, m->n + 1, sizeof(p), MAX_PARTS,
			    m->err);
	if (e)
		free(p.path);
	else
		m->part[m->n++] = p;
	return e;
}

static int add_part(struct merge *m, const char *folder, const char *name)
{
	size_t n = strlen(folder) + strlen(name) + 2;
	char *path = mr_alloc(n, 1, m->err);

	if (!path)
		return m->err->code;
	snprintf(path, n, "%s/%s", folder, name);
	return add_path(m, path);
}

static int find_parts(struct merge *m, const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *x;
	int e = 0;

	if (!d)
		return mr_err_sys(m->err, errno, folder, "cannot read");
	while (e >= 0 && (x = readdir(d))) {
		const char *dot = strrchr(x->d_name, '.');

		if (dot && !strcmp(dot, ".mrt"))
			e = add_part(m, folder, x->d_name);
	}
	closedir(d);
	return e < 0 ? e : 0;
}

/* Ranks apart; those who work for another right after it; else by time. */
static int by_owner(const void *a_, const void *b_)
{
	const struct part *a = a_, *b = b_;
	bool ao = a->owner != a->head.pid, bo = b->owner != b->head.pid;

	if ((a->head.ranks > 1) != (b->head.ranks > 1))
		return a->head.ranks > 1 ? 1 : -1;
	if (a->head.rank != b->head.rank)
		return a->head.rank < b->head.rank ? -1 : 1;
	if (a->owner != b->owner)
		return a->owner < b->owner ? -1 : 1;
	if (ao != bo)
		return ao ? 1 : -1;
	return (a->head.monotonic > b->head.monotonic) -
	       (a->head.monotonic < b->head.monotonic);
}

/* A worker that was not told its rank has that of its owner. */
static void take_ranks(struct merge *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct part *p = &m->part[i];

		for (size_t k = 0; k < m->n && p->owner != p->head.pid; k++) {
			const struct mr_mrt_header *h = &m->part[k].head;

			if (h->pid != p->owner)
				continue;
			p->head.rank = h->rank;
			p->head.ranks = h->ranks;
			break;
		}
	}
}

static bool same_rank(const struct part *a, const struct part *b)
{
	return a->head.rank == b->head.rank &&
	       (a->head.ranks > 1) == (b->head.ranks > 1);
}

/* Samples of functions are the command's: those of a rank that is the only one
 * are that rank's. */
static void take_only_rank(struct merge *m)
{
	const struct part *only = NULL;

	for (size_t i = 0; i < m->n; i++) {
		const struct part *p = &m->part[i];

		if (p->spans && only && !same_rank(p, only))
			return;
		only = p->spans ? p : only;
	}
	for (size_t i = 0; i < m->n && only; i++) {
		if (m->part[i].spans)
			continue;
		m->part[i].head.rank = only->head.rank;
		m->part[i].head.ranks = only->head.ranks;
	}
}

/* ---- writing ---- */

static int put(struct merge *m, struct output *o, const void *data, size_t n)
{
	if (fwrite(data, 1, n, o->f) == n)
		return 0;
	return mr_err_sys(m->err, errno ? errno : EIO, o->path, "cannot write");
}

static int put_alone(struct merge *m, struct output *o, const char *kind,
		     uint32_t thread, const void *data, size_t n)
{
	uint8_t head[MR_MRT_CHUNK];
	int e;

	mr_mrt_put_chunk(head, kind, thread, data, n);
	e = put(m, o, head, sizeof(head));
	return e ? e : put(m, o, data, n);
}

static int put_joined(struct merge *m, struct output *o)
{
	char kind[4];
	size_t n = o->last.size;

	mr_le32_put(kind, o->last.kind);
	o->last.size = 0;
	return n ? put_alone(m, o, kind, o->last.thread, o->joined, n) : 0;
}

/* In the order in which they come. Spans and samples were written as they
 * came, a few at a time: those of a thread become larger chunks. */
static int put_chunk(struct merge *m, struct output *o, const char *kind,
		     uint32_t thread, const void *data, size_t n)
{
	bool joins = !memcmp(kind, "SPAN", 4) || !memcmp(kind, "SMPL", 4);
	bool same = joins && o->last.kind == MR_MRT_KIND(kind) &&
		    o->last.thread == thread && o->last.size + n <= JOINED;
	int e = same ? 0 : put_joined(m, o);

	if (!e && !joins)
		e = put_alone(m, o, kind, thread, data, n);
	if (e || !joins || !n)
		return e;
	if (mr_grow(&o->joined, &o->joined_cap, o->last.size + n, 1, SIZE_MAX,
		    m->err))
		return m->err->code;
	memcpy(o->joined + o->last.size, data, n);
	o->last.kind = MR_MRT_KIND(kind);
	o->last.thread = thread;
	o->last.size += n;
	return 0;
}

/* The number of a step's name in the output; a new one is written. */
static int put_name(struct merge *m, struct output *o,
		    const struct mr_mrt_chunk *c, uint8_t *number)
{
	size_t n = c->size - 1;
	unsigned i;
	char *s;

	for (i = 0; i < o->names; i++)
		if (strlen(o->name[i]) == n &&
		    !memcmp(o->name[i], c->data + 1, n))
			break;
	*number = (uint8_t)(i < NAMES ? i : NAMES - 1);
	if (i < o->names || i >= NAMES)
		return 0; /* beyond 255 they share the last */
	s = mr_alloc(n + 1, 1, m->err);
	if (!s)
		return m->err->code;
	memcpy(s, c->data + 1, n);
	o->name[o->names++] = s;
	memcpy(m->body, c->data, c->size);
	m->body[0] = *number;
	return put_chunk(m, o, "NAME", 0, m->body, c->size);
}

static int put_spans(struct merge *m, struct output *o, const struct part *p,
		     const struct mr_mrt_chunk *c, const uint8_t *step,
		     uint32_t thread)
{
	size_t n = c->size / MR_MRT_SPAN * MR_MRT_SPAN;
	struct mr_mrt_span s;

	for (size_t i = 0; i < n; i += MR_MRT_SPAN) {
		mr_mrt_get_span(&s, c->data + i);
		s.step = step[s.step];
		s.start += p->shift;
		if (s.batch != MR_NO_BATCH)
			s.batch += o->batch0;
		mr_mrt_put_span(m->body + i, &s);
	}
	o->spans += n / MR_MRT_SPAN;
	return put_chunk(m, o, "SPAN", thread, m->body, n);
}

/* Samples of the program counter, at the times of the trace's clock. */
static int put_samples(struct merge *m, struct output *o, const struct part *p,
		       const struct mr_mrt_chunk *c, uint32_t thread)
{
	size_t at = 0;

	memcpy(m->body, c->data, c->size);
	while (c->size - at >= 24) {
		size_t n = 24 + 8 * (size_t)mr_le16(c->data + at + 16);

		mr_le64_put(m->body + at, mr_le64(c->data + at) + p->shift);
		if (n > c->size - at)
			break;
		at += n;
	}
	return put_chunk(m, o, "SMPL", thread, m->body, at);
}

/* Only what samples lie in; of a process without any, nothing. */
static int put_maps(struct merge *m, struct output *o,
		    const struct mr_mrt_chunk *c, uint32_t thread)
{
	size_t n = mr_touched_maps(&m->touched, c->data, c->size, m->body);

	return n > 4 ? put_chunk(m, o, "MAPS", thread, m->body, n) : 0;
}

/* Sums since the start: of a thread's, the last ones are enough. */
static int note_counts(struct merge *m, struct output *o,
		       const struct mr_mrt_chunk *c)
{
	size_t need = (size_t)c->thread + 1;

	if (mr_grow(&o->counts, &o->counts_cap, need, sizeof(*o->counts),
		    MAX_THREADS + 1, m->err))
		return m->err->code;
	while (o->counts_n < need)
		o->counts[o->counts_n++] = (struct mr_mrt_chunk){ 0 };
	o->counts[c->thread] = *c;
	return 0;
}

/* A step that shares the last number has none to be counted by. */
static int put_counts(struct merge *m, struct output *o,
		      const struct mr_mrt_chunk *c, const uint8_t *step,
		      uint32_t thread)
{
	size_t n = 0;

	for (size_t i = 0; c->size - i >= MR_MRT_COUNT; i += MR_MRT_COUNT) {
		const uint8_t *from = c->data + i;
		bool outside = from[0] == OUTSIDE;
		uint8_t event = o->events.place[from[1]];

		if (event == MR_POOLED ||
		    (!outside && step[from[0]] == OUTSIDE))
			continue;
		memcpy(m->body + n, from, MR_MRT_COUNT);
		m->body[n] = outside ? OUTSIDE : step[from[0]];
		m->body[n + 1] = event;
		n += MR_MRT_COUNT;
	}
	return n ? put_chunk(m, o, "CNTR", thread, m->body, n) : 0;
}

static int put_all_counts(struct merge *m, struct output *o,
			  const uint8_t *step)
{
	int e = 0;

	for (size_t t = 0; t < o->counts_n && !e; t++)
		if (o->counts[t].size)
			e = put_counts(m, o, &o->counts[t], step,
				       t ? o->threads + (uint32_t)t : 0);
	o->counts_n = 0;
	return e;
}

/* {...} -> {"rank": N, ...} */
static int put_thread(struct merge *m, struct output *o, const struct part *p,
		      const struct mr_mrt_chunk *c, uint32_t thread)
{
	char rank[40];
	int n = snprintf(rank, sizeof(rank), "{\"rank\": %d, ",
			 (int)p->head.rank);
	char *s;
	int e;

	if (!p->ranked || c->size < 3 || c->data[0] != '{')
		return put_chunk(m, o, "THRD", thread, c->data, c->size);
	s = mr_alloc(c->size + (size_t)n, 1, m->err);
	if (!s)
		return m->err->code;
	memcpy(s, rank, (size_t)n);
	memcpy(s + n, c->data + 1, c->size - 1);
	e = put_chunk(m, o, "THRD", thread, s, c->size - 1 + (size_t)n);
	free(s);
	return e;
}

static int copy_chunk(struct merge *m, struct output *o, const struct part *p,
		      const struct mr_mrt_chunk *c, uint8_t *step,
		      uint32_t *most)
{
	uint32_t thread = c->thread ? o->threads + c->thread : 0;
	char kind[4];

	mr_le32_put(kind, c->kind);
	if (c->thread > *most)
		*most = c->thread;
	if (c->kind == MR_MRT_KIND("PART") || c->kind == MR_MRT_KIND("LIVE") ||
	    c->kind == MR_MRT_KIND("DONE"))
		return 0;
	if (c->kind == MR_MRT_KIND("NAME"))
		return c->size ? put_name(m, o, c, &step[c->data[0]]) : 0;
	if (c->kind == MR_MRT_KIND("SPAN"))
		return put_spans(m, o, p, c, step, thread);
	if (c->kind == MR_MRT_KIND("THRD"))
		return put_thread(m, o, p, c, thread);
	if (c->kind == MR_MRT_KIND("SMPL"))
		return put_samples(m, o, p, c, thread);
	if (c->kind == MR_MRT_KIND("MAPS"))
		return put_maps(m, o, c, thread);
	if (c->kind == MR_MRT_KIND("CNTR"))
		return note_counts(m, o, c);
	if (c->kind == MR_MRT_KIND("META"))
		mr_pooled_meta(&o->events, c);
	return put_chunk(m, o, kind, thread, c->data, c->size);
}

static bool was_live(const struct merge *m, uint32_t pid)
{
	for (size_t i = 0; i < m->live_n; i++)
		if (m->live[i] == pid)
			return true;
	return false;
}

static int copy_part(struct merge *m, struct output *o, const struct part *p)
{
	uint8_t step[NAMES] = { 0 };
	struct mr_mrt_chunk c;
	uint32_t most = 0;
	struct mr_mrt t;
	int e = mr_mrt_open(&t, p->path, m->err);

	if (e)
		return e;
	mr_pooled_begin(&o->events);
	while (!e && mr_mrt_next(&t, &c)) {
		if (c.thread > MAX_THREADS || c.size > m->largest)
			break; /* the latter: it has grown since */
		e = copy_chunk(m, o, p, &c, step, &most);
	}
	if (!e)
		e = put_all_counts(m, o, step);
	mr_mrt_close(&t);
	o->threads += most;
	o->lost += p->lost;
	if (p->end + p->shift > o->end)
		o->end = p->end + p->shift;
	if (!p->done && !was_live(m, p->head.pid))
		o->complete = false;
	return e;
}

/* Batches of different owners do not share numbers. */
static int copy_parts(struct merge *m, struct output *o, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		const struct part *p = &m->part[i];
		int e;

		if (i > from && p->owner != p[-1].owner) {
			o->batch0 += o->batches;
			o->batches = 0;
		}
		if (p->batches > o->batches)
			o->batches = p->batches;
		e = copy_part(m, o, p);
		if (e)
			return e;
	}
	return 0;
}

/* As of a trace that begins with the first of them, on the clock that none of
 * its parts has to be moved to. Of several ranks, it is none's. */
static void header_of(const struct merge *m, size_t from, size_t to,
		      struct mr_mrt_header *h)
{
	*h = m->part[from].head;
	h->monotonic += m->part[from].shift;
	for (size_t i = from; i < to; i++) {
		const struct part *p = &m->part[i];

		if (p->head.monotonic + p->shift < h->monotonic) {
			h->monotonic = p->head.monotonic + p->shift;
			h->realtime = p->head.realtime;
		}
		if (!p->shift)
			h->boot = p->head.boot;
	}
	if (m->part[from].ranked) {
		h->rank = 0;
		h->ranks = 1;
	}
}

static int put_first(struct merge *m, struct output *o, size_t from, size_t to,
		     const char *meta)
{
	struct mr_mrt_header h;
	uint8_t head[MR_MRT_HEADER];
	int e;

	header_of(m, from, to, &h);
	mr_mrt_put_header(head, &h);
	e = put(m, o, head, sizeof(head));
	return e ? e : put_chunk(m, o, "META", 0, meta, strlen(meta));
}

static int put_last(struct merge *m, struct output *o)
{
	uint8_t b[24];

	if (!o->complete)
		return 0;
	mr_le64_put(b, o->spans);
	mr_le64_put(b + 8, o->lost);
	mr_le64_put(b + 16, o->end);
	return put_chunk(m, o, "DONE", 0, b, sizeof(b));
}

/* Lists of events that differ: the last META is what counts. */
static int put_events(struct merge *m, struct output *o)
{
	char *text;
	int e;

	if (!o->events.differ)
		return 0;
	text = mr_pooled_text(&o->events);
	if (!text)
		return mr_err_nomem(m->err, 1);
	e = put_chunk(m, o, "META", 0, text, strlen(text));
	free(text);
	return e;
}

static int note_made(struct merge *m, const char *path, int rank)
{
	struct mr_merged *g = m->got;
	char *copy;

	if (mr_grow(&g->made, &g->cap, g->n + 1, sizeof(*g->made), MAX_PARTS,
		    m->err))
		return m->err->code;
	copy = mr_strdup(path, m->err);
	if (!copy)
		return m->err->code;
	g->made[g->n++] = (struct mr_made){ copy, rank };
	return 0;
}

void mr_merged_fini(struct mr_merged *g)
{
	while (g->n)
		free(g->made[--g->n].path);
	free(g->made);
	*g = (struct mr_merged){ 0 };
}

static int write_trace(struct merge *m, struct output *o, size_t from,
		       size_t to, const char *meta)
{
	int e = put_first(m, o, from, to, meta);

	o->name[o->names++] = mr_strdup("read", m->err);
	if (!o->name[0])
		e = m->err->code;
	if (!e)
		e = copy_parts(m, o, from, to);
	if (!e)
		e = put_events(m, o);
	if (!e)
		e = put_last(m, o);
	if (!e)
		e = put_joined(m, o);
	if (!e && fflush(o->f))
		e = mr_err_sys(m->err, errno, o->path, "cannot write");
	return e;
}

/* One rank's parts (-1: of none); written under another name until it is
 * whole. */
static int make_trace(struct merge *m, const char *path, int rank, size_t from,
		      size_t to, const char *meta)
{
	size_t n = strlen(path) + 8;
	struct output o = { .path = path, .complete = true };
	char *tmp = mr_alloc(n, 1, m->err);
	int e;

	if (!tmp)
		return m->err->code;
	snprintf(tmp, n, "%s.tmp", path);
	o.f = fopen(tmp, "we");
	if (!o.f) {
		e = mr_err_sys(m->err, errno, tmp, "cannot make");
		free(tmp);
		return e;
	}
	e = write_trace(m, &o, from, to, meta);
	if (fclose(o.f) && !e)
		e = mr_err_sys(m->err, errno, path, "cannot write");
	if (!e && rename(tmp, path))
		e = mr_err_sys(m->err, errno, path, "cannot rename to it");
	if (!e)
		e = note_made(m, path, rank);
	if (e)
		unlink(tmp);
	while (o.names)
		free(o.name[--o.names]);
	mr_pooled_fini(&o.events);
	free(o.counts);
	free(o.joined);
	free(tmp);
	m->got->spans += o.spans;
	m->got->complete = m->got->complete && o.complete;
	return e;
}

char *mr_merge_name(const char *out, int rank)
{
	const char *slash = strrchr(out, '/');
	const char *dot = strrchr(slash ? slash : out, '.');
	size_t n = strlen(out) + 32, base;
	char *s = malloc(n);

	if (!dot || dot == out || dot[-1] == '/')
		dot = out + strlen(out);
	base = (size_t)(dot - out);
	if (s)
		snprintf(s, n, "%.*s.rank%d%s", (int)base, out, rank, dot);
	return s;
}

static int make_rank(struct merge *m, const char *out, size_t from, size_t to,
		     const char *meta)
{
	const struct mr_mrt_header *h = &m->part[from].head;
	char *name;
	int e;

	if (h->ranks <= 1)
		return make_trace(m, out, -1, from, to, meta);
	name = mr_merge_name(out, h->rank);
	if (!name)
		return mr_err_nomem(m->err, strlen(out));
	e = make_trace(m, name, h->rank, from, to, meta);
	free(name);
	return e;
}

static void end_merge(struct merge *m)
{
	while (m->n)
		free(m->part[--m->n].path);
	free(m->part);
	free(m->live);
	free(m->body);
	mr_touched_fini(&m->touched);
}

int mr_merge(const char *folder, const char *out, const char *meta,
	     struct mr_merged *got, struct mr_err *err)
{
	struct merge m = { .got = got, .err = err };
	int e;

	*got = (struct mr_merged){ .complete = true };
	e = find_parts(&m, folder);
	m.body = e ? NULL : mr_alloc(m.largest, 1, err);
	if (!e && !m.body)
		e = err->code;
	take_ranks(&m);
	take_only_rank(&m);
	mr_touched_ready(&m.touched);
	if (m.n)
		qsort(m.part, m.n, sizeof(*m.part), by_owner);
	got->parts = (unsigned)m.n;
	for (size_t i = 0, k; !e && i < m.n; i = k) {
		uint64_t spans = m.part[i].spans;

		for (k = i + 1; k < m.n; k++) {
			if (!same_rank(&m.part[i], &m.part[k]))
				break;
			spans += m.part[k].spans;
		}
		/* samples of functions of several ranks belong to none */
		if (spans)
			e = make_rank(&m, out, i, k, meta);
	}
	end_merge(&m);
	return e;
}

/* ---- ranks ---- */

/* The time of day at 0 of its clock, which files of one boot share: the first
 * of them says it. */
static uint64_t zero_of(const struct merge *m, const struct part *p)
{
	for (size_t i = 0; i < m->n && p->head.boot; i++) {
		if (m->part[i].head.boot != p->head.boot)
			continue;
		p = &m->part[i];
		break;
	}
	return p->head.realtime - p->head.monotonic;
}

/*
 * Onto the clock of the machine that has run longest, where all times of the
 * others are after 0: by the time of day, which is as right as the machines
 * keep it.
 */
static void align(struct merge *m)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < m->n; i++) {
		uint64_t zero = zero_of(m, &m->part[i]);

		first = zero < first ? zero : first;
	}
	for (size_t i = 0; i < m->n; i++) {
		struct part *p = &m->part[i];

		p->ranked = true;
		p->owner = (uint32_t)i; /* no two share batches */
		p->shift = zero_of(m, p) - first;
	}
}

int mr_merge_ranks(const char *const *files, size_t n, const char *out,
		   struct mr_merged *got, struct mr_err *err)
{
	struct merge m = { .got = got, .err = err };
	int e = 0;

	*got = (struct mr_merged){ .complete = true };
	for (size_t i = 0; i < n && !e; i++) {
		char *path = mr_strdup(files[i], err);

		e = path ? add_path(&m, path) : MR_ENOMEM;
		if (e > 0)
			e = mr_err_set(err, MR_EDATA,
				       "%s: not a trace, or it "
				       "cannot be read",
				       files[i]);
	}
	if (!e) {
		m.body = mr_alloc(m.largest, 1, err);
		e = m.body ? 0 : MR_ENOMEM;
	}
	if (!e) {
		align(&m);
		mr_touched_ready(&m.touched);
		got->parts = (unsigned)m.n;
		e = make_trace(&m, out, -1, 0, m.n, "{}");
	}
	end_merge(&m);
	return e;
}
