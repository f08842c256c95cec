/* SPDX-License-Identifier: Apache-2.0 */
/* Characters, pieces of text and tables of tokens: what tokenize is made of.
 * Its ids are tested from Python, against the algorithms of others. */
#include "scratch.h"

#include "core/arena.h"
#include "op/bpe.h"
#include "op/textsplit.h"
#include "op/unicode.h"

/* ---- characters ---- */

static size_t put_utf8(uint8_t *p, uint32_t c)
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n - 1; i; i--, c >>= 6)
		p[i] = (uint8_t)(0x80 | (c & 0x3f));
	p[0] = (uint8_t)(first[n] | c);
	return n;
}

static void test_every_code_point_is_read_and_surrogates_are_not(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 0x120000; c++) {
		uint8_t p[4];
		size_t n = put_utf8(p, c);
		bool good = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
		uint32_t code = 0;

		assert_int_equal(mr_utf8_read(p, n, &code), good ? n : 0);
		if (good)
			assert_int_equal(code, c);
		for (size_t k = 1; k < n; k++)
			assert_int_equal(mr_utf8_read(p, k, &code), 0);
	}
}

static void test_what_is_longer_than_it_must_be_is_bad(void **state)
{
	static const char *const bad[] = {
		"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",	    "\xf0\x8f\xbf\xbf",
		"\x80",	    "\xff",	"\xf5\x80\x80\x80", "\xc3\x28"
	};
	uint32_t code;
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const uint8_t *p = (const uint8_t *)bad[i];

		assert_int_equal(mr_utf8_read(p, strlen(bad[i]), &code), 0);
		assert_int_equal(mr_char_at(p, strlen(bad[i]), &bytes),
				 MR_CHAR_OTHER);
		assert_int_equal(bytes, 1);
	}
}

static void test_kinds_of_characters(void **state)
{
	static const struct {
		uint32_t code;
		enum mr_char_kind kind;
	} some[] = {
		{ 'a', MR_CHAR_LETTER },       { '7', MR_CHAR_NUMBER },
		{ ' ', MR_CHAR_SPACE },	       { '_', MR_CHAR_OTHER },
		{ 0x1c, MR_CHAR_OTHER },       { 0x85, MR_CHAR_SPACE },
		{ 0xa0, MR_CHAR_SPACE },       { 0xb2, MR_CHAR_NUMBER },
		{ 0xe9, MR_CHAR_LETTER },      { 0x301, MR_CHAR_OTHER },
		{ 0x663, MR_CHAR_NUMBER },     { 0x200b, MR_CHAR_OTHER },
		{ 0x2028, MR_CHAR_SPACE },     { 0x2163, MR_CHAR_NUMBER },
		{ 0x3000, MR_CHAR_SPACE },     { 0x4e2d, MR_CHAR_LETTER },
		{ 0xfffd, MR_CHAR_OTHER },     { 0x1f600, MR_CHAR_OTHER },
		{ 0x20000, MR_CHAR_LETTER },   { 0x10ffff, MR_CHAR_OTHER },
		{ UINT32_MAX, MR_CHAR_OTHER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++)
		assert_int_equal(mr_char_kind(some[i].code), some[i].kind);
}

/* The splitter has a table of its own: a letter goes on with a letter, and
 * so on. */
static void test_ascii_is_split_by_its_kinds(void **state)
{
	(void)state;
	for (int a = 1; a < 128; a++) {
		for (int b = 1; b < 128; b++) {
			uint8_t p[3] = { '!', (uint8_t)a, (uint8_t)b };
			enum mr_char_kind k = mr_char_kind((uint32_t)b);
			bool on = mr_char_kind((uint32_t)a) == k ||
				  (a == ' ' && k != MR_CHAR_SPACE);

			if (a == '\'' && strchr("stmd", b))
				on = true;
			assert_int_equal(mr_text_piece(p + 1, 2), on ? 2 : 1);
		}
	}
}

/* ---- pieces ---- */

/* The pieces of each text are what stands between the bars. */
static void check_pieces(const char *const *texts, size_t count,
			 mr_text_split *split)
{
	for (size_t i = 0; i < count; i++) {
		char whole[128] = "";
		size_t at = 0, n = 0;

		for (const char *s = texts[i]; *s; s++)
			if (*s != '|')
				whole[n++] = *s;
		for (const char *s = texts[i]; at < n;) {
			const uint8_t *p = (uint8_t *)whole + at;
			size_t want = strcspn(s, "|");

			if (want != split(p, n - at) ||
			    want != mr_text_next(p, n - at, split))
				fail_msg("text %zu at byte %zu", i, at);
			at += want;
			s += want + (s[want] == '|');
		}
	}
}

static void test_pieces_are_those_of_the_pattern(void **state)
{
	static const char *const texts[] = {
		"it|'s| | they|'ll|'re| I|'m| '|S| ''|s",
		"a| b| | c|\n\n|\n|d| |\t|e|   ",
		"x|12| 34|,| .|5\xc2\xb2",
		"\xe3\x80\x80|\xe3\x80\x80|a",
		"\xff\xc3| \xc3| \xc3\xa9|\xed\xa0\x80",
		("abcdefghijklmnop| abcdefghijklmnopqrstuvwxyz| "
		 "abcdefg\xc3\xa9|"),
		" abcdefgh| abcdefghi|@| Z|[| z|{| `|a| and| some| more| words",
	};

	(void)state;
	check_pieces(texts, sizeof(texts) / sizeof(*texts), mr_text_piece);
}

static void test_pieces_are_those_of_cl100k(void **state)
{
	static const char *const texts[] = {
		"it|'S|'ll|'VE|'M| '|S| ''|s|'\xc5\xbf|'x",
		"a| b| | c|\n\n\n|d| |\te|   ",
		"x|123|4| |34|,| .|5\xc2\xb2",
		("\xe3\x80\x80|\xe3\x80\x80"
		 "a"),
		"end|.\n\n|  \n| x|  \r\n|\t| y",
		"@a|#b| @(|c| |1",
		" \xc3| \xc3\xa9|\xff\xff|a",
	};

	(void)state;
	check_pieces(texts, sizeof(texts) / sizeof(*texts),
		     mr_text_piece_cl100k);
}

/* ---- merging ---- */

/* Letters merge in twos, these in twos, up to 2^7 of them. */
static void make_powers(struct mr_bpe *b, bool one_by_one)
{
	struct mr_err err;

	*b = (struct mr_bpe){ .one_by_one = one_by_one };
	assert_int_equal(mr_bpe_room(b, 8, &err), 0);
	assert_int_equal(mr_words_init(&b->words, 1, 1, &err), 0);
	for (int i = 0; i < 256; i++)
		b->byte[i] = i == 'a' ? 1000 : i;
	for (int i = 0; i < 7; i++)
		assert_true(mr_bpe_add(b, 1000 + i, 1000 + i, (uint32_t)i,
				       1001 + i));
	assert_false(mr_bpe_add(b, 1000, 1000, 9, 9));
	assert_int_equal(mr_bpe_index(b, &err), 0);
}

static void test_long_and_short_runs_merge_alike(void **state)
{
	enum { MAX = 1000 };
	static int32_t to[MAX];
	uint8_t text[MAX];
	struct mr_arena scratch;
	struct mr_bpe b;
	struct mr_err err;

	(void)state;
	memset(text, 'a', sizeof(text));
	mr_arena_init(&scratch, 1 << 20);
	for (int way = 0; way < 2; way++) {
		make_powers(&b, way);
		for (size_t n = 1; n <= MAX; n++) {
			size_t count, want = n / 128;

			for (size_t rest = n % 128; rest; rest &= rest - 1)
				want++;
			assert_int_equal(mr_bpe_encode(&b, NULL, &scratch, text,
						       n, to, &count, &err),
					 0);
			assert_int_equal(count, want);
			mr_arena_reset(&scratch);
		}
		mr_bpe_close(&b);
	}
	mr_arena_fini(&scratch);
}

static void test_a_piece_too_long_for_the_memory_is_an_error(void **state)
{
	static int32_t to[5000];
	static uint8_t text[5000];
	struct mr_arena scratch;
	struct mr_bpe b;
	struct mr_err err;
	size_t count;

	(void)state;
	memset(text, 'a', sizeof(text));
	mr_arena_init(&scratch, 4096);
	make_powers(&b, false);
	assert_int_equal(mr_bpe_encode(&b, NULL, &scratch, text, sizeof(text),
				       to, &count, &err),
			 MR_ELIMIT);
	assert_non_null(strstr(err.text, "5000 bytes without a break"));
	mr_bpe_close(&b);
	mr_arena_fini(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_every_code_point_is_read_and_surrogates_are_not),
		cmocka_unit_test(test_what_is_longer_than_it_must_be_is_bad),
		cmocka_unit_test(test_kinds_of_characters),
		cmocka_unit_test(test_ascii_is_split_by_its_kinds),
		cmocka_unit_test(test_pieces_are_those_of_the_pattern),
		cmocka_unit_test(test_pieces_are_those_of_cl100k),
		cmocka_unit_test(test_long_and_short_runs_merge_alike),
		cmocka_unit_test(
			test_a_piece_too_long_for_the_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
