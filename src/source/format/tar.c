/* SPDX-License-Identifier: Apache-2.0 */
/* tar: WebDataset's tars, whose members are fields by their extension. */
#include <stdio.h>

#include "core/hash.h"
#include "source/indexcache.h"
#include "source/tarfields.h"

struct tar {
	const char *glob, *fields;
	bool decode, map;
	int index;
	uint64_t unpack;
	struct mr_parts parts;
	struct mr_tar_index *idx; /* of each part */
	struct mr_tar_fields field;
};

static const struct mr_param params[] = {
	MR_TEXT(struct tar, glob, NULL,
		"tars, plain or compressed by gzip or zstd"),
	MR_TEXT(struct tar, fields, "",
		"extensions to take, as jpg;png,cls: a field is named by the "
		"first of those with ; between them, of which a sample has "
		"one; empty: those of at least half of the samples, images "
		"first"),
	MR_BOOL(struct tar, decode, "yes",
		"cls, cls2, class, count, id, index and inx are integers; no: "
		"bytes as all others"),
	MR_ENUM(struct tar, index, "auto", mr_index_words, MR_INDEX_HELP),
	MR_SIZE(struct tar, unpack, "16G", 0, 1e15, MR_UNPACK_HELP),
	MR_BOOL(struct tar, map, "no", MR_MAP_HELP),
	MR_PARAM_END
};

/* ---- opening ---- */

static int open_one(void *self, size_t i, struct mr_err *err)
{
	struct tar *s = self;

	return mr_tar_index_open(&s->idx[i], &s->parts, i, s->index, err);
}

static void drop_one(void *self, size_t i)
{
	mr_tar_index_fini(&((struct tar *)self)->idx[i]);
}

static int open_all(struct tar *s, const struct mr_source_env *env,
		    struct mr_err *err)
{
	struct mr_parts_how how = { .where = s->glob,
				    .env = env,
				    .unpack = s->unpack,
				    .map = s->map,
				    .open = open_one,
				    .drop = drop_one,
				    .self = s };
	int e = mr_parts_list(&s->parts, env->cwd, s->glob, err);

	if (e)
		return e;
	s->idx = mr_alloc(s->parts.n, sizeof(*s->idx), err);
	return s->idx ? mr_parts_open(&s->parts, &how, err) : MR_ENOMEM;
}

static int open_tar(void *self, const struct mr_source_env *env,
		    struct mr_err *err)
{
	struct tar *s = self;
	int e = open_all(s, env, err);

	if (e)
		return e;
	if (!s->parts.samples)
		return mr_err_set(err, MR_EDATA,
				  "%s: the data set is empty: no member of the "
				  "%zu tars is a file with an extension",
				  s->glob, s->parts.n);
	e = mr_tar_fields_init(&s->field, s->idx, &s->parts, s->fields,
			       s->decode, err);
	if (!e && !s->field.n)
		e = mr_err_set(err, MR_EDATA,
			       "%s: no extension is that of half of the "
			       "samples; choose with fields=jpg,cls",
			       s->glob);
	return e;
}

static void close_tar(void *self)
{
	struct tar *s = self;

	mr_tar_fields_fini(&s->field);
	for (size_t i = 0; s->idx && i < s->parts.n; i++)
		mr_tar_index_fini(&s->idx[i]);
	free(s->idx);
	s->idx = NULL;
	mr_parts_fini(&s->parts);
}

static uint64_t count(const void *self)
{
	return ((const struct tar *)self)->parts.samples;
}

static void fields(const void *self, struct mr_fields *out)
{
	static const int64_t any = MR_ANY;
	const struct tar *s = self;

	out->n = 0;
	for (int i = 0; i < s->field.n; i++) {
		if (s->field.number[i])
			mr_fields_add(out, s->field.name[i], MR_I64, 0, NULL);
		else
			mr_fields_add(out, s->field.name[i], MR_U8, 1, &any);
	}
}

/* ---- a sample ---- */

/* The sample, its tar, and the field of each extension in that. */
static const struct mr_part *find(const struct tar *s, uint64_t index,
				  struct mr_tar_sample *x, const int8_t **of)
{
	const struct mr_part *t = mr_parts_find(&s->parts, &index);

	if (t->lost)
		*x = (struct mr_tar_sample){ .key = "" };
	else
		mr_tar_sample_get(&s->idx[t - s->parts.item], index, x);
	*of = s->field.of[t - s->parts.item];
	return t;
}

/* From the first byte of its fields to the last; members that are no fields
 * are read only where they lie between. */
static void span(struct mr_tar_sample x, const int8_t *of, uint64_t *from,
		 uint64_t *to)
{
	struct mr_tar_member m;

	*from = UINT64_MAX;
	*to = 0;
	while (mr_tar_member_next(&x, &m)) {
		if (of[m.ext] < 0)
			continue;
		if (m.data < *from)
			*from = m.data;
		if (m.data + m.size > *to)
			*to = m.data + m.size;
	}
	/* Nothing to read; unpack() says why. */
	if (*from == UINT64_MAX || x.damage)
		*from = *to = x.damage ? x.damage_at : 0;
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	struct mr_tar_sample x;
	const int8_t *of;
	const struct mr_part *t = find(self, index, &x, &of);
	uint64_t from, to;

	(void)buf;
	(void)cap;
	span(x, of, &from, &to);
	mr_part_extent(t, from, to - from, e);
	return mr_part_check(t, err);
}

static int is_damaged(const struct mr_load *ld, const struct mr_part *t,
		      const struct mr_tar_sample *x)
{
	char what[256];

	mr_tar_damage_text(x->damage, x->damage_at, x->damage_value, t->size,
			   what, sizeof(what));
	return mr_err_set(ld->err, MR_EDATA, "%s: %s", t->path, what);
}

static int lacks(const struct mr_load *ld, const struct mr_part *t,
		 const struct mr_tar_sample *x, unsigned seen, uint64_t at)
{
	const struct tar *s = ld->self;
	int i = 0;

	while (seen & 1u << i)
		i++;
	return mr_err_set(ld->err, MR_EDATA,
			  "%s: sample '%.*s' at byte %llu has no '%s', which "
			  "%llu of %llu samples have; members of one sample "
			  "must follow one another; fields= chooses others",
			  t->path, (int)x->key_len, x->key,
			  (unsigned long long)at, s->field.name[i],
			  (unsigned long long)s->field.having[i],
			  (unsigned long long)s->parts.samples);
}

static int put_number(const struct mr_load *ld, const struct mr_part *t,
		      const struct mr_tar_member *m, int i, const char *bytes,
		      struct mr_tensor *f)
{
	const struct tar *s = ld->self;
	char shown[40];
	size_t n = 0;
	int64_t v;

	if (mr_tar_integer(bytes, (size_t)m->size, &v))
		return mr_load_i64(ld, i, v, f);
	/* In one line, and without the one that it ends with. */
	for (; n < m->size && n < sizeof(shown); n++)
		shown[n] =
			(char)((unsigned char)bytes[n] < ' ' ? ' ' : bytes[n]);
	while (n && shown[n - 1] == ' ')
		n--;
	return mr_err_set(ld->err, MR_EDATA,
			  "%s: '%s' at byte %llu is no integer: '%.*s'; "
			  "decode=no takes it as bytes",
			  t->path, s->field.name[i],
			  (unsigned long long)m->data, (int)n, shown);
}

static int twice(const struct mr_load *ld, const struct mr_part *t,
		 const struct mr_tar_sample *x, const struct mr_tar_member *m,
		 const char *name)
{
	return mr_err_set(ld->err, MR_EDATA,
			  "%s: sample '%.*s' has '%s' twice, the second at "
			  "byte %llu",
			  t->path, (int)x->key_len, x->key, name,
			  (unsigned long long)m->data);
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	const struct tar *s = ld->self;
	struct mr_tar_sample x;
	struct mr_tar_member m;
	const int8_t *of;
	const struct mr_part *t = find(s, ld->index, &x, &of);
	uint32_t seen = 0; /* a bit for each of MR_MAX_FIELDS */
	uint64_t from, to;

	span(x, of, &from, &to);
	if (x.damage)
		return is_damaged(ld, t, &x);
	if (length != to - from)
		return mr_err_set(ld->err, MR_EDATA,
				  "%s: %zu bytes at %llu, want %llu", t->path,
				  length, (unsigned long long)from,
				  (unsigned long long)(to - from));
	while (mr_tar_member_next(&x, &m)) {
		int i = of[m.ext];
		const char *p;

		if (i < 0)
			continue;
		if (seen & 1u << i)
			return twice(ld, t, &x, &m, s->field.name[i]);
		seen |= 1u << i;
		p = (const char *)bytes + (m.data - from);
		if (!s->field.number[i]) {
			f[i].shape[0] = (int64_t)m.size;
			f[i].data = (void *)(uintptr_t)p;
		} else if (put_number(ld, t, &m, i, p, f)) {
			return ld->err->code;
		}
	}
	if (seen != UINT32_MAX >> (32 - s->field.n))
		return lacks(ld, t, &x, seen, from);
	return 0;
}

/* ---- names ---- */

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	struct mr_tar_sample x;
	const int8_t *of;
	const struct mr_part *t = find(self, index, &x, &of);

	if (t->lost)
		return (size_t)snprintf(buf, cap, "%s", t->path);
	if (!x.key_len && x.damage)
		return (size_t)snprintf(buf, cap, "%s[byte %llu]", t->path,
					(unsigned long long)x.damage_at);
	return (size_t)snprintf(buf, cap, "%.*s", (int)x.key_len, x.key);
}

static uint64_t fingerprint(const void *self)
{
	const struct tar *s = self;
	uint64_t h = 0;

	for (size_t i = 0; i < s->parts.n; i++) {
		const struct mr_tar_index *x = &s->idx[i];

		h = XXH3_64bits_withSeed(x->ext.pool, x->ext.used, h);
		h = XXH3_64bits_withSeed(x->records, x->bytes, h);
	}
	return h;
}

const struct mr_source mr_source_tar = {
	.name = "tar",
	.help = "WebDataset's tars, whose members are fields by their "
		"extension",
	.flags = MR_SOURCE_MAPS,
	.size = sizeof(struct tar),
	.params = params,
	.open = open_tar,
	.close = close_tar,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.fingerprint = fingerprint,
};
