/* SPDX-License-Identifier: Apache-2.0 */
/* tfrecord: TensorFlow's records of tf.train.Example. */
#include <stdio.h>

#include "core/hash.h"
#include "source/features.h"
#include "source/indexcache.h"
#include "source/recordfile.h"

struct tfrecord {
	const char *glob, *features;
	bool check, map;
	int64_t examine;
	int index;
	uint64_t unpack;
	struct mr_parts parts;
	struct mr_recfile *file; /* of each part */
	struct mr_choices choices;
};

static const struct mr_param params[] = {
	MR_TEXT(struct tfrecord, glob, NULL,
		"files, also those compressed with gzip or zlib"),
	MR_TEXT(struct tfrecord, features, "",
		"those wanted, in that order: a,b[],c[28x28x1]; [] is a list "
		"of any length, empty: all"),
	MR_BOOL(struct tfrecord, check, "yes",
		"check the CRC of each record that is read"),
	MR_INT(struct tfrecord, examine, "1000", 1, 1e6,
	       "records of each file that are looked at for names and types"),
	MR_ENUM(struct tfrecord, index, "auto", mr_index_words, MR_INDEX_HELP),
	MR_SIZE(struct tfrecord, unpack, "16G", 0, 1e15, MR_UNPACK_HELP),
	MR_BOOL(struct tfrecord, map, "no", MR_MAP_HELP),
	MR_PARAM_END
};

/* So much is looked at, each file alike, and one record of each at least. */
enum { EXAMINE_BYTES = 64 << 20 };

/* ---- names and types ---- */

struct opening {
	struct tfrecord *s;
	pthread_mutex_t lock;
	struct mr_survey survey;
	uint64_t bytes; /* of each file that are looked at, or one record, */
	uint64_t most;	/* which no sample may be larger than */
};

static int examine_record(struct opening *o, const struct mr_recfile *r,
			  uint64_t k, uint8_t *buf, struct mr_err *err)
{
	size_t n = (size_t)(r->at[k + 1] - r->at[k]), length;
	const uint8_t *data;
	int e = mr_part_read(r->part, buf, n, r->at[k], err);

	if (e)
		return e;
	/* One that is damaged is left to the loader, as are others. */
	if (mr_record_data(buf, n, r->at[k], o->s->check, &data, &length, err))
		return 0;
	pthread_mutex_lock(&o->lock);
	e = mr_survey_add(&o->survey, data, length, err);
	pthread_mutex_unlock(&o->lock);
	if (e)
		mr_err_prefix(err, "%s[%llu]: ", r->part->path,
			      (unsigned long long)k);
	return e;
}

static int examine_file(struct opening *o, const struct mr_recfile *r,
			struct mr_err *err)
{
	uint64_t n = r->n - (r->tail != MR_TAIL_NONE);
	uint8_t *buf = NULL;
	size_t cap = 0;
	int e = 0;

	for (uint64_t k = 0; !e && k < n && k < (uint64_t)o->s->examine; k++) {
		uint64_t size = r->at[k + 1] - r->at[k];

		if (k && r->at[k + 1] > o->bytes)
			break;
		if (size > o->most) /* left to the loader */
			continue;
		e = mr_grow(&buf, &cap, size, 1, SIZE_MAX / 4, err);
		if (!e)
			e = examine_record(o, r, k, buf, err);
	}
	free(buf);
	return e;
}

/* ---- opening ---- */

static int open_file(void *self, size_t i, struct mr_err *err)
{
	struct opening *o = self;

	return mr_recfile_open(&o->s->file[i], &o->s->parts, i, o->s->index,
			       err);
}

static void drop_file(void *self, size_t i)
{
	const struct opening *o = self;
	struct mr_recfile *r = &o->s->file[i];

	free(r->at);
	*r = (struct mr_recfile){ .part = r->part };
}

static int look_at_file(void *self, size_t i, struct mr_err *err)
{
	struct opening *o = self;

	return examine_file(o, &o->s->file[i], err);
}

static int open_files(struct opening *o, const struct mr_source_env *env,
		      struct mr_err *err)
{
	struct tfrecord *s = o->s;
	struct mr_parts_how how = { .where = s->glob,
				    .env = env,
				    .unpack = s->unpack,
				    .map = s->map,
				    .open = open_file,
				    .drop = drop_file,
				    .look = look_at_file,
				    .self = o };
	int e;

	s->file = mr_alloc(s->parts.n, sizeof(*s->file), err);
	if (!s->file)
		return MR_ENOMEM;
	o->bytes = EXAMINE_BYTES / s->parts.n;
	o->most = env->memory ? env->memory / 2 : SIZE_MAX / 4;
	e = mr_parts_open(&s->parts, &how, err);
	if (!e && !s->parts.samples)
		e = mr_err_set(err, MR_EDATA,
			       "%s: the data set is empty: no records",
			       s->glob);
	return e;
}

static int open_tfrecord(void *self, const struct mr_source_env *env,
			 struct mr_err *err)
{
	struct tfrecord *s = self;
	struct opening o = { .s = s, .lock = PTHREAD_MUTEX_INITIALIZER };
	int e = mr_parts_list(&s->parts, env->cwd, s->glob, err);

	if (!e)
		e = open_files(&o, env, err);
	if (!e)
		e = mr_choices_make(&s->choices, &o.survey, s->features,
				    s->glob, err);
	mr_survey_fini(&o.survey);
	return e;
}

static void close_tfrecord(void *self)
{
	struct tfrecord *s = self;

	for (size_t i = 0; s->file && i < s->parts.n; i++)
		free(s->file[i].at);
	free(s->file);
	s->file = NULL;
	mr_parts_fini(&s->parts);
	mr_choices_fini(&s->choices);
}

/* ---- samples ---- */

static uint64_t count(const void *self)
{
	return ((const struct tfrecord *)self)->parts.samples;
}

static void fields(const void *self, struct mr_fields *out)
{
	*out = ((const struct tfrecord *)self)->choices.fields;
}

/* The file of a record; *k becomes its number in that. */
static const struct mr_recfile *file_of(const struct tfrecord *s, uint64_t *k)
{
	return &s->file[mr_parts_find(&s->parts, k) - s->parts.item];
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct mr_recfile *r = file_of(self, &index);

	(void)buf;
	(void)cap;
	if (r->part->lost)
		return mr_part_check(r->part, err);
	mr_part_extent(r->part, r->at[index], r->at[index + 1] - r->at[index],
		       e);
	return mr_recfile_check(r, index, err);
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	const struct tfrecord *s = ld->self;
	uint64_t k = ld->index;
	const struct mr_recfile *r = file_of(s, &k);
	const uint8_t *data;
	size_t n;
	int e = mr_record_data(bytes, length, r->at[k], s->check, &data, &n,
			       ld->err);

	return e ? e : mr_choices_load(&s->choices, ld, data, n, f);
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct mr_recfile *r = file_of(self, &index);

	if (r->part->lost)
		return (size_t)snprintf(buf, cap, "%s", r->part->path);
	return (size_t)snprintf(buf, cap, "%s[%llu]", r->part->path,
				(unsigned long long)index);
}

static uint64_t fingerprint(const void *self)
{
	const struct tfrecord *s = self;
	uint64_t h = 0;

	for (size_t i = 0; i < s->parts.n; i++)
		if (s->file[i].at)
			h = XXH3_64bits_withSeed(
				s->file[i].at,
				(s->file[i].n + 1) * sizeof(*s->file[i].at), h);
	return h;
}

const struct mr_source mr_source_tfrecord = {
	.name = "tfrecord",
	.help = "TFRecord files of tf.train.Example; their features are fields",
	.flags = MR_SOURCE_MAPS,
	.size = sizeof(struct tfrecord),
	.params = params,
	.open = open_tfrecord,
	.close = close_tfrecord,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.fingerprint = fingerprint,
};
