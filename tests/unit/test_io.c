/* SPDX-License-Identifier: Apache-2.0 */
/* Braces, XML and URLs: what names of inputs and answers are made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/brace.h"
#include "io/url.h"
#include "io/xml.h"

/* What the braces make, with spaces between. */
static const char *expanded(const char *pattern)
{
	static char text[4096];
	struct mr_name_list l = { 0 };
	struct mr_err err;
	size_t at = 0;

	text[0] = 0;
	assert_int_equal(mr_brace_expand(&l, pattern, &err), 0);
	for (size_t i = 0; i < l.n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
				       i ? " " : "", l.item[i]);
	mr_name_list_fini(&l);
	return text;
}

static void test_braces_make_each_of_their_parts(void **state)
{
	(void)state;
	assert_string_equal(expanded("plain"), "plain");
	assert_string_equal(expanded("{b,a}"), "b a");
	assert_string_equal(expanded("x{b,,a}y"), "xby xy xay");
	assert_string_equal(expanded("{a,b}{c,d}"), "ac ad bc bd");
	assert_string_equal(expanded("{a,b{c,d}e}f"), "af bcef bdef");
	assert_string_equal(expanded("{{a,b},c}"), "a b c");
	assert_string_equal(expanded("{a,{1..2}}-{x,y}"),
			    "a-x a-y 1-x 1-y 2-x 2-y");
}

static void test_braces_count(void **state)
{
	(void)state;
	assert_string_equal(expanded("{8..11}"), "8 9 10 11");
	assert_string_equal(expanded("{008..011}"), "008 009 010 011");
	assert_string_equal(expanded("{8..010}"), "008 009 010");
	assert_string_equal(expanded("{2..-1}"), "2 1 0 -1");
	assert_string_equal(expanded("{-01..01}"), "-01 000 001");
	assert_string_equal(expanded("{0..7..3}"), "0 3 6");
	assert_string_equal(expanded("{7..0..3}"), "7 4 1");
	assert_string_equal(expanded("{5..5}"), "5");
	assert_string_equal(expanded("a{999999999999999998..999999999999999999"
				     "}"),
			    "a999999999999999998 a999999999999999999");
}

static void test_braces_that_are_none_stay(void **state)
{
	static const char *const same[] = {
		"{",
		"}",
		"{}",
		"{a}",
		"{a",
		"a}",
		"{a,b",
		"a,b}",
		"{1..}",
		"{..1}",
		"{1..b}",
		"{1.2}",
		"\\{a,b}",
		"{1..2..}",
		"{1..2..0}",
		"{1...2}",
		"{1..2222222222222222222}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		assert_string_equal(expanded(same[i]), same[i]);
	assert_string_equal(expanded("{{a,b}"), "{a {b");
	assert_string_equal(expanded("{x{1..2}}"), "{x1} {x2}");
	assert_string_equal(expanded("{a\\,b,c}"), "a\\,b c");
}

static void test_too_many_names_are_refused(void **state)
{
	static const char *const many[] = {
		"{0..1000000}",
		"{0..9}{0..9}{0..9}{0..9}{0..9}{0..9}{0..9}",
		"{0..999999999999999999}",
	};
	char deep[400], text[sizeof("{1,2}")] = "{1,2}";
	struct mr_name_list l = { 0 };
	struct mr_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(many) / sizeof(*many); i++) {
		assert_int_equal(mr_brace_expand(&l, many[i], &err), MR_ELIMIT);
		assert_non_null(strstr(err.text, many[i]));
		mr_name_list_fini(&l);
	}
	deep[0] = 0;
	for (int i = 0; i < 70; i++)
		strcat(deep, text);
	assert_int_equal(mr_brace_expand(&l, deep, &err), MR_ELIMIT);
	mr_name_list_fini(&l);
}

static int first(const char *xml, const char *name, char *buf, size_t cap)
{
	struct mr_xml x = { xml, xml + strlen(xml) };

	return mr_xml_next(&x, name, buf, cap);
}

static void test_elements_are_found_and_decoded(void **state)
{
	const char *xml = "<a><Key>1</Key><Other>x</Other><Key></Key>"
			  "<Key>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe9;"
			  "&#x20ac;&#x1F600;</Key></a>";
	struct mr_xml x = { xml, xml + strlen(xml) };
	char buf[64];

	(void)state;
	assert_int_equal(mr_xml_next(&x, "Key", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "1");
	assert_int_equal(mr_xml_next(&x, "Key", buf, sizeof(buf)), 1);
	assert_string_equal(buf, "");
	assert_int_equal(mr_xml_next(&x, "Key", buf, sizeof(buf)), 1);
	assert_string_equal(buf,
			    "<>&\"'AB\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_int_equal(mr_xml_next(&x, "Key", buf, sizeof(buf)), 0);
}

static void test_damaged_elements_are_told_from_missing_ones(void **state)
{
	static const char *const bad[] = {
		"<K>",
		"<K>x",
		"<K>x</k>",
		"<K>&lt</K>",
		"<K>&no;</K>",
		"<K>&;</K>",
		"<K>&#;</K>",
		"<K>&#x;</K>",
		"<K>&#0;</K>",
		"<K>&#xg;</K>",
		"<K>&#1a;</K>",
		"<K>&#x110000;</K>",
		"<K>12345678</K>",
		"<K>1234567&lt;</K>",
	};
	char buf[8];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(first(bad[i], "K", buf, sizeof(buf)), -1);
	assert_int_equal(first("", "K", buf, sizeof(buf)), 0);
	assert_int_equal(first("<K", "K", buf, sizeof(buf)), 0);
	assert_int_equal(first("<K>1234567</K>", "K", buf, sizeof(buf)), 1);
}

static void test_urls_are_escaped(void **state)
{
	struct mr_str s = { 0 };
	char *text;

	(void)state;
	mr_url_escape(&s, "aZ09-._~/ +%&\xc3\xa9", "/");
	text = mr_str_take(&s);
	assert_string_equal(text, "aZ09-._~/%20%2B%25%26%C3%A9");
	free(text);
	s = (struct mr_str){ 0 };
	mr_url_mend(&s, "http://h/a b?c=d%20e&\xc3\xa9{");
	text = mr_str_take(&s);
	assert_string_equal(text, "http://h/a%20b?c=d%20e&%C3%A9%7B");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_braces_make_each_of_their_parts),
		cmocka_unit_test(test_braces_count),
		cmocka_unit_test(test_braces_that_are_none_stay),
		cmocka_unit_test(test_too_many_names_are_refused),
		cmocka_unit_test(test_elements_are_found_and_decoded),
		cmocka_unit_test(
			test_damaged_elements_are_told_from_missing_ones),
		cmocka_unit_test(test_urls_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
