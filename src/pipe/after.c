/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/after.h"

#include <assert.h>

#include "core/mem.h"
#include "op/batchop.h"

struct work {
	struct mr_batch_work w; /* first: room() is given this one */
	struct mr_loader *l;
	struct mr_batch *b;
	const struct mr_after *a;
};

static void *room(const struct mr_batch_work *w, int i, size_t bytes)
{
	struct work *x = (struct work *)(uintptr_t)w;
	struct mr_buf **buf = &x->b->buf[x->a->buf + i];
	char size[32];

	assert(!*buf);
	if (bytes > x->l->sample_max) {
		mr_err_set(w->cx->err, MR_ELIMIT,
			   "%s: field '%s' of a batch takes %s; raise --memory "
			   "(half of it may be taken), or make batches smaller",
			   x->a->op->name, x->w.out[i].name,
			   mr_str_size(size, (double)bytes));
		return NULL;
	}
	if (mr_pool_get(&x->l->pool, bytes, buf, w->cx->err))
		return NULL;
	x->w.out[i].tensor.data = (*buf)->data;
	return (*buf)->data;
}

/* A field of rows, before there are any. */
static struct mr_field blank(const struct mr_field_spec *s)
{
	struct mr_field f = { .name = s->name, .sample_ndim = s->spec.ndim };

	f.tensor.dtype = s->spec.dtype;
	f.tensor.ndim = s->spec.ndim + 1;
	memcpy(f.tensor.shape + 1, s->spec.shape,
	       (size_t)s->spec.ndim * sizeof(int64_t));
	return f;
}

static int run_one(struct mr_worker *w, struct mr_batch *b,
		   const struct mr_after *a)
{
	const struct mr_plan *p = &w->l->plan;
	struct mr_field out[1 + MR_BATCH_MORE];
	struct mr_opctx cx = {
		.self = a->self,
		.scratch = &w->scratch,
		.local = w->local[a->stage],
		.limit = w->l->sample_max,
		.err = &b->failed,
	};
	struct work x = {
		{ &cx, b->count, &b->field[a->field], out, room }, w->l, b, a
	};
	int e;

	out[0] = blank(&p->show.item[a->field]);
	for (int i = 0; i < a->more; i++)
		out[1 + i] = blank(&p->show.item[a->first + i]);
	e = a->op->batch->run(&x.w);
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	b->field[a->field] = out[0];
	memcpy(&b->field[a->first], out + 1, (size_t)a->more * sizeof(*out));
	/* what it was made of is of no more use */
	if (a->field < p->outs && !p->out[a->field].dense) {
		mr_buf_unref(b->buf[a->field]);
		b->buf[a->field] = NULL;
	}
	return 0;
}

/* Of each step: the bytes of the field it works on, those that it gives, and
 * how long that took. */
void mr_after_run(struct mr_worker *w, struct mr_batch *b, uint64_t s)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->afters && b->count && !b->failed.code; i++) {
		const struct mr_after *a = &p->after[i];
		struct mr_step_count *st = &w->stats->step[a->stage - 1];
		uint64_t t0 = mr_clock_tick(&w->l->clock), took;
		size_t in = mr_tensor_bytes(&b->field[a->field].tensor), out;

		if (run_one(w, b, a))
			return;
		out = mr_tensor_bytes(&b->field[a->field].tensor);
		for (int k = 0; k < a->more; k++)
			out += mr_tensor_bytes(&b->field[a->first + k].tensor);
		took = mr_clock_tick(&w->l->clock) - t0;
		w->after += took;
		mr_count(&w->stats->steps, took);
		mr_count(&st->calls, 1);
		mr_count(&st->ticks, took);
		mr_count(&st->bytes_in, in);
		mr_count(&st->bytes_out, out);
		mr_hist_add(&st->hist, took);
		if (w->ring)
			mr_ring_put(
				w->ring,
				&(struct mr_span){ .start = t0,
						   .end = t0 + took,
						   .sample = MR_NO_SAMPLE,
						   .batch = s,
						   .bytes = mr_span_bytes(out),
						   .kind = MR_SPAN_STEP,
						   .step = (uint8_t)a->stage });
	}
}
