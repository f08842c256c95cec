/* SPDX-License-Identifier: Apache-2.0 */
/* mds: MosaicML's streaming shards. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "core/le.h"
#include "source/mdscolumn.h"
#include "source/parts.h"
#include "source/paths.h"

/*
 * A shard: samples 4 | offsets 4 each, one more than samples | JSON | samples
 * A sample: sizes 4 each of the columns that have none | the columns
 */
struct shard {
	struct mr_part *part;
	uint32_t *at; /* n + 1 */
	uint64_t n;
};

struct mds {
	const char *dir, *columns;
	uint64_t unpack;
	struct mr_mds_index index;
	struct mr_parts parts;
	struct shard *shard; /* of each part */
	struct mr_mds_field field[MR_MAX_FIELDS];
	int fields;
};

static const struct mr_param params[] = {
	MR_TEXT(struct mds, dir, NULL, "folder with index.json and shards"),
	MR_TEXT(struct mds, columns, "",
		"those wanted, in that order: a,b; empty: all"),
	MR_SIZE(struct mds, unpack, "16G", 0, 1e15, MR_UNPACK_HELP),
	MR_PARAM_END
};

/* ---- shards ---- */

struct opening {
	struct mds *s;
	const char *dir;
};

static int open_name(struct mr_part *p, const char *dir, const char *name,
		     struct mr_err *err)
{
	char path[4096];
	int e = mr_path_join(path, sizeof(path), dir, "", name, err);

	if (e)
		return e;
	free(p->path);
	p->path = mr_strdup(path, err);
	return p->path ? mr_part_open(p, err) : MR_ENOMEM;
}

/* The raw file, or else the compressed one. */
static int open_part(const struct opening *o, const struct mr_mds_shard *x,
		     struct mr_part *p, struct mr_err *err)
{
	int e = x->raw ? open_name(p, o->dir, x->raw, err) : MR_EIO;

	if (e != MR_EIO || !x->zip)
		return e;
	e = open_name(p, o->dir, x->zip, err);
	return !e && x->packing ?
		       mr_part_unpack(p, &o->s->parts, x->packing, err) :
		       e;
}

static int read_offsets(struct shard *d, uint64_t samples, struct mr_err *err)
{
	uint64_t bytes = 4 * (samples + 1);
	uint8_t head[4];
	int e;

	if (d->part->size < 4 + bytes)
		return mr_err_set(err, MR_EDATA,
				  "%s: %llu bytes are too few for a shard of "
				  "%llu samples",
				  d->part->path,
				  (unsigned long long)d->part->size,
				  (unsigned long long)samples);
	e = mr_part_read(d->part, head, 4, 0, err);
	if (!e && mr_le32(head) != samples)
		e = mr_err_set(err, MR_EDATA,
			       "%s: says that it has %lu samples, and "
			       "index.json says %llu",
			       d->part->path, (unsigned long)mr_le32(head),
			       (unsigned long long)samples);
	if (e)
		return e;
	d->at = mr_alloc(samples + 1, sizeof(*d->at), err);
	e = d->at ? mr_part_read(d->part, d->at, bytes, 4, err) : MR_ENOMEM;
	for (uint64_t i = 0; !e && i <= samples; i++)
		d->at[i] = mr_le32(&d->at[i]);
	d->n = samples;
	return e;
}

static int open_shard(void *self, size_t i, struct mr_err *err)
{
	const struct opening *o = self;
	struct shard *d = &o->s->shard[i];
	const struct mr_mds_shard *x = &o->s->index.shard[i];
	int e;

	d->part = &o->s->parts.item[i];
	d->part->samples = x->samples;
	e = open_part(o, x, d->part, err);
	return e ? e : read_offsets(d, x->samples, err);
}

static void drop_shard(void *self, size_t i)
{
	struct shard *d = &((const struct opening *)self)->s->shard[i];

	free(d->at);
	d->at = NULL;
	d->n = 0;
}

static int open_shards(struct mds *s, const char *dir,
		       const struct mr_source_env *env, struct mr_err *err)
{
	struct opening o = { s, dir };
	struct mr_parts_how how = { .where = dir,
				    .env = env,
				    .unpack = s->unpack,
				    .open = open_shard,
				    .drop = drop_shard,
				    .self = &o };
	int e = mr_parts_make(&s->parts, s->index.shards, err);

	if (e)
		return e;
	s->shard = mr_alloc(s->parts.n, sizeof(*s->shard), err);
	return s->shard ? mr_parts_open(&s->parts, &how, err) : MR_ENOMEM;
}

/* Where sample k of a shard lies; a bad offset costs its neighbours only. */
static int bounds(const struct shard *d, uint64_t k, uint64_t *at, size_t *n,
		  struct mr_err *err)
{
	uint64_t from, to;

	if (d->part->lost)
		return mr_part_check(d->part, err);
	from = d->at[k];
	to = d->at[k + 1];
	if (from > to || from < 4 + 4 * (d->n + 1))
		return mr_err_set(err, MR_EDATA,
				  "the shard's offsets say that it lies at "
				  "bytes %llu to %llu",
				  (unsigned long long)from,
				  (unsigned long long)to);
	if (to > d->part->size)
		return mr_err_set(err, MR_EDATA,
				  "truncated: it lies at bytes %llu to %llu of "
				  "a file of %llu",
				  (unsigned long long)from,
				  (unsigned long long)to,
				  (unsigned long long)d->part->size);
	*at = from;
	*n = (size_t)(to - from);
	return 0;
}

/* ---- a sample's columns ---- */

struct values {
	const uint8_t *p[MR_MAX_FIELDS];
	size_t n[MR_MAX_FIELDS];
};

static int cut_sample(size_t n, struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "its columns need more than the %zu bytes that it "
			  "has",
			  n);
}

static int split(const struct mds *s, const uint8_t *p, size_t n,
		 struct values *v, struct mr_err *err)
{
	const struct mr_mds_index *x = &s->index;
	size_t sizes = 0, at, next = 0;

	for (size_t i = 0; i < x->columns; i++)
		sizes += x->column[i].size ? 0 : 4;
	at = sizes;
	if (at > n)
		return cut_sample(n, err);
	for (size_t i = 0; i < x->columns; i++) {
		uint64_t size = x->column[i].size;

		if (!size) {
			size = mr_le32(p + next);
			next += 4;
		}
		if (size > n - at)
			return cut_sample(n, err);
		for (int k = 0; k < s->fields; k++) {
			if (s->field[k].at == i) {
				v->p[k] = p + at;
				v->n[k] = (size_t)size;
			}
		}
		at += (size_t)size;
	}
	return 0;
}

/* ---- fields ---- */

static int too_many(const struct mds *s, struct mr_err *err)
{
	return mr_err_set(err, MR_ELIMIT,
			  "%s: has %zu columns; choose at most %d with "
			  "columns=",
			  s->dir, s->index.columns, MR_MAX_FIELDS);
}

static int add_field(struct mds *s, size_t column, struct mr_err *err)
{
	const char *name = s->index.column[column].name;
	struct mr_mds_field *f = &s->field[s->fields];
	int e;

	if (s->fields == MR_MAX_FIELDS)
		return too_many(s, err);
	for (int k = 0; k < s->fields; k++)
		if (!strncmp(s->field[k].column->name, name, MR_NAME_MAX - 1))
			return mr_err_set(err, MR_EINVAL,
					  "%s: two columns are called '%.*s'; "
					  "choose one with columns=",
					  s->dir, MR_NAME_MAX - 1, name);
	e = mr_mds_field_init(f, &s->index.column[column], err);
	if (e) {
		mr_err_prefix(err, "%s: ", s->dir);
		return e;
	}
	f->at = column;
	s->fields++;
	return 0;
}

static int find_column(const struct mds *s, const char *name, size_t n,
		       size_t *out, struct mr_err *err)
{
	char have[300] = "";

	for (size_t i = 0; i < s->index.columns; i++) {
		const char *is = s->index.column[i].name;
		size_t at = strlen(have);

		if (strlen(is) == n && !strncmp(is, name, n)) {
			*out = i;
			return 0;
		}
		snprintf(have + at, sizeof(have) - at, " %s", is);
	}
	return mr_err_set(err, MR_EINVAL,
			  "columns=%s: no column '%.*s' in %s; there are:%s",
			  s->columns, (int)n, name, s->dir, have);
}

static int choose_named(struct mds *s, struct mr_err *err)
{
	for (const char *p = s->columns;; p++) {
		size_t n = strcspn(p, ","), column = 0;
		int e = find_column(s, p, n, &column, err);

		if (!e)
			e = add_field(s, column, err);
		if (e)
			return e;
		p += n;
		if (!*p)
			return 0;
	}
}

/* All columns, a picture first. */
static int choose_all(struct mds *s, struct mr_err *err)
{
	int e = s->index.columns > MR_MAX_FIELDS ? too_many(s, err) : 0;
	struct mr_mds_field f;

	for (size_t i = 0; !e && i < s->index.columns; i++)
		e = add_field(s, i, err);
	for (int k = 0; !e && k < s->fields; k++) {
		if (!s->field[k].picture)
			continue;
		f = s->field[k];
		memmove(&s->field[1], &s->field[0],
			(size_t)k * sizeof(s->field[0]));
		s->field[0] = f;
		break;
	}
	return e;
}

/* Arrays that describe themselves are what they are in the first sample. */
static int learn(struct mds *s, const struct mr_source_env *env,
		 struct mr_err *err)
{
	const struct shard *d = s->shard;
	struct values v;
	uint64_t at = 0;
	uint8_t *p;
	size_t n = 0;
	int e;

	while (!d->n && d + 1 < s->shard + s->parts.n)
		d++;
	if (!d->n)
		return mr_err_set(err, MR_EDATA,
				  "%s: no shard that is whole has samples",
				  s->dir);
	e = bounds(d, 0, &at, &n, err);
	if (!e && env->memory && n > env->memory / 2)
		e = mr_err_set(err, MR_ELIMIT,
			       "%zu bytes; with a memory budget of %llu, a "
			       "sample may have half of it: raise --memory",
			       n, (unsigned long long)env->memory);
	p = e ? NULL : mr_alloc(n, 1, err);
	if (!e)
		e = p ? mr_part_read(d->part, p, n, at, err) : MR_ENOMEM;
	if (!e)
		e = split(s, p, n, &v, err);
	for (int i = 0; !e && i < s->fields; i++)
		e = mr_mds_field_learn(&s->field[i], v.p[i], v.n[i], err);
	if (e && e != MR_ENOMEM)
		mr_err_prefix(err, "%s[0]: ", d->part->path);
	free(p);
	return e;
}

static bool must_learn(const struct mds *s)
{
	for (int i = 0; i < s->fields; i++)
		if (s->field[i].kind >= MR_MDS_SHAPED)
			return true;
	return false;
}

/* ---- the source ---- */

/* There is no index.json: which folders below have one? */
static int no_index(const char *dir, struct mr_err *err)
{
	char path[4096], found[300] = "";
	struct dirent *d;
	struct stat st;
	DIR *list = opendir(dir);
	size_t at = 0;

	if (!list)
		return mr_err_set(err, MR_EIO,
				  "%s: %s; mds takes the folder in which "
				  "index.json lies",
				  dir, strerror(errno));
	while ((d = readdir(list))) {
		int n = snprintf(path, sizeof(path), "%s/%s/index.json", dir,
				 d->d_name);

		if (d->d_name[0] == '.' || n >= (int)sizeof(path) ||
		    stat(path, &st) || at + strlen(d->d_name) > 250)
			continue;
		at += (size_t)snprintf(found + at, sizeof(found) - at, "%s%s",
				       at ? ", " : "", d->d_name);
	}
	closedir(list);
	return mr_err_set(err, MR_EIO, "%s: has no index.json%s%s", dir,
			  at ? "; these folders in it have one: " :
			       ", which a folder of MDS shards has",
			  found);
}

/* One that is on a server is just asked for. */
static int check_folder(const char *dir, const char *index, struct mr_err *err)
{
	struct stat st;

	if (mr_input_is_url(dir) || !stat(index, &st))
		return 0;
	return errno == ENOENT || errno == ENOTDIR ? no_index(dir, err) : 0;
}

static int open_all(struct mds *s, const char *dir,
		    const struct mr_source_env *env, struct mr_err *err)
{
	char path[4096];
	int e = mr_path_join(path, sizeof(path), dir, "", "index.json", err);

	if (!e)
		e = check_folder(dir, path, err);
	if (!e)
		e = mr_mds_index_read(&s->index, path, err);
	if (!e)
		e = open_shards(s, dir, env, err);
	if (!e && !s->parts.samples)
		e = mr_err_set(err, MR_EDATA,
			       "%s: the data set is empty: no samples", s->dir);
	if (!e)
		e = *s->columns ? choose_named(s, err) : choose_all(s, err);
	if (!e && must_learn(s))
		e = learn(s, env, err);
	return e;
}

static int open_mds(void *self, const struct mr_source_env *env,
		    struct mr_err *err)
{
	struct mds *s = self;
	char *dir = mr_path_resolve(env->cwd, s->dir, err);
	int e = dir ? open_all(s, dir, env, err) : MR_ENOMEM;

	free(dir);
	return e;
}

static void close_mds(void *self)
{
	struct mds *s = self;

	for (size_t i = 0; s->shard && i < s->parts.n; i++)
		free(s->shard[i].at);
	free(s->shard);
	s->shard = NULL;
	mr_parts_fini(&s->parts);
	mr_mds_index_fini(&s->index);
}

static uint64_t count(const void *self)
{
	return ((const struct mds *)self)->parts.samples;
}

static void fields(const void *self, struct mr_fields *out)
{
	const struct mds *s = self;

	out->n = 0;
	for (int i = 0; i < s->fields; i++) {
		const struct mr_mds_field *f = &s->field[i];

		mr_fields_add(out, f->column->name, f->spec.dtype, f->spec.ndim,
			      f->spec.shape);
	}
}

/* The shard of a sample; *k becomes its number in that. */
static const struct shard *shard_of(const struct mds *s, uint64_t *k)
{
	return &s->shard[mr_parts_find(&s->parts, k) - s->parts.item];
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct shard *d = shard_of(self, &index);
	uint64_t at = 0;
	size_t n = 0;
	int r = bounds(d, index, &at, &n, err);

	(void)buf;
	(void)cap;
	if (!r)
		mr_part_extent(d->part, at, n, e);
	return r;
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	const struct mds *s = ld->self;
	struct values v;
	int e = split(s, bytes, length, &v, ld->err);

	for (int i = 0; !e && i < s->fields; i++)
		e = mr_mds_field_load(&s->field[i], i, ld, v.p[i], v.n[i], f);
	return e;
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct shard *d = shard_of(self, &index);

	return (size_t)snprintf(buf, cap, "%s[%llu]", d->part->path,
				(unsigned long long)index);
}

static uint64_t fingerprint(const void *self)
{
	const struct mds *s = self;
	uint64_t h = 0;

	for (size_t i = 0; i < s->parts.n; i++)
		if (s->shard[i].at)
			h = XXH3_64bits_withSeed(
				s->shard[i].at,
				(s->shard[i].n + 1) * sizeof(*s->shard[i].at),
				h);
	return h;
}

const struct mr_source mr_source_mds = {
	.name = "mds",
	.help = "a folder of MosaicML's streaming shards; its columns are "
		"fields",
	.size = sizeof(struct mds),
	.params = params,
	.open = open_mds,
	.close = close_mds,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.fingerprint = fingerprint,
};
