/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a sample: read, all steps, into its row of the batch, before
 * its worker turns to the next. No lock, queue, wake-up or allocation.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "core/guard.h"
#include "core/mem.h"
#include "core/rng.h"
#include "io/input.h"
#include "pipe/cached.h"
#include "pipe/join.h"
#include "pipe/lap.h"
#include "pipe/part.h"
#include "pipe/sink.h"
#include "pipe/strips.h"

enum {
	REPLACE_TRIES = 32,
	REPLACE_STREAM = 255, /* of random numbers, beside the steps' */
};

/* ---- the read ---- */

static int short_file(struct mr_worker *w, const struct mr_extent *x,
		      size_t got)
{
	return mr_err_set(&w->err, MR_EDATA,
			  "%s: ends at byte %llu, %llu short of this sample; "
			  "the file has shrunk since it was opened",
			  x->path, (unsigned long long)(x->offset + got),
			  (unsigned long long)(x->length - got));
}

/* A guess at a file's size must not be what the budget refuses. */
static size_t guess_for(const struct mr_worker *w, size_t bytes)
{
	return bytes < w->l->sample_max ? bytes : w->l->sample_max;
}

/* Room for more of a file that filled its buffer of *want bytes. */
static uint8_t *more_room(struct mr_worker *w, int fd,
			  const struct mr_extent *x, const struct mr_sink *s,
			  uint8_t *p, size_t *want)
{
	size_t got = *want;
	char next;

	*want = guess_for(w, got * 2);
	/* At the limit it matters whether there is more at all. */
	if (*want == got && pread(fd, &next, 1, (off_t)(x->offset + got)) == 0)
		return p;
	if (*want == got)
		*want = got + 1;
	return mr_sink_reserve(w, s, *want, got);
}

/* Bytes [offset, ...) of fd into the sink; *n is how many there were. */
static int read_into(struct mr_worker *w, int fd, const struct mr_extent *x,
		     const struct mr_sink *s, uint8_t **data, size_t *n)
{
	bool to_end = x->length == MR_TO_END;
	size_t want = to_end ? guess_for(w, w->guess) : x->length, got = 0;
	uint8_t *p = mr_sink_reserve(w, s, want, 0);

	while (p && (to_end || got < want)) {
		ssize_t k;

		if (got == want) { /* longer than guessed */
			p = more_room(w, fd, x, s, p, &want);
			if (!p || got == want)
				break;
		}
		k = pread(fd, p + got, want - got, (off_t)(x->offset + got));
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return mr_err_sys(&w->err, errno, x->path,
					  "cannot read");
		if (k == 0 && !to_end)
			return short_file(w, x, got);
		if (k == 0)
			break;
		got += (size_t)k;
	}
	if (!p)
		return w->err.code;
	if (to_end && got >= w->guess)
		w->guess = got + got / 8 + 1;
	*data = p;
	*n = got;
	return 0;
}

/* From a mapping: no system call, which is most of what a small read costs. */
static int copy_mapped(struct mr_worker *w, const struct mr_extent *x,
		       const struct mr_sink *s, uint8_t **data, size_t *n)
{
	uint8_t *p = mr_sink_reserve(w, s, x->length, 0);

	if (!p)
		return w->err.code;
	if (!mr_guard_copy(p, x->mapped, x->length))
		return mr_err_set(&w->err, MR_EDATA,
				  "%s: has shrunk since it was opened, or "
				  "cannot be read: no bytes at %llu",
				  x->path, (unsigned long long)x->offset);
	*data = p;
	*n = x->length;
	return 0;
}

/* again: all tries have failed ahead; this one is for its words. */
static int read_remote(struct mr_worker *w, const struct mr_extent *x,
		       const struct mr_sink *s, bool again, uint8_t **data,
		       size_t *n)
{
	struct mr_patience patience = { &w->l->stop, again };

	*n = x->length;
	*data = mr_sink_reserve(w, s, *n, 0);
	if (!*data)
		return w->err.code;
	return mr_input_read_patiently(x->input, *data, *n, x->offset,
				       &patience, &w->err);
}

static int read_direct(struct mr_worker *w, const struct mr_extent *x,
		       const struct mr_sink *s, bool again, uint8_t **data,
		       size_t *n)
{
	struct mr_shape *shape = w->l->shape;
	uint64_t t0 = shape ? mr_clock_ns() : 0, key = 0;
	int fd = x->fd, e;

	if (x->mapped)
		return copy_mapped(w, x, s, data, n);
	if (x->input)
		return read_remote(w, x, s, again, data, n);
	if (fd < 0)
		fd = open(x->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return mr_err_sys(&w->err, errno, x->path, "cannot open");
	if (shape)
		key = mr_shape_key(x, x->path);
	e = read_into(w, fd, x, s, data, n);
	if (x->fd < 0)
		close(fd);
	if (shape && !mr_shape_cached(shape, key, e ? 0 : *n))
		mr_shape_wait(shape, t0, e ? 0 : *n, &w->late, &w->l->stop);
	return e;
}

/* Bytes that were read ahead: used where they lie, or copied when they are
 * themselves the output. */
static int take_fetched(struct mr_worker *w, const struct mr_fetched *got,
			const struct mr_extent *x, const struct mr_sink *s,
			uint8_t **data, size_t *n)
{
	if (got->error)
		return mr_err_sys(&w->err, got->error, x->path, "cannot read");
	*n = got->length;
	*data = (uint8_t *)(uintptr_t)got->data;
	if (s->out < 0)
		return 0;
	*data = mr_sink_reserve(w, s, *n, 0);
	if (!*data)
		return w->err.code;
	memcpy(*data, got->data, *n);
	return 0;
}

/* Who gives a sample: the source, or a prepared set. */
struct giver {
	const struct mr_source *source;
	const void *self;
	uint64_t index; /* as it numbers them */
	int stage;	/* whose thread's state it uses */
	const struct mr_fields *fields;
	const int *out; /* the output fields that no step follows, by id */
};

static struct giver giver_of(const struct mr_plan *p, uint64_t index)
{
	const struct mr_stored_part *part = &p->part;
	uint64_t record;

	return mr_part_has(p, index, &record) ?
		       (struct giver){ part->source, part->self, record,
				       part->stage,  &part->in,	 part->out } :
		       (struct giver){ p->source, p->source_self, index,
				       0,	  &p->in,	  p->in_out };
}

/* What a source's load() or unpack() works with. */
struct loading {
	struct mr_load ld; /* first: room() is given this one */
	struct giver from;
	struct mr_worker *w;
	const struct mr_row *row;
	unsigned roomed; /* a bit for each field that asked for room */
};

/* Where field i of a giver goes. */
static struct mr_sink sink_of(const struct loading *g, int i)
{
	int id = g->from.fields->item[i].id;

	return (struct mr_sink){ g->row, id, g->from.out[id] };
}

static void *room(const struct mr_load *ld, int field, size_t bytes)
{
	struct loading *g = (struct loading *)(uintptr_t)ld;
	const struct mr_plan *p = &g->w->l->plan;
	struct mr_sink s = sink_of(g, field);

	if (s.out >= 0 && p->out[s.out].dense &&
	    bytes != p->out[s.out].row_bytes) {
		mr_err_set(ld->err, MR_EDATA,
			   "field '%s' has %zu bytes, and %zu in other "
			   "samples",
			   p->out[s.out].name, bytes, p->out[s.out].row_bytes);
		return NULL;
	}
	g->roomed |= 1u << field;
	return mr_sink_reserve(g->w, &s, bytes, 0);
}

static int other_shape(struct mr_worker *w, const struct mr_field_spec *f,
		       const struct mr_tensor *t)
{
	struct mr_spec is = { .dtype = t->dtype, .ndim = t->ndim };
	char have[128], want[128];

	memcpy(is.shape, t->shape, sizeof(is.shape));
	mr_spec_text(&is, have, sizeof(have));
	mr_spec_text(&f->spec, want, sizeof(want));
	return mr_err_set(&w->err, MR_EDATA, "field '%s' is %s, want %s",
			  f->name, have, want);
}

static bool shape_fits(const struct mr_tensor *t, const struct mr_spec *s)
{
	for (int i = 0; i < s->ndim; i++)
		if (t->shape[i] != s->shape[i] &&
		    (s->shape[i] != MR_ANY || t->shape[i] < 0))
			return false;
	return true;
}

/* The fields are there: what leaves without a step goes to the batch, if it
 * is not there already. Bytes of a raw field 0 are. */
static int place_fields(struct loading *g, struct mr_tensor *t, bool raw)
{
	const struct mr_fields *fs = g->from.fields;

	for (int i = 0; i < fs->n; i++) {
		struct mr_sink s = sink_of(g, i);

		if (!shape_fits(&t[i], &fs->item[i].spec))
			return other_shape(g->w, &fs->item[i], &t[i]);
		if (!(g->roomed & 1u << i) && s.out >= 0 && !(raw && i == 0)) {
			size_t n = mr_tensor_bytes(&t[i]);
			void *to = mr_sink_reserve(g->w, &s, n, 0);

			if (!to)
				return g->w->err.code;
			memcpy(to, t[i].data, n);
			t[i].data = to;
			g->roomed |= 1u << i;
		}
		if (g->roomed & 1u << i)
			mr_sink_settle(g->w, &s, &t[i]);
	}
	return 0;
}

/* The bytes of a sample; false in *sunk when they lie elsewhere than in the
 * sink, where nothing is copied. */
static int read_bytes(struct mr_worker *w, const struct giver *from,
		      const struct mr_fetched *got, const struct mr_sink *s,
		      uint8_t **data, size_t *n, bool *sunk)
{
	struct mr_extent x = { 0 };
	int e = from->source->locate(from->self, from->index, w->path,
				     sizeof(w->path), &x, &w->err);

	if (e)
		return e;
	if (w->l->shape)
		x.mapped = NULL; /* pages that are touched cannot be delayed */
	w->offset = x.offset;
	*sunk = s->out >= 0;
	if (got && !got->retry) {
		e = take_fetched(w, got, &x, s, data, n);
	} else if (x.mapped && s->out < 0) {
		mr_guard_arm(x.mapped, x.length);
		*data = (uint8_t *)(uintptr_t)x.mapped;
		*n = x.length;
	} else {
		e = read_direct(w, &x, s, got && got->error, data, n);
		*sunk = true;
	}
	w->bytes = *n;
	mr_count(&w->stats->bytes_read, *n);
	return e;
}

/* When a sample that is not really read was asked for: when the one that
 * stands MR_MADE_AHEAD before it was begun. */
static uint64_t asked_ahead(struct mr_loader *l, const struct mr_row *r,
			    uint64_t now)
{
	uint64_t position = r->slot * l->rows + r->at;
	mr_counter *begun = &l->made[position % MR_MADE_AHEAD];
	uint64_t before = mr_counted(begun);

	atomic_store_explicit(begun, now, memory_order_relaxed);
	return before ? before : l->open_ns;
}

static uint64_t made_bytes(const struct mr_plan *p, const struct mr_tensor *t)
{
	uint64_t n = 0;

	for (int i = 0; i < p->in.n; i++)
		n += mr_tensor_bytes(&t[i]);
	return n;
}

/* A source that reads by itself: all of it counts as one request. */
static int load_sample(struct loading *g, struct mr_tensor *t)
{
	struct mr_worker *w = g->w;
	struct mr_shape *shape = w->l->shape;
	const struct mr_source *source = w->l->plan.source;
	bool made = shape && source->flags & MR_SOURCE_MADE;
	uint64_t t0 = shape ? mr_clock_ns() : 0;
	uint64_t before = mr_input_thread_bytes();
	int e;

	if (made)
		t0 = asked_ahead(w->l, g->row, t0);
	e = source->load(&g->ld, t);
	mr_arena_reset(&w->scratch);
	w->bytes = made ? made_bytes(&w->l->plan, t) :
			  mr_input_thread_bytes() - before;
	mr_count(&w->stats->bytes_read, w->bytes);
	if (shape && w->bytes && !mr_shape_cached(shape, g->ld.index, w->bytes))
		mr_shape_wait(shape, t0, w->bytes, &w->late, &w->l->stop);
	return e;
}

/* The fields of a giver, numbered as it has them, and their rates. */
static int give(struct mr_worker *w, const struct giver *from,
		const struct mr_row *r, const struct mr_fetched *got,
		struct mr_tensor *t, int64_t *rate)
{
	bool raw = from->source->flags & MR_SOURCE_RAW;
	struct mr_sink s = { r, raw ? 0 : MR_MAX_FIELDS,
			     raw ? from->out[0] : -1 };
	struct loading g = { .ld = { .self = from->self,
				     .index = from->index,
				     .local = w->local[from->stage],
				     .scratch = &w->scratch,
				     .limit = w->l->sample_max,
				     .room = room,
				     .err = &w->err,
				     .rate = rate },
			     .from = *from,
			     .w = w,
			     .row = r };
	uint8_t *data = NULL;
	size_t n = 0;
	bool sunk;
	int e;

	for (int i = 0; i < from->fields->n; i++) {
		t[i] = mr_tensor_of(&from->fields->item[i].spec);
		rate[i] = 0;
	}
	if (from->source->load) {
		e = load_sample(&g, t);
		return e ? e : place_fields(&g, t, false);
	}
	e = read_bytes(w, from, got, &s, &data, &n, &sunk);
	if (e)
		return e;
	e = from->source->unpack(&g.ld, data, n, t);
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	if (sunk)
		mr_sink_settle(w, &s, &t[0]);
	return place_fields(&g, t, raw && s.out >= 0);
}

/* The source has its fields in the order of their ids. */
static int read_sample(struct mr_worker *w, const struct mr_row *r,
		       const struct mr_fetched *got, struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;
	struct giver from = giver_of(p, r->index);
	struct mr_tensor own[MR_MAX_FIELDS];
	int64_t rate[MR_MAX_FIELDS];
	int e;

	memset(w->side, 0, (size_t)p->in.n * sizeof(*w->side));
	if (from.stage == 0)
		return give(w, &from, r, got, t, w->rate);
	e = give(w, &from, r, got, own, rate);
	for (int i = 0; i < from.fields->n && !e; i++) {
		int id = from.fields->item[i].id;

		t[id] = own[i];
		w->rate[id] = rate[i];
	}
	return e;
}

/* ---- the steps ---- */

void mr_step_context(struct mr_worker *w, const struct mr_row *r,
		     const struct mr_step *st, struct mr_rng *rng,
		     struct mr_opctx *cx)
{
	w->at_step = st->op->name;
	if (st->op->flags & MR_OP_RANDOM)
		*rng = mr_rng_for(w->l->opt.seed, r->b->epoch, r->index,
				  st->stream);
	*cx = (struct mr_opctx){ .self = st->self,
				 .rng = rng,
				 .scratch = &w->scratch,
				 .index = r->index,
				 .local = w->local[st->stage],
				 .limit = w->l->sample_max,
				 .err = &w->err,
				 .rate = &w->rate[st->field] };
}

/* Runs the step itself; *bytes are what it was given. */
static int call_step(const struct mr_step *st, const struct mr_opctx *cx,
		     const struct mr_tensor *t, struct mr_tensor *out,
		     size_t *bytes)
{
	const struct mr_tensor *in[MR_MAX_FIELDS];

	*bytes = 0;
	if (!st->inputs) {
		*bytes = mr_tensor_bytes(&t[st->field]);
		return st->op->run(cx, &t[st->field], out);
	}
	for (int i = 0; i < st->inputs; i++) {
		in[i] = &t[st->input[i]];
		*bytes += mr_tensor_bytes(in[i]);
	}
	return st->op->merge(cx, in, out);
}

static int run_step(struct mr_worker *w, const struct mr_row *r,
		    const struct mr_step *st, struct mr_tensor *t)
{
	struct mr_tensor *in = &t[st->field];
	struct mr_tensor out = mr_tensor_of(&st->out);
	struct mr_sink s = { r, st->field, st->out_field, st->begins };
	struct mr_rng rng;
	struct mr_opctx cx;
	size_t bytes = st->bytes, given;
	int64_t elements;
	int e;

	mr_step_context(w, r, st, &rng, &cx);
	if (!st->fixed) {
		if (st->op->flags & MR_OP_SHAPE_KEEP)
			memcpy(out.shape, in->shape, sizeof(out.shape));
		else if ((e = st->op->shape(&cx, in, &out)))
			return e;
		if (!mr_shape_elements(out.shape, out.ndim, out.dtype,
				       &elements))
			return mr_err_set(&w->err, MR_EDATA,
					  "a shape that is out of range");
		bytes = mr_tensor_bytes(&out);
	}
	out.data = mr_sink_reserve(w, &s, bytes, 0);
	if (!out.data)
		return w->err.code;
	e = call_step(st, &cx, t, &out, &given);
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	mr_sink_settle(w, &s, &out);
	mr_lap_bytes(w, st->stage, given, mr_tensor_bytes(&out));
	*in = out;
	return 0;
}

/* The last step: all fields into one. */
static int run_pack(struct mr_worker *w, const struct mr_row *r,
		    const struct mr_step *st, struct mr_tensor *t)
{
	const struct mr_fields *fs = &w->l->plan.packed;
	struct mr_tensor out = mr_tensor_of(&st->out);
	struct mr_sink s = { r, st->field, st->out_field };
	struct mr_rng rng;
	struct mr_opctx cx;
	size_t in = 0, there = 0;
	int e;

	mr_step_context(w, r, st, &rng, &cx);
	cx.rate = w->rate;
	for (int i = 0; i < fs->n; i++)
		in += mr_tensor_bytes(&t[fs->item[i].id]);
	out.shape[0] = (int64_t)st->op->bound(&cx, fs, t);
	if ((size_t)out.shape[0] > w->l->sample_max)
		return mr_too_large(w, in);
	/* The first field may be there already, and move with it. */
	if (st->begun)
		there = mr_tensor_bytes(&t[st->field]);
	out.data = mr_sink_reserve(w, &s, (size_t)out.shape[0], there);
	if (!out.data)
		return w->err.code;
	if (st->begun)
		t[st->field].data = out.data;
	e = st->op->pack(&cx, fs, t, &out);
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	mr_sink_settle(w, &s, &out);
	mr_lap_bytes(w, st->stage, in, mr_tensor_bytes(&out));
	return 0;
}

/* Steps [from, to). */
static int run_steps(struct mr_worker *w, const struct mr_row *r, int from,
		     int to, struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;
	int e;

	for (int k = from; k < to; k++) {
		const struct mr_step *st = &p->step[k];

		if (st->joined) {
			e = st->op->image ? mr_join_run(w, r, st, t) :
					    mr_strips_run(w, r, st, t);
			k += st->joined - 1;
		} else {
			e = st->op->pack ? run_pack(w, r, st, t) :
					   run_step(w, r, st, t);
			mr_lap(w, r, st->stage);
		}
		if (e)
			return e;
	}
	return 0;
}

/* As far as the cache, if there is one: out of it, or from the storage. The
 * step to go on with, or an error. */
static int begin_sample(struct mr_worker *w, const struct mr_row *r,
			const struct mr_fetched *got, struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;
	uint64_t record;
	bool stored = mr_part_has(p, r->index, &record);
	int first = stored ? p->part.in.item[0].id : 0;
	int e = w->l->cache ? mr_cached_get(w, r, t) : 0;

	if (e)
		return e < 0 ? e : p->cache_at;
	e = read_sample(w, r, got, t);
	if (e)
		return e;
	mr_lap_bytes(w, 0, w->bytes, mr_tensor_bytes(&t[first]));
	mr_lap(w, r, 0);
	if (!w->l->cache)
		return stored ? p->part.at : 0;
	e = run_steps(w, r, stored ? p->part.at : 0, p->cache_at, t);
	if (!e)
		mr_cached_put(w, r, t);
	return e ? e : p->cache_at;
}

/* One sample from the storage to its row. */
static int sample(struct mr_worker *w, const struct mr_row *r,
		  const struct mr_fetched *got)
{
	const struct mr_plan *p = &w->l->plan;
	struct mr_tensor t[MR_MAX_FIELDS];
	int e;

	w->at_step = "read";
	w->offset = w->bytes = 0;
	e = begin_sample(w, r, got, t);
	return e < 0 ? e : run_steps(w, r, e, p->steps, t);
}

/* A file that was mapped has shrunk, or cannot be read, in the middle of a
 * step: what that step keeps for this thread is no longer to be trusted. */
static int lost_mapping(struct mr_worker *w)
{
	mr_guard_disarm();
	mr_arena_reset(&w->scratch);
	if (mr_worker_renew_locals(w))
		return w->err.code;
	return mr_err_set(&w->err, MR_EDATA,
			  "the file has shrunk since it was opened, or cannot "
			  "be read: no bytes of the sample at %llu",
			  (unsigned long long)w->offset);
}

static int guarded_sample(struct mr_worker *w, const struct mr_row *r,
			  const struct mr_fetched *got)
{
	int e;

	if (!mr_part_maps(&w->l->plan))
		return sample(w, r, got);
	if (mr_guard_set())
		return lost_mapping(w);
	e = sample(w, r, got);
	mr_guard_disarm();
	return e;
}

static int try_sample(struct mr_worker *w, const struct mr_row *r,
		      const struct mr_fetched *got)
{
	int e = guarded_sample(w, r, got);

	if (w->l->cache)
		mr_cached_end(w);
	return e;
}

/* ---- bad samples ---- */

static void report_bad(struct mr_worker *w, const struct mr_row *r)
{
	const struct mr_plan *p = &w->l->plan;
	char key[4096];
	struct mr_bad bad = { .index = r->index,
			      .epoch = r->b->epoch,
			      .key = key,
			      .offset = w->offset,
			      .step = w->at_step,
			      .reason = w->err.text };
	struct mr_extent x = { 0 };
	struct mr_err ignored;

	if (w->hit && p->source->locate &&
	    !p->source->locate(p->source_self, r->index, w->path,
			       sizeof(w->path), &x, &ignored))
		bad.offset = x.offset;
	p->source->key(p->source_self, r->index, key, sizeof(key));
	mr_batch_add_bad(r->b, r->at, &bad, w->err.code);
}

/* What the failed sample had written to ragged fields is forgotten. */
static void rewind_run(struct mr_run *run, const size_t *used)
{
	if (run)
		memcpy(run->used, used, sizeof(run->used));
}

/* A row that failed takes another sample: which one is fixed by the seed. */
static bool replace(struct mr_worker *w, struct mr_row *r, const size_t *used)
{
	struct mr_rng rng = mr_rng_for(w->l->opt.seed, r->b->epoch, r->index,
				       REPLACE_STREAM);

	for (int i = 0; i < REPLACE_TRIES; i++) {
		rewind_run(r->run, used);
		r->index = mr_order_chosen(&w->l->order, &w->order,
					   mr_rng_below(&rng, w->l->order.n));
		if (try_sample(w, r, NULL) == 0)
			return true;
	}
	return false;
}

void mr_sample_row(struct mr_worker *w, struct mr_row *r,
		   const struct mr_fetched *got)
{
	size_t used[MR_MAX_FIELDS];
	uint64_t start;
	bool good;

	mr_lap_start(w, r);
	start = w->last;
	if (r->run)
		memcpy(used, r->run->used, sizeof(used));
	good = try_sample(w, r, got) == 0;
	if (!good) {
		report_bad(w, r);
		if (w->l->opt.on_error == MR_ON_ERROR_REPLACE)
			good = replace(w, r, used);
		if (!good)
			rewind_run(r->run, used);
	}
	mr_lap_sample(w, r, start, good);
	r->b->index[r->at] = r->index;
	r->b->good[r->at] = good;
}
