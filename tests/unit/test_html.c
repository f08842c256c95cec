/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of extract_text; what it makes of pages is tested from Python. */
#include "scratch.h"

#include "core/arena.h"
#include "op/html.h"
#include "op/htmlcode.h"
#include "op/htmlname.h"
#include "op/htmlscan.h"

static struct mr_arena scratch;

static int setup(void **state)
{
	(void)state;
	mr_arena_init(&scratch, (size_t)64 << 20);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mr_arena_fini(&scratch);
	return 0;
}

/* ---- tags ---- */

static void test_every_tag_is_found_by_its_name(void **state)
{
	(void)state;
#define CHECK(name, flags)                                              \
	assert_int_equal(                                               \
		mr_html_tag((const uint8_t *)#name, sizeof(#name) - 1), \
		MR_TAG_##name);                                         \
	assert_int_equal(mr_tag_flags[MR_TAG_##name], flags);
	MR_TAGS(CHECK)
#undef CHECK
	assert_int_equal(mr_html_tag((const uint8_t *)"BlockQuote", 10),
			 MR_TAG_blockquote);
	assert_int_equal(mr_html_tag((const uint8_t *)"blink", 5),
			 MR_TAG_OTHER);
	assert_int_equal(mr_html_tag((const uint8_t *)"divs", 4), MR_TAG_OTHER);
	assert_int_equal(mr_html_tag((const uint8_t *)"", 0), MR_TAG_OTHER);
}

/* ---- names of parts ---- */

static unsigned hints(const char *s)
{
	return mr_html_hints((const uint8_t *)s, strlen(s));
}

static void test_names_are_understood_word_by_word(void **state)
{
	(void)state;
	assert_int_equal(hints(""), 0);
	assert_int_equal(hints("  -- 7 "), 0);
	assert_int_equal(hints("article-body"), MR_HINT_BODY | MR_HINT_GOOD);
	assert_int_equal(hints("x entryContent"), MR_HINT_BODY | MR_HINT_GOOD);
	assert_int_equal(hints("commentlist"), MR_HINT_COMMENT);
	assert_int_equal(hints("article-comments"), MR_HINT_COMMENT);
	assert_int_equal(hints("SideBar"), 0); /* two words */
	assert_int_equal(hints("SIDEBAR_left"), MR_HINT_BAD);
	assert_int_equal(hints("adverb ad"), MR_HINT_BAD);
	assert_int_equal(hints("adverb shadow header"), 0);
	assert_int_equal(hints("image-caption"), MR_HINT_NOTE);
	assert_int_equal(hints("averyveryveryveryverylongword"), 0);
}

/* ---- text ---- */

static struct mr_html_count count(const char *s)
{
	return mr_html_count((const uint8_t *)s, strlen(s));
}

static void test_words_and_marks_are_counted(void **state)
{
	(void)state;
	assert_int_equal(count(" one, two\n three. ").words, 3);
	assert_int_equal(count(" one, two\n three. ").marks, 2);
	assert_int_equal(count("").words, 0);
	/* 8 characters of Japanese, one of them a comma */
	assert_int_equal(count("\xe6\xb0\xb4\xe8\xbb\x8a\xe5\xb0\x8f\xe5\xb1"
			       "\x8b\xe3\x81\xaf\xe3\x80\x81\xe4\xbd\x95\xe5"
			       "\xb9\xb4")
				 .words,
			 4);
	assert_int_equal(count("\xe3\x80\x81\xef\xbc\x8c\xd8\x8c").marks, 3);
}

/* ---- encodings ---- */

static void test_labels_are_those_of_browsers(void **state)
{
	static const char *const some[][2] = {
		{ "utf-8", "UTF-8" },
		{ "UTF8", "UTF-8" },
		{ "ISO-8859-1", "CP1252" },
		{ "us-ascii", "CP1252" },
		{ "Shift_JIS", "CP932" },
		{ "gb2312", "GB18030" },
		{ "euc-kr", "CP949" },
		{ "windows-1251", "CP1251" },
		{ "ISO_8859-9", "CP1254" },
		{ "utf-16", "UTF-8" },
		{ "x-user-defined", NULL },
		{ "", NULL },
		{ "a-very-long-label-that-is-none", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		const char *is = mr_html_label(some[i][0], strlen(some[i][0]));

		if (some[i][1])
			assert_string_equal(is, some[i][1]);
		else
			assert_null(is);
	}
}

static void test_all_labels_have_a_converter(void **state)
{
	static const char *const labels[] = {
		"windows-1250", "windows-1251",	  "windows-1253",
		"windows-1254", "windows-1255",	  "windows-1256",
		"windows-1257", "windows-1258",	  "windows-874",
		"iso-8859-2",	"iso-8859-3",	  "iso-8859-4",
		"iso-8859-5",	"iso-8859-6",	  "iso-8859-7",
		"iso-8859-8",	"iso-8859-10",	  "iso-8859-13",
		"iso-8859-14",	"iso-8859-15",	  "iso-8859-16",
		"koi8-r",	"koi8-u",	  "ibm866",
		"macintosh",	"x-mac-cyrillic", "shift_jis",
		"euc-jp",	"iso-2022-jp",	  "gb18030",
		"big5",		"euc-kr",
	};
	struct mr_html_coder c = { 0 };
	struct mr_err err = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++) {
		const uint8_t *to;
		size_t n = 0;

		if (mr_html_utf8(&c, labels[i], (const uint8_t *)"abc", 3,
				 &scratch, &to, &n, &err))
			fail_msg("%s: %s", labels[i], err.text);
		assert_int_equal(n, 3);
		assert_memory_equal(to, "abc", 3);
	}
	mr_html_coder_fini(&c);
}

static void test_utf8_stays_where_it_is(void **state)
{
	static const uint8_t page[] = "<p>caf\xc3\xa9";
	struct mr_html_coder c = { 0 };
	struct mr_err err;
	const uint8_t *to;
	size_t n;

	(void)state;
	assert_int_equal(mr_html_utf8(&c, "", page, sizeof(page) - 1, &scratch,
				      &to, &n, &err),
			 0);
	assert_ptr_equal(to, page);
	assert_int_equal(n, sizeof(page) - 1);
}

/* ---- odd pages: no crash, a tree, within memory ---- */

static size_t repeat(char *to, size_t cap, const char *part)
{
	size_t k = strlen(part), n = 0;

	for (; n + k <= cap; n += k)
		memcpy(to + n, part, k);
	return n;
}

static void test_any_repeated_part_makes_a_tree(void **state)
{
	static const char *const parts[] = {
		"<div>",
		"</div>",
		"<p>x",
		"<b><p></b>",
		"<a href=x><div>",
		"<table><tr><td>",
		"<td>",
		"<li>",
		"<dd><p>",
		"<!--",
		"<",
		"&",
		"<script>",
		"<title>",
		"<svg/>",
		"<x-y>",
		"<option>",
		"<h1>",
		"<select><p>",
		"<form>",
		"<p a='",
		"<p class=\"ad article ",
		"\xff",
		"<body><head>",
		"<button>",
		"</p>",
		"<br>x",
	};
	char *page = malloc(200000);
	uint8_t *text = malloc(700000);

	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		size_t n = repeat(page, 200000, parts[i]);
		struct mr_html h;
		struct mr_err err;

		assert_int_equal(
			mr_html_parse(&h, (uint8_t *)page, n, &scratch, &err),
			0);
		assert_int_equal(h.node[0].end, h.count);
		mr_html_text(&h, mr_html_article(&h), text, 700000);
		mr_arena_reset(&scratch);
	}
	free(page);
	free(text);
}

static void test_a_tree_over_the_limit_is_refused_with_it(void **state)
{
	struct mr_arena small;
	struct mr_html h;
	struct mr_err err;
	static char page[30000];
	size_t n = repeat(page, sizeof(page), "<b>");

	(void)state;
	mr_arena_init(&small, 100000);
	assert_int_equal(mr_html_parse(&h, (uint8_t *)page, n, &small, &err),
			 MR_ELIMIT);
	assert_non_null(strstr(err.text, "10000 tags"));
	assert_non_null(strstr(err.text, "100000 is what a sample may take"));
	mr_arena_fini(&small);
}

static void test_a_text_that_does_not_fit_is_measured_not_written(void **state)
{
	static const char page[] = "<p>one two<p>three";
	uint8_t to[9] = "........";
	struct mr_html h;
	struct mr_err err;

	(void)state;
	assert_int_equal(mr_html_parse(&h, (const uint8_t *)page,
				       sizeof(page) - 1, &scratch, &err),
			 0);
	assert_int_equal(mr_html_text(&h, 0, to, 4), 13);
	assert_memory_equal(to + 4, "....", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_tag_is_found_by_its_name),
		cmocka_unit_test(test_names_are_understood_word_by_word),
		cmocka_unit_test(test_words_and_marks_are_counted),
		cmocka_unit_test(test_labels_are_those_of_browsers),
		cmocka_unit_test(test_all_labels_have_a_converter),
		cmocka_unit_test(test_utf8_stays_where_it_is),
		cmocka_unit_test(test_any_repeated_part_makes_a_tree),
		cmocka_unit_test(test_a_tree_over_the_limit_is_refused_with_it),
		cmocka_unit_test(
			test_a_text_that_does_not_fit_is_measured_not_written),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
