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
#include "pipe/join.h"
#include "pipe/lap.h"
#include "pipe/sink.h"

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

static int read_direct(struct mr_worker *w, const struct mr_extent *x,
		       const struct mr_sink *s, uint8_t **data, size_t *n)
{
	int fd = x->fd, e;

	if (x->mapped)
		return copy_mapped(w, x, s, data, n);
	if (fd < 0)
		fd = open(x->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return mr_err_sys(&w->err, errno, x->path, "cannot open");
	e = read_into(w, fd, x, s, data, n);
	if (x->fd < 0)
		close(fd);
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
	*data = got->buf->data;
	if (s->out < 0)
		return 0;
	*data = mr_sink_reserve(w, s, *n, 0);
	if (!*data)
		return w->err.code;
	memcpy(*data, got->buf->data, *n);
	return 0;
}

/* Small fixed fields (labels) are written by the source where they belong. */
static int place_fixed(struct mr_worker *w, const struct mr_row *r,
		       struct mr_tensor *t, int first)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->in.n; i++) {
		struct mr_sink s = { r, i, p->in_out[i] };

		t[i] = mr_tensor_of(&p->in.item[i].spec);
		w->side[i] = 0;
		if (i < first || !mr_spec_fixed(&p->in.item[i].spec))
			continue;
		t[i].data = mr_sink_reserve(w, &s, mr_tensor_bytes(&t[i]), 0);
		if (!t[i].data)
			return w->err.code;
		mr_sink_settle(w, &s, &t[i]);
	}
	return 0;
}

static int read_sample(struct mr_worker *w, const struct mr_row *r,
		       const struct mr_fetched *got, struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;
	bool raw = p->source->flags & MR_SOURCE_RAW;
	struct mr_sink s = { r, raw ? 0 : MR_MAX_FIELDS,
			     raw ? p->in_out[0] : -1 };
	struct mr_extent x;
	uint8_t *data = NULL;
	size_t n = 0;
	int e;

	if (!p->source->locate) {
		e = place_fixed(w, r, t, 0);
		return e ? e :
			   p->source->generate(p->source_self, r->index, t,
					       &w->err);
	}
	e = place_fixed(w, r, t, raw);
	if (!e)
		e = p->source->locate(p->source_self, r->index, w->path,
				      sizeof(w->path), &x, &w->err);
	if (e)
		return e;
	w->offset = x.offset;
	if (got && !got->retry)
		e = take_fetched(w, got, &x, &s, &data, &n);
	else
		e = read_direct(w, &x, &s, &data, &n);
	if (!e)
		e = p->source->unpack(p->source_self, r->index, data, n, t,
				      &w->err);
	if (e)
		return e;
	/* What was read ahead stays in its buffer until the sample is done. */
	if (s.out >= 0 || !got || got->retry)
		mr_sink_settle(w, &s, &t[0]);
	w->bytes = n;
	mr_count(&w->stats->bytes_read, n);
	return 0;
}

/* ---- the steps ---- */

void mr_step_context(struct mr_worker *w, const struct mr_row *r,
		     const struct mr_step *st, struct mr_rng *rng,
		     struct mr_opctx *cx)
{
	w->at_step = st->op->name;
	if (st->op->flags & MR_OP_RANDOM)
		*rng = mr_rng_for(w->l->opt.seed, r->b->epoch, r->index,
				  (uint64_t)st->stage);
	*cx = (struct mr_opctx){ .self = st->self,
				 .rng = rng,
				 .scratch = &w->scratch,
				 .index = r->index,
				 .local = w->local[st->stage],
				 .limit = w->l->sample_max,
				 .err = &w->err };
}

static int run_step(struct mr_worker *w, const struct mr_row *r,
		    const struct mr_step *st, struct mr_tensor *t)
{
	struct mr_tensor *in = &t[st->field];
	struct mr_tensor out = mr_tensor_of(&st->out);
	struct mr_sink s = { r, st->field, st->out_field };
	struct mr_rng rng;
	struct mr_opctx cx;
	size_t bytes = st->bytes;
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
	e = st->op->run(&cx, in, &out);
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	mr_sink_settle(w, &s, &out);
	mr_lap_bytes(w, st->stage, mr_tensor_bytes(in), mr_tensor_bytes(&out));
	*in = out;
	return 0;
}

/* Output fields that neither a step nor the read has put in place. */
static int place_rest(struct mr_worker *w, const struct mr_row *r,
		      struct mr_tensor *t)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->outs; i++) {
		struct mr_tensor *f = &t[p->out[i].id];
		struct mr_sink s = { r, p->out[i].id, i };
		size_t n;
		void *to;

		if (p->out[i].placed)
			continue;
		n = mr_tensor_bytes(f);
		to = mr_sink_reserve(w, &s, n, 0);
		if (!to)
			return w->err.code;
		memcpy(to, f->data, n);
		mr_sink_settle(w, &s, f);
	}
	return 0;
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
	e = read_sample(w, r, got, t);
	if (e)
		return e;
	mr_lap_bytes(w, 0, w->bytes, mr_tensor_bytes(&t[0]));
	mr_lap(w, 0);
	for (int k = 0; k < p->steps; k++) {
		const struct mr_step *st = &p->step[k];

		if (st->joined) {
			e = mr_join_run(w, r, st, t);
			k += st->joined - 1;
		} else {
			e = run_step(w, r, st, t);
			mr_lap(w, st->stage);
		}
		if (e)
			return e;
	}
	return place_rest(w, r, t);
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
		r->index = mr_rng_below(&rng, w->l->plan.samples);
		if (sample(w, r, NULL) == 0)
			return true;
	}
	return false;
}

void mr_sample_row(struct mr_worker *w, struct mr_row *r,
		   const struct mr_fetched *got)
{
	size_t used[MR_MAX_FIELDS];
	bool good;

	mr_lap_start(w, r->at);
	if (r->run)
		memcpy(used, r->run->used, sizeof(used));
	good = sample(w, r, got) == 0;
	if (!good) {
		report_bad(w, r);
		if (w->l->opt.on_error == MR_ON_ERROR_REPLACE)
			good = replace(w, r, used);
		if (!good)
			rewind_run(r->run, used);
	}
	r->b->index[r->at] = r->index;
	r->b->good[r->at] = good;
}
