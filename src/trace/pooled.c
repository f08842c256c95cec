/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pooled.h"

#include <stdio.h>
#include <string.h>

#include "trace/told.h"

void mr_pooled_fini(struct mr_pooled *p)
{
	json_object_put(p->list);
	*p = (struct mr_pooled){ 0 };
}

void mr_pooled_begin(struct mr_pooled *p)
{
	for (int i = 0; i < 256; i++)
		p->place[i] = (uint8_t)i;
}

/* What is to be the same: what is counted, not by whom. */
struct what {
	char name[64];
	bool user_only, there;
};

static void what_of(struct json_object *o, struct what *w)
{
	char source[24] = "unavailable";
	size_t n;

	*w = (struct what){ .name = "?" };
	mr_told_text(o, "name", w->name, sizeof(w->name) - 2);
	mr_told_text(o, "source", source, sizeof(source));
	w->there = strcmp(source, "unavailable") != 0;
	w->user_only = json_object_get_boolean(mr_told_member(o, "user_only"));
	n = strlen(w->name);
	if (n > 2 && strcmp(w->name + n - 2, ":u") == 0)
		w->name[n - 2] = 0;
}

static bool same(struct json_object *a, struct json_object *b)
{
	struct what x, y;

	what_of(a, &x);
	what_of(b, &y);
	return x.there == y.there && x.user_only == y.user_only &&
	       strcmp(x.name, y.name) == 0;
}

/* Counts with and without the kernel have names of their own. */
static struct json_object *to_add(struct json_object *o)
{
	struct json_object *copy = NULL;
	struct what w;

	what_of(o, &w);
	if (json_object_deep_copy(o, &copy, NULL))
		return NULL;
	if (w.there && w.user_only) {
		memcpy(w.name + strlen(w.name), ":u", 3);
		json_object_object_add(copy, "name",
				       json_object_new_string(w.name));
	}
	return copy;
}

/* Where the event stands in the list; MR_POOLED when it has no place. */
static size_t place_of(struct mr_pooled *p, struct json_object *event)
{
	size_t n = json_object_array_length(p->list);
	struct json_object *copy;

	for (size_t i = 0; i < n; i++)
		if (same(json_object_array_get_idx(p->list, i), event))
			return i;
	if (n == MR_POOLED)
		return n;
	copy = to_add(event);
	if (!copy || json_object_array_add(p->list, copy)) {
		json_object_put(copy);
		return MR_POOLED;
	}
	return n;
}

/* The places of a trace's events; false when they are not its own numbers. */
static bool take_list(struct mr_pooled *p, struct json_object *list)
{
	size_t n = json_object_array_length(list);
	bool own = true;

	for (size_t i = 0; i < 256; i++) {
		size_t at = MR_POOLED;

		if (i < n)
			at = place_of(p, json_object_array_get_idx(list, i));
		own = own && (i >= n || at == i);
		p->place[i] = (uint8_t)at;
	}
	return own && n == json_object_array_length(p->list);
}

void mr_pooled_meta(struct mr_pooled *p, const struct mr_mrt_chunk *c)
{
	struct json_object *o = mr_told(c), *list = mr_told_member(o, "events");

	if (!p->list)
		p->list = json_object_new_array();
	if (p->list && list && json_object_is_type(list, json_type_array) &&
	    !take_list(p, list))
		p->differ = true;
	json_object_put(o);
}

char *mr_pooled_text(const struct mr_pooled *p)
{
	struct json_object *o = json_object_new_object();
	char *text = NULL;

	if (!o)
		return NULL;
	if (!json_object_object_add(o, "events", json_object_get(p->list))) {
		const char *s = json_object_to_json_string(o);

		text = s ? strdup(s) : NULL;
	} else {
		json_object_put(p->list);
	}
	json_object_put(o);
	return text;
}
