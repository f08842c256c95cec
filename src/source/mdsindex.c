/* SPDX-License-Identifier: Apache-2.0 */
#include "source/mdsindex.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/mem.h"

enum {
	INDEX_BYTES = 256 << 20,
	COLUMNS_MAX = 1024,
	SHARDS_MAX = 1 << 22,
	NAME_BYTES = 4096,
};

/* Where a message points to: the file, and the shard's number. */
struct at {
	const char *path;
	size_t shard;
	struct mr_err *err;
};

__attribute__((format(printf, 2, 3))) static int wrong(const struct at *at,
						       const char *fmt, ...)
{
	char what[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return mr_err_set(at->err, MR_EDATA, "%s: shard %zu: %s", at->path,
			  at->shard, what);
}

/* ---- members, of the type that they must have ---- */

static struct json_object *member(struct json_object *o, const char *key,
				  enum json_type type)
{
	struct json_object *v;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, key, &v) ||
	    !json_object_is_type(v, type))
		return NULL;
	return v;
}

/* A whole number that a file could have; what is larger comes as the
 * largest there is. */
static bool number(struct json_object *v, uint64_t *out)
{
	int64_t n;

	if (!json_object_is_type(v, json_type_int))
		return false;
	n = json_object_get_int64(v);
	*out = (uint64_t)n;
	return n >= 0 && n < INT64_MAX;
}

static int text(const struct at *at, struct json_object *v, const char *what,
		char **out)
{
	const char *s = json_object_is_type(v, json_type_string) ?
				json_object_get_string(v) :
				NULL;
	size_t n = s ? (size_t)json_object_get_string_len(v) : 0;

	if (!s || !n || n > NAME_BYTES || strlen(s) != n)
		return wrong(at, "%s is not a text", what);
	*out = mr_strdup(s, at->err);
	return *out ? 0 : MR_ENOMEM;
}

/* Inside the data set: shards may lie in folders of it, not above. */
static bool inside(const char *path)
{
	for (const char *p = path;;) {
		size_t n = strcspn(p, "/");

		if (!n || (n == 1 && *p == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (!p[n])
			return true;
		p += n + 1;
	}
}

static int file_name(const struct at *at, struct json_object *shard,
		     const char *key, char **out)
{
	struct json_object *o = member(shard, key, json_type_object);
	struct json_object *v = member(o, "basename", json_type_string);
	int e;

	if (!v)
		return 0;
	e = text(at, v, "basename", out);
	if (!e && !inside(*out))
		return wrong(at,
			     "its file '%.200s' is not inside the data set's "
			     "folder",
			     *out);
	return e;
}

/* ---- columns ---- */

struct columns {
	struct json_object *name, *encoding, *size;
	size_t n;
};

static int find_columns(const struct at *at, struct json_object *shard,
			struct columns *c)
{
	c->name = member(shard, "column_names", json_type_array);
	c->encoding = member(shard, "column_encodings", json_type_array);
	c->size = member(shard, "column_sizes", json_type_array);
	if (!c->name || !c->encoding || !c->size)
		return wrong(at, "has no column_names, column_encodings and "
				 "column_sizes");
	c->n = json_object_array_length(c->name);
	if (!c->n || c->n > COLUMNS_MAX ||
	    json_object_array_length(c->encoding) != c->n ||
	    json_object_array_length(c->size) != c->n)
		return wrong(at,
			     "its lists of columns have %zu, %zu and %zu "
			     "entries; want 1 to %d, alike",
			     c->n, json_object_array_length(c->encoding),
			     json_object_array_length(c->size), COLUMNS_MAX);
	return 0;
}

static int read_column(const struct at *at, const struct columns *c, size_t i,
		       struct mr_mds_column *out)
{
	struct json_object *size = json_object_array_get_idx(c->size, i);
	int e = text(at, json_object_array_get_idx(c->name, i),
		     "a column's name", &out->name);

	if (!e)
		e = text(at, json_object_array_get_idx(c->encoding, i),
			 "a column's encoding", &out->encoding);
	if (!e && size && (!number(size, &out->size) || out->size > UINT32_MAX))
		e = wrong(at, "column '%s': its size is not a number of bytes",
			  out->name);
	return e;
}

static int first_columns(const struct at *at, const struct columns *c,
			 struct mr_mds_index *x)
{
	int e = 0;

	x->column = mr_alloc(c->n, sizeof(*x->column), at->err);
	if (!x->column)
		return MR_ENOMEM;
	x->columns = c->n;
	for (size_t i = 0; !e && i < c->n; i++)
		e = read_column(at, c, i, &x->column[i]);
	return e;
}

static bool same_text(struct json_object *list, size_t i, const char *want)
{
	struct json_object *v = json_object_array_get_idx(list, i);

	return json_object_is_type(v, json_type_string) &&
	       !strcmp(json_object_get_string(v), want);
}

static int check_columns(const struct at *at, const struct columns *c,
			 const struct mr_mds_index *x)
{
	bool same = c->n == x->columns;

	for (size_t i = 0; same && i < c->n; i++) {
		struct json_object *s = json_object_array_get_idx(c->size, i);
		uint64_t size = 0;

		same = same_text(c->name, i, x->column[i].name) &&
		       same_text(c->encoding, i, x->column[i].encoding) &&
		       (!s || number(s, &size)) && size == x->column[i].size;
	}
	return same ? 0 :
		      wrong(at, "its columns are not those of shard 0; all "
				"shards must agree");
}

/* ---- shards ---- */

static int read_packing(const struct at *at, struct json_object *shard,
			enum mr_packing *out)
{
	struct json_object *v = member(shard, "compression", json_type_string);
	const char *s = v ? json_object_get_string(v) : "";
	size_t n = strcspn(s, ":");

	if (n == 4 && !strncmp(s, "zstd", n))
		*out = MR_PACKED_ZSTD;
	else if (n == 2 && !strncmp(s, "gz", n))
		*out = MR_PACKED_GZIP;
	else if (n)
		return mr_err_set(at->err, MR_EUNSUPPORTED,
				  "%s: shard %zu: compression '%.50s' is not "
				  "supported; zstd and gz are",
				  at->path, at->shard, s);
	return 0;
}

static int read_shard(const struct at *at, struct json_object *o,
		      struct mr_mds_index *x, struct mr_mds_shard *s)
{
	struct json_object *format = member(o, "format", json_type_string);
	struct json_object *n = member(o, "samples", json_type_int);
	struct columns c = { 0 };
	int e;

	if (!format || strcmp(json_object_get_string(format), "mds") != 0)
		return wrong(at, "its format is not 'mds'");
	if (!n || !number(n, &s->samples) || s->samples > UINT32_MAX)
		return wrong(at, "has no number of samples");
	e = find_columns(at, o, &c);
	if (!e)
		e = x->column ? check_columns(at, &c, x) :
				first_columns(at, &c, x);
	if (!e)
		e = file_name(at, o, "raw_data", &s->raw);
	if (!e)
		e = file_name(at, o, "zip_data", &s->zip);
	if (!e && !s->raw && !s->zip)
		e = wrong(at, "names no file");
	return e ? e : read_packing(at, o, &s->packing);
}

static int read_shards(struct mr_mds_index *x, const char *path,
		       struct json_object *root, struct mr_err *err)
{
	struct json_object *v = member(root, "version", json_type_int);
	struct json_object *list = member(root, "shards", json_type_array);
	size_t n = list ? json_object_array_length(list) : 0;
	int e = 0;

	if (!v || json_object_get_int64(v) != 2 || !list)
		return mr_err_set(err, MR_EDATA,
				  "%s: is no index of MDS shards: it must have "
				  "\"version\": 2 and \"shards\"",
				  path);
	if (n > SHARDS_MAX)
		return mr_err_set(err, MR_ELIMIT, "%s: %zu shards; at most %d",
				  path, n, SHARDS_MAX);
	x->shard = mr_alloc(n, sizeof(*x->shard), err);
	if (!x->shard)
		return MR_ENOMEM;
	x->shards = n;
	for (size_t i = 0; !e && i < n; i++) {
		struct at at = { path, i, err };

		e = read_shard(&at, json_object_array_get_idx(list, i), x,
			       &x->shard[i]);
	}
	return e;
}

/* ---- the file ---- */

static int read_text(const char *path, char **out, size_t *n,
		     struct mr_err *err)
{
	struct mr_input *in;
	int e = mr_input_open(&in, path, err);

	if (e)
		return e;
	*n = (size_t)mr_input_size(in);
	if (mr_input_size(in) > INDEX_BYTES)
		e = mr_err_set(err, MR_ELIMIT, "%s: larger than %d bytes", path,
			       INDEX_BYTES);
	*out = e ? NULL : mr_alloc(*n + 1, 1, err);
	if (!e)
		e = *out ? mr_input_read(in, *out, *n, 0, err) : MR_ENOMEM;
	mr_input_close(in);
	return e;
}

static int parse(struct mr_mds_index *x, const char *path, const char *s,
		 size_t n, struct mr_err *err)
{
	struct json_tokener *t = json_tokener_new();
	struct json_object *root;
	int e;

	if (!t)
		return mr_err_nomem(err, n);
	root = json_tokener_parse_ex(t, s, (int)n + 1);
	if (json_tokener_get_error(t) == json_tokener_success)
		e = read_shards(x, path, root, err);
	else
		e = mr_err_set(
			err, MR_EDATA, "%s: is no JSON: %s at byte %zu", path,
			json_tokener_error_desc(json_tokener_get_error(t)),
			json_tokener_get_parse_end(t));
	json_object_put(root);
	json_tokener_free(t);
	return e;
}

int mr_mds_index_read(struct mr_mds_index *x, const char *path,
		      struct mr_err *err)
{
	char *s = NULL;
	size_t n = 0;
	int e = read_text(path, &s, &n, err);

	if (!e)
		e = parse(x, path, s, n, err);
	free(s);
	return e;
}

void mr_mds_index_fini(struct mr_mds_index *x)
{
	for (size_t i = 0; i < x->columns; i++) {
		free(x->column[i].name);
		free(x->column[i].encoding);
	}
	for (size_t i = 0; i < x->shards; i++) {
		free(x->shard[i].raw);
		free(x->shard[i].zip);
	}
	free(x->column);
	free(x->shard);
	*x = (struct mr_mds_index){ 0 };
}
