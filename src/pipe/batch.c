/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/batch.h"

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "kernel/convert.h"

/* ---- making and emptying ---- */

static int alloc_field(struct mr_batch *b, int i, struct mr_pool *pool,
		       struct mr_err *err)
{
	const struct mr_out_field *o = &b->plan->out[i];
	size_t rows = b->max_rows;

	if (o->dense)
		return mr_pool_get(pool, o->row_bytes * rows, &b->buf[i], err);
	b->offsets[i] = mr_alloc(rows + 1, sizeof(int64_t), err);
	b->shapes[i] =
		mr_alloc(rows * (size_t)(o->spec.ndim ? o->spec.ndim : 1),
			 sizeof(int64_t), err);
	return b->offsets[i] && b->shapes[i] ? 0 : MR_ENOMEM;
}

int mr_batch_new(struct mr_batch **out, const struct mr_plan *plan,
		 struct mr_pool *pool, uint32_t max_runs, struct mr_err *err)
{
	struct mr_batch *b = mr_alloc(1, sizeof(*b), err);
	int e = b ? 0 : MR_ENOMEM;

	*out = NULL;
	if (e)
		return e;
	b->plan = plan;
	b->max_rows = (uint32_t)plan->batch.count;
	b->index = mr_alloc(b->max_rows, sizeof(*b->index), err);
	b->good = mr_alloc(b->max_rows, 1, err);
	if (!b->index || !b->good)
		e = MR_ENOMEM;
	if (!e && plan->ragged) {
		b->max_runs = max_runs;
		b->run = mr_alloc(max_runs, sizeof(*b->run), err);
		if (!b->run)
			e = MR_ENOMEM;
	}
	for (int i = 0; i < plan->outs && !e; i++)
		e = alloc_field(b, i, pool, err);
	if (e) {
		mr_batch_free(b);
		return e;
	}
	*out = b;
	return 0;
}

static void drop_bad(struct mr_batch *b)
{
	struct mr_bad_row *r = atomic_load(&b->bad);

	while (r) {
		struct mr_bad_row *next = r->next;

		free(r);
		r = next;
	}
	atomic_store(&b->bad, NULL);
}

static void drop_runs(struct mr_batch *b)
{
	unsigned n = atomic_load(&b->runs);

	for (unsigned i = 0; i < n; i++) {
		for (int r = 0; r < b->plan->ragged; r++) {
			mr_buf_unref(b->run[i].buf[r]);
			b->run[i].buf[r] = NULL;
		}
	}
	atomic_store(&b->runs, 0);
}

void mr_batch_free(struct mr_batch *b)
{
	if (!b)
		return;
	drop_bad(b);
	drop_runs(b);
	for (int i = 0; i < MR_MAX_BUFS; i++)
		mr_buf_unref(b->buf[i]);
	for (int i = 0; i < MR_MAX_FIELDS; i++) {
		free(b->offsets[i]);
		free(b->shapes[i]);
	}
	free(b->run);
	free(b->index);
	free(b->good);
	free(b);
}

void mr_batch_begin(struct mr_batch *b, uint64_t epoch, uint64_t number,
		    uint32_t rows)
{
	drop_bad(b);
	drop_runs(b);
	for (int i = 0; i < b->plan->bufs; i++) {
		if (i >= b->plan->outs || !b->plan->out[i].dense) {
			mr_buf_unref(b->buf[i]);
			b->buf[i] = NULL;
		}
	}
	b->epoch = epoch;
	b->number = number;
	b->rows = rows;
	b->count = 0;
	b->failed.code = 0;
	atomic_store(&b->nomem, false);
	memset(b->good, 0, rows);
}

void mr_batch_add_bad(struct mr_batch *b, uint32_t row,
		      const struct mr_bad *bad, int code)
{
	size_t key = strlen(bad->key) + 1, reason = strlen(bad->reason) + 1;
	struct mr_bad_row *r = malloc(sizeof(*r) + key + reason);
	struct mr_bad_row *head = atomic_load(&b->bad);

	if (!r || code == MR_ENOMEM)
		atomic_store(&b->nomem, true);
	if (!r)
		return;
	r->row = row;
	r->code = code;
	r->bad = *bad;
	r->bad.key = memcpy((char *)(r + 1), bad->key, key);
	r->bad.reason = memcpy((char *)(r + 1) + key, bad->reason, reason);
	do {
		r->next = head;
	} while (!atomic_compare_exchange_weak(&b->bad, &head, r));
}

/* ---- collating ---- */

/* Dense rows, numbers and shapes move up over the rows of bad samples. */
static void close_gaps(struct mr_batch *b)
{
	const struct mr_plan *p = b->plan;
	uint32_t to = 0;

	for (uint32_t from = 0; from < b->rows; from++) {
		if (!b->good[from])
			continue;
		for (int i = 0; i < p->outs && to != from; i++) {
			size_t nd = (size_t)p->out[i].spec.ndim;

			if (p->out[i].dense)
				memcpy(mr_batch_row(b, i, to),
				       mr_batch_row(b, i, from),
				       p->out[i].row_bytes);
			else
				memcpy(b->shapes[i] + to * nd,
				       b->shapes[i] + from * nd,
				       nd * sizeof(int64_t));
		}
		b->index[to++] = b->index[from];
	}
	b->count = to;
}

static void fill_offsets(struct mr_batch *b, int i)
{
	int nd = b->plan->out[i].spec.ndim;
	int64_t sum = 0;

	for (uint64_t k = 0; k < b->count; k++) {
		int64_t n = 1;

		for (int d = 0; d < nd; d++)
			n *= b->shapes[i][k * (uint64_t)nd + (uint64_t)d];
		b->offsets[i][k] = sum;
		sum += n;
	}
	b->offsets[i][b->count] = sum;
}

static int by_first(const void *a, const void *b)
{
	const struct mr_run *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* The runs' bytes of a ragged field, in order, as one buffer. */
static int join_runs(struct mr_batch *b, int i, struct mr_pool *pool,
		     struct mr_err *err)
{
	int r = b->plan->out[i].ragged, e;
	unsigned n = atomic_load(&b->runs);
	size_t all = 0, at = 0;

	if (n == 1 && b->run[0].buf[r]) {
		b->buf[i] = b->run[0].buf[r];
		b->run[0].buf[r] = NULL;
		return 0;
	}
	for (unsigned k = 0; k < n; k++)
		all += b->run[k].used[r];
	e = mr_pool_get(pool, all, &b->buf[i], err);
	for (unsigned k = 0; k < n && !e; k++) {
		const struct mr_run *run = &b->run[k];

		if (run->used[r])
			memcpy((char *)b->buf[i]->data + at, run->buf[r]->data,
			       run->used[r]);
		at += run->used[r];
	}
	return e;
}

/* n times the element `one`. */
static void fill(char *dst, const void *one, size_t size, size_t n)
{
	if (n)
		memcpy(dst, one, size);
	for (size_t done = 1, more; done < n; done += more) {
		more = done < n - done ? done : n - done;
		memcpy(dst + done * size, dst, more * size);
	}
}

/* Copies an array of `shape` into the corner of one of shape `big`; the rest
 * becomes `one`. */
static void copy_corner(const char *src, const int64_t *shape, char *dst,
			const int64_t *big, int ndim, size_t size,
			const void *one)
{
	size_t from = size, to = size, n, left;

	if (ndim == 0) {
		memcpy(dst, src, size);
		return;
	}
	for (int d = 1; d < ndim; d++) {
		from *= (size_t)shape[d];
		to *= (size_t)big[d];
	}
	n = (size_t)shape[0];
	left = (size_t)(big[0] - shape[0]);
	if (from == to && n)
		memcpy(dst, src, n * to);
	for (size_t i = 0; from != to && i < n; i++)
		copy_corner(src + i * from, shape + 1, dst + i * to, big + 1,
			    ndim - 1, size, one);
	fill(dst + n * to, one, size, left * to / size);
}

static int too_long(const struct mr_out_field *o, uint64_t rows, size_t bytes,
		    size_t budget, struct mr_err *err)
{
	char n[32], need[32], have[32];

	return mr_err_set(err, MR_ELIMIT,
			  "field '%s': %s rows, padded to the largest, take "
			  "%s, with a memory budget of %s: make batches "
			  "smaller, leave pad= out, or raise --memory",
			  o->name, mr_str_count(n, rows),
			  mr_str_size(need, (double)bytes),
			  mr_str_size(have, (double)budget));
}

/* Replaces the joined buffer of field i by one of equal, padded rows. */
static int pad_rows(struct mr_batch *b, int i, struct mr_pool *pool,
		    struct mr_err *err)
{
	const struct mr_out_field *o = &b->plan->out[i];
	size_t size = mr_dtype_size(o->spec.dtype);
	int nd = o->spec.ndim, e;
	int64_t big[MR_MAX_DIMS] = { 0 }, row = 1, all;
	int64_t shape[MR_MAX_DIMS + 1];
	unsigned char one[8];
	struct mr_buf *padded;

	for (uint64_t k = 0; k < b->count; k++) {
		const int64_t *s = b->shapes[i] + k * (uint64_t)nd;

		for (int d = 0; d < nd; d++)
			big[d] = s[d] > big[d] ? s[d] : big[d];
	}
	shape[0] = (int64_t)b->count;
	memcpy(shape + 1, big, (size_t)nd * sizeof(int64_t));
	if (nd + 1 > MR_MAX_DIMS ||
	    !mr_shape_elements(shape, nd + 1, o->spec.dtype, &all))
		return mr_err_set(err, MR_ELIMIT,
				  "field '%s': the padded batch is too large",
				  o->name);
	for (int d = 0; d < nd; d++)
		row *= big[d];
	if ((size_t)all * size > pool->budget->max)
		return too_long(o, b->count, (size_t)all * size,
				pool->budget->max, err);
	e = mr_pool_get(pool, (size_t)all * size, &padded, err);
	if (e)
		return e;
	mr_convert(&b->plan->pad_value, MR_F64, one, o->spec.dtype, 1);
	for (uint64_t k = 0; k < b->count; k++)
		copy_corner((char *)b->buf[i]->data +
				    (size_t)b->offsets[i][k] * size,
			    b->shapes[i] + k * (uint64_t)nd,
			    (char *)padded->data + k * (size_t)row * size, big,
			    nd, size, one);
	mr_buf_unref(b->buf[i]);
	b->buf[i] = padded;
	b->field[i].tensor.ndim = nd + 1;
	memcpy(b->field[i].tensor.shape, shape,
	       sizeof(int64_t) * (size_t)(nd + 1));
	return 0;
}

static int finish_field(struct mr_batch *b, int i, struct mr_pool *pool)
{
	const struct mr_out_field *o = &b->plan->out[i];
	struct mr_field *f = &b->field[i];
	int e = 0;

	*f = (struct mr_field){ .name = o->name, .sample_ndim = o->spec.ndim };
	f->tensor.dtype = o->spec.dtype;
	if (o->dense) {
		f->tensor.ndim = o->spec.ndim + 1;
		f->tensor.shape[0] = (int64_t)b->count;
		memcpy(f->tensor.shape + 1, o->spec.shape,
		       (size_t)o->spec.ndim * sizeof(int64_t));
	} else {
		fill_offsets(b, i);
		f->shapes = b->shapes[i];
		e = join_runs(b, i, pool, &b->failed);
		if (!e && b->plan->pad) {
			e = pad_rows(b, i, pool, &b->failed);
		} else if (!e) {
			f->offsets = b->offsets[i];
			f->tensor.ndim = 1;
			f->tensor.shape[0] = b->offsets[i][b->count];
		}
	}
	f->tensor.data = b->buf[i] ? b->buf[i]->data : NULL;
	return e;
}

void mr_batch_finish(struct mr_batch *b, struct mr_pool *pool)
{
	if (atomic_load(&b->nomem)) {
		mr_err_set(&b->failed, MR_ENOMEM,
			   "out of memory while a batch was prepared");
		return;
	}
	if (memchr(b->good, 0, b->rows))
		close_gaps(b);
	else
		b->count = b->rows;
	if (b->plan->ragged && atomic_load(&b->runs) > 1)
		qsort(b->run, atomic_load(&b->runs), sizeof(*b->run), by_first);
	for (int i = 0; i < b->plan->outs; i++)
		if (finish_field(b, i, pool))
			break;
	if (b->plan->ragged)
		drop_runs(b);
}

/* ---- what others read ---- */

size_t mr_batch_memory(const struct mr_batch *b)
{
	size_t n = 0;

	for (int i = 0; i < b->plan->bufs; i++)
		n += b->buf[i] ? b->buf[i]->cap : 0;
	return n;
}

uint64_t mr_batch_payload(const struct mr_batch *b)
{
	uint64_t n = 0;

	for (int i = 0; i < b->plan->show.n; i++)
		n += mr_tensor_bytes(&b->field[i].tensor);
	return n;
}

uint64_t mr_batch_count(const struct mr_batch *b)
{
	return b->count;
}

uint64_t mr_batch_epoch(const struct mr_batch *b)
{
	return b->epoch;
}

uint64_t mr_batch_number(const struct mr_batch *b)
{
	return b->number;
}

size_t mr_batch_fields(const struct mr_batch *b)
{
	return (size_t)b->plan->show.n;
}

const struct mr_field *mr_batch_field(const struct mr_batch *b, size_t i)
{
	return i < (size_t)b->plan->show.n ? &b->field[i] : NULL;
}

const struct mr_field *mr_batch_find(const struct mr_batch *b, const char *name)
{
	for (int i = 0; i < b->plan->show.n; i++)
		if (!strcmp(b->field[i].name, name))
			return &b->field[i];
	return NULL;
}

const uint64_t *mr_batch_indices(const struct mr_batch *b)
{
	return b->index;
}

size_t mr_batch_key(const struct mr_batch *b, size_t i, char *buf, size_t cap)
{
	if (i >= b->count) {
		if (cap)
			buf[0] = 0;
		return 0;
	}
	return b->plan->source->key(b->plan->source_self, b->index[i], buf,
				    cap);
}

uint64_t mr_batch_digest(const struct mr_batch *b, uint64_t digest)
{
	for (int i = 0; i < b->plan->show.n; i++) {
		const struct mr_field *f = &b->field[i];
		const struct mr_tensor *t = &f->tensor;

		digest = XXH3_64bits_withSeed(f->name, strlen(f->name),
					      digest + (uint64_t)t->dtype);
		digest = XXH3_64bits_withSeed(
			t->shape, (size_t)t->ndim * sizeof(int64_t), digest);
		if (f->shapes)
			digest = XXH3_64bits_withSeed(
				f->shapes,
				b->count * (size_t)f->sample_ndim *
					sizeof(int64_t),
				digest);
		digest = XXH3_64bits_withSeed(t->data, mr_tensor_bytes(t),
					      digest);
	}
	return digest;
}
