/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The "Trace Event Format" of Chrome, which Perfetto reads too: JSON, an
 * event per line. Spans of a thread are complete events (X) that nest;
 * batches and requests, which overlap, are asynchronous ones (b, e) with an
 * id; a flow (s, f) leads from where a batch was made to where it was used;
 * counters (C) follow at the end. Times are microseconds from the start.
 */
#include "core/json.h"
#include "core/mem.h"
#include "trace/sink/nest.h"
#include "trace/sink/sinks.h"

enum {
	DEPTH_CELLS = 1 << 18, /* of the counters' time */
	RATE_CELLS = 1000,
	RATE_NS = 10 * 1000 * 1000, /* at least, of a cell */
};

struct chrome {
	struct mr_out *o;
	const struct mr_roll *r;
	struct mr_nest *nest;
	char *name[256]; /* of the steps, quoted */
	uint64_t apart;	 /* asynchronous events so far: their ids */
	bool comma;
	int64_t *ready;	 /* batches made and not taken: differences, by cell */
	uint64_t *ended; /* samples, by cell */
	size_t rates;
};

/* ---- parts of an event ---- */

#define PUT(o, text) mr_out_add(o, text, sizeof(text) - 1)

/* {"ph":"X","pid":1,"tid":2,"ts":3.000 */
static void begin(struct chrome *c, char phase, int64_t pid, int64_t tid,
		  uint64_t at)
{
	struct mr_out *o = c->o;

	mr_out_text(o, c->comma ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	c->comma = true;
	mr_out_add(o, &phase, 1);
	PUT(o, "\",\"pid\":");
	mr_out_uint(o, pid > 0 ? (uint64_t)pid : 0);
	PUT(o, ",\"tid\":");
	mr_out_uint(o, (uint64_t)tid);
	if (phase == 'M')
		return;
	PUT(o, ",\"ts\":");
	mr_out_us(o, at - c->r->start);
}

static void put_name(struct chrome *c, const struct mr_mrt_span *s)
{
	PUT(c->o, ",\"name\":");
	if (s->kind == MR_SPAN_STEP) {
		mr_out_text(c->o, c->name[s->step]);
		PUT(c->o, ",\"cat\":\"step\"");
		return;
	}
	PUT(c->o, "\"");
	mr_out_text(c->o, mr_span_name(s->kind));
	PUT(c->o, "\",\"cat\":\"");
	mr_out_text(c->o, mr_span_name(s->kind));
	PUT(c->o, "\"");
}

static void put_key(struct chrome *c, const struct mr_roll_key *k)
{
	char text[1024];
	size_t n = k->length < sizeof(text) ? k->length : sizeof(text) - 1;

	memcpy(text, k->text, n);
	text[n] = 0;
	PUT(c->o, ",\"key\":");
	mr_out_quoted(c->o, text);
}

/* ,"args":{...}}; `off` is by how much the span is shown too short. */
static void put_args(struct chrome *c, const struct mr_roll_thread *t,
		     const struct mr_mrt_span *s, uint64_t off)
{
	const struct mr_roll_key *k =
		mr_roll_key(c->r, t->number, s->sample, s->duration);
	struct mr_out *o = c->o;

	PUT(o, ",\"args\":{\"bytes\":");
	mr_out_uint(o, s->bytes);
	if (s->batch != MR_NO_BATCH) {
		PUT(o, ",\"batch\":");
		mr_out_uint(o, s->batch);
	}
	if (s->sample != MR_NO_SAMPLE) {
		PUT(o, ",\"sample\":");
		mr_out_uint(o, s->sample);
	}
	if (k)
		put_key(c, k);
	if (s->flags & MR_SPAN_FAILED)
		PUT(o, ",\"failed\":true");
	if (s->flags & MR_SPAN_LAID)
		PUT(o, ",\"laid\":true");
	if (off >= 1000) {
		PUT(o, ",\"cut_off_us\":");
		mr_out_us(o, off);
	}
	PUT(o, "}}");
}

/* ---- spans ---- */

static void put_async(struct chrome *c, const struct mr_roll_thread *t,
		      const struct mr_mrt_span *s)
{
	c->apart++;
	for (int end = 0; end < 2; end++) {
		begin(c, end ? 'e' : 'b', t->is.pid, t->lane,
		      s->start + (end ? s->duration : 0));
		PUT(c->o, ",\"id\":");
		mr_out_uint(c->o, c->apart);
		put_name(c, s);
		if (!end)
			put_args(c, t, s, 0);
		else
			PUT(c->o, "}");
	}
}

static void put_flow(struct chrome *c, const struct mr_roll_thread *t,
		     char phase, uint64_t at, uint64_t batch)
{
	begin(c, phase, t->is.pid, t->lane, at);
	PUT(c->o, ",\"id\":");
	mr_out_uint(c->o, batch);
	if (phase == 'f')
		PUT(c->o, ",\"bp\":\"e\"");
	PUT(c->o, ",\"name\":\"ready\",\"cat\":\"ready\"}");
}

static void put_slice(struct chrome *c, const struct mr_roll_thread *t,
		      const struct mr_nested *n)
{
	begin(c, 'X', t->is.pid, t->lane, n->start);
	PUT(c->o, ",\"dur\":");
	mr_out_us(c->o, n->end - n->start);
	put_name(c, &n->s);
	put_args(c, t, &n->s, n->s.duration - (n->end - n->start));
}

/* Spans that the next one is not in have ended, and so have batches: arrows
 * begin there, in the span in which the batch became ready. */
static void end_batches(struct chrome *c, const struct mr_roll_thread *t,
			const struct mr_nested *n, uint32_t last,
			uint32_t around)
{
	for (uint32_t i = last; i != around; i = n[i].parent)
		if (n[i].s.kind == MR_SPAN_BATCH &&
		    mr_roll_batch(c->r, n[i].s.batch))
			put_flow(c, t, 's', n[i].end, n[i].s.batch);
}

/* Arrows end in the span in which the batch was used. */
static void put_tree(void *self, const struct mr_roll_thread *t,
		     const struct mr_nested *n, size_t count)
{
	bool mark = t->kinds & 1u << MR_SPAN_WORK;
	struct chrome *c = self;

	for (size_t i = 0; i < count; i++) {
		unsigned kind = n[i].s.kind;

		if (kind != MR_SPAN_BATCH || !mark)
			put_slice(c, t, &n[i]);
		if (kind == MR_SPAN_CONSUME &&
		    mr_roll_batch(c->r, n[i].s.batch))
			put_flow(c, t, 'f', n[i].start, n[i].s.batch);
		end_batches(c, t, n, (uint32_t)i,
			    i + 1 < count ? n[i + 1].parent : MR_NEST_NONE);
	}
}

static size_t cell_of(const struct chrome *c, uint64_t at, size_t cells)
{
	uint64_t whole = c->r->end - c->r->start;
	size_t i;

	if (!whole)
		return 0;
	i = (size_t)((double)(at - c->r->start) / (double)whole *
		     (double)cells);
	return i < cells ? i : cells - 1;
}

static void count(struct chrome *c, const struct mr_mrt_span *s)
{
	uint64_t end = s->start + s->duration;

	if (s->kind == MR_SPAN_SAMPLE)
		c->ended[cell_of(c, end, c->rates)]++;
	if ((s->kind != MR_SPAN_BATCH && s->kind != MR_SPAN_NEXT) ||
	    !mr_roll_batch(c->r, s->batch))
		return;
	c->ready[cell_of(c, end, DEPTH_CELLS)] +=
		s->kind == MR_SPAN_BATCH ? 1 : -1;
}

static void put_span(void *self, struct mr_roll_thread *t,
		     const struct mr_mrt_span *s)
{
	struct chrome *c = self;

	count(c, s);
	if (s->kind == MR_SPAN_FETCH || s->kind == MR_SPAN_BATCH)
		put_async(c, t, s);
	mr_nest_add(c->nest, t, s);
}

/* ---- who is who ---- */

static void put_meta(struct chrome *c, const char *what, int64_t pid,
		     int64_t tid, const char *text)
{
	begin(c, 'M', pid, tid, 0);
	PUT(c->o, ",\"name\":\"");
	mr_out_text(c->o, what);
	PUT(c->o, "\",\"args\":{\"name\":");
	mr_out_quoted(c->o, text);
	PUT(c->o, "}}");
}

static void put_sort(struct chrome *c, const struct mr_roll_thread *t)
{
	begin(c, 'M', t->is.pid, t->lane, 0);
	PUT(c->o, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":");
	mr_out_uint(c->o, t->number);
	PUT(c->o, "}}");
}

static void put_process(struct chrome *c, const struct mr_roll_thread *t)
{
	const struct mr_mrt_header *h = &c->r->header;
	bool script = *mr_roll_meta(c->r, "foreign") == 't';
	struct mr_str name = { 0 };

	if (h->ranks > 1)
		mr_str_addf(&name, "rank %d of %d: ", h->rank, h->ranks);
	if (t->is.ranked && !script)
		mr_str_addf(&name, "rank %d: millrace", t->is.rank);
	else if (t->is.ranked || (uint32_t)t->is.pid != h->pid)
		mr_str_add(&name, t->is.name);
	else
		mr_str_add(&name, script ? "main" : "millrace");
	if (name.failed)
		c->o->failed = ENOMEM;
	else
		put_meta(c, "process_name", t->is.pid, t->lane, name.text);
	mr_str_fini(&name);
}

static int by_pid(const void *a, const void *b)
{
	const struct mr_roll_thread *x = *(struct mr_roll_thread *const *)a;
	const struct mr_roll_thread *y = *(struct mr_roll_thread *const *)b;

	if (x->is.pid != y->is.pid)
		return x->is.pid < y->is.pid ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

static int put_people(struct chrome *c, struct mr_err *err)
{
	const struct mr_roll *r = c->r;
	size_t n = 0;
	const struct mr_roll_thread **of = mr_alloc(
		r->threads, sizeof(const struct mr_roll_thread *), err);

	if (!of)
		return MR_ENOMEM;
	for (size_t i = 0; i < r->threads; i++)
		if (r->thread[i].spans)
			of[n++] = &r->thread[i];
	qsort(of, n, sizeof(*of), by_pid);
	for (size_t i = 0; i < n; i++) {
		if (!i || of[i]->is.pid != of[i - 1]->is.pid)
			put_process(c, of[i]);
		put_meta(c, "thread_name", of[i]->is.pid, of[i]->lane,
			 of[i]->is.name);
		put_sort(c, of[i]);
	}
	free(of);
	return 0;
}

static void put_head(struct chrome *c)
{
	static const char *const said[] = { "pipeline", "version", "order",
					    "seed",	"threads", "samples",
					    "batch",	"clock" };
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	for (size_t i = 0; i < MR_COUNT(said); i++)
		if (*mr_roll_meta(c->r, said[i]))
			mr_json_text(&j, said[i], mr_roll_meta(c->r, said[i]));
	mr_json_int(&j, "rank", c->r->header.rank);
	mr_json_int(&j, "ranks", c->r->header.ranks);
	mr_json_uint(&j, "start_unix_ns",
		     c->r->header.realtime +
			     (c->r->start - c->r->header.monotonic));
	mr_json_uint(&j, "spans", c->r->spans);
	mr_json_uint(&j, "spans_lost", c->r->lost);
	if (mr_roll_cut(c->r))
		mr_json_text(&j, "cut_off", mr_roll_cut(c->r));
	mr_json_close(&j, '}');
	PUT(c->o, "{\"displayTimeUnit\":\"ns\",\"otherData\":");
	if (j.out.failed)
		c->o->failed = ENOMEM;
	else
		mr_out_add(c->o, j.out.text, j.out.len);
	PUT(c->o, ",\"traceEvents\":[");
	mr_str_fini(&j.out);
}

/* ---- counters ---- */

static void put_counter(struct chrome *c, const char *name, size_t i,
			size_t cells, uint64_t value)
{
	double whole = (double)(c->r->end - c->r->start);
	uint64_t at = (uint64_t)(whole * (double)i / (double)cells);

	begin(c, 'C', c->r->header.pid, 0, c->r->start + at);
	PUT(c->o, ",\"name\":\"");
	mr_out_text(c->o, name);
	PUT(c->o, "\",\"args\":{\"value\":");
	mr_out_uint(c->o, value);
	PUT(c->o, "}}");
}

static void put_counters(struct chrome *c)
{
	double cell = (double)(c->r->end - c->r->start) / (double)c->rates;
	int64_t depth = 0;

	for (size_t i = 0; i < DEPTH_CELLS; i++) {
		depth += c->ready[i];
		if (c->ready[i])
			put_counter(c, "batches ready", i, DEPTH_CELLS,
				    depth > 0 ? (uint64_t)depth : 0);
	}
	for (size_t i = 0; i < c->rates && c->r->kind[MR_SPAN_SAMPLE]; i++)
		put_counter(c, "samples/s", i, c->rates,
			    cell > 0 ? (uint64_t)((double)c->ended[i] * 1e9 /
						  cell) :
				       0);
}

/* ---- all of it ---- */

static int prepare(struct chrome *c, struct mr_err *err)
{
	uint64_t rates = (c->r->end - c->r->start) / RATE_NS + 1;

	c->rates = rates < RATE_CELLS ? (size_t)rates : RATE_CELLS;
	c->ready = mr_alloc(DEPTH_CELLS, sizeof(*c->ready), err);
	c->ended = mr_alloc(c->rates, sizeof(*c->ended), err);
	if (!c->ready || !c->ended)
		return MR_ENOMEM;
	for (int i = 0; i < 256; i++) {
		struct mr_mrt_span s = { .kind = MR_SPAN_STEP,
					 .step = (uint8_t)i };
		struct mr_json j = { 0 };

		mr_json_text(&j, NULL, mr_roll_name(c->r, &s));
		c->name[i] = mr_str_take(&j.out);
		if (!c->name[i])
			return mr_err_nomem(err, 64);
	}
	return mr_nest_new(&c->nest, c->r, put_tree, c, err);
}

int mr_chrome_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		    struct mr_err *err)
{
	struct chrome c = { .o = o, .r = r };
	int e = prepare(&c, err);

	if (!e) {
		put_head(&c);
		e = put_people(&c, err);
	}
	if (!e) {
		mr_roll_spans(r, m, put_span, &c);
		e = mr_nest_end(c.nest, err);
	}
	if (!e) {
		put_counters(&c);
		PUT(o, "\n]}\n");
	}
	mr_nest_free(c.nest);
	free(c.ready);
	free(c.ended);
	for (int i = 0; i < 256; i++)
		free(c.name[i]);
	return e;
}
