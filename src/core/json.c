/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json.h"

#include <math.h>

static void quoted(struct mr_str *out, const char *s)
{
	mr_str_add(out, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			mr_str_addf(out, "\\%c", c);
		else if (c == '\n')
			mr_str_add(out, "\\n");
		else if (c < 0x20)
			mr_str_addf(out, "\\u%04x", c);
		else
			mr_str_addn(out, s, 1);
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
