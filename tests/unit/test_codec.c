/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every codec over every kind of data and size. Buffers are allocated exactly
 * as long as a codec is told, so that a sanitizer sees what is touched
 * outside.
 */
#include "scratch.h"

#include <limits.h>
#include <stdbool.h>

#include "store/codec.h"

static uint64_t seed;

static size_t below(size_t n)
{
	return (size_t)(mr_mix64(++seed) % n);
}

static void *need(size_t n)
{
	void *p = malloc(n ? n : 1);

	assert_non_null(p);
	return p;
}

/* ---- data ---- */

enum kind { ZEROS, NOISE, TEXT, SLOPE, KINDS };

static uint8_t *make(enum kind kind, size_t n)
{
	static const char words[] = "the mill grinds what the water brings ";
	uint8_t *p = need(n);

	for (size_t i = 0; i < n; i++) {
		if (kind == NOISE)
			p[i] = (uint8_t)below(256);
		else if (kind == TEXT)
			p[i] = (uint8_t)words[(i + i / 97) % sizeof(words)];
		else
			p[i] = kind == SLOPE ? (uint8_t)(i / 7 + below(3)) : 0;
	}
	return p;
}

/* ---- one codec with what it keeps ---- */

struct unit {
	const struct mr_codec *c;
	int level;
	void *pack, *unpack;
	struct mr_err err;
};

static void drop(struct unit *u)
{
	if (u->c->drop_pack)
		u->c->drop_pack(u->pack);
	if (u->c->drop_unpack)
		u->c->drop_unpack(u->unpack);
}

/* Packed into memory of exactly its length, which is yours. */
static uint8_t *pack(struct unit *u, const void *from, size_t n, size_t *packed)
{
	size_t bound = u->c->bound(n);
	uint8_t *room = need(bound), *out;

	assert_int_equal(u->c->pack(&u->pack, u->level, from, n, room, bound,
				    packed, &u->err),
			 MR_OK);
	assert_true(*packed <= bound);
	out = need(*packed);
	memcpy(out, room, *packed);
	free(room);
	return out;
}

static int unpack(struct unit *u, const void *from, size_t n, void *to,
		  size_t size)
{
	int r;

	u->err = (struct mr_err){ 0 };
	r = u->c->unpack(&u->unpack, from, n, to, size, &u->err);
	assert_true(r == MR_OK || r == MR_EDATA);
	if (r) /* says why, and which codec */
		assert_memory_equal(u->err.text, u->c->name,
				    strlen(u->c->name));
	return r;
}

static void round_trip(struct unit *u, enum kind kind, size_t n)
{
	uint8_t *a = make(kind, n), *b = need(n), *packed;
	size_t len;

	packed = pack(u, a, n, &len);
	assert_int_equal(unpack(u, packed, len, b, n), MR_OK);
	assert_memory_equal(a, b, n);
	free(a);
	free(b);
	free(packed);
}

static void for_each_codec(void (*check)(struct unit *u))
{
	for (size_t i = 0; mr_codecs[i]; i++) {
		struct unit u = { .c = mr_codecs[i],
				  .level = mr_codecs[i]->def };

		check(&u);
		drop(&u);
	}
}

/* ---- round trips ---- */

static void check_sizes(struct unit *u)
{
	static const size_t sizes[] = { 255,   256,   257,    1000,
					4095,  4096,  4097,   65535,
					65536, 65537, 150528, 1 << 20 };

	for (int k = 0; k < KINDS; k++) {
		for (size_t n = 0; n <= 70; n++)
			round_trip(u, k, n);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			round_trip(u, k, sizes[i]);
	}
}

static void test_every_size_comes_back(void **state)
{
	(void)state;
	for_each_codec(check_sizes);
}

static void test_every_level_comes_back(void **state)
{
	(void)state;
	for (size_t i = 0; mr_codecs[i]; i++) {
		const struct mr_codec *c = mr_codecs[i];

		assert_true(c->min <= c->def && c->def <= c->max);
		for (int level = 0; level <= c->max; level++) {
			struct unit u = { .c = c, .level = level };

			for (int k = 0; k < KINDS; k++)
				round_trip(&u, k, 20000);
			round_trip(&u, TEXT, 0);
			drop(&u);
		}
	}
}

static void test_a_higher_level_packs_smaller(void **state)
{
	size_t n = 1 << 17;
	uint8_t *a = make(SLOPE, n);

	(void)state;
	for (size_t i = 0; mr_codecs[i]; i++) {
		struct unit low = { .c = mr_codecs[i],
				    .level = mr_codecs[i]->min };
		struct unit high = { .c = mr_codecs[i],
				     .level = mr_codecs[i]->max };
		size_t little = 0, much = 0;

		free(pack(&low, a, n, &much));
		free(pack(&high, a, n, &little));
		if (high.level)
			assert_true(little < much && much < n);
		drop(&low);
		drop(&high);
	}
	free(a);
}

static void check_reuse(struct unit *u)
{
	for (int i = 0; i < 600; i++)
		round_trip(u, (enum kind)below(KINDS),
			   below(i % 50 ? 3000 : 300000));
}

static void test_what_is_kept_serves_many_calls_and_sizes(void **state)
{
	(void)state;
	for_each_codec(check_reuse);
}

/* The state holds nothing of the data before. */
static void check_same_bytes(struct unit *u)
{
	uint8_t *a = make(TEXT, 5000), *b, *c;
	size_t first, again;

	b = pack(u, a, 5000, &first);
	round_trip(u, NOISE, 70000);
	c = pack(u, a, 5000, &again);
	assert_int_equal(first, again);
	assert_memory_equal(b, c, first);
	free(a);
	free(b);
	free(c);
}

static void test_the_same_bytes_are_packed_the_same_again(void **state)
{
	(void)state;
	for_each_codec(check_same_bytes);
}

/* ---- room ---- */

static void check_little_room(struct unit *u)
{
	size_t n = 3000, len = 0, bound = u->c->bound(n);
	uint8_t *a = make(NOISE, n);

	for (size_t cap = 0; cap < bound; cap += 1 + below(bound / 40)) {
		void *room = need(cap);
		int r = u->c->pack(&u->pack, u->level, a, n, room, cap, &len,
				   &u->err);

		assert_true(r == MR_ELIMIT || (r == MR_OK && len <= cap));
		assert_true(cap >= n || r == MR_ELIMIT);
		free(room);
	}
	free(a);
}

static void test_what_does_not_fit_is_said_so(void **state)
{
	(void)state;
	for_each_codec(check_little_room);
}

static void check_bound(struct unit *u)
{
	static const size_t sizes[] = {
		0, 1, 1 << 20, INT_MAX, SIZE_MAX / 2, SIZE_MAX - 1
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		assert_true(u->c->bound(sizes[i]) >= sizes[i]);
}

static void test_a_bound_is_never_below_the_size(void **state)
{
	(void)state;
	for_each_codec(check_bound);
	assert_true(mr_codec_find("lz4")->bound(0x7f000000) == SIZE_MAX);
}

/* ---- damage ---- */

static void check_wrong_size(struct unit *u)
{
	static const size_t sizes[] = { 0, 1, 17, 1000, 70000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i], len, wrong[] = { 0, n - 1, n + 1, 2 * n };
		uint8_t *a = make(TEXT, n), *p = pack(u, a, n, &len);

		for (size_t k = 0; k < 4; k++) {
			void *to;

			if (wrong[k] == n || wrong[k] == SIZE_MAX)
				continue;
			to = need(wrong[k]);
			assert_int_equal(unpack(u, p, len, to, wrong[k]),
					 MR_EDATA);
			free(to);
		}
		free(a);
		free(p);
	}
}

static void test_another_size_than_was_packed_is_refused(void **state)
{
	(void)state;
	for_each_codec(check_wrong_size);
}

static void check_cut(struct unit *u)
{
	for (size_t n = 0; n < 400; n = n * 2 + 1) {
		uint8_t *a = make(TEXT, n), *to = need(n);
		size_t len;
		uint8_t *p = pack(u, a, n, &len);

		for (size_t cut = 0; cut < len; cut++) {
			uint8_t *part = need(cut);

			memcpy(part, p, cut);
			assert_int_equal(unpack(u, part, cut, to, n), MR_EDATA);
			free(part);
		}
		assert_int_equal(unpack(u, p, len, to, n), MR_OK);
		assert_memory_equal(a, to, n);
		free(a);
		free(to);
		free(p);
	}
}

static void test_every_cut_is_an_error_and_the_next_call_is_well(void **state)
{
	(void)state;
	for_each_codec(check_cut);
}

static void check_longer(struct unit *u)
{
	size_t n = 300, len;
	uint8_t *a = make(TEXT, n), *to = need(n), *p = pack(u, a, n, &len);
	uint8_t *more = need(len + 1);

	for (int i = 0; i < 256; i++) {
		memcpy(more, p, len);
		more[len] = (uint8_t)i;
		assert_int_equal(unpack(u, more, len + 1, to, n), MR_EDATA);
	}
	free(a);
	free(to);
	free(p);
	free(more);
}

static void test_what_goes_on_after_the_end_is_refused(void **state)
{
	(void)state;
	for_each_codec(check_longer);
}

static void check_flips(struct unit *u)
{
	/* CRC-32 sees them all. zlib's Adler-32 does not: its two sums stay as
	 * they are when four bytes change by -1, 1, 1, -1. */
	bool sums = !strcmp(u->c->name, "gzip");

	for (int k = 0; k < KINDS; k++) {
		size_t n = 200, len;
		uint8_t *a = make(k, n), *to = need(n);
		uint8_t *p = pack(u, a, n, &len);

		for (size_t bit = 0; bit < 8 * len; bit++) {
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			/* Some bits of the heads mean nothing. */
			if (unpack(u, p, len, to, n) == MR_OK && sums)
				assert_memory_equal(a, to, n);
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		free(a);
		free(to);
		free(p);
	}
}

static void test_a_flipped_bit_touches_nothing_outside(void **state)
{
	(void)state;
	for_each_codec(check_flips);
}

static void check_garbage(struct unit *u)
{
	for (int i = 0; i < 3000; i++) {
		size_t n = below(300), size = below(300);
		uint8_t *a = make(NOISE, n), *to = need(size);

		unpack(u, a, n, to, size);
		free(a);
		free(to);
	}
}

static void test_garbage_touches_nothing_outside(void **state)
{
	(void)state;
	for_each_codec(check_garbage);
}

/* ---- names ---- */

static void test_a_codec_is_found_by_its_name(void **state)
{
	static const char *const names[] = { "none", "lz4", "zstd", "zlib",
					     "gzip" };

	(void)state;
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(mr_codec_find(names[i])->name, names[i]);
	assert_null(mr_codec_find("ZSTD"));
	assert_null(mr_codec_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_size_comes_back),
		cmocka_unit_test(test_every_level_comes_back),
		cmocka_unit_test(test_a_higher_level_packs_smaller),
		cmocka_unit_test(test_what_is_kept_serves_many_calls_and_sizes),
		cmocka_unit_test(test_the_same_bytes_are_packed_the_same_again),
		cmocka_unit_test(test_what_does_not_fit_is_said_so),
		cmocka_unit_test(test_a_bound_is_never_below_the_size),
		cmocka_unit_test(test_another_size_than_was_packed_is_refused),
		cmocka_unit_test(
			test_every_cut_is_an_error_and_the_next_call_is_well),
		cmocka_unit_test(test_what_goes_on_after_the_end_is_refused),
		cmocka_unit_test(test_a_flipped_bit_touches_nothing_outside),
		cmocka_unit_test(test_garbage_touches_nothing_outside),
		cmocka_unit_test(test_a_codec_is_found_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
