/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: permutations all of them, shared out exactly, and fair. */
#include "scratch.h"

#include <math.h>

#include "pipe/order.h"

static struct mr_order order(int kind, uint64_t n, uint64_t seed)
{
	return (struct mr_order){ .kind = kind,
				  .n = n,
				  .seed = seed,
				  .block = 8,
				  .ranks = 1,
				  .batch = 4 };
}

/* Counts each sample of this rank's epoch. */
static void count_epoch(const struct mr_order *o, uint64_t epoch, uint8_t *seen)
{
	struct mr_order_cache c = { 0 };
	uint64_t n = mr_order_length(o);

	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = mr_order_at(o, &c, epoch, i);

		assert_true(at < o->n);
		seen[at]++;
	}
}

static void check_once_each(const struct mr_order *o, uint64_t epoch)
{
	uint8_t *seen = calloc(o->n, 1);

	count_epoch(o, epoch, seen);
	for (uint64_t i = 0; i < o->n; i++)
		if (seen[i] != 1)
			fail_msg("kind %d n %llu seed %llu: sample %llu comes "
				 "%d times",
				 o->kind, (unsigned long long)o->n,
				 (unsigned long long)o->seed,
				 (unsigned long long)i, seen[i]);
	free(seen);
}

/* ---- permutations ---- */

static void test_every_order_has_each_sample_once(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 300; n++) {
		for (int kind = 0; kind < 3; kind++) {
			for (uint64_t seed = 0; seed < 8; seed++) {
				struct mr_order o = order(kind, n, seed);

				o.block = 1 + seed * seed;
				check_once_each(&o, seed % 3);
			}
		}
	}
}

static void test_large_orders_have_each_sample_once(void **state)
{
	static const uint64_t n[] = { 65535, 65536,  65537,
				      99991, 262145, 1000000 };

	(void)state;
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		for (int kind = 0; kind < 3; kind++) {
			struct mr_order o = order(kind, n[i], i);

			o.block = 256;
			check_once_each(&o, i);
		}
	}
}

static void test_a_permutation_of_2_to_the_40_stays_inside(void **state)
{
	struct mr_perm p;
	uint64_t n = (1ull << 40) + 12345, low = 0;

	(void)state;
	mr_perm_init(&p, n, 99);
	for (uint64_t i = 0; i < 100000; i++) {
		uint64_t v = mr_perm_at(&p, n - 1 - i * 7919);

		assert_true(v < n);
		low += v < n / 2;
	}
	assert_in_range(low, 49000, 51000);
}

static void test_sequential_order_is_the_identity(void **state)
{
	struct mr_order o = order(MR_ORDER_SEQUENTIAL, 77, 5);
	struct mr_order_cache c = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 77; i++)
		assert_int_equal(mr_order_at(&o, &c, 3, i), i);
}

static void test_an_order_does_not_depend_on_what_was_asked_before(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		struct mr_order o = order(kind, 500, 3);
		struct mr_order_cache warm = { 0 };
		uint64_t seed = 9;

		for (int i = 0; i < 2000; i++) {
			struct mr_order_cache cold = { 0 };
			uint64_t epoch = draw(&seed) % 3;
			uint64_t at = draw(&seed) % 500;

			assert_int_equal(mr_order_at(&o, &warm, epoch, at),
					 mr_order_at(&o, &cold, epoch, at));
		}
	}
}

/* ---- ranks ---- */

static void check_ranks(struct mr_order o)
{
	uint8_t *seen = calloc(o.n, 1);
	uint64_t sum = 0, low = UINT64_MAX, high = 0;

	for (o.rank = 0; o.rank < o.ranks; o.rank++) {
		uint64_t n = mr_order_length(&o);

		sum += n;
		low = n < low ? n : low;
		high = n > high ? n : high;
		count_epoch(&o, 1, seen);
	}
	for (uint64_t i = 0; i < o.n; i++)
		assert_true(seen[i] <= 1);
	if (o.drop_last) {
		assert_true(low == high && low % o.batch == 0);
		assert_int_equal(sum, o.n - o.n % (o.batch * o.ranks));
	} else {
		assert_true(high - low <= 1);
		assert_int_equal(sum, o.n);
	}
	free(seen);
}

static void test_ranks_share_an_epoch_out_exactly(void **state)
{
	static const uint64_t n[] = { 1, 2, 7, 31, 32, 33, 100, 257, 1000 };
	static const uint64_t ranks[] = { 1, 2, 3, 5, 8, 16 };

	(void)state;
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		for (size_t k = 0; k < sizeof(ranks) / sizeof(ranks[0]); k++) {
			for (int v = 0; v < 24; v++) {
				struct mr_order o = order(v % 3, n[i], i);

				o.ranks = ranks[k];
				o.drop_last = v / 3 % 2;
				o.batch = (uint64_t[]){ 1, 4, 7, 64 }[v / 6];
				check_ranks(o);
			}
		}
	}
}

/* The same samples meet in a step of training however many ranks share it:
 * ranks x batch is what counts. */
static void test_a_global_batch_is_the_same_over_any_ranks(void **state)
{
	struct mr_order one = order(MR_ORDER_SHUFFLE, 96, 4);
	struct mr_order four = one;

	(void)state;
	one.batch = 16;
	four.batch = 4;
	four.ranks = 4;
	for (uint64_t step = 0; step < 6; step++) {
		uint8_t seen[96] = { 0 };

		for (uint64_t i = 0; i < 16; i++) {
			struct mr_order_cache c = { 0 }, d = { 0 };

			four.rank = i / 4;
			seen[mr_order_at(&one, &c, 0, step * 16 + i)] ^= 1;
			seen[mr_order_at(&four, &d, 0, step * 4 + i % 4)] ^= 1;
		}
		for (int i = 0; i < 96; i++)
			assert_int_equal(seen[i], 0);
	}
}

static void test_drop_last_leaves_out_what_fills_no_batch(void **state)
{
	struct mr_order o = order(MR_ORDER_SHUFFLE, 103, 0);

	(void)state;
	o.batch = 10;
	assert_int_equal(mr_order_length(&o), 103);
	o.drop_last = true;
	assert_int_equal(mr_order_length(&o), 100);
	o.ranks = 3;
	assert_int_equal(mr_order_length(&o), 30);
	o.drop_last = false;
	assert_int_equal(mr_order_length(&o), 35);
	o.rank = 2;
	assert_int_equal(mr_order_length(&o), 34);
	o.n = 9;
	o.drop_last = true;
	assert_int_equal(mr_order_length(&o), 0);
}

/* ---- seeds and epochs ---- */

/* Positions that hold the same sample in both. */
static int agree(const struct mr_order *a, uint64_t ea,
		 const struct mr_order *b, uint64_t eb)
{
	struct mr_order_cache ca = { 0 }, cb = { 0 };
	int same = 0;

	for (uint64_t i = 0; i < a->n; i++)
		same += mr_order_at(a, &ca, ea, i) ==
			mr_order_at(b, &cb, eb, i);
	return same;
}

static void test_epochs_and_seeds_give_different_orders(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind += 2) {
		for (uint64_t seed = 0; seed < 20; seed++) {
			struct mr_order a = order(kind, 1000, seed);
			struct mr_order b = order(kind, 1000, seed + 1);

			/* One in a thousand agrees by chance. */
			assert_true(agree(&a, 0, &a, 1) < 15);
			assert_true(agree(&a, 1, &a, 2) < 15);
			assert_true(agree(&a, 0, &b, 0) < 15);
			/* The next seed is not the next epoch. */
			assert_true(agree(&a, 1, &b, 0) < 15);
			assert_int_equal(agree(&a, 7, &a, 7), 1000);
		}
	}
}

static void test_block_order_keeps_neighbours_near(void **state)
{
	enum { N = 16384, BLOCK = 64, GROUP = 8 * BLOCK };
	struct mr_order o = order(MR_ORDER_BLOCK, N, 11);
	struct mr_order_cache c = { 0 };

	(void)state;
	o.block = BLOCK;
	for (uint64_t g = 0; g < N / GROUP; g++) {
		uint8_t block[N / BLOCK + 1] = { 0 };
		uint64_t turn = 0;
		int blocks = 0;

		for (uint64_t i = 0; i < GROUP; i++) {
			uint64_t at = mr_order_at(&o, &c, 0, g * GROUP + i);

			turn = c.turn;
			block[(at + N - turn) % N / BLOCK]++;
		}
		for (int i = 0; i < N / BLOCK; i++) {
			assert_true(block[i] == 0 || block[i] == BLOCK);
			blocks += block[i] > 0;
		}
		assert_int_equal(blocks, 8);
	}
}

static void
test_block_order_leaves_out_other_samples_in_each_epoch(void **state)
{
	enum { N = 1000 };
	struct mr_order o = order(MR_ORDER_BLOCK, N, 11);
	uint8_t last[N] = { 0 };
	int distinct = 0;

	(void)state;
	o.block = 60; /* 16 blocks and 40 samples that fill none */
	for (uint64_t epoch = 0; epoch < 100; epoch++) {
		struct mr_order_cache c = { 0 };

		for (uint64_t i = 960; i < N; i++)
			last[mr_order_at(&o, &c, epoch, i)] = 1;
	}
	for (int i = 0; i < N; i++)
		distinct += last[i];
	assert_true(distinct > 900);
}

/* ---- fairness: chi-square, the threshold at p = 1e-6 on both sides ---- */

/* Wilson and Hilferty: chi-square as a normal variable. */
static double normal(const uint32_t *count, uint64_t cells, double expected)
{
	double chi = 0, k = (double)cells - 1;

	for (uint64_t i = 0; i < cells; i++)
		chi += (count[i] - expected) * (count[i] - expected) / expected;
	return (cbrt(chi / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));
}

static void fair(const char *what, const uint32_t *count, uint64_t cells,
		 double draws)
{
	double z = normal(count, cells, draws / (double)cells);

	if (fabs(z) > 4.75)
		fail_msg("%s over %llu cells: z = %.1f", what,
			 (unsigned long long)cells, z);
}

enum { DRAWS = 100000, FEW = 20000 };

/* What stands first, in the middle and last, and how far the second is from
 * the first, when the seed or the epoch goes up by one each time. */
static void check_fair(uint64_t n, bool epochs)
{
	const uint64_t place[3] = { 0, n / 2, n - 1 };
	uint32_t *count = calloc(4 * n, sizeof(*count));

	for (uint64_t i = 0; i < DRAWS; i++) {
		struct mr_order o = order(MR_ORDER_SHUFFLE, n, epochs ? 7 : i);
		struct mr_order_cache c = { 0 };
		uint64_t first = mr_order_at(&o, &c, epochs ? i : 0, 0);
		uint64_t next = mr_order_at(&o, &c, epochs ? i : 0, 1);

		for (uint64_t k = 0; k < 3; k++)
			count[k * n +
			      mr_order_at(&o, &c, epochs ? i : 0, place[k])]++;
		count[3 * n + (next + n - first) % n]++;
	}
	fair("first", count, n, DRAWS);
	fair("middle", count + n, n, DRAWS);
	fair("last", count + 2 * n, n, DRAWS);
	fair("distance of the first two", count + 3 * n + 1, n - 1, DRAWS);
	free(count);
}

static void test_each_sample_is_as_likely_at_each_place(void **state)
{
	(void)state;
	check_fair(10, false);
	check_fair(100, false);
	check_fair(1000, false);
	check_fair(1024, false);
	check_fair(10, true);
	check_fair(100, true);
	check_fair(1000, true);
}

static void test_sample_0_lands_anywhere(void **state)
{
	static const uint64_t n[] = { 10, 100, 1000 };

	(void)state;
	for (int k = 0; k < 3; k++) {
		uint64_t draws = n[k] * 50;
		uint32_t *count = calloc(n[k], sizeof(*count));

		for (uint64_t seed = 0; seed < draws; seed++) {
			struct mr_order o = order(MR_ORDER_SHUFFLE, n[k], seed);
			struct mr_order_cache c = { 0 };
			uint64_t at = 0;

			while (mr_order_at(&o, &c, 0, at))
				at++;
			count[at]++;
		}
		fair("sample 0", count, n[k], (double)draws);
		free(count);
	}
}

static void test_each_pair_is_as_likely(void **state)
{
	static const uint64_t n[] = { 10, 100 };

	(void)state;
	for (int k = 0; k < 2; k++) {
		uint64_t draws = n[k] * n[k] * 50;
		uint32_t *count = calloc(n[k] * n[k], sizeof(*count));
		uint64_t cells = 0;

		for (uint64_t seed = 0; seed < draws; seed++) {
			struct mr_order o = order(MR_ORDER_SHUFFLE, n[k], seed);
			struct mr_order_cache c = { 0 };
			uint64_t a = mr_order_at(&o, &c, 0, 3);

			count[a * n[k] + mr_order_at(&o, &c, 0, 8)]++;
		}
		for (uint64_t i = 0; i < n[k] * n[k]; i++)
			if (i / n[k] != i % n[k])
				count[cells++] = count[i];
		fair("pairs", count, cells, (double)draws);
		free(count);
	}
}

/* All orders of a few samples, as numbers in base n. */
static void test_each_order_of_a_few_samples_is_as_likely(void **state)
{
	(void)state;
	for (uint64_t n = 2; n <= 6; n++) {
		uint32_t count[46656] = { 0 };
		uint64_t cells = 0, orders = 1, codes = 1;

		for (uint64_t i = 1; i <= n; i++) {
			orders *= i;
			codes *= n;
		}
		for (uint64_t seed = 0; seed < FEW; seed++) {
			struct mr_order o = order(MR_ORDER_SHUFFLE, n, seed);
			struct mr_order_cache c = { 0 };
			uint64_t code = 0;

			for (uint64_t i = 0; i < n; i++)
				code = code * n + mr_order_at(&o, &c, 0, i);
			count[code]++;
		}
		for (uint64_t i = 0; i < codes; i++)
			if (count[i])
				count[cells++] = count[i];
		assert_int_equal(cells, orders);
		fair("orders", count, cells, FEW);
	}
}

static void test_each_triple_of_a_few_samples_is_as_likely(void **state)
{
	(void)state;
	for (uint64_t n = 7; n <= 16; n++) {
		uint32_t *count = calloc(n * n * n, sizeof(*count));
		uint64_t cells = 0;

		for (uint64_t seed = 0; seed < FEW; seed++) {
			struct mr_order o = order(MR_ORDER_SHUFFLE, n, seed);
			struct mr_order_cache c = { 0 };
			uint64_t a = mr_order_at(&o, &c, 0, 0);
			uint64_t b = mr_order_at(&o, &c, 0, 1);

			count[(a * n + b) * n + mr_order_at(&o, &c, 0, 2)]++;
		}
		for (uint64_t i = 0; i < n * n * n; i++) {
			uint64_t a = i / n / n, b = i / n % n, d = i % n;

			if (a != b && b != d && a != d)
				count[cells++] = count[i];
		}
		assert_int_equal(cells, n * (n - 1) * (n - 2));
		fair("triples", count, cells, FEW);
		free(count);
	}
}

/* The test itself can fail: a shuffle that is a mere rotation is caught. */
static void test_the_chi_square_catches_an_unfair_order(void **state)
{
	uint32_t count[100] = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++)
		count[i] = 1000 + (i % 2 ? 60 : -60);
	assert_true(normal(count, 100, 1000) > 4.75);
	for (int i = 0; i < 100; i++)
		count[i] = 1000;
	assert_true(normal(count, 100, 1000) < -4.75);
}

static void test_a_subset_is_the_same_in_each_epoch(void **state)
{
	uint8_t seen[2][1000] = { 0 };
	int n[2] = { 0 };

	(void)state;
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		struct mr_order o = order(MR_ORDER_SHUFFLE, 100, 7);
		struct mr_order_cache c = { 0 };

		o.of = 1000;
		for (uint64_t i = 0; i < 100; i++)
			seen[epoch][mr_order_at(&o, &c, epoch, i)]++;
		for (uint64_t i = 0; i < 100; i++)
			assert_int_equal(
				seen[epoch][mr_order_chosen(&o, &c, i)], 1);
	}
	assert_memory_equal(seen[0], seen[1], 1000);
	for (int i = 0; i < 1000; i++)
		n[i >= 500] += seen[0][i];
	assert_int_equal(n[0] + n[1], 100);
	assert_true(n[0] > 25 && n[1] > 25); /* from all over */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_subset_is_the_same_in_each_epoch),
		cmocka_unit_test(test_every_order_has_each_sample_once),
		cmocka_unit_test(test_large_orders_have_each_sample_once),
		cmocka_unit_test(
			test_a_permutation_of_2_to_the_40_stays_inside),
		cmocka_unit_test(test_sequential_order_is_the_identity),
		cmocka_unit_test(
			test_an_order_does_not_depend_on_what_was_asked_before),
		cmocka_unit_test(test_ranks_share_an_epoch_out_exactly),
		cmocka_unit_test(
			test_a_global_batch_is_the_same_over_any_ranks),
		cmocka_unit_test(test_drop_last_leaves_out_what_fills_no_batch),
		cmocka_unit_test(test_epochs_and_seeds_give_different_orders),
		cmocka_unit_test(test_block_order_keeps_neighbours_near),
		cmocka_unit_test(
			test_block_order_leaves_out_other_samples_in_each_epoch),
		cmocka_unit_test(test_each_sample_is_as_likely_at_each_place),
		cmocka_unit_test(test_sample_0_lands_anywhere),
		cmocka_unit_test(test_each_pair_is_as_likely),
		cmocka_unit_test(test_each_order_of_a_few_samples_is_as_likely),
		cmocka_unit_test(
			test_each_triple_of_a_few_samples_is_as_likely),
		cmocka_unit_test(test_the_chi_square_catches_an_unfair_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
