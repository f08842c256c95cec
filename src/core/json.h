/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into a text. Commas, quotes and escapes are its business;
 * a name is NULL inside a list. Numbers that JSON cannot say (NaN,
 * infinity) become null.
 */
#ifndef MR_CORE_JSON_H
#define MR_CORE_JSON_H

#include <stdint.h>

#include "core/str.h"

struct mr_json {
	struct mr_str out;
	bool comma;
};

void mr_json_open(struct mr_json *j, const char *name, char bracket);
void mr_json_close(struct mr_json *j, char bracket);
void mr_json_text(struct mr_json *j, const char *name, const char *v);
void mr_json_int(struct mr_json *j, const char *name, int64_t v);
void mr_json_uint(struct mr_json *j, const char *name, uint64_t v);
/* 64 bits as text: more than JSON's numbers hold exactly. */
void mr_json_hex(struct mr_json *j, const char *name, uint64_t v);
/* `digits` significant ones. */
void mr_json_real(struct mr_json *j, const char *name, double v, int digits);
void mr_json_bool(struct mr_json *j, const char *name, bool v);
/* Is a text the same after it was written and read? It is UTF-8 then. */
bool mr_json_can(const char *s);
/* JSON made elsewhere, as it is. */
void mr_json_raw(struct mr_json *j, const char *name, const char *json);

#endif
