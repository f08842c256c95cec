/* SPDX-License-Identifier: Apache-2.0 */
/* tfrecord: TensorFlow's records of tf.train.Example. */
#include <stdio.h>
#include <xxhash.h>

#include "source/features.h"
#include "source/indexcache.h"
#include "source/paths.h"
#include "source/recordfile.h"

struct tfrecord {
	const char *glob, *features;
	bool check;
	int64_t examine;
	int index;
	uint64_t unpack;
	struct mr_recfile *file;
	size_t files;
	uint64_t records;
	struct mr_unpacked unpacked;
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
	MR_SIZE(struct tfrecord, unpack, "16G", 0, 1e15,
		"what compressed files may take in a temporary file, all "
		"together; TMPDIR says where"),
	MR_PARAM_END
};

/* When so much has been looked at, one record of each file must do. */
enum { EXAMINE_BYTES = 64 << 20 };

/* ---- names and types ---- */

static int examine_record(struct tfrecord *s, struct mr_survey *v,
			  const struct mr_recfile *r, uint64_t k, uint8_t *buf,
			  struct mr_err *err)
{
	size_t n = (size_t)(r->at[k + 1] - r->at[k]), length;
	const uint8_t *data;
	int e = mr_part_read(&r->part, buf, n, r->at[k], err);

	if (e)
		return e;
	/* One that is damaged is left to the loader, as are others. */
	if (mr_record_data(buf, n, r->at[k], s->check, &data, &length, err))
		return 0;
	e = mr_survey_add(v, data, length, err);
	if (e)
		mr_err_prefix(err, "%s[%llu]: ", r->part.path,
			      (unsigned long long)k);
	return e;
}

static int examine_file(struct tfrecord *s, struct mr_survey *v,
			const struct mr_recfile *r, uint64_t *bytes,
			struct mr_err *err)
{
	uint64_t n = r->n - (r->tail != MR_TAIL_NONE);
	uint8_t *buf = NULL;
	size_t cap = 0;
	int e = 0;

	for (uint64_t k = 0; !e && k < n && k < (uint64_t)s->examine; k++) {
		uint64_t length = r->at[k + 1] - r->at[k];

		if (k && *bytes + length > EXAMINE_BYTES)
			break;
		e = mr_grow(&buf, &cap, length, 1, SIZE_MAX / 4, err);
		if (!e)
			e = examine_record(s, v, r, k, buf, err);
		*bytes += length;
	}
	free(buf);
	return e;
}

/* ---- opening ---- */

static int open_file(struct tfrecord *s, struct mr_recfile *r,
		     struct mr_survey *v, uint64_t *bytes, struct mr_err *err)
{
	int e = mr_recfile_open(r, &s->unpacked, s->index, err);

	if (!e)
		e = examine_file(s, v, r, bytes, err);
	r->first = s->records;
	s->records += r->n;
	if (!e)
		mr_part_settle(&r->part, s->files);
	return e;
}

/* Without indexes that lie beside the files. */
static int list_files(struct tfrecord *s, const char *cwd, struct mr_err *err)
{
	char *full = mr_path_resolve(cwd, s->glob, err), **paths = NULL;
	size_t n = 0;
	int e = full ? mr_input_list(full, &paths, &n, err) : MR_ENOMEM;

	free(full);
	if (e)
		return e;
	s->file = mr_alloc(n, sizeof(*s->file), err);
	for (size_t i = 0; i < n; i++) {
		if (s->file && (n == 1 || !mr_index_is(paths[i])))
			s->file[s->files++].part.path = paths[i];
		else
			free(paths[i]);
	}
	free(paths);
	return s->file ? 0 : MR_ENOMEM;
}

static int open_tfrecord(void *self, const struct mr_source_env *env,
			 struct mr_err *err)
{
	struct tfrecord *s = self;
	struct mr_survey v = { 0 };
	uint64_t bytes = 0;
	int e;

	mr_unpacked_init(&s->unpacked, s->unpack);
	e = list_files(s, env->cwd, err);
	for (size_t i = 0; !e && i < s->files; i++)
		e = open_file(s, &s->file[i], &v, &bytes, err);
	if (!e && !s->records)
		e = mr_err_set(err, MR_EDATA,
			       "%s: the data set is empty: no records",
			       s->glob);
	if (!e)
		e = mr_choices_make(&s->choices, &v, s->features, s->glob, err);
	mr_survey_fini(&v);
	return e;
}

static void close_tfrecord(void *self)
{
	struct tfrecord *s = self;

	for (size_t i = 0; i < s->files; i++)
		mr_recfile_close(&s->file[i]);
	free(s->file);
	s->file = NULL;
	s->files = 0;
	mr_unpacked_fini(&s->unpacked);
	mr_choices_fini(&s->choices);
}

/* ---- samples ---- */

static uint64_t count(const void *self)
{
	return ((const struct tfrecord *)self)->records;
}

static void fields(const void *self, struct mr_fields *out)
{
	*out = ((const struct tfrecord *)self)->choices.fields;
}

/* The last file that begins at or before the record. */
static const struct mr_recfile *file_of(const struct tfrecord *s,
					uint64_t index)
{
	size_t lo = 0, hi = s->files;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->file[mid].first <= index)
			lo = mid;
		else
			hi = mid;
	}
	return &s->file[lo];
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct mr_recfile *r = file_of(self, index);

	(void)buf;
	(void)cap;
	mr_recfile_extent(r, index - r->first, e);
	return mr_recfile_check(r, index - r->first, err);
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	const struct tfrecord *s = ld->self;
	const struct mr_recfile *r = file_of(s, ld->index);
	const uint8_t *data;
	size_t n;
	int e = mr_record_data(bytes, length, r->at[ld->index - r->first],
			       s->check, &data, &n, ld->err);

	return e ? e : mr_choices_load(&s->choices, ld, data, n, f);
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct mr_recfile *r = file_of(self, index);

	return (size_t)snprintf(buf, cap, "%s[%llu]", r->part.path,
				(unsigned long long)(index - r->first));
}

static uint64_t fingerprint(const void *self)
{
	const struct tfrecord *s = self;
	uint64_t h = 0;

	for (size_t i = 0; i < s->files; i++)
		h = XXH3_64bits_withSeed(
			s->file[i].at,
			(s->file[i].n + 1) * sizeof(*s->file[i].at), h);
	return h;
}

const struct mr_source mr_source_tfrecord = {
	.name = "tfrecord",
	.help = "TFRecord files of tf.train.Example; their features are fields",
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
