/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/sink.h"

int mr_too_large(struct mr_worker *w, size_t bytes)
{
	return mr_err_set(&w->err, MR_ELIMIT,
			  "needs %zu bytes; with a memory budget of %zu, a "
			  "sample may have %zu: raise --memory",
			  bytes, w->l->budget.max, w->l->sample_max);
}

/* Room in the area of a field that is not in use; keeps `used` bytes. */
static void *area_reserve(struct mr_worker *w, int field, size_t bytes,
			  size_t used)
{
	struct mr_buf **b = &w->area[field][!w->side[field]];

	/* before all else: a buffer may have more room than that */
	if (bytes > w->l->sample_max) {
		mr_too_large(w, bytes);
		return NULL;
	}
	if (*b && (*b)->cap >= bytes)
		return (*b)->data;
	if (*b ? mr_buf_grow(*b, bytes, used, &w->err) :
		 mr_pool_get(&w->l->pool, bytes, b, &w->err))
		return NULL;
	return (*b)->data;
}

/* Room at the end of a run's bytes of a ragged field, keeping what the
 * present sample has written so far. */
static void *run_reserve(struct mr_worker *w, struct mr_run *run, int r,
			 size_t bytes, size_t written)
{
	struct mr_buf **b = &run->buf[r];
	size_t need = run->used[r] + bytes, grown;

	if (bytes > w->l->sample_max) {
		mr_too_large(w, bytes);
		return NULL;
	}
	if (*b && (*b)->cap >= need)
		return (char *)(*b)->data + run->used[r];
	if (!*b) {
		/* Room for the whole run, going by the rows seen so far. */
		size_t mean = mr_counted(&w->l->row_mean[r]);

		grown = need + (mean + mean / 4) * run->rows;
		if (grown > w->l->sample_max)
			grown = need;
		if (mr_pool_get(&w->l->pool, grown, b, &w->err))
			return NULL;
	} else {
		grown = (*b)->cap + (*b)->cap / 2;
		if (mr_buf_grow(*b, need > grown ? need : grown,
				run->used[r] + written, &w->err))
			return NULL;
	}
	return (char *)(*b)->data + run->used[r];
}

void *mr_sink_reserve(struct mr_worker *w, const struct mr_sink *s,
		      size_t bytes, size_t written)
{
	const struct mr_out_field *o;

	if (s->out < 0)
		return area_reserve(w, s->field, bytes, written);
	o = &w->l->plan.out[s->out];
	if (o->dense)
		return mr_batch_row(s->row->b, s->out, s->row->at);
	return run_reserve(w, s->row->run, o->ragged, bytes, written);
}

void mr_sink_settle(struct mr_worker *w, const struct mr_sink *s,
		    const struct mr_tensor *t)
{
	const struct mr_out_field *o;

	if (s->begins)
		return;
	if (s->out < 0) {
		w->side[s->field] ^= 1;
		return;
	}
	o = &w->l->plan.out[s->out];
	if (o->dense)
		return;
	s->row->run->used[o->ragged] += mr_tensor_bytes(t);
	memcpy(s->row->b->shapes[s->out] + s->row->at * (uint32_t)t->ndim,
	       t->shape, (size_t)t->ndim * sizeof(int64_t));
}
