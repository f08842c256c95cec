/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines as texts: what is taken, what is refused, and how it is said. */
#include "scratch.h"

#include "core/param.h"
#include "pipe/spec.h"

static struct mr_pipeline *parse(const char *text)
{
	struct mr_pipeline *p;
	struct mr_err err;

	if (mr_pipeline_parse(&p, text, NULL, &err))
		fail_msg("%s", err.text);
	assert_non_null(p);
	return p;
}

/* The text is refused, in these words. */
static void refuse(const char *text, const char *words)
{
	struct mr_pipeline *p = (void *)&p;
	struct mr_err err = { 0 };
	int e = mr_pipeline_parse(&p, text, NULL, &err);

	assert_true(e == MR_EPARSE || e == MR_EINVAL);
	assert_int_equal(e, err.code);
	assert_null(p);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in '%s'", words, err.text);
	assert_int_equal(mr_pipeline_parse(&p, text, NULL, NULL), e);
}

static void canonical(const struct mr_pipeline *p, struct mr_str *out)
{
	for (int i = 0; i < p->n; i++) {
		if (i)
			mr_str_add(out, " | ");
		mr_stage_text(&p->stage[i], out);
	}
}

static void expect(const char *text, const char *want)
{
	struct mr_pipeline *p = parse(text);
	struct mr_str s = { 0 };

	canonical(p, &s);
	assert_string_equal(s.text, want);
	mr_str_fini(&s);
	mr_pipeline_free(p);
}

static uint64_t hash(const struct mr_pipeline *p)
{
	uint64_t h = 0;
	struct mr_err err;

	assert_int_equal(mr_pipeline_hash(p, &h, &err), 0);
	return h;
}

static uint64_t hash_of(const char *text)
{
	struct mr_pipeline *p = parse(text);
	uint64_t h = hash(p);

	mr_pipeline_free(p);
	return h;
}

/* ---- what is taken ---- */

static void test_values_come_by_place_or_by_name(void **state)
{
	(void)state;
	expect("files d", "files dir=d ext=");
	expect("files d jpg", "files dir=d ext=jpg");
	expect("files ext=jpg d", "files dir=d ext=jpg");
	expect("files ext=jpg dir=d", "files dir=d ext=jpg");
	expect("files d | batch 8 yes 0",
	       "files dir=d ext= | batch count=8 drop_last=yes pad=0");
}

static void test_a_value_may_contain_an_equals_sign(void **state)
{
	(void)state;
	expect("files dir=a=b", "files dir=a=b ext=");
	expect("files ./a=b", "files dir=./a=b ext=");
	expect("files 'a=b'", "files dir=a=b ext=");
}

static void test_quotes_hold_words_together(void **state)
{
	(void)state;
	expect("files 'a b'", "files dir='a b' ext=");
	expect("files \"a b\"", "files dir='a b' ext=");
	expect("files a' 'b", "files dir='a b' ext=");
	expect("files dir='a | b'", "files dir='a | b' ext=");
	expect("files ''", "files dir= ext=");
	expect("files 'a # b'", "files dir='a # b' ext=");
	expect("'files' d", "files dir=d ext=");
}

static void test_stages_part_at_bars_or_newlines(void **state)
{
	const char *want = "files dir=d ext= | cast dtype=f32 | "
			   "batch count=2 drop_last=no pad=";

	(void)state;
	expect("files d|cast f32|batch 2", want);
	expect("files d\ncast f32\nbatch 2", want);
	expect("files d |\n cast f32 |\n batch 2\n", want);
	expect("\n\nfiles d\n | cast f32\n\n | batch 2", want);
	expect("\tfiles\td\t|\tcast\tf32\t|\tbatch\t2\r\n", want);
}

static void test_comments_reach_to_the_end_of_the_line(void **state)
{
	(void)state;
	expect("# first\nfiles d # the data | cast\ncast f32 #",
	       "files dir=d ext= | cast dtype=f32");
	/* A mark inside a word is part of it. */
	expect("files a#b", "files dir='a#b' ext=");
}

static void test_a_step_may_name_its_field(void **state)
{
	struct mr_pipeline *p = parse("files d | cast f32 field=label");

	(void)state;
	assert_string_equal(p->stage[1].field, "label");
	assert_null(p->stage[0].field);
	mr_pipeline_free(p);
	expect("files d | cast field=label f32",
	       "files dir=d ext= | cast dtype=f32 field=label");
}

static void test_a_text_may_come_from_a_file(void **state)
{
	struct mr_pipeline *p;
	struct mr_err err;

	(void)state;
	put("p", "# mine\nfiles d\nbatch 3\n", 23);
	p = parse(textf("@%s/p", top));
	assert_int_equal(p->n, 2);
	mr_pipeline_free(p);
	assert_int_equal(
		mr_pipeline_parse(&p, textf("@%s/no", top), NULL, &err),
		MR_EIO);
	assert_non_null(strstr(err.text, "/no"));
}

/* ---- what is refused ---- */

static void test_unknown_names_are_answered_with_near_ones(void **state)
{
	(void)state;
	refuse("flies d", "unknown source 'flies'; did you mean 'files'?");
	refuse("files d | bacth 3", "did you mean 'batch'?");
	refuse("files d | zzzzzzzz", "`millrace list steps`");
	refuse("files d dri=3", "files has no parameter 'dri'; did you mean "
				"'dir'?");
	refuse("files d | batch 3 drop=no", "batch has no parameter 'drop'");
	refuse("cast f32", "'cast' is a step; a pipeline begins with a source");
	refuse("files d | files d", "'files' is a source; it can only come "
				    "first");
}

static void test_values_that_are_wrong_say_what_is_wanted(void **state)
{
	(void)state;
	refuse("files", "files needs 'dir'");
	refuse("files d | batch", "batch needs 'count': samples per batch");
	refuse("files d | batch 0", "batch: count=0: want an integer, 1 to");
	refuse("files d | batch 1x", "count=1x");
	refuse("files d | batch 99999999999999999999", "want an integer");
	refuse("files d | cast f31", "want u8|i16|i32|i64|f16|f32|f64");
	refuse("files d e f", "files takes no more values");
	refuse("files d dir=e", "files: 'dir' is given twice");
	refuse("files dir=d dir=e", "files: 'dir' is given twice");
	refuse("files d | cast f32 f=label", "cast has no parameter 'f'");
	/* Only a step that works on a field can be told which. */
	refuse("files d field=label", "files has no parameter 'field'");
	refuse("files d | batch 2 field=label",
	       "batch has no parameter 'field'");
	refuse("synthetic shape=1,2,3,4,5,6,7,8,9", "at most 8 numbers");
}

static void test_bars_without_steps_are_refused(void **state)
{
	(void)state;
	refuse("", "an empty pipeline");
	refuse(" \n\t# nothing\n", "an empty pipeline");
	refuse("| files d", "a step is missing before this bar");
	refuse("files d || batch 2", "a step is missing before this bar");
	refuse("files d |\n| batch 2", "a step is missing before this bar");
	refuse("files d |", "a step is missing after the last bar");
	refuse("files d | # end", "a step is missing after the last bar");
}

static void test_open_quotes_are_refused(void **state)
{
	(void)state;
	refuse("files 'd", "a quote ' that is not closed");
	refuse("files \"d'", "a quote \" that is not closed");
}

static void test_messages_point_at_the_place(void **state)
{
	(void)state;
	refuse("files d | bacth 3", "\n  files d | bacth 3\n"
				    "            ^~~~~");
	refuse("files d | batch 0", "\n  files d | batch 0\n"
				    "                  ^");
	refuse("files d\n\tcast\tf31 x", "\nline 2:\n   cast f31 x\n"
					 "        ^~~");
}

static void test_messages_about_long_lines_show_a_window(void **state)
{
	char text[3000];
	struct mr_pipeline *p;
	struct mr_err err;
	const char *line;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "files ", 6);
	strcpy(text + 2000, " | bacth 3 ");
	memset(text + 2011, ' ', 900);
	text[2911] = 0;
	assert_int_equal(mr_pipeline_parse(&p, text, NULL, &err), MR_EPARSE);
	line = strchr(err.text, '\n');
	assert_non_null(line);
	assert_int_equal(strcspn(line + 1, "\n"), 102);
	assert_non_null(strstr(line, "bacth 3"));
	/* The caret stands under the b. */
	assert_int_equal(strchr(line, '^') - strchr(line + 1, '\n'),
			 strstr(line, "bacth") - line);
}

/* ---- limits ---- */

static void test_thirty_two_stages_are_the_most(void **state)
{
	struct mr_str s = { 0 };
	struct mr_pipeline *p;

	(void)state;
	mr_str_add(&s, "files d");
	for (int i = 1; i < MR_MAX_STEPS; i++)
		mr_str_add(&s, " | cast f32");
	p = parse(s.text);
	assert_int_equal(p->n, MR_MAX_STEPS);
	mr_pipeline_free(p);
	mr_str_add(&s, " | cast f32");
	refuse(s.text, "more than 32 steps");
	mr_str_fini(&s);
}

static void test_words_have_at_most_4095_letters(void **state)
{
	char text[6 + 4096 + 1] = "files ";
	struct mr_pipeline *p;

	(void)state;
	memset(text + 6, 'x', 4096);
	text[6 + 4095] = 0;
	p = parse(text);
	mr_pipeline_free(p);
	text[6 + 4095] = 'x';
	text[6 + 4096] = 0;
	refuse(text, "a word longer than 4095 characters");
}

static void test_texts_have_at_most_a_megabyte(void **state)
{
	size_t max = 1 << 20;
	char *text = malloc(max + 2);
	struct mr_pipeline *p;
	struct mr_err err;

	(void)state;
	memset(text, ' ', max + 1);
	memcpy(text, "files d", 7);
	text[max] = 0;
	p = parse(text);
	mr_pipeline_free(p);
	put("fits", text, max);
	p = parse(textf("@%s/fits", top));
	mr_pipeline_free(p);
	text[max] = ' ';
	text[max + 1] = 0;
	refuse(text, "a pipeline longer than 1048576 bytes");
	put("long", text, max + 1);
	assert_int_equal(
		mr_pipeline_parse(&p, textf("@%s/long", top), NULL, &err),
		MR_ELIMIT);
	free(text);
}

static void test_a_file_with_a_zero_byte_is_no_pipeline(void **state)
{
	struct mr_pipeline *p;
	struct mr_err err;

	(void)state;
	put("zero", "files d\n\0batch 3\n", 17);
	assert_true(mr_pipeline_parse(&p, textf("@%s/zero", top), NULL, &err) <
		    0);
	assert_null(p);
}

/* ---- canonical texts and hashes ---- */

static void test_equal_pipelines_have_equal_hashes(void **state)
{
	uint64_t h = hash_of("files d | batch 8");

	(void)state;
	assert_true(h == hash_of("files dir=d\nbatch drop_last=no 8"));
	assert_true(h == hash_of("files 'd' ext='' | batch 008 # eight"));
	assert_true(h == hash_of("  files\td  |\n batch count=8 pad=\n"));
}

static void test_different_pipelines_have_different_hashes(void **state)
{
	static const char *const text[] = {
		"files d",
		"files d | batch 8",
		"files d | batch 9",
		"files d | batch 8 drop_last=yes",
		"files d | batch 8 pad=0",
		"files e | batch 8",
		"files d ext=jpg | batch 8",
		"files d | cast f32 | batch 8",
		"files d | cast f64 | batch 8",
		"files d | cast f32 field=label | batch 8",
		"files d | cast f32 field=data | batch 8",
		"files 'd ext=jpg' | batch 8",
		"list d | batch 8",
		"synthetic 3,2",
		"synthetic 32",
		"synthetic 2,3",
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(text); i++)
		for (size_t k = 0; k < i; k++)
			assert_true(hash_of(text[i]) != hash_of(text[k]));
}

static void test_the_canonical_text_means_the_same(void **state)
{
	static const char *const text[] = {
		"files d",
		"files 'a b' | batch 3",
		"files 'a|b' | batch 3",
		"files 'a#b'",
		"files '#b'",
		"files 'a\nb'",
		"files 'a\tb'",
		"files 'a\rb'",
		"files \"it's\"",
		"files \"it's here\"",
		"files 'say \"so\"'",
		"files 'say \"so\" '\"it's\"",
		"files ''",
		"files 'a=b'",
		"files d | cast f32 field='a b'",
		"files d | cast f32 field=\"a'b\"",
		"synthetic shape=3x4 cost=1.5ms count=7",
		"files d | normalize mean=0.1,0.2,0.3 std=0.333333333333333",
		"files d | normalize imagenet | batch 4 pad=-1.5",
		"npy '*.npy' labels='l*.npy' | select label,data",
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(text); i++) {
		struct mr_pipeline *p = parse(text[i]), *q;
		struct mr_str s = { 0 };
		struct mr_err err;

		canonical(p, &s);
		if (mr_pipeline_parse(&q, s.text, NULL, &err))
			fail_msg("%s -> %s: %s", text[i], s.text, err.text);
		assert_int_equal(p->n, q->n);
		assert_true(hash(p) == hash(q));
		mr_pipeline_free(q);
		mr_pipeline_free(p);
		mr_str_fini(&s);
	}
}

/* ---- anything ---- */

static void check_any(const char *text)
{
	struct mr_pipeline *p = NULL;
	struct mr_err err = { 0 };

	if (mr_pipeline_parse(&p, text, NULL, &err)) {
		assert_null(p);
		assert_true(err.code < 0 && err.text[0]);
		assert_true(strlen(err.text) < MR_ERR_TEXT);
	} else {
		struct mr_str s = { 0 };

		canonical(p, &s);
		assert_non_null(s.text);
		mr_str_fini(&s);
	}
	mr_pipeline_free(p);
}

static void test_random_bytes_never_crash_the_parser(void **state)
{
	uint64_t seed = 1;
	char text[200];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t n = draw(&seed) % sizeof(text);

		for (size_t k = 0; k < n; k++)
			text[k] = (char)(draw(&seed) % 255 + 1);
		text[n] = 0;
		if (text[0] != '@')
			check_any(text);
	}
}

static void test_random_words_never_crash_the_parser(void **state)
{
	static const char *const word[] = {
		"files",  "list",  "npy",   "synthetic", "cast", "normalize",
		"select", "batch", "|",	    "\n",	 "'",	 "\"",
		"=",	  "#",	   "count", "field=",	 "f32",	 "8",
		"-1",	  "1e9",   ",",	    "shape=",	 " ",	 " ",
		"mean=",  "0.5",   "dir=",  "\t",	 "yes",	 "pad=",
	};
	uint64_t seed = 2;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char text[400] = "";
		size_t n = draw(&seed) % 24, at = 0;

		for (size_t k = 0; k < n; k++)
			at += (size_t)snprintf(
				text + at, sizeof(text) - at, "%s%s",
				word[draw(&seed) % MR_COUNT(word)],
				draw(&seed) % 2 ? " " : "");
		check_any(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_come_by_place_or_by_name),
		cmocka_unit_test(test_a_value_may_contain_an_equals_sign),
		cmocka_unit_test(test_quotes_hold_words_together),
		cmocka_unit_test(test_stages_part_at_bars_or_newlines),
		cmocka_unit_test(test_comments_reach_to_the_end_of_the_line),
		cmocka_unit_test(test_a_step_may_name_its_field),
		cmocka_unit_test(test_a_text_may_come_from_a_file),
		cmocka_unit_test(
			test_unknown_names_are_answered_with_near_ones),
		cmocka_unit_test(test_values_that_are_wrong_say_what_is_wanted),
		cmocka_unit_test(test_bars_without_steps_are_refused),
		cmocka_unit_test(test_open_quotes_are_refused),
		cmocka_unit_test(test_messages_point_at_the_place),
		cmocka_unit_test(test_messages_about_long_lines_show_a_window),
		cmocka_unit_test(test_thirty_two_stages_are_the_most),
		cmocka_unit_test(test_words_have_at_most_4095_letters),
		cmocka_unit_test(test_texts_have_at_most_a_megabyte),
		cmocka_unit_test(test_a_file_with_a_zero_byte_is_no_pipeline),
		cmocka_unit_test(test_equal_pipelines_have_equal_hashes),
		cmocka_unit_test(
			test_different_pipelines_have_different_hashes),
		cmocka_unit_test(test_the_canonical_text_means_the_same),
		cmocka_unit_test(test_random_bytes_never_crash_the_parser),
		cmocka_unit_test(test_random_words_never_crash_the_parser),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
