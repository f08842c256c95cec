/* SPDX-License-Identifier: Apache-2.0 */
/* Collating against a plain loop: samples of random shapes, some of them
 * bad, written in random runs, joined or padded. */
#include "scratch.h"

#include "core/mem.h"
#include "pipe/batch.h"

enum { ROWS = 40, SIDE = 5 };

/* A batch of one ragged field of i16 and one dense field of i64. */
struct fixture {
	struct mr_budget budget;
	struct mr_pool pool;
	struct mr_plan plan;
	struct mr_batch *b;
	int ndim;
	int64_t shape[ROWS][MR_MAX_DIMS];
	bool bad[ROWS];
};

static int16_t element(uint32_t row, int64_t k)
{
	return (int16_t)mr_mix64(row * 10007u + (uint64_t)k);
}

static int64_t elements(const struct fixture *x, uint32_t row)
{
	int64_t n = 1;

	for (int d = 0; d < x->ndim; d++)
		n *= x->shape[row][d];
	return n;
}

static void make(struct fixture *x, int ndim, bool pad)
{
	struct mr_err err;

	*x = (struct fixture){ .ndim = ndim };
	mr_budget_init(&x->budget, 1 << 24, false);
	mr_pool_init(&x->pool, &x->budget, 100);
	x->plan = (struct mr_plan){ .outs = 2,
				    .bufs = 2,
				    .show.n = 2,
				    .ragged = 1,
				    .pad = pad,
				    .pad_value = -7,
				    .batch.count = ROWS };
	x->plan.out[0] =
		(struct mr_out_field){ .name = "data",
				       .spec = { MR_I16, ndim, { 0 } } };
	for (int d = 0; d < ndim; d++)
		x->plan.out[0].spec.shape[d] = MR_ANY;
	x->plan.out[1] = (struct mr_out_field){ .name = "label",
						.spec = { MR_I64, 0, { 0 } },
						.dense = true,
						.row_bytes = 8,
						.ragged = -1 };
	if (mr_batch_new(&x->b, &x->plan, &x->pool, ROWS, &err))
		fail_msg("%s", err.text);
}

static void drop(struct fixture *x)
{
	mr_batch_free(x->b);
	mr_pool_fini(&x->pool);
	assert_int_equal(atomic_load(&x->budget.used), 0);
}

/* What a worker does with rows [first, first + rows). */
static void write_run(struct fixture *x, uint32_t first, uint32_t rows)
{
	struct mr_run *run = &x->b->run[atomic_fetch_add(&x->b->runs, 1)];

	memset(run, 0, sizeof(*run));
	run->first = first;
	run->rows = rows;
	for (uint32_t r = first; r < first + rows; r++) {
		int64_t n = elements(x, r), label = r * 3;
		int16_t *to;

		x->b->index[r] = r + 1000;
		x->b->good[r] = !x->bad[r];
		if (x->bad[r])
			continue;
		if (!run->buf[0])
			assert_int_equal(mr_pool_get(&x->pool, 1 << 17,
						     &run->buf[0], NULL),
					 0);
		to = (void *)((char *)run->buf[0]->data + run->used[0]);
		for (int64_t k = 0; k < n; k++)
			to[k] = element(r, k);
		run->used[0] += (size_t)n * 2;
		memcpy(x->b->shapes[0] + r * (uint32_t)x->ndim, x->shape[r],
		       (size_t)x->ndim * 8);
		memcpy(mr_batch_row(x->b, 1, r), &label, 8);
	}
}

/* Random shapes, bad rows, and cuts; runs are written out of order. */
static uint32_t fill(struct fixture *x, uint64_t *seed, uint32_t bad_in)
{
	uint32_t rows = 1 + (uint32_t)(draw(seed) % ROWS), at = 0, n = 0;
	uint32_t cut[ROWS + 1];

	mr_batch_begin(x->b, 3, 4, rows);
	for (uint32_t r = 0; r < rows; r++) {
		x->bad[r] = bad_in && draw(seed) % bad_in == 0;
		for (int d = 0; d < x->ndim; d++)
			x->shape[r][d] = (int64_t)(draw(seed) % SIDE);
	}
	for (; at < rows; at += 1 + (uint32_t)(draw(seed) % rows))
		cut[n++] = at;
	cut[n] = rows;
	for (uint32_t i = n; i-- > 0;)
		write_run(x, cut[i], cut[i + 1] - cut[i]);
	mr_batch_finish(x->b, &x->pool);
	assert_int_equal(x->b->failed.code, 0);
	return rows;
}

static void check_labels(const struct fixture *x, uint32_t rows)
{
	const struct mr_field *f = mr_batch_find(x->b, "label");
	uint64_t k = 0;

	for (uint32_t r = 0; r < rows; r++) {
		if (x->bad[r])
			continue;
		assert_int_equal(mr_batch_indices(x->b)[k], r + 1000);
		assert_int_equal(((const int64_t *)f->tensor.data)[k], r * 3);
		k++;
	}
	assert_int_equal(mr_batch_count(x->b), k);
	assert_int_equal(f->tensor.shape[0], k);
	assert_null(f->offsets);
}

static void check_ragged(const struct fixture *x, uint32_t rows)
{
	const struct mr_field *f = mr_batch_find(x->b, "data");
	const int16_t *data = f->tensor.data;
	int64_t at = 0, k = 0;

	assert_int_equal(f->tensor.ndim, 1);
	for (uint32_t r = 0; r < rows; r++) {
		if (x->bad[r])
			continue;
		assert_int_equal(f->offsets[k], at);
		assert_memory_equal(f->shapes + k * x->ndim, x->shape[r],
				    (size_t)x->ndim * 8);
		for (int64_t i = 0; i < elements(x, r); i++)
			assert_int_equal(data[at + i], element(r, i));
		at += elements(x, r);
		k++;
	}
	assert_int_equal(f->offsets[k], at);
	assert_int_equal(f->tensor.shape[0], at);
}

/* The k-th element of the padded row that has the shape `big`. */
static int16_t padded(const struct fixture *x, uint32_t r, const int64_t *big,
		      int64_t k)
{
	int64_t at[MR_MAX_DIMS], flat = 0;

	for (int d = x->ndim; d-- > 0; k /= big[d])
		at[d] = k % big[d];
	for (int d = 0; d < x->ndim; d++) {
		if (at[d] >= x->shape[r][d])
			return -7;
		flat = flat * x->shape[r][d] + at[d];
	}
	return element(r, flat);
}

static void check_padded(const struct fixture *x, uint32_t rows)
{
	const struct mr_field *f = mr_batch_find(x->b, "data");
	const int16_t *data = f->tensor.data;
	int64_t big[MR_MAX_DIMS] = { 0 }, row = 1, k = 0;

	for (uint32_t r = 0; r < rows; r++)
		for (int d = 0; d < x->ndim && !x->bad[r]; d++)
			big[d] = x->shape[r][d] > big[d] ? x->shape[r][d] :
							   big[d];
	assert_int_equal(f->tensor.ndim, x->ndim + 1);
	assert_memory_equal(f->tensor.shape + 1, big, (size_t)x->ndim * 8);
	assert_null(f->offsets);
	for (int d = 0; d < x->ndim; d++)
		row *= big[d];
	for (uint32_t r = 0; r < rows; r++) {
		if (x->bad[r])
			continue;
		assert_memory_equal(f->shapes + k * x->ndim, x->shape[r],
				    (size_t)x->ndim * 8);
		for (int64_t i = 0; i < row; i++)
			assert_int_equal(data[k * row + i],
					 padded(x, r, big, i));
		k++;
	}
	assert_int_equal(f->tensor.shape[0], k);
}

static void check_many(bool pad, uint32_t bad_in)
{
	uint64_t seed = 1 + pad + bad_in;

	for (int ndim = 1; ndim <= 4; ndim++) {
		struct fixture x;

		make(&x, ndim, pad);
		for (int i = 0; i < 50; i++) {
			uint32_t rows = fill(&x, &seed, bad_in);

			check_labels(&x, rows);
			if (pad)
				check_padded(&x, rows);
			else
				check_ragged(&x, rows);
		}
		drop(&x);
	}
}

static void test_ragged_fields_are_joined_in_order(void **state)
{
	(void)state;
	check_many(false, 0);
}

static void test_ragged_fields_close_the_gaps_of_bad_rows(void **state)
{
	(void)state;
	check_many(false, 3);
	check_many(false, 1); /* all of them */
}

static void test_padded_fields_are_filled_up_to_the_largest(void **state)
{
	(void)state;
	check_many(true, 0);
}

static void test_padded_fields_close_the_gaps_of_bad_rows(void **state)
{
	(void)state;
	check_many(true, 3);
	check_many(true, 1);
}

static void test_a_batch_that_does_not_fit_fails_and_says_so(void **state)
{
	struct fixture x;

	(void)state;
	make(&x, 2, true);
	mr_batch_begin(x.b, 0, 0, 2);
	/* Small each, but together as wide as one and as high as the other. */
	x.shape[0][0] = x.shape[1][1] = 60000;
	x.shape[0][1] = x.shape[1][0] = 1;
	write_run(&x, 0, 1);
	write_run(&x, 1, 1);
	mr_batch_finish(x.b, &x.pool);
	assert_int_equal(x.b->failed.code, MR_ELIMIT);
	assert_non_null(strstr(x.b->failed.text, "raise --memory"));
	drop(&x);
}

static void test_the_digest_sees_names_types_shapes_and_bytes(void **state)
{
	struct fixture x;
	uint64_t seed = 8, d;

	(void)state;
	make(&x, 2, false);
	fill(&x, &seed, 0);
	d = mr_batch_digest(x.b, 0);
	assert_true(d == mr_batch_digest(x.b, 0));
	assert_true(d != mr_batch_digest(x.b, 1));
	*(int64_t *)x.b->buf[1]->data ^= 1;
	assert_true(d != mr_batch_digest(x.b, 0));
	*(int64_t *)x.b->buf[1]->data ^= 1;
	x.b->shapes[0][0]++;
	assert_true(d != mr_batch_digest(x.b, 0));
	x.b->shapes[0][0]--;
	x.b->field[1].name = "lable";
	assert_true(d != mr_batch_digest(x.b, 0));
	x.b->field[1].name = "label";
	x.b->field[1].tensor.dtype = MR_F64;
	assert_true(d != mr_batch_digest(x.b, 0));
	x.b->field[1].tensor.dtype = MR_I64;
	assert_true(d == mr_batch_digest(x.b, 0));
	drop(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ragged_fields_are_joined_in_order),
		cmocka_unit_test(test_ragged_fields_close_the_gaps_of_bad_rows),
		cmocka_unit_test(
			test_padded_fields_are_filled_up_to_the_largest),
		cmocka_unit_test(test_padded_fields_close_the_gaps_of_bad_rows),
		cmocka_unit_test(
			test_a_batch_that_does_not_fit_fails_and_says_so),
		cmocka_unit_test(
			test_the_digest_sees_names_types_shapes_and_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
