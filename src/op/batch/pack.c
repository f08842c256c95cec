/* SPDX-License-Identifier: Apache-2.0 */
/* pack: the token sequences of a batch into rows of one length. */
#include <stdio.h>

#include "core/arena.h"
#include "kernel/convert.h"
#include "op/batchop.h"
#include "op/packing.h"

enum how { CUT, FIT };
static const char *const ways[] = { "cut", "fit", NULL };

struct pack {
	int64_t length, eos;
	int how;
	double value;
};

static const struct mr_param params[] = {
	MR_INT(struct pack, length, NULL, 1, 1 << 24, "elements of a row"),
	MR_ENUM(struct pack, how, "cut", ways,
		"cut: samples run on from row to row, in order; fit: none is "
		"split that fits into a row, best fit by decreasing length"),
	MR_INT(struct pack, eos, "-1", -1, INT32_MAX,
	       "an id to end each sample with; -1: none"),
	MR_REAL(struct pack, value, "0", -1e308, 1e308,
		"fill up with this what a row has left"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct pack *p = self;
	double eos = (double)p->eos;
	char why[80];

	if (in->ndim != 1)
		return mr_op_refuse("pack", in, "want lists of ids", err);
	if (!mr_op_holds(in->dtype, p->value) ||
	    (p->eos >= 0 && !mr_op_holds(in->dtype, eos))) {
		snprintf(why, sizeof(why), "%s=%g is none of that type",
			 mr_op_holds(in->dtype, p->value) ? "eos" : "value",
			 mr_op_holds(in->dtype, p->value) ? eos : p->value);
		return mr_op_refuse("pack", in, why, err);
	}
	*out = *in;
	out->shape[0] = p->length;
	return 0;
}

static void types(const void *self, struct mr_field_spec *more)
{
	const struct pack *p = self;

	more[0].spec.shape[0] = p->length;
}

/* ---- a batch ---- */

struct job {
	const struct pack *p;
	const struct mr_batch_work *w;
	int64_t *length; /* of each sample, the id at its end included */
	struct mr_piece *piece;
	size_t pieces;
	int64_t rows;
};

/* Elements of sample k, and where they begin. */
static int64_t sample_at(const struct mr_field *f, uint64_t k, int64_t *first)
{
	if (f->offsets) {
		*first = f->offsets[k];
		return f->offsets[k + 1] - *first;
	}
	*first = (int64_t)k * f->tensor.shape[1];
	return f->shapes ? f->shapes[k] : f->tensor.shape[1];
}

static int no_room(const struct job *j)
{
	return mr_err_set(j->w->cx->err, MR_ELIMIT,
			  "pack: no memory to arrange %llu samples in rows of "
			  "%lld; raise --memory, or make batches smaller",
			  (unsigned long long)j->w->count,
			  (long long)j->p->length);
}

static int arrange(struct job *j)
{
	const struct mr_batch_work *w = j->w;
	size_t n = (size_t)w->count, bound;
	int64_t first;

	j->length = mr_arena_take(w->cx->scratch, n * sizeof(*j->length));
	if (!j->length)
		return no_room(j);
	for (size_t k = 0; k < n; k++)
		j->length[k] = sample_at(w->in, k, &first) + (j->p->eos >= 0);
	bound = mr_pack_bound(j->length, n, j->p->length);
	if (bound == SIZE_MAX)
		return mr_err_set(w->cx->err, MR_ELIMIT,
				  "pack: a batch of over 2^31 elements or "
				  "pieces; make batches smaller");
	j->piece = w->room(w, 3, bound * sizeof(*j->piece));
	if (!j->piece)
		return w->cx->err->code;
	if (j->p->how == CUT)
		j->pieces = mr_pack_cut(j->length, n, j->p->length, j->piece,
					&j->rows);
	else
		j->pieces = mr_pack_fit(j->length, n, j->p->length,
					w->cx->scratch, j->piece, &j->rows);
	return j->pieces == SIZE_MAX ? no_room(j) : 0;
}

static void fill(char *to, const void *value, size_t size, size_t n)
{
	for (size_t i = 0; i < n; i++)
		memcpy(to + i * size, value, size);
}

/* The elements of a piece; the last one of a sample may be its end's id. */
static void copy_piece(const struct job *j, const struct mr_piece *x, char *to)
{
	const struct mr_field *in = j->w->in;
	size_t size = mr_dtype_size(in->tensor.dtype), n = (size_t)x->length;
	double eos = (double)j->p->eos;
	int64_t first, have;

	have = sample_at(in, (uint64_t)x->document, &first);
	if (x->from + x->length > have) {
		n--;
		mr_convert(&eos, MR_F64, to + n * size, in->tensor.dtype, 1);
	}
	if (n)
		memcpy(to,
		       (const char *)in->tensor.data +
			       (size_t)(first + x->from) * size,
		       n * size);
}

static void fill_rows(const struct job *j, char *ids, int32_t *segment,
		      int32_t *used)
{
	size_t size = mr_dtype_size(j->w->in->tensor.dtype), at = 0;
	int64_t room = j->p->length;
	uint64_t value;

	mr_convert(&j->p->value, MR_F64, &value, j->w->in->tensor.dtype, 1);
	for (int64_t r = 0; r < j->rows; r++) {
		int64_t end = 0;

		for (; at < j->pieces && j->piece[at].row == r; at++) {
			const struct mr_piece *x = &j->piece[at];

			copy_piece(j, x, ids + (size_t)x->start * size);
			for (end = x->start; end < x->start + x->length; end++)
				segment[end] = x->document;
		}
		used[r] = (int32_t)end;
		fill(ids + (size_t)end * size, &value, size,
		     (size_t)(room - end));
		for (; end < room; end++)
			segment[end] = -1;
		ids += (size_t)room * size;
		segment += room;
	}
}

static int run(const struct mr_batch_work *w)
{
	struct job j = { .p = w->cx->self, .w = w };
	size_t all, size = mr_dtype_size(w->in->tensor.dtype);
	void *ids, *segment, *used;
	int e = arrange(&j);

	if (e)
		return e;
	all = (size_t)j.rows * (size_t)j.p->length;
	ids = w->room(w, 0, all * size);
	segment = ids ? w->room(w, 1, all * sizeof(int32_t)) : NULL;
	used = segment ? w->room(w, 2, (size_t)j.rows * sizeof(int32_t)) : NULL;
	if (!used)
		return w->cx->err->code;
	for (int i = 0; i < 3; i++)
		w->out[i].tensor.shape[0] = j.rows;
	w->out[3].tensor.shape[0] = (int64_t)j.pieces;
	fill_rows(&j, ids, segment, used);
	return 0;
}

static const struct mr_batch_op batch = {
	.more = {
		{ "segments", { MR_I32, 1, { 0 } }, 0 },
		{ "lengths", { MR_I32, 0, { 0 } }, 0 },
		{ "pieces", { MR_I32, 1, { 5 } }, 0 },
	},
	.types = types,
	.run = run,
};

const struct mr_op mr_op_pack = {
	.name = "pack",
	.help = "after batch: its samples, end to end, in rows of one length; "
		"with the sample of each element (segments, -1: none), the "
		"elements of each row (lengths), and where the samples lie "
		"(pieces: row, start, length, sample, from)",
	.size = sizeof(struct pack),
	.params = params,
	.infer = infer,
	.batch = &batch,
};
