/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/told.h"

#include <stdio.h>

struct json_object *mr_told(const struct mr_mrt_chunk *c)
{
	struct json_tokener *k = json_tokener_new();
	struct json_object *o;

	if (!k)
		return NULL;
	o = json_tokener_parse_ex(k, (const char *)c->data, (int)c->size);
	json_tokener_free(k);
	if (o && json_object_is_type(o, json_type_object))
		return o;
	json_object_put(o);
	return NULL;
}

struct json_object *mr_told_member(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	if (o && json_object_is_type(o, json_type_object))
		json_object_object_get_ex(o, key, &v);
	return v;
}

void mr_told_text(struct json_object *o, const char *key, char *to, size_t cap)
{
	struct json_object *v = mr_told_member(o, key);

	if (v && json_object_is_type(v, json_type_string))
		snprintf(to, cap, "%s", json_object_get_string(v));
}

void mr_told_add(struct json_object *to, struct json_object *from)
{
	struct json_object_iterator i = json_object_iter_begin(from);
	struct json_object_iterator end = json_object_iter_end(from);

	for (; !json_object_iter_equal(&i, &end); json_object_iter_next(&i))
		json_object_object_add(
			to, json_object_iter_peek_name(&i),
			json_object_get(json_object_iter_peek_value(&i)));
}

void mr_told_thread(const struct mr_mrt_chunk *c, struct mr_told_thread *t)
{
	struct json_object *o = mr_told(c), *v;

	mr_told_text(o, "name", t->name, sizeof(t->name));
	mr_told_text(o, "role", t->role, sizeof(t->role));
	if ((v = mr_told_member(o, "pid")))
		t->pid = json_object_get_int(v);
	if ((v = mr_told_member(o, "tid")))
		t->tid = json_object_get_int(v);
	if ((v = mr_told_member(o, "rank"))) {
		char name[sizeof(t->name)];

		t->ranked = true;
		t->rank = json_object_get_int(v);
		snprintf(name, sizeof(name), "rank %d %.48s", t->rank, t->name);
		memcpy(t->name, name, sizeof(name));
	}
	json_object_put(o);
}
