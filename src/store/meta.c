/* SPDX-License-Identifier: Apache-2.0 */
#include "store/meta.h"

#include <json-c/json.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/tensor.h"
#include "io/input.h"

enum {
	VERSION = 1,
	META_MAX = 64 << 20,
	SHARDS_MAX = 1000000,
	STAGES_MAX = 1000000, /* of sets that were made of sets */
};
static const char format_name[] = "millrace records";

void mr_meta_fini(struct mr_meta *m)
{
	free(m->pipeline);
	free(m->deferred);
	for (size_t i = 0; m->classes && i < m->class_count; i++)
		free(m->classes[i]);
	free(m->classes);
	for (size_t i = 0; m->stamp && i < m->stamps; i++)
		free(m->stamp[i].path);
	free(m->stamp);
	for (size_t i = 0; m->table && i < m->tables; i++)
		free(m->table[i].path);
	free(m->table);
	free(m->shard);
	*m = (struct mr_meta){ 0 };
}

/* ---- writing ---- */

static void put_tables(struct mr_json *j, const struct mr_meta *m)
{
	mr_json_open(j, "tables", '[');
	for (size_t i = 0; i < m->tables; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_text(j, "path", m->table[i].path);
		mr_json_uint(j, "size", m->table[i].size);
		mr_json_hex(j, "xxh3", m->table[i].hash);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void put_plan(struct mr_json *j, const struct mr_meta *m)
{
	mr_json_open(j, "plan", '{');
	mr_json_text(j, "pipeline", m->pipeline);
	mr_json_int(j, "stages", m->stages);
	if (m->deferred)
		mr_json_text(j, "deferred", m->deferred);
	mr_fields_json(&m->record.fields, j);
	mr_json_text(j, "codec", m->record.codec->name);
	mr_json_int(j, "level", m->record.level);
	mr_json_bool(j, "shuffle", m->record.shuffle);
	mr_json_uint(j, "samples", m->samples);
	mr_json_uint(j, "shards", m->shards);
	if (m->classes) {
		mr_json_open(j, "classes", '[');
		for (size_t i = 0; i < m->class_count; i++)
			mr_json_text(j, NULL, m->classes[i]);
		mr_json_close(j, ']');
	}
	mr_json_open(j, "source", '[');
	for (size_t i = 0; i < m->stamps; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_text(j, "path", m->stamp[i].path);
		mr_json_uint(j, "size", m->stamp[i].size);
		mr_json_int(j, "changed", m->stamp[i].changed);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
	if (m->tables)
		put_tables(j, m);
	mr_json_close(j, '}');
}

int mr_meta_identify(struct mr_meta *m, struct mr_err *err)
{
	struct mr_json j = { 0 };
	int e = 0;

	put_plan(&j, m);
	if (j.out.failed)
		e = mr_err_nomem(err, j.out.cap);
	else
		m->set = XXH3_64bits(j.out.text, j.out.len);
	mr_str_fini(&j.out);
	return e;
}

static void put_shards(struct mr_json *j, const struct mr_meta *m)
{
	uint64_t all = 0;

	mr_json_open(j, "shards", '[');
	for (uint64_t i = 0; i < m->shards; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_uint(j, "bytes", m->shard[i].bytes);
		mr_json_hex(j, "records", m->shard[i].records);
		mr_json_close(j, '}');
		all += m->shard[i].bytes;
	}
	mr_json_close(j, ']');
	mr_json_uint(j, "bytes", all);
	mr_json_uint(j, "bad", m->bad);
}

/* A path that is too long is not one of another file. */
static int meta_path(const char *dir, bool part, char *to, size_t cap,
		     struct mr_err *err)
{
	int n = snprintf(to, cap, "%s/%s", dir,
			 part ? MR_META_PART : MR_META_NAME);

	return n > 0 && (size_t)n < cap ?
		       0 :
		       mr_err_sys(err, ENAMETOOLONG, dir, "cannot open");
}

int mr_meta_write(const struct mr_meta *m, const char *dir, bool part,
		  struct mr_err *err)
{
	struct mr_json j = { 0 };
	char path[4096];
	int e = meta_path(dir, part, path, sizeof(path), err);

	if (e)
		return e;
	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "format", format_name);
	mr_json_int(&j, "version", VERSION);
	put_plan(&j, m);
	mr_json_hex(&j, "set", m->set);
	if (!part)
		put_shards(&j, m);
	mr_json_hex(&j, "checksum",
		    j.out.failed ? 0 : XXH3_64bits(j.out.text, j.out.len));
	mr_json_close(&j, '}');
	mr_str_add(&j.out, "\n");
	if (j.out.failed)
		e = mr_err_nomem(err, j.out.cap);
	else
		e = mr_file_write(path, j.out.text, j.out.len, err);
	mr_str_fini(&j.out);
	return e;
}

/* ---- reading ---- */

static struct json_object *get(struct json_object *o, const char *name,
			       enum json_type type)
{
	struct json_object *m;

	return json_object_object_get_ex(o, name, &m) &&
			       json_object_is_type(m, type) ?
		       m :
		       NULL;
}

static bool get_uint(struct json_object *o, const char *name, uint64_t max,
		     uint64_t *v)
{
	struct json_object *m = get(o, name, json_type_int);
	int64_t x = m ? json_object_get_int64(m) : -1;

	*v = (uint64_t)x;
	return x >= 0 && *v <= max;
}

static bool get_hex(struct json_object *o, const char *name, uint64_t *v)
{
	struct json_object *m = get(o, name, json_type_string);
	const char *s = m ? json_object_get_string(m) : "";
	char *end;

	*v = strtoull(s, &end, 16);
	return end != s && !*end;
}

/* A copy of a text; true when it is not there and need not be. Here and below
 * err is set when memory was lacking, and not when the entry is wrong. */
static bool get_text(struct json_object *o, const char *name, bool must,
		     char **v, struct mr_err *err)
{
	struct json_object *m = get(o, name, json_type_string);

	*v = m ? mr_strdup(json_object_get_string(m), err) : NULL;
	return *v || !(must || m);
}

static bool get_field(struct json_object *o, struct mr_field_spec *f)
{
	struct json_object *name = get(o, "name", json_type_string);
	struct json_object *dtype = get(o, "dtype", json_type_string);
	struct json_object *shape = get(o, "shape", json_type_array);
	struct json_object *rate = get(o, "rate", json_type_boolean);
	size_t dims = shape ? json_object_array_length(shape) : 0;
	struct mr_tensor t;
	int64_t elements;

	if (!name || !dtype || !shape || dims > MR_MAX_DIMS ||
	    strlen(json_object_get_string(name)) >= sizeof(f->name))
		return false;
	snprintf(f->name, sizeof(f->name), "%s", json_object_get_string(name));
	f->spec.dtype = mr_dtype_parse(json_object_get_string(dtype));
	f->spec.ndim = (int)dims;
	f->rated = rate && json_object_get_boolean(rate);
	for (size_t d = 0; d < dims; d++) {
		f->spec.shape[d] = json_object_get_int64(
			json_object_array_get_idx(shape, d));
		if (f->spec.shape[d] < MR_ANY)
			return false;
	}
	t = mr_tensor_of(&f->spec);
	return f->spec.dtype != MR_NONE &&
	       mr_shape_elements(t.shape, t.ndim, t.dtype, &elements);
}

static bool get_fields(struct json_object *o, struct mr_fields *fs)
{
	struct json_object *list = get(o, "fields", json_type_array);
	size_t n = list ? json_object_array_length(list) : 0;

	if (n < 1 || n > MR_MAX_FIELDS)
		return false;
	fs->n = (int)n;
	for (int i = 0; i < fs->n; i++) {
		fs->item[i].id = i;
		if (!get_field(json_object_array_get_idx(list, (size_t)i),
			       &fs->item[i]))
			return false;
	}
	return true;
}

static bool get_codec(struct json_object *o, struct mr_record_plan *r)
{
	struct json_object *name = get(o, "codec", json_type_string);
	struct json_object *shuffle = get(o, "shuffle", json_type_boolean);
	uint64_t level;

	if (!name || !shuffle || !get_uint(o, "level", 1000, &level))
		return false;
	r->codec = mr_codec_find(json_object_get_string(name));
	r->level = (int)level;
	r->shuffle = json_object_get_boolean(shuffle);
	return r->codec != NULL;
}

static bool get_classes(struct json_object *o, struct mr_meta *m,
			struct mr_err *err)
{
	struct json_object *list = get(o, "classes", json_type_array);

	if (!list)
		return true;
	m->class_count = json_object_array_length(list);
	m->classes = mr_alloc(m->class_count, sizeof(*m->classes), err);
	for (size_t i = 0; m->classes && i < m->class_count; i++) {
		const char *s = json_object_get_string(
			json_object_array_get_idx(list, i));

		m->classes[i] = s ? mr_strdup(s, err) : NULL;
		if (!m->classes[i])
			return false;
	}
	return m->classes != NULL;
}

static bool get_stamps(struct json_object *o, struct mr_meta *m,
		       struct mr_err *err)
{
	struct json_object *list = get(o, "source", json_type_array);

	if (!list)
		return false;
	m->stamps = json_object_array_length(list);
	m->stamp = mr_alloc(m->stamps, sizeof(*m->stamp), err);
	for (size_t i = 0; m->stamp && i < m->stamps; i++) {
		struct json_object *s = json_object_array_get_idx(list, i);
		struct json_object *c = get(s, "changed", json_type_int);

		if (!c || !get_text(s, "path", true, &m->stamp[i].path, err) ||
		    !get_uint(s, "size", INT64_MAX, &m->stamp[i].size))
			return false;
		m->stamp[i].changed = json_object_get_int64(c);
	}
	return m->stamp != NULL;
}

static bool get_tables(struct json_object *o, struct mr_meta *m,
		       struct mr_err *err)
{
	struct json_object *list = get(o, "tables", json_type_array);

	if (!list)
		return true;
	m->tables = json_object_array_length(list);
	m->table = mr_alloc(m->tables, sizeof(*m->table), err);
	for (size_t i = 0; m->table && i < m->tables; i++) {
		struct json_object *t = json_object_array_get_idx(list, i);

		if (!get_text(t, "path", true, &m->table[i].path, err) ||
		    !get_uint(t, "size", INT64_MAX, &m->table[i].size) ||
		    !get_hex(t, "xxh3", &m->table[i].hash))
			return false;
	}
	return m->table != NULL;
}

static bool get_plan(struct json_object *o, struct mr_meta *m,
		     struct mr_err *err)
{
	struct json_object *p = get(o, "plan", json_type_object);
	uint64_t stages;

	if (!p || !get_text(p, "pipeline", true, &m->pipeline, err) ||
	    !get_text(p, "deferred", false, &m->deferred, err) ||
	    !get_uint(p, "stages", STAGES_MAX, &stages) || stages < 1 ||
	    !get_fields(p, &m->record.fields) || !get_codec(p, &m->record) ||
	    !get_uint(p, "samples", (uint64_t)1 << 60, &m->samples) ||
	    !get_uint(p, "shards", SHARDS_MAX, &m->shards) || m->shards < 1 ||
	    m->shards > m->samples || !get_classes(p, m, err) ||
	    !get_stamps(p, m, err) || !get_tables(p, m, err))
		return false;
	m->stages = (int)stages;
	mr_record_plan_init(&m->record);
	return get_hex(o, "set", &m->set);
}

static bool get_shards(struct json_object *o, struct mr_meta *m,
		       struct mr_err *err)
{
	struct json_object *list = get(o, "shards", json_type_array);

	if (!list || json_object_array_length(list) != m->shards ||
	    !get_uint(o, "bad", m->samples, &m->bad))
		return false;
	m->shard = mr_alloc(m->shards, sizeof(*m->shard), err);
	for (uint64_t i = 0; m->shard && i < m->shards; i++) {
		struct json_object *s = json_object_array_get_idx(list, i);

		if (!get_uint(s, "bytes", INT64_MAX, &m->shard[i].bytes) ||
		    !get_hex(s, "records", &m->shard[i].records))
			return false;
	}
	return m->shard != NULL;
}

/* The checksum is of all bytes before it. */
static bool whole(const char *text, size_t size)
{
	static const char name[] = "\"checksum\"";
	const char *at = NULL, *p = text;
	uint64_t v;

	while ((p = strstr(p, name)) && (at = p))
		p++;
	if (!at || (size_t)(at - text) > size)
		return false;
	p = strchr(at + sizeof(name) - 1, '"');
	/* The comma and blanks before the name belong to it. */
	while (at > text && (at[-1] == ' ' || at[-1] == '\n' || at[-1] == ','))
		at--;
	v = p ? strtoull(p + 1, NULL, 16) : 0;
	return p && v == XXH3_64bits(text, (size_t)(at - text));
}

static int read_text(const char *path, char **text, size_t *size,
		     struct mr_err *err)
{
	struct mr_input *in;
	int e = mr_input_open(&in, path, err);

	if (e)
		return e;
	*size = mr_input_size(in);
	*text = *size <= META_MAX ? mr_alloc(*size + 1, 1, err) : NULL;
	if (*size > META_MAX)
		e = mr_err_set(err, MR_EDATA, "%s: %zu bytes: not a meta.json",
			       path, *size);
	else
		e = *text ? mr_input_read(in, *text, *size, 0, err) : MR_ENOMEM;
	mr_input_close(in);
	return e;
}

static int get_all(struct json_object *o, struct mr_meta *m, bool part,
		   const char *path, struct mr_err *err)
{
	struct mr_err lacking = { 0 };

	if (get_plan(o, m, &lacking) && (part || get_shards(o, m, &lacking)))
		return 0;
	if (lacking.code) {
		*err = lacking;
		return lacking.code;
	}
	return mr_err_set(err, MR_EDATA,
			  "%s: an entry is missing, wrong, or of a codec that "
			  "this build lacks",
			  path);
}

/* The plan comes first and goes last. */
static void not_there(const char *dir, struct mr_err *err)
{
	struct mr_err ignored;
	char path[4096];

	if (!meta_path(dir, true, path, sizeof(path), &ignored) &&
	    !access(path, F_OK))
		mr_err_set(err, err->code,
			   "%s: the data set is not finished; run the same "
			   "command as before, which goes on where it stopped",
			   dir);
	else
		mr_err_prefix(err, "no prepared data set: ");
}

int mr_meta_read(struct mr_meta *m, const char *dir, bool part,
		 struct mr_err *err)
{
	struct json_object *o = NULL, *format = NULL;
	char path[4096], *text = NULL;
	size_t size = 0;
	uint64_t version = 0;
	int e;

	*m = (struct mr_meta){ 0 };
	e = meta_path(dir, part, path, sizeof(path), err);
	if (!e)
		e = read_text(path, &text, &size, err);
	if (e) {
		if (!part)
			not_there(dir, err);
		goto out;
	}
	o = json_tokener_parse(text);
	if (o)
		format = get(o, "format", json_type_string);
	if (!format || strcmp(json_object_get_string(format), format_name) ||
	    !get_uint(o, "version", 1000000, &version))
		e = mr_err_set(err, MR_EDATA,
			       "%s: damaged, or not of a prepared data set",
			       path);
	else if (version != VERSION)
		e = mr_err_set(err, MR_EUNSUPPORTED,
			       "%s: version %llu; this program knows %d", path,
			       (unsigned long long)version, VERSION);
	else if (!whole(text, size))
		e = mr_err_set(err, MR_EDATA,
			       "%s: damaged: its checksum does not match",
			       path);
	else
		e = get_all(o, m, part, path, err);
out:
	json_object_put(o);
	free(text);
	if (e)
		mr_meta_fini(m);
	return e;
}

/* ---- comparing ---- */

int mr_meta_check_source(const struct mr_meta *m, struct mr_err *err)
{
	const struct mr_stamp *gone = NULL, *other = NULL;
	size_t there = 0;

	for (size_t i = 0; i < m->stamps && !other; i++) {
		const struct mr_stamp *s = &m->stamp[i];
		struct stat st;

		if (stat(s->path, &st)) {
			gone = gone ? gone : s;
			continue;
		}
		there++;
		if (mr_file_changed(&st) != s->changed ||
		    (S_ISREG(st.st_mode) && (uint64_t)st.st_size != s->size))
			other = s;
	}
	if (other)
		return mr_err_set(err, MR_EDATA,
				  "%s: has changed since the data set was "
				  "prepared from it; prepare again, or say "
				  "check=no to use the set as it is",
				  other->path);
	if (gone && there)
		return mr_err_set(err, MR_EDATA,
				  "%s: is gone, but other files are there that "
				  "the data set was prepared from; prepare "
				  "again, or say check=no",
				  gone->path);
	for (size_t i = 0; i < m->tables; i++) {
		int e = mr_table_check(&m->table[i], err);

		if (e)
			return e;
	}
	return 0;
}

/* The first file of the steps that differs, or NULL. */
static const char *other_table(const struct mr_meta *a, const struct mr_meta *b)
{
	for (size_t i = 0; i < a->tables && i < b->tables; i++) {
		const struct mr_table *x = &a->table[i], *y = &b->table[i];

		if (strcmp(x->path, y->path) || x->size != y->size ||
		    x->hash != y->hash)
			return y->path;
	}
	return NULL;
}

static bool same_stamps(const struct mr_meta *a, const struct mr_meta *b)
{
	if (a->stamps != b->stamps)
		return false;
	for (size_t i = 0; i < a->stamps; i++)
		if (strcmp(a->stamp[i].path, b->stamp[i].path) ||
		    a->stamp[i].size != b->stamp[i].size ||
		    a->stamp[i].changed != b->stamp[i].changed)
			return false;
	return true;
}

void mr_meta_compare(const struct mr_meta *had, const struct mr_meta *want,
		     char *why, size_t cap)
{
	const char *a = had->deferred ? had->deferred : "";
	const char *b = want->deferred ? want->deferred : "";
	const char *table = other_table(had, want);

	*why = 0;
	/* What is no UTF-8 did not come back as it was: the rest only says
	 * where the difference is. */
	if (had->set == want->set)
		return;
	if (strcmp(had->pipeline, want->pipeline))
		snprintf(why, cap, "its pipeline is\n  %s\nnot\n  %s",
			 had->pipeline, want->pipeline);
	else if (had->record.codec != want->record.codec ||
		 had->record.level != want->record.level ||
		 had->record.shuffle != want->record.shuffle)
		snprintf(why, cap, "its codec is %s level %d%s",
			 had->record.codec->name, had->record.level,
			 had->record.shuffle ? " with shuffle" : "");
	else if (strcmp(a, b))
		snprintf(why, cap,
			 "it leaves '%s' to be done on load, not '%s'", a, b);
	else if (table)
		snprintf(why, cap,
			 "%s, which a step reads, has other contents now",
			 table);
	else if (had->samples != want->samples || !same_stamps(had, want))
		snprintf(why, cap,
			 "the source has changed since: %llu samples "
			 "then, %llu now, or other files",
			 (unsigned long long)had->samples,
			 (unsigned long long)want->samples);
	else if (had->shards != want->shards)
		snprintf(why, cap, "it has %llu shards, not %llu",
			 (unsigned long long)had->shards,
			 (unsigned long long)want->shards);
	else
		snprintf(why, cap, "its classes or fields differ");
}
