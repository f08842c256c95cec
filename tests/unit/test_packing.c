/* SPDX-License-Identifier: Apache-2.0 */
/* Documents into rows. What the rows hold is tested from Python. */
#include "scratch.h"

#include "core/arena.h"
#include "core/rng.h"
#include "op/packing.h"

enum { MAX = 300 };

static void check(const int64_t *length, size_t n, int64_t room,
		  const struct mr_piece *x, size_t pieces, int64_t rows)
{
	int64_t seen[MAX] = { 0 }, end = 0, row = -1;

	for (size_t i = 0; i < pieces; i++) {
		if (x[i].row != row) {
			assert_int_equal(x[i].row, ++row);
			end = 0;
		}
		assert_int_equal(x[i].start, end);
		assert_true(x[i].length > 0);
		end += x[i].length;
		assert_true(end <= room);
		seen[x[i].document] += x[i].length;
	}
	assert_int_equal(row + 1, rows);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(seen[i], length[i]);
}

/* The least room of a row, by looking at all of them. */
static void check_tight(const int64_t *length, size_t n, int64_t room,
			int64_t rows)
{
	int64_t left[4 * MAX], have = 0, longest = room;

	for (size_t i = 0; i < n; i++)
		for (int64_t k = 0; k < length[i] / room; k++)
			left[have++] = 0;
	for (longest--; longest > 0; longest--) {
		for (size_t i = 0; i < n; i++) {
			int64_t best = -1;

			if (length[i] % room != longest)
				continue;
			for (int64_t r = 0; r < have; r++)
				if (left[r] >= longest &&
				    (best < 0 || left[r] < left[best]))
					best = r;
			if (best < 0)
				left[best = have++] = room;
			left[best] -= longest;
		}
	}
	assert_int_equal(rows, have);
}

static void test_every_element_is_in_one_place(void **state)
{
	static struct mr_piece to[8 * MAX];
	struct mr_arena scratch;
	uint64_t turn = 0;

	(void)state;
	mr_arena_init(&scratch, 1 << 20);
	for (int round = 0; round < 400; round++) {
		size_t n = (size_t)(mr_mix64(turn++) % (MAX + 1)), k;
		int64_t room = 1 + (int64_t)(mr_mix64(turn++) % 200), rows;
		int64_t most = room + (int64_t)(mr_mix64(turn++) % 300);
		int64_t length[MAX];

		for (size_t i = 0; i < n; i++) {
			length[i] = (int64_t)(mr_mix64(turn++) %
					      (uint64_t)(most + 1));
			if (length[i] > 3 * room)
				length[i] = room;
		}
		k = mr_pack_cut(length, n, room, to, &rows);
		assert_true(k <= mr_pack_bound(length, n, room));
		check(length, n, room, to, k, rows);
		k = mr_pack_fit(length, n, room, &scratch, to, &rows);
		assert_true(k <= mr_pack_bound(length, n, room));
		check(length, n, room, to, k, rows);
		check_tight(length, n, room, rows);
		mr_arena_reset(&scratch);
	}
	mr_arena_fini(&scratch);
}

static void test_what_32_bits_cannot_number_is_refused(void **state)
{
	int64_t one[] = { (int64_t)INT32_MAX + 1 };
	int64_t two[] = { INT32_MAX, 1 };

	(void)state;
	assert_int_equal(mr_pack_bound(one, 1, 1 << 20), SIZE_MAX);
	assert_int_equal(mr_pack_bound(two, 2, 1), SIZE_MAX);
	assert_int_equal(mr_pack_bound(two, 2, INT32_MAX), 5);
	assert_int_equal(mr_pack_bound(NULL, (size_t)1 << 31, 1), SIZE_MAX);
	assert_int_equal(mr_pack_bound(NULL, 0, 1), 0);
}

static void test_too_little_scratch_memory_is_told(void **state)
{
	int64_t length[] = { 1, 2, 3 }, rows = 0;
	struct mr_piece to[8];
	struct mr_arena scratch;

	(void)state;
	mr_arena_init(&scratch, 1024);
	assert_int_equal(mr_pack_fit(length, 3, 1 << 20, &scratch, to, &rows),
			 SIZE_MAX);
	mr_arena_fini(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_element_is_in_one_place),
		cmocka_unit_test(test_what_32_bits_cannot_number_is_refused),
		cmocka_unit_test(test_too_little_scratch_memory_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
