/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shuffling against its plain definition, byte by byte. Buffers are allocated
 * exactly as long as they must be, so that a sanitizer sees what is touched
 * outside; they start at odd places.
 */
#include "scratch.h"

#include <stdbool.h>

#include "kernel/cpu.h"
#include "kernel/shuffle.h"

static uint64_t seed;

static size_t below(size_t n)
{
	return (size_t)(mr_mix64(++seed) % n);
}

typedef void shuffle_fn(void *to, const void *from, size_t elements,
			size_t size);

/* n bytes of its own, of which the first `off` are not used. */
static uint8_t *bytes(size_t n, size_t off, bool noise)
{
	uint8_t *p = malloc(n + off + 1);

	assert_non_null(p);
	for (size_t i = 0; i < n + off; i++)
		p[i] = noise ? (uint8_t)below(256) : 0xa5;
	p[n + off] = 0x5a;
	return p;
}

static void check(size_t n, size_t size, shuffle_fn *there, shuffle_fn *back)
{
	size_t off = below(64), all = n * size;
	uint8_t *a = bytes(all, off, true), *b = bytes(all, off, false);
	uint8_t *c = bytes(all, off, false);

	there(b + off, a + off, n, size);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < size; k++)
			assert_int_equal(b[off + k * n + i],
					 a[off + i * size + k]);
	back(c + off, b + off, n, size);
	assert_memory_equal(a + off, c + off, all);
	for (size_t i = 0; i < off; i++)
		assert_true(b[i] == 0xa5 && c[i] == 0xa5);
	assert_true(b[off + all] == 0x5a && c[off + all] == 0x5a);
	free(a);
	free(b);
	free(c);
}

static void check_both(size_t n, size_t size)
{
	check(n, size, mr_shuffle_plain, mr_unshuffle_plain);
	check(n, size, mr_shuffle, mr_unshuffle);
}

static void test_every_small_count_of_every_small_size(void **state)
{
	(void)state;
	for (size_t size = 1; size <= 17; size++)
		for (size_t n = 0; n <= 130; n++)
			check_both(n, size);
}

static void test_random_counts_of_the_sizes_that_are_fast(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		check_both(below(5000), (size_t)2 << below(3));
		check_both(below(300), 1 + below(100));
	}
}

static void test_a_large_field_comes_back(void **state)
{
	(void)state;
	for (size_t size = 2; size <= 8; size *= 2)
		check_both(224 * 224 * 3, size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_small_count_of_every_small_size),
		cmocka_unit_test(test_random_counts_of_the_sizes_that_are_fast),
		cmocka_unit_test(test_a_large_field_comes_back),
	};

	if (!mr_cpu_avx2())
		print_message("no AVX2: the twins are the same\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
