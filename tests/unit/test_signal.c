/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of signals against their plain twins, bit for bit, and against
 * sums in long double. */
#include "scratch.h"

#include <math.h>

#include "kernel/signal.h"

enum { N = 3000, ROUNDS = 2000 };

static double number(uint64_t *seed)
{
	return ((double)(draw(seed) >> 11) * 0x1p-53 - 0.5) * 600;
}

/* Somewhere in an array, so that addresses are of any alignment. */
static size_t part(uint64_t *seed, size_t *n)
{
	size_t at = draw(seed) % 9;

	*n = draw(seed) % (draw(seed) % 4 ? 300 : N - 9);
	return at;
}

static void near(double got, long double want, long double size)
{
	assert_true(fabsl((long double)got - want) <= 1e-13L * size);
}

static void test_products_are_as_the_plain_twin_gives_them(void **state)
{
	static double v[N], c[N];
	uint64_t seed = 1;

	(void)state;
	for (int k = 0; k < N; k++) {
		v[k] = number(&seed);
		c[k] = number(&seed);
	}
	for (int round = 0; round < ROUNDS; round++) {
		struct mr_products a, b;
		long double vi = 0, ii = 0, vv = 0;
		size_t n, at = part(&seed, &n);

		mr_products(v + at, c + at, n, &a);
		mr_products_plain(v + at, c + at, n, &b);
		assert_memory_equal(&a, &b, sizeof(a));
		for (size_t k = at; k < at + n; k++) {
			vi += (long double)v[k] * c[k];
			ii += (long double)c[k] * c[k];
			vv += (long double)v[k] * v[k];
		}
		near(a.vi, vi, ii + vv);
		near(a.ii, ii, ii);
		near(a.vv, vv, vv);
	}
}

static void test_sums_are_as_the_plain_twins_give_them(void **state)
{
	static double x[N];
	static int16_t y[N];
	uint64_t seed = 2;

	(void)state;
	for (int k = 0; k < N; k++) {
		x[k] = number(&seed);
		y[k] = (int16_t)draw(&seed);
	}
	for (int round = 0; round < ROUNDS; round++) {
		long double sum = 0, squares = 0, size = 0;
		int64_t whole = 0;
		size_t n, at = part(&seed, &n);

		for (size_t k = at; k < at + n; k++) {
			sum += x[k];
			size += fabs(x[k]);
			squares += (long double)x[k] * x[k];
			whole += y[k];
		}
		assert_true(mr_sum(x + at, n) == mr_sum_plain(x + at, n));
		assert_true(mr_squares(x + at, n) ==
			    mr_squares_plain(x + at, n));
		near(mr_sum(x + at, n), sum, size);
		near(mr_squares(x + at, n), squares, squares);
		assert_true(mr_sum_i16(y + at, n) == (double)whole);
	}
}

static void test_a_sum_of_the_largest_numbers_is_exact(void **state)
{
	enum { MANY = 300000 };
	int16_t *x = malloc(MANY * sizeof(*x));

	(void)state;
	assert_non_null(x);
	for (int k = 0; k < MANY; k++)
		x[k] = INT16_MIN;
	assert_true(mr_sum_i16(x, MANY) == (double)INT16_MIN * MANY);
	free(x);
}

static void test_lines_are_subtracted_as_by_the_plain_twin(void **state)
{
	static double x[N], a[N], b[N];
	static int16_t y[N];
	uint64_t seed = 3;

	(void)state;
	for (int k = 0; k < N; k++) {
		y[k] = (int16_t)draw(&seed);
		x[k] = y[k];
	}
	for (int round = 0; round < ROUNDS; round++) {
		size_t n, at = part(&seed, &n);
		struct mr_slant s = { number(&seed), number(&seed) / 100,
				      number(&seed), number(&seed) };

		mr_level(x + at, n, &s, a);
		mr_level_plain(x + at, n, &s, b);
		assert_memory_equal(a, b, n * sizeof(*a));
		for (size_t k = 0; k < n; k++)
			assert_true(a[k] ==
				    (x[at + k] -
				     (s.y + s.slope * (s.x + (double)k))) *
					    s.scale);
		mr_level_i16(y + at, n, &s, b);
		assert_memory_equal(a, b, n * sizeof(*a));
		mr_level_i16_plain(y + at, n, &s, b);
		assert_memory_equal(a, b, n * sizeof(*a));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_products_are_as_the_plain_twin_gives_them),
		cmocka_unit_test(test_sums_are_as_the_plain_twins_give_them),
		cmocka_unit_test(test_a_sum_of_the_largest_numbers_is_exact),
		cmocka_unit_test(
			test_lines_are_subtracted_as_by_the_plain_twin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
