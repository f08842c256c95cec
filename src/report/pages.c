/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnoses, predictions and tunings as pages: a file each that asks for
 * nothing. Its parts are page.html, charts.js and the scripts of its kind. */
#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/diagnosis.h"
#include "core/file.h"
#include "core/mem.h"
#include "millrace/millrace.h"

extern const char mr_page_frame[], mr_page_charts[];
extern const char mr_page_diagnosis[], mr_page_whatif[];
extern const char mr_page_chartjs[], mr_page_tune[];

/* Where the scripts go in it. */
static const char hole[] = "/*SCRIPT*/";

/* A script's end is the only thing that a script cannot hold. */
static void add_data(struct mr_str *s, const char *json)
{
	size_t n;

	for (;; json += n + 1) {
		n = strcspn(json, "<");
		mr_str_addn(s, json, n);
		if (!json[n])
			return;
		mr_str_add(s, "\\u003c");
	}
}

/* library: a script that is needed before all others, or "". */
static int write_page(const char *library, const char *script, const char *data,
		      const char *out, struct mr_err *err)
{
	const char *at = strstr(mr_page_frame, hole);
	struct mr_str s = { 0 };
	int e;

	mr_str_addn(&s, mr_page_frame, (size_t)(at - mr_page_frame));
	mr_str_add(&s, library);
	mr_str_add(&s, "const D = ");
	add_data(&s, data);
	mr_str_add(&s, ";\n");
	mr_str_add(&s, mr_page_charts);
	mr_str_add(&s, script);
	mr_str_add(&s, at + sizeof(hole) - 1);
	e = s.failed ? mr_err_nomem(err, s.len) :
		       mr_file_write(out, s.text, s.len, err);
	mr_str_fini(&s);
	return e;
}

/* What a diagnosis says of where it was made is not measured again. */
static void keep(struct json_object *from, struct json_object *to,
		 const char *key, enum json_type type)
{
	struct json_object *o = json_object_object_get(from, key);

	json_object_object_del(to, key);
	if (json_object_is_type(o, type))
		json_object_object_add(to, key, json_object_get(o));
}

static char *with_origin(const char *json, const char *concluded)
{
	struct json_object *from = json_tokener_parse(json);
	struct json_object *to = json_tokener_parse(concluded);
	const char *text = NULL;
	char *copy = NULL;

	if (from && to) {
		keep(from, to, "version", json_type_string);
		keep(from, to, "machine", json_type_object);
		keep(from, to, "notes", json_type_array);
		text = json_object_to_json_string_ext(to,
						      JSON_C_TO_STRING_PLAIN);
	}
	if (text)
		copy = mr_strdup(text, NULL);
	json_object_put(from);
	json_object_put(to);
	return copy;
}

/* The diagnosis with nothing in it that a page would stumble over. */
static int check(const char *json, const char *file, char **text,
		 struct mr_err *err)
{
	struct mr_diagnosis *d = mr_alloc(1, sizeof(*d), err);
	char *concluded;
	int e;

	*text = NULL;
	if (!d)
		return MR_ENOMEM;
	e = mr_diagnosis_parse(d, json, file, err);
	if (!e) {
		concluded = mr_diagnosis_json(d);
		if (concluded)
			*text = with_origin(json, concluded);
		free(concluded);
		mr_diagnosis_fini(d);
		e = *text ? 0 : mr_err_nomem(err, strlen(json));
	}
	free(d);
	return e;
}

int mr_diagnosis_page(const char *json, const char *file, const char *out,
		      struct mr_err *err)
{
	char *text;
	int e = check(json, file, &text, err);

	if (!e)
		e = write_page("", mr_page_diagnosis, text, out, err);
	free(text);
	return e;
}

static char *whatif_data(const struct mr_whatif_options *o,
			 const char *diagnosis, const char *whatif)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_open(&j, "asked", '{');
	mr_json_text(&j, "cache", o->cache);
	mr_json_int(&j, "cores", o->cores);
	mr_json_text(&j, "storage", o->storage);
	mr_json_text(&j, "accelerator", o->accelerator);
	mr_json_text(&j, "compress", o->compress);
	mr_json_int(&j, "nodes", o->nodes);
	mr_json_bool(&j, "page_cache", o->page_cache);
	mr_json_close(&j, '}');
	mr_json_raw(&j, "diagnosis", diagnosis);
	mr_json_raw(&j, "whatif", whatif);
	mr_json_close(&j, '}');
	return mr_str_take(&j.out);
}

int mr_whatif_page(const char *json, const char *file,
		   const struct mr_whatif_options *o, const char *out,
		   struct mr_err *err)
{
	char *diagnosis, *whatif = NULL, *data = NULL;
	int e = check(json, file, &diagnosis, err);

	if (!e)
		e = mr_whatif(json, file, o, true, &whatif, err);
	if (!e) {
		data = whatif_data(o, diagnosis, whatif);
		e = data ? write_page("", mr_page_whatif, data, out, err) :
			   mr_err_nomem(err, strlen(json));
	}
	free(data);
	free(whatif);
	free(diagnosis);
	return e;
}

/* What the JSON says, and nothing that stands before or after it: the page's
 * script must not hold more. NULL if it is no tuning. */
static struct json_object *parse_tuning(const char *json)
{
	struct json_tokener *t = json_tokener_new();
	struct json_object *o, *kind = NULL;
	size_t n = strlen(json);

	if (!t)
		return NULL;
	json_tokener_set_flags(t, JSON_TOKENER_STRICT);
	o = n < INT_MAX ? json_tokener_parse_ex(t, json, (int)n + 1) : NULL;
	json_tokener_free(t);
	if (json_object_is_type(o, json_type_object))
		kind = json_object_object_get(o, "millrace");
	if (json_object_is_type(kind, json_type_string) &&
	    !strcmp(json_object_get_string(kind), "tuning"))
		return o;
	json_object_put(o);
	return NULL;
}

int mr_tuning_page(const char *json, const char *file, const char *out,
		   struct mr_err *err)
{
	struct json_object *o = parse_tuning(json);
	const char *text;
	int e;

	if (!o)
		return mr_err_set(err, MR_EDATA,
				  "%s is no tuning; want what `millrace tune "
				  "--json` wrote",
				  file);
	text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	e = text ? write_page(mr_page_chartjs, mr_page_tune, text, out, err) :
		   mr_err_nomem(err, strlen(json));
	json_object_put(o);
	return e;
}
