/* SPDX-License-Identifier: Apache-2.0 */
/* hdf5: rows, windows or the whole of datasets in HDF5 files. */
#include <libdeflate.h>
#include <stdio.h>
#include <sys/resource.h>

#include "core/hash.h"
#include "source/h5file.h"
#include "source/h5read.h"
#include "source/parts.h"
#include "source/paths.h"

struct hdf5 {
	const char *glob, *dataset, *attributes;
	int64_t window, step;
	uint64_t hop; /* rows from one sample to the next */
	struct mr_h5_want want;
	char *names; /* the texts of `want` */
	struct mr_h5_file *file;
	size_t files;
	uint64_t samples;
	struct mr_fields fields;
	const struct mr_h5_file *of; /* the fields are those of this file */
	bool reopen;		     /* too many files to keep them open */
};

static const struct mr_param params[] = {
	MR_TEXT(struct hdf5, glob, NULL, "files, such as 'data/*.h5'"),
	MR_TEXT(struct hdf5, dataset, "",
		"datasets in them, separated by commas: a field each, called "
		"as the last part of its path; empty: an error that lists "
		"them"),
	MR_INT(struct hdf5, window, "1", 0, 1e15,
	       "rows of a sample, along the first axis; 1: a row, without "
	       "that axis; 0: all rows of a file. Rows at a file's end that "
	       "do not fill a window are left out"),
	MR_INT(struct hdf5, step, "0", 0, 1e15,
	       "rows from one window to the next; 0: as many as a window"),
	MR_TEXT(struct hdf5, attributes, "",
		"numbers stored beside each dataset, separated by commas: a "
		"field DATASET_NAME each, as f64"),
	MR_PARAM_END
};

/* ---- lists of names ---- */

/* Cuts `text` at its commas, in place. */
static int split(char *text, char ***out, int *n, const char *what,
		 struct mr_err *err)
{
	int count = 1;

	for (char *c = text; *c; c++)
		count += *c == ',';
	*out = mr_alloc((size_t)count, sizeof(**out), err);
	if (!*out)
		return MR_ENOMEM;
	for (int i = 0; i < count; i++) {
		(*out)[(*n)++] = text;
		text += strcspn(text, ",");
		if (*text)
			*text++ = 0;
		if (!*(*out)[i] && count > 1)
			return mr_err_set(err, MR_EINVAL,
					  "%s: an empty name in the list",
					  what);
	}
	return 0;
}

static int split_names(struct hdf5 *s, struct mr_err *err)
{
	size_t n = strlen(s->dataset) + 1;
	int e;

	s->names = mr_alloc(n + strlen(s->attributes) + 1, 1, err);
	if (!s->names)
		return MR_ENOMEM;
	strcpy(s->names, s->dataset);
	strcpy(s->names + n, s->attributes);
	e = split(s->names, &s->want.dataset, &s->want.datasets, "dataset",
		  err);
	if (!e && *s->attributes)
		e = split(s->names + n, &s->want.attribute, &s->want.attributes,
			  "attributes", err);
	if (!e && s->want.datasets * (1 + s->want.attributes) > MR_MAX_FIELDS)
		e = mr_err_set(err, MR_EINVAL,
			       "dataset: %d fields; there may be %d",
			       s->want.datasets * (1 + s->want.attributes),
			       MR_MAX_FIELDS);
	return e;
}

/* ---- fields ---- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The last part of the path; when two agree in it, the whole path. */
static void field_name(const struct mr_h5_want *w, int i, char *buf, size_t cap)
{
	const char *name = last_part(w->dataset[i]);

	for (int k = 0; k < w->datasets; k++)
		if (k != i && !strcmp(last_part(w->dataset[k]), name))
			name = w->dataset[i] + (w->dataset[i][0] == '/');
	snprintf(buf, cap, "%s", name);
	for (char *c = buf; *c; c++)
		if (*c == '/')
			*c = '_';
}

static int add_field(struct mr_fields *fs, const char *name,
		     const struct mr_spec *spec, struct mr_err *err)
{
	if (!*name || strlen(name) >= MR_NAME_MAX)
		return mr_err_set(err, MR_EINVAL,
				  "'%s' is no name for a field: it may have 1 "
				  "to %d letters",
				  name, MR_NAME_MAX - 1);
	for (int i = 0; i < fs->n; i++)
		if (!strcmp(fs->item[i].name, name))
			return mr_err_set(err, MR_EINVAL,
					  "two fields would be called '%s'",
					  name);
	mr_fields_add(fs, name, spec->dtype, spec->ndim, spec->shape);
	return 0;
}

/* A sample's type by dataset i of a file. */
static struct mr_spec sample_spec(const struct hdf5 *s,
				  const struct mr_h5_file *f, int i)
{
	const struct mr_h5_set *set = &f->set[i];
	struct mr_spec spec = { .dtype = set->type.dtype };

	if (s->window != 1)
		spec.shape[spec.ndim++] =
			(int64_t)(s->window ? (uint64_t)s->window : f->rows);
	for (int d = 1; d < set->ndim; d++)
		spec.shape[spec.ndim++] = (int64_t)set->dims[d];
	return spec;
}

static int set_fields(struct hdf5 *s, const struct mr_h5_file *f,
		      struct mr_err *err)
{
	const struct mr_spec number = { .dtype = MR_F64 };
	char name[256], whole[512];
	int e = 0;

	for (int i = 0; !e && i < s->want.datasets; i++) {
		struct mr_spec spec = sample_spec(s, f, i);

		if (spec.ndim >= MR_MAX_DIMS)
			return mr_err_set(err, MR_ETYPE,
					  "%s: dataset '%s': a sample has at "
					  "most %d dimensions, since batches "
					  "add one",
					  f->path, s->want.dataset[i],
					  MR_MAX_DIMS - 1);
		field_name(&s->want, i, name, sizeof(name));
		e = add_field(&s->fields, name, &spec, err);
	}
	for (int i = 0; !e && i < s->want.datasets; i++) {
		field_name(&s->want, i, name, sizeof(name));
		for (int k = 0; !e && k < s->want.attributes; k++) {
			snprintf(whole, sizeof(whole), "%s_%s", name,
				 s->want.attribute[k]);
			e = add_field(&s->fields, whole, &number, err);
		}
	}
	return e;
}

/* Another file must give the same; whole files may differ in length. */
static int match_fields(struct hdf5 *s, const struct mr_h5_file *f,
			struct mr_err *err)
{
	for (int i = 0; i < s->want.datasets; i++) {
		struct mr_spec *a = &s->fields.item[i].spec;
		struct mr_spec b = sample_spec(s, f, i);
		char ta[200], tb[200];

		if (!s->window && a->ndim == b.ndim &&
		    a->shape[0] != b.shape[0])
			a->shape[0] = b.shape[0] = MR_ANY;
		if (a->dtype == b.dtype && a->ndim == b.ndim &&
		    !memcmp(a->shape, b.shape, sizeof(b.shape)))
			continue;
		mr_spec_text(a, ta, sizeof(ta));
		mr_spec_text(&b, tb, sizeof(tb));
		return mr_err_set(err, MR_EDATA,
				  "%s: dataset '%s' gives samples of %s, but "
				  "in %s of %s; all files must agree",
				  f->path, s->want.dataset[i], tb, s->of->path,
				  ta);
	}
	return 0;
}

/* ---- open ---- */

static uint64_t samples_of(const struct hdf5 *s, const struct mr_h5_file *f)
{
	uint64_t window = (uint64_t)s->window;

	if (f->lost)
		return 1;
	if (!window)
		return f->rows ? 1 : 0;
	return f->rows < window ? 0 : (f->rows - window) / s->hop + 1;
}

static int open_file(struct hdf5 *s, struct mr_h5_file *f,
		     const struct mr_source_env *env, struct mr_err *err)
{
	int e = mr_h5_open(f, &s->want, err);

	if (e && mr_part_forgiven(env, s->files, e)) {
		mr_h5_close(f);
		f->lost = mr_strdup(err->text, err);
		return f->lost ? 0 : MR_ENOMEM;
	}
	if (e || s->of)
		return e ? e : match_fields(s, f, err);
	s->of = f;
	return set_fields(s, f, err);
}

static int add_file(struct hdf5 *s, struct mr_h5_file *f,
		    const struct mr_source_env *env, struct mr_err *err)
{
	int e = open_file(s, f, env, err);

	if (e)
		return e;
	f->first = s->samples;
	if (samples_of(s, f) > INT64_MAX - s->samples)
		return mr_err_set(err, MR_ELIMIT, "%s: too many samples",
				  s->glob);
	s->samples += samples_of(s, f);
	if (s->reopen) {
		mr_input_close(f->in);
		f->in = NULL;
	}
	return 0;
}

static int list_files(struct hdf5 *s, const char *cwd, struct mr_err *err)
{
	char *full = mr_path_resolve(cwd, s->glob, err), **paths;
	struct rlimit limit = { .rlim_cur = 1024 };
	size_t n = 0;
	int e = full ? mr_input_list(full, &paths, &n, err) : MR_ENOMEM;

	free(full);
	if (e)
		return e;
	getrlimit(RLIMIT_NOFILE, &limit);
	s->reopen = n > limit.rlim_cur / 2;
	s->file = mr_alloc(n, sizeof(*s->file), err);
	for (size_t i = 0; i < n; i++) {
		if (s->file)
			s->file[s->files++] =
				(struct mr_h5_file){ .path = paths[i],
						     .handle = -1 };
		else
			free(paths[i]);
	}
	free(paths);
	return s->file ? 0 : MR_ENOMEM;
}

static int open_hdf5(void *self, const struct mr_source_env *env,
		     struct mr_err *err)
{
	struct hdf5 *s = self;
	int e = split_names(s, err);

	if (!e && !s->window && s->step)
		e = mr_err_set(err, MR_EINVAL,
			       "step: with window=0, a file is one sample");
	s->hop = (uint64_t)(s->step ? s->step : s->window);
	if (!e)
		e = list_files(s, env->cwd, err);
	for (size_t i = 0; !e && i < s->files; i++)
		e = add_file(s, &s->file[i], env, err);
	if (!e && !s->of)
		e = mr_err_set(err, MR_EDATA, "%s", s->file[0].lost);
	if (e || s->samples)
		return e;
	return mr_err_set(err, MR_EDATA,
			  "%s: no samples: no file has %lld rows; the first "
			  "one has %llu",
			  s->glob, (long long)(s->window ? s->window : 1),
			  (unsigned long long)s->of->rows);
}

static void close_hdf5(void *self)
{
	struct hdf5 *s = self;

	for (size_t i = 0; i < s->files; i++) {
		mr_h5_close(&s->file[i]);
		free(s->file[i].path);
		free(s->file[i].lost);
	}
	free(s->file);
	free(s->want.dataset);
	free(s->want.attribute);
	free(s->names);
	s->file = NULL;
	s->want = (struct mr_h5_want){ 0 };
	s->names = NULL;
	s->files = 0;
	s->of = NULL;
}

static uint64_t count(const void *self)
{
	return ((const struct hdf5 *)self)->samples;
}

static void fields(const void *self, struct mr_fields *out)
{
	*out = ((const struct hdf5 *)self)->fields;
}

/* ---- samples ---- */

/* What a thread keeps. */
struct local {
	struct mr_h5_cache cache[MR_MAX_FIELDS];
	struct libdeflate_decompressor *inflate;
	struct mr_input *in; /* of the file opened last */
	uint64_t file;
};

static void drop(void *local)
{
	struct local *l = local;

	for (int i = 0; i < MR_MAX_FIELDS; i++)
		mr_h5_cache_fini(&l->cache[i]);
	libdeflate_free_decompressor(l->inflate);
	mr_input_close(l->in);
}

/* The last file that begins at or before the sample; those without samples
 * begin where the next one does. */
static size_t file_of(const struct hdf5 *s, uint64_t index)
{
	size_t lo = 0, hi = s->files;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->file[mid].first <= index)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static int get_input(const struct mr_h5_file *f, uint64_t number,
		     struct local *l, struct mr_input **in, struct mr_err *err)
{
	int e = 0;

	*in = f->in;
	if (*in)
		return 0;
	if (!l->in || l->file != number) {
		mr_input_close(l->in);
		e = mr_input_open(&l->in, f->path, err);
		l->file = number;
	}
	*in = l->in;
	return e;
}

static int load_set(const struct mr_load *ld, const struct mr_h5_file *f,
		    uint64_t number, int i, struct mr_tensor *t)
{
	const struct hdf5 *s = ld->self;
	struct local *l = ld->local;
	const struct mr_h5_set *set = &f->set[i];
	uint64_t n = s->window ? (uint64_t)s->window : f->rows;
	struct mr_h5_rows r = {
		.set = set,
		.file = number,
		.first = (ld->index - f->first) * s->hop,
		.n = n,
		.keep_rows = s->hop < n && s->window ? n : 0,
		.limit = ld->limit,
		.cache = &l->cache[i],
		.inflate = &l->inflate,
		.scratch = ld->scratch,
		.err = ld->err,
	};
	int e;

	if (!s->window)
		t->shape[0] = (int64_t)n;
	if (n > ld->limit / mr_h5_bytes(set, 1)) /* room() says how many */
		n = ld->limit / mr_h5_bytes(set, 1) + 1;
	t->data = ld->room(ld, i, mr_h5_bytes(set, n));
	if (!t->data)
		return ld->err->code;
	if (set->layout == MR_H5_LIBRARY)
		return mr_h5_library_read(f, set, r.first, r.n, t->data,
					  ld->err);
	e = get_input(f, number, l, &r.in, ld->err);
	return e ? e : mr_h5_read(&r, t->data);
}

static int load(const struct mr_load *ld, struct mr_tensor *t)
{
	const struct hdf5 *s = ld->self;
	size_t number = file_of(s, ld->index);
	const struct mr_h5_file *f = &s->file[number];
	int e = 0;

	if (f->lost)
		return mr_err_set(ld->err, MR_EDATA, "%s", f->lost);
	for (int i = 0; !e && i < s->want.datasets; i++)
		e = load_set(ld, f, number, i, &t[i]);
	/* In the order of the fields. */
	for (int i = s->want.datasets; !e && i < s->fields.n; i++)
		t[i].data = &f->attribute[i - s->want.datasets];
	return e;
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct hdf5 *s = self;
	const struct mr_h5_file *f = &s->file[file_of(s, index)];

	if (!s->window || f->lost)
		return (size_t)snprintf(buf, cap, "%s", f->path);
	return (size_t)snprintf(
		buf, cap, "%s[%llu]", f->path,
		(unsigned long long)((index - f->first) * s->hop));
}

static uint64_t set_hash(const struct mr_h5_set *t, uint64_t h)
{
	h += (uint64_t)t->type.dtype;
	h = XXH3_64bits_withSeed(t->dims, sizeof(t->dims), h);
	return XXH3_64bits_withSeed(t->chunks, t->n_chunks * sizeof(*t->chunks),
				    h);
}

static uint64_t fingerprint(const void *self)
{
	const struct hdf5 *s = self;
	size_t numbers = sizeof(double) * (size_t)s->want.datasets *
			 (size_t)s->want.attributes;
	uint64_t h = 0;

	for (size_t i = 0; i < s->files; i++) {
		const struct mr_h5_file *f = &s->file[i];

		if (f->lost)
			continue;
		h = XXH3_64bits_withSeed(f->attribute, numbers, h);
		for (int k = 0; k < f->sets; k++)
			h = set_hash(&f->set[k], h);
	}
	return h;
}

static const char *file(const void *self, size_t i)
{
	const struct hdf5 *s = self;

	return i < s->files ? s->file[i].path : NULL;
}

const struct mr_source mr_source_hdf5 = {
	.name = "hdf5",
	.help = "rows, windows or the whole of datasets in HDF5 files",
	.size = sizeof(struct hdf5),
	.params = params,
	.open = open_hdf5,
	.close = close_hdf5,
	.count = count,
	.fields = fields,
	.load = load,
	.key = key,
	.fingerprint = fingerprint,
	.local = sizeof(struct local),
	.drop = drop,
	.file = file,
};
