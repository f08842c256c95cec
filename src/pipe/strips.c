/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/strips.h"

#include "core/mem.h"
#include "op/frames.h"
#include "pipe/lap.h"
#include "pipe/sink.h"

int mr_strips_count(const struct mr_step *st, int n)
{
	int k = 1;

	if (!st->op->frames || !st->op->frames->make)
		return 0;
	while (k < n && k < MR_STRIPS_STEPS && st[k].field == st->field &&
	       st[k].op->frames && st[k].op->frames->map && st[k].in.ndim == 2)
		k++;
	return k > 1 ? k : 0;
}

/* ---- one sample ---- */

_Static_assert((int)MR_STRIPS_STEPS <= (int)MR_COUNTER_PARTS,
	       "lap.h counts them");

struct strips {
	struct mr_worker *w;
	const struct mr_row *row;
	const struct mr_step *step;
	int n;
	struct mr_opctx cx[MR_STRIPS_STEPS];
	struct mr_rng rng[MR_STRIPS_STEPS];
	struct mr_tensor in;
	size_t rows, columns[MR_STRIPS_STEPS]; /* of what each step gives */
	float *strip[MR_STRIPS_STEPS]; /* the last one's is in the output */
	struct mr_columns want;	       /* of what the first gives */
	uint64_t ticks[MR_STRIPS_STEPS];
};

/* How many rows there are: the first step says it. */
static int begin(struct strips *s, const struct mr_row *r)
{
	struct mr_tensor first = mr_tensor_of(&s->step->out);
	const struct mr_frames_op *second = s->step[1].op->frames;
	int e = 0;

	for (int k = s->n - 1; k >= 0; k--) {
		mr_step_context(s->w, r, &s->step[k], &s->rng[k], &s->cx[k]);
		s->columns[k] = (size_t)s->step[k].out.shape[1];
	}
	if (!s->step->fixed)
		e = s->step->op->shape(&s->cx[0], &s->in, &first);
	if (e)
		return e;
	s->rows = (size_t)first.shape[0];
	s->want = (struct mr_columns){ 0, s->columns[0] };
	s->w->at_step = s->step[1].op->name;
	return second->needs ?
		       second->needs(&s->cx[1], s->columns[0], &s->want) :
		       0;
}

static int place(struct strips *s, const struct mr_sink *sink,
		 struct mr_tensor *out)
{
	int64_t elements;

	for (int k = 0; k < s->n - 1; k++) {
		size_t bytes = s->columns[k] * MR_STRIP * sizeof(float);

		s->strip[k] = mr_arena_take(&s->w->scratch, bytes);
		if (!s->strip[k])
			return mr_too_large(s->w, bytes);
	}
	*out = mr_tensor_of(&s->step[s->n - 1].out);
	out->shape[0] = (int64_t)s->rows;
	if (!mr_shape_elements(out->shape, 2, out->dtype, &elements))
		return mr_err_set(&s->w->err, MR_EDATA,
				  "a shape that is out of range");
	out->data = mr_sink_reserve(s->w, sink, mr_tensor_bytes(out), 0);
	return out->data ? 0 : s->w->err.code;
}

/* Rows [at, at + n) through all steps. */
static int strip(struct strips *s, size_t at, size_t n)
{
	int e = 0;

	for (int k = 0; k < s->n && !e; k++) {
		const struct mr_frames_op *op = s->step[k].op->frames;

		s->w->at_step = s->step[k].op->name;
		e = k ? op->map(&s->cx[k], s->strip[k - 1], s->columns[k - 1],
				n, s->strip[k]) :
			op->make(&s->cx[k], &s->in, at, n, &s->want,
				 s->strip[k]);
		mr_lap_part(s->w, s->ticks, k);
	}
	return e;
}

/* To each step its time, and the bytes that it would read and write alone. */
static void account(const struct strips *s)
{
	size_t in = mr_tensor_bytes(&s->in);

	for (int k = 0; k < s->n; k++) {
		size_t out = s->rows * s->columns[k] * sizeof(float);

		mr_lap_bytes(s->w, s->step[k].stage, in, out);
		mr_lap_add(s->w, s->row, s->step[k].stage, s->ticks[k], 1u << k,
			   MR_SPAN_LAID);
		in = out;
	}
}

int mr_strips_run(struct mr_worker *w, const struct mr_row *r,
		  const struct mr_step *st, struct mr_tensor *t)
{
	struct strips s = { .w = w,
			    .row = r,
			    .step = st,
			    .n = st->joined,
			    .in = t[st->field] };
	int last = s.n - 1, e;
	struct mr_sink sink = { r, st->field, st[last].out_field,
				st[last].begins };
	struct mr_tensor out;

	w->laid = w->last;
	e = begin(&s, r);
	if (!e)
		e = place(&s, &sink, &out);
	for (size_t at = 0; !e && at < s.rows; at += MR_STRIP) {
		size_t n = s.rows - at < MR_STRIP ? s.rows - at : MR_STRIP;

		s.strip[last] = (float *)out.data + at * s.columns[last];
		e = strip(&s, at, n);
	}
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	mr_sink_settle(w, &sink, &out);
	account(&s);
	t[st->field] = out;
	return 0;
}
