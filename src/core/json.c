/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json.h"

#include <math.h>
#include <stdio.h>

/* Length of the UTF-8 letter at s, 0 when it is none (overlong forms and
 * surrogates are none). */
static size_t letter(const unsigned char *s)
{
	size_t n = s[0] < 0x80		       ? 1 :
		   s[0] >= 0xc2 && s[0] < 0xe0 ? 2 :
		   s[0] >= 0xe0 && s[0] < 0xf0 ? 3 :
		   s[0] >= 0xf0 && s[0] < 0xf5 ? 4 :
						 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

bool mr_json_can(const char *s)
{
	for (size_t n; *s; s += n) {
		n = letter((const unsigned char *)s);
		if (!n)
			return false;
	}
	return true;
}

/* File names are bytes, JSON is UTF-8: what is none becomes U+FFFD. */
static void quoted(struct mr_str *out, const char *s)
{
	mr_str_add(out, "\"");
	for (size_t n; *s; s += n ? n : 1) {
		unsigned char c = (unsigned char)*s;

		n = letter((const unsigned char *)s);
		if (c == '"' || c == '\\')
			mr_str_addf(out, "\\%c", c);
		else if (c == '\n')
			mr_str_add(out, "\\n");
		else if (c < 0x20)
			mr_str_addf(out, "\\u%04x", c);
		else if (!n)
			mr_str_add(out, "\\ufffd");
		else
			mr_str_addn(out, s, n);
	}
	mr_str_add(out, "\"");
}

static void start(struct mr_json *j, const char *name)
{
	if (j->comma)
		mr_str_add(&j->out, ", ");
	j->comma = true;
	if (name) {
		quoted(&j->out, name);
		mr_str_add(&j->out, ": ");
	}
}

void mr_json_open(struct mr_json *j, const char *name, char bracket)
{
	start(j, name);
	mr_str_addn(&j->out, &bracket, 1);
	j->comma = false;
}

void mr_json_close(struct mr_json *j, char bracket)
{
	mr_str_addn(&j->out, &bracket, 1);
	j->comma = true;
}

void mr_json_text(struct mr_json *j, const char *name, const char *v)
{
	start(j, name);
	quoted(&j->out, v);
}

void mr_json_int(struct mr_json *j, const char *name, int64_t v)
{
	start(j, name);
	mr_str_addf(&j->out, "%lld", (long long)v);
}

void mr_json_uint(struct mr_json *j, const char *name, uint64_t v)
{
	start(j, name);
	mr_str_addf(&j->out, "%llu", (unsigned long long)v);
}

void mr_json_hex(struct mr_json *j, const char *name, uint64_t v)
{
	char text[20];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)v);
	mr_json_text(j, name, text);
}

void mr_json_real(struct mr_json *j, const char *name, double v, int digits)
{
	start(j, name);
	if (isfinite(v))
		mr_str_addf(&j->out, "%.*g", digits, v);
	else
		mr_str_add(&j->out, "null");
}

void mr_json_bool(struct mr_json *j, const char *name, bool v)
{
	start(j, name);
	mr_str_add(&j->out, v ? "true" : "false");
}

void mr_json_raw(struct mr_json *j, const char *name, const char *json)
{
	start(j, name);
	mr_str_add(&j->out, json);
}
