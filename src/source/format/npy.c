/* SPDX-License-Identifier: Apache-2.0 */
/* npy: NumPy arrays whose first axis counts the samples. */
#include <stdio.h>

#include "core/hash.h"
#include "io/input.h"
#include "source/npyfile.h"
#include "source/parts.h"
#include "source/paths.h"

struct arrays {
	struct mr_npy *item;
	const struct mr_npy *like; /* the samples of all */
	size_t n;
	uint64_t samples;
};

struct npy {
	const char *glob, *labels;
	bool map;
	struct arrays data;
	int64_t *label; /* of each sample, or NULL */
	uint64_t sample_bytes;
};

static const struct mr_param params[] = {
	MR_TEXT(struct npy, glob, NULL,
		"arrays; the first axis counts the samples"),
	MR_TEXT(struct npy, labels, "",
		"arrays of integers, one for each sample; empty: none"),
	MR_BOOL(struct npy, map, "no", MR_MAP_HELP), MR_PARAM_END
};

/* ---- several files as one array ---- */

static void close_arrays(struct arrays *s)
{
	for (size_t i = 0; i < s->n; i++) {
		mr_input_close(s->item[i].input);
		free(s->item[i].path);
		free(s->item[i].lost);
	}
	free(s->item);
	*s = (struct arrays){ 0 };
}

static struct mr_spec sample_spec(const struct mr_npy *a)
{
	struct mr_spec s = { .dtype = a->dtype, .ndim = a->ndim - 1 };

	for (int i = 1; i < a->ndim; i++)
		s.shape[i - 1] = a->shape[i];
	return s;
}

static int check_alike(const struct mr_npy *a, const struct mr_npy *b,
		       struct mr_err *err)
{
	struct mr_spec sa = sample_spec(a), sb = sample_spec(b);
	char ta[200], tb[200];

	if (a->dtype == b->dtype && a->ndim == b->ndim &&
	    !memcmp(sa.shape, sb.shape, sizeof(sa.shape)))
		return 0;
	mr_spec_text(&sa, ta, sizeof(ta));
	mr_spec_text(&sb, tb, sizeof(tb));
	return mr_err_set(err, MR_EDATA,
			  "%s: samples are %s, but those of %s are %s; all "
			  "files must agree",
			  b->path, tb, a->path, ta);
}

/* A damaged one of several is one bad sample. Of a truncated one the rows that
 * are there are good, and its shape is believed if they are at least half. */
static int lose(struct mr_npy *a, struct mr_err *err)
{
	struct mr_err other;

	a->lost = mr_strdup(err->text, &other);
	if (!a->lost) {
		*err = other;
		return MR_ENOMEM;
	}
	if (a->whole && (uint64_t)a->shape[0] / 2 <= a->whole)
		a->samples = (uint64_t)a->shape[0];
	else
		a->samples = a->whole + 1;
	return 0;
}

static int open_array(struct mr_npy *a, const struct mr_source_env *env,
		      size_t n, struct mr_err *err)
{
	int e = mr_npy_open(a, err);

	a->samples = a->whole;
	if (e && mr_part_forgiven(env, a->whole ? 2 : n, e))
		e = lose(a, err);
	return e;
}

/* What the others must be like: the first that is sound. */
static const struct mr_npy *pattern_of(const struct arrays *s)
{
	const struct mr_npy *part = NULL;

	for (size_t i = 0; i < s->n; i++) {
		if (!s->item[i].lost)
			return &s->item[i];
		if (!part && s->item[i].whole)
			part = &s->item[i];
	}
	return part;
}

/* A damaged header may call rows what is none. */
static int match(const struct arrays *s, struct mr_npy *a, struct mr_err *err)
{
	int e = a->lost && !a->whole ? 0 : check_alike(s->like, a, err);

	if (e && a->lost) {
		a->whole = 0;
		a->samples = 1;
		e = 0;
	}
	return e;
}

static int list_arrays(struct arrays *s, const char *cwd, const char *pattern,
		       struct mr_err *err)
{
	char *full = mr_path_resolve(cwd, pattern, err), **paths;
	size_t n = 0;
	int e = full ? mr_input_list(full, &paths, &n, err) : MR_ENOMEM;

	free(full);
	if (e)
		return e;
	s->item = mr_alloc(n, sizeof(*s->item), err);
	for (size_t i = 0; i < n; i++) {
		if (s->item)
			s->item[s->n++] = (struct mr_npy){ .path = paths[i] };
		else
			free(paths[i]);
	}
	free(paths);
	return s->item ? 0 : MR_ENOMEM;
}

static int open_arrays(struct arrays *s, const struct mr_source_env *env,
		       const char *pattern, struct mr_err *err)
{
	int e = list_arrays(s, env->cwd, pattern, err);

	for (size_t i = 0; !e && i < s->n; i++)
		e = open_array(&s->item[i], env, s->n, err);
	if (e)
		return e;
	s->like = pattern_of(s);
	if (!s->like)
		return mr_err_set(err, MR_EDATA, "%s", s->item[0].lost);
	for (size_t i = 0; !e && i < s->n; i++) {
		struct mr_npy *a = &s->item[i];

		e = match(s, a, err);
		a->first = s->samples;
		if (!e && a->samples > INT64_MAX - s->samples)
			e = mr_err_set(err, MR_ELIMIT, "%s: too many samples",
				       pattern);
		s->samples += a->samples;
	}
	return e;
}

/* ---- labels ---- */

static int64_t integer_at(const unsigned char *p, enum mr_dtype dtype)
{
	uint64_t v = 0;
	unsigned bits = 8 * (unsigned)mr_dtype_size(dtype);

	for (unsigned i = 0; i < bits; i += 8)
		v |= (uint64_t)p[i / 8] << i;
	if (dtype != MR_U8 && bits < 64 && v >> (bits - 1))
		v |= UINT64_MAX << bits;
	return (int64_t)v;
}

static int read_labels(const struct mr_npy *a, int64_t *out, struct mr_err *err)
{
	unsigned char buf[1 << 15];
	size_t size = mr_dtype_size(a->dtype), step = sizeof(buf) / size;
	uint64_t n = (uint64_t)a->shape[0];

	for (uint64_t i = 0; i < n; i += step) {
		size_t k = n - i < step ? (size_t)(n - i) : step;
		int e = mr_input_read(a->input, buf, k * size,
				      a->offset + i * size, err);

		if (e)
			return e;
		for (size_t j = 0; j < k; j++)
			out[a->first + i + j] =
				integer_at(buf + j * size, a->dtype);
	}
	return 0;
}

static int check_labels(const struct npy *s, const struct arrays *l,
			struct mr_err *err)
{
	const struct mr_npy *a = l->like;

	if (a->ndim != 1)
		return mr_err_set(err, MR_ETYPE,
				  "%s: labels have one dimension, these %d; "
				  "convert them: np.save('%s', "
				  "np.load('%s').argmax(-1)) if they are "
				  "one-hot",
				  a->path, a->ndim, a->path, a->path);
	if (a->dtype >= MR_F16)
		return mr_err_set(err, MR_ETYPE,
				  "%s: labels are integers, these are %s; "
				  "convert them: np.save('%s', "
				  "np.load('%s').astype('<i8'))",
				  a->path, mr_dtype_name(a->dtype), a->path,
				  a->path);
	if (l->samples != s->data.samples)
		return mr_err_set(err, MR_EDATA,
				  "labels=%s: %llu labels for %llu samples; "
				  "there must be one for each",
				  s->labels, (unsigned long long)l->samples,
				  (unsigned long long)s->data.samples);
	return 0;
}

/* A label that is lost has nothing to stand for it. */
static int open_labels(struct npy *s, const struct mr_source_env *env,
		       struct mr_err *err)
{
	struct mr_source_env strict = *env;
	struct arrays l = { 0 };
	int e;

	strict.lenient = false;
	e = open_arrays(&l, &strict, s->labels, err);

	if (!e)
		e = check_labels(s, &l, err);
	if (!e) {
		s->label = mr_alloc(l.samples, sizeof(*s->label), err);
		e = s->label ? 0 : MR_ENOMEM;
	}
	for (size_t i = 0; !e && i < l.n; i++)
		e = read_labels(&l.item[i], s->label, err);
	close_arrays(&l);
	return e;
}

/* ---- the source ---- */

static int open_npy(void *self, const struct mr_source_env *env,
		    struct mr_err *err)
{
	struct npy *s = self;
	struct mr_tensor t;
	struct mr_spec spec;
	int e = open_arrays(&s->data, env, s->glob, err);

	if (e)
		return e;
	if (!s->data.samples)
		return mr_err_set(err, MR_EDATA,
				  "%s: the data set is empty: the first axis "
				  "of its arrays is 0",
				  s->glob);
	spec = sample_spec(s->data.like);
	t = mr_tensor_of(&spec);
	s->sample_bytes = mr_tensor_bytes(&t);
	if (!s->sample_bytes)
		return mr_err_set(err, MR_EDATA,
				  "%s: the samples have no elements: an axis "
				  "of their shape is 0",
				  s->glob);
	for (size_t i = 0; !e && s->map && i < s->data.n; i++)
		if (s->data.item[i].whole)
			e = mr_input_map(s->data.item[i].input, err);
	return !e && *s->labels ? open_labels(s, env, err) : e;
}

static void close_npy(void *self)
{
	struct npy *s = self;

	close_arrays(&s->data);
	free(s->label);
	s->label = NULL;
}

static uint64_t count(const void *self)
{
	return ((const struct npy *)self)->data.samples;
}

static void fields(const void *self, struct mr_fields *out)
{
	const struct npy *s = self;
	struct mr_spec spec = sample_spec(s->data.like);

	out->n = 0;
	mr_fields_add(out, "data", spec.dtype, spec.ndim, spec.shape);
	if (s->label)
		mr_fields_add(out, "label", MR_I64, 0, NULL);
}

/* The last array that begins at or before the sample. */
static const struct mr_npy *array_of(const struct npy *s, uint64_t index)
{
	size_t lo = 0, hi = s->data.n;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->data.item[mid].first <= index)
			lo = mid;
		else
			hi = mid;
	}
	return &s->data.item[lo];
}

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct npy *s = self;
	const struct mr_npy *a = array_of(s, index);
	uint64_t at = a->offset + (index - a->first) * s->sample_bytes;

	(void)buf;
	(void)cap;
	if (index - a->first >= a->whole)
		return mr_err_set(err, MR_EDATA, "%s", a->lost);
	mr_input_extent(a->input, at, s->sample_bytes, e);
	return 0;
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *f)
{
	const struct npy *s = ld->self;

	if (length != s->sample_bytes)
		return mr_err_set(ld->err, MR_EDATA,
				  "%s: truncated since it was opened: %zu of "
				  "%llu bytes",
				  array_of(s, ld->index)->path, length,
				  (unsigned long long)s->sample_bytes);
	f[0].data = (void *)(uintptr_t)bytes;
	return s->label ? mr_load_i64(ld, 1, s->label[ld->index], f) : 0;
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct mr_npy *a = array_of(self, index);

	return (size_t)snprintf(buf, cap, "%s[%llu]", a->path,
				(unsigned long long)(index - a->first));
}

static uint64_t fingerprint(const void *self)
{
	const struct npy *s = self;
	uint64_t h = 0;

	for (size_t i = 0; i < s->data.n; i++) {
		const struct mr_npy *a = &s->data.item[i];

		h = XXH3_64bits_withSeed(a->shape, sizeof(a->shape),
					 h + (uint64_t)a->dtype);
		if (a->lost)
			h = XXH3_64bits_withSeed(&a->whole, sizeof(a->whole),
						 h);
	}
	if (s->label)
		h = XXH3_64bits_withSeed(
			s->label, s->data.samples * sizeof(*s->label), h);
	return h;
}

const struct mr_source mr_source_npy = {
	.name = "npy",
	.help = "NumPy arrays, whose first axis counts the samples",
	.flags = MR_SOURCE_RAW | MR_SOURCE_MAPS,
	.size = sizeof(struct npy),
	.params = params,
	.open = open_npy,
	.close = close_npy,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.fingerprint = fingerprint,
};
