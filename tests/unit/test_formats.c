/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C, numbers of NumPy's types, and indexes that are kept: what the
 * sources of records are made of. Their formats are tested from Python. */
#include "scratch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "core/le.h"
#include "core/mem.h"
#include "io/input.h"
#include "kernel/crc32c.h"
#include "source/indexcache.h"
#include "source/number.h"

/* ---- checksums ---- */

static void test_crc32c_gives_the_values_of_rfc_3720(void **state)
{
	uint8_t b[32];

	(void)state;
	memset(b, 0, sizeof(b));
	assert_int_equal(mr_crc32c(b, sizeof(b)), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	assert_int_equal(mr_crc32c(b, sizeof(b)), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)i;
	assert_int_equal(mr_crc32c(b, sizeof(b)), 0x46dd794e);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)(31 - i);
	assert_int_equal(mr_crc32c_plain(b, sizeof(b)), 0x113fdb5c);
	assert_int_equal(mr_crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(mr_crc32c_plain("123456789", 9), 0xe3069283);
	assert_int_equal(mr_crc32c("", 0), 0);
}

/* Bit by bit, from the polynomial. */
static uint32_t crc_by_bits(const uint8_t *p, size_t n)
{
	uint32_t c = ~0u;

	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
	}
	return ~c;
}

static void test_crc32c_agrees_with_its_twin_at_every_length(void **state)
{
	enum { MAX = 20000 };
	uint8_t *b = malloc(MAX + 8);

	(void)state;
	for (size_t i = 0; i < MAX + 8; i++)
		b[i] = (uint8_t)mr_mix64(i);
	for (size_t n = 0; n < 1200; n++) {
		uint32_t want = crc_by_bits(b + n % 8, n);

		assert_int_equal(mr_crc32c(b + n % 8, n), want);
		assert_int_equal(mr_crc32c_plain(b + n % 8, n), want);
	}
	for (size_t n = 3000; n <= MAX; n += 1 + mr_mix64(n) % 97)
		assert_int_equal(mr_crc32c(b + n % 8, n),
				 mr_crc32c_plain(b + n % 8, n));
	free(b);
}

/* ---- numbers ---- */

static void test_numbers_are_found_by_name_and_by_code(void **state)
{
	(void)state;
	assert_int_equal(mr_number_find("uint16")->as, MR_I32);
	assert_ptr_equal(mr_number_find("<u2"), mr_number_find("uint16"));
	assert_int_equal(mr_number_find("|u1")->as, MR_U8);
	assert_int_equal(mr_number_find("float16")->as, MR_F16);
	assert_null(mr_number_find(">f4"));
	assert_null(mr_number_find("complex64"));
	assert_null(mr_number_find(""));
	assert_null(mr_number_find("<"));
}

static void test_numbers_of_any_alignment_are_widened(void **state)
{
	static const uint8_t bytes[] = { 9,    0xff, 0xff, 0xfe, 0xff,
					 0xff, 0xff, 0xff, 0xff };
	int16_t i16;
	int32_t i32;
	int64_t i64;
	struct mr_err err;

	(void)state;
	mr_number_load(mr_number_find("int8"), bytes + 1, 1, &i16, &err);
	assert_int_equal(i16, -1);
	mr_number_load(mr_number_find("uint16"), bytes + 1, 1, &i32, &err);
	assert_int_equal(i32, 65535);
	mr_number_load(mr_number_find("uint32"), bytes + 1, 1, &i64, &err);
	assert_int_equal(i64, 0xfffeffff);
	mr_number_load(mr_number_find("int64"), bytes + 1, 1, &i64, &err);
	assert_int_equal(i64, -65537);
	assert_int_equal(mr_number_load(mr_number_find("uint64"), bytes + 1, 1,
					&i64, &err),
			 MR_EDATA);
}

/* ---- kept indexes ---- */

static struct mr_input *open_old(const char *name, long long seconds)
{
	struct timespec t[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
	struct mr_input *in;
	struct mr_err err;
	const char *path = textf("%s/%s", top, name);

	put(name, "twelve bytes", 12);
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
	if (mr_input_open(&in, path, &err))
		fail_msg("%s", err.text);
	return in;
}

static int save_index(struct mr_input *in, int place)
{
	struct mr_err err;

	return mr_index_save(in, "kind", place, "index", 5, &err);
}

static void test_an_index_comes_back_for_the_same_file_only(void **state)
{
	struct mr_input *in = open_old("a", 1000000000), *later;
	size_t n = 0;
	char *p;

	(void)state;
	setenv("XDG_CACHE_HOME", top, 1);
	for (int place = MR_INDEX_BESIDE; place <= MR_INDEX_CACHE; place++) {
		assert_null(mr_index_load(in, "kind", place, 100, &n));
		assert_int_equal(save_index(in, place), 0);
		p = mr_index_load(in, "kind", place, 100, &n);
		assert_non_null(p);
		assert_int_equal(n, 5);
		assert_memory_equal(p, "index", 5);
		free(p);
		assert_null(mr_index_load(in, "other", place, 100, &n));
		assert_null(mr_index_load(in, "kind", place, 4, &n));
	}
	mr_input_close(in);
	later = open_old("a", 1000000001);
	assert_null(mr_index_load(later, "kind", MR_INDEX_AUTO, 100, &n));
	mr_input_close(later);
}

static void test_no_index_is_kept_where_that_is_not_wanted(void **state)
{
	struct mr_input *in = open_old("a", 1000000000);
	size_t n;

	(void)state;
	setenv("XDG_CACHE_HOME", top, 1);
	assert_int_equal(save_index(in, MR_INDEX_NO), 0);
	assert_int_equal(save_index(in, MR_INDEX_AUTO), 0); /* small */
	assert_null(mr_index_load(in, "kind", MR_INDEX_AUTO, 100, &n));
	assert_int_not_equal(access(textf("%s/a.mri", top), F_OK), 0);
	mr_input_close(in);
	in = open_old("a", (long long)time(NULL));
	assert_int_equal(save_index(in, MR_INDEX_BESIDE), 0);
	assert_null(mr_index_load(in, "kind", MR_INDEX_BESIDE, 100, &n));
	mr_input_close(in);
}

static void test_an_index_that_cannot_be_kept_where_one_says_is_told(void **s)
{
	struct mr_input *in = open_old("a", 1000000000);

	(void)s;
	setenv("XDG_CACHE_HOME", textf("%s/a", top), 1); /* no folder */
	assert_int_equal(save_index(in, MR_INDEX_CACHE), MR_EIO);
	assert_int_equal(chmod(top, 0555), 0);
	assert_int_equal(save_index(in, MR_INDEX_BESIDE), MR_EIO);
	assert_int_equal(chmod(top, 0755), 0);
	assert_int_equal(save_index(in, MR_INDEX_BESIDE), 0);
	mr_input_close(in);
}

static void test_a_wildcard_finds_no_index(void **state)
{
	static const char *const names[] = { "b.tar", "b.tar.mri", "b.mri.gz" };
	struct mr_err err;
	char **paths;
	size_t n;

	(void)state;
	for (int i = 0; i < 3; i++)
		put(names[i], "x", 1);
	assert_int_equal(mr_input_list(textf("%s/b*", top), &paths, &n, &err),
			 0);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	free(paths);
	assert_int_equal(
		mr_input_list(textf("%s/*.mri", top), &paths, &n, &err),
		MR_EIO);
	/* By its own name it is a file as others. */
	assert_int_equal(mr_input_list(textf("%s/b.tar.{mri,mri}", top), &paths,
				       &n, &err),
			 0);
	assert_int_equal(n, 2);
	free(paths[0]);
	free(paths[1]);
	free(paths);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_crc32c_gives_the_values_of_rfc_3720),
		T(test_crc32c_agrees_with_its_twin_at_every_length),
		T(test_numbers_are_found_by_name_and_by_code),
		T(test_numbers_of_any_alignment_are_widened),
		T(test_an_index_comes_back_for_the_same_file_only),
		T(test_no_index_is_kept_where_that_is_not_wanted),
		T(test_an_index_that_cannot_be_kept_where_one_says_is_told),
		T(test_a_wildcard_finds_no_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
