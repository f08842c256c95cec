/* SPDX-License-Identifier: Apache-2.0 */
/* npy: NumPy arrays whose first axis counts the samples. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "source/paths.h"

/* An array in a file. */
struct array {
	char *path;
	int fd;
	enum mr_dtype dtype;
	int ndim;
	int64_t shape[MR_MAX_DIMS];
	uint64_t offset; /* of the data */
	uint64_t first;	 /* sample in it, of all files */
	uint64_t bytes;	 /* of the file */
};

struct arrays {
	struct array *item;
	size_t n;
	uint64_t samples;
};

struct npy {
	const char *glob, *labels;
	struct arrays data;
	int64_t *label; /* of each sample, or NULL */
	uint64_t sample_bytes;
};

static const struct mr_param params[] = {
	MR_TEXT(struct npy, glob, NULL,
		"arrays; the first axis counts the samples"),
	MR_TEXT(struct npy, labels, "",
		"arrays of integers, one for each sample; empty: none"),
	MR_PARAM_END
};

/* ---- the header: a Python dictionary with three known keys ---- */

enum { MAX_HEADER = 1 << 20, DESCR_MAX = 32 };

struct header {
	char descr[DESCR_MAX];
	bool fortran;
	int ndim;
	int64_t shape[MR_MAX_DIMS];
	unsigned seen; /* keys so far, a bit each */
};

enum { KEY_DESCR = 1, KEY_FORTRAN = 2, KEY_SHAPE = 4, KEY_ALL = 7 };

static void blanks(const char **s)
{
	*s += strspn(*s, " \t\n\r");
}

/* Skips blanks and then the character c. */
static bool skip(const char **s, char c)
{
	blanks(s);
	if (**s != c)
		return false;
	++*s;
	return true;
}

static bool word(const char **s, const char *w)
{
	size_t n = strlen(w);

	if (strncmp(*s, w, n))
		return false;
	*s += n;
	return true;
}

static bool quoted(const char **s, char *out, size_t cap)
{
	const char *end;
	char quote;
	size_t n;

	blanks(s);
	quote = **s;
	if (quote != '\'' && quote != '"')
		return false;
	end = strchr(*s + 1, quote);
	if (!end)
		return false;
	n = (size_t)(end - *s - 1);
	if (n >= cap)
		return false;
	memcpy(out, *s + 1, n);
	out[n] = 0;
	*s = end + 1;
	return true;
}

static bool dimension(const char **s, int64_t *v)
{
	char *end;

	blanks(s);
	if (**s < '0' || **s > '9')
		return false;
	errno = 0;
	*v = strtoll(*s, &end, 10);
	*s = end;
	return !errno;
}

static int parse_shape(const char **s, struct header *h, struct mr_err *err)
{
	if (!skip(s, '('))
		goto bad;
	while (!skip(s, ')')) {
		if (h->ndim == MR_MAX_DIMS)
			return mr_err_set(err, MR_EDATA,
					  "more than %d dimensions",
					  MR_MAX_DIMS);
		if (!dimension(s, &h->shape[h->ndim++]))
			goto bad;
		if (!skip(s, ',')) {
			if (!skip(s, ')'))
				goto bad;
			break;
		}
	}
	return 0;
bad:
	return mr_err_set(err, MR_EDATA,
			  "damaged header: a dimension is not a number, or "
			  "too large");
}

static int parse_value(const char **s, struct header *h, const char *key,
		       struct mr_err *err)
{
	unsigned bit;

	if (!strcmp(key, "descr")) {
		bit = KEY_DESCR;
		blanks(s);
		if (**s == '[')
			return mr_err_set(
				err, MR_EDATA,
				"an array of records; save one of its fields: "
				"np.save(file, np.load(file)['field'])");
		if (!quoted(s, h->descr, sizeof(h->descr)))
			goto bad;
	} else if (!strcmp(key, "fortran_order")) {
		bit = KEY_FORTRAN;
		blanks(s);
		h->fortran = word(s, "True");
		if (!h->fortran && !word(s, "False"))
			goto bad;
	} else if (!strcmp(key, "shape")) {
		int e = h->seen & KEY_SHAPE ? 0 : parse_shape(s, h, err);

		bit = KEY_SHAPE;
		if (e)
			return e;
	} else {
		goto bad;
	}
	if (!(h->seen & bit)) {
		h->seen |= bit;
		return 0;
	}
bad:
	return mr_err_set(err, MR_EDATA, "damaged header at '%s'", key);
}

static int parse_header(const char *s, struct header *h, struct mr_err *err)
{
	char key[DESCR_MAX];
	int e;

	*h = (struct header){ 0 };
	if (!skip(&s, '{'))
		goto bad;
	while (!skip(&s, '}')) {
		if (!quoted(&s, key, sizeof(key)) || !skip(&s, ':'))
			goto bad;
		e = parse_value(&s, h, key, err);
		if (e)
			return e;
		if (!skip(&s, ',')) {
			if (!skip(&s, '}'))
				goto bad;
			break;
		}
	}
	blanks(&s);
	if (!*s && h->seen == KEY_ALL)
		return 0;
bad:
	return mr_err_set(err, MR_EDATA,
			  "damaged header: want descr, fortran_order and "
			  "shape");
}

/* ---- types ---- */

static const struct {
	const char *descr;
	enum mr_dtype dtype;
} types[] = {
	{ "|u1", MR_U8 },  { "|b1", MR_U8 },  { "<i2", MR_I16 },
	{ "<i4", MR_I32 }, { "<i8", MR_I64 }, { "<f2", MR_F16 },
	{ "<f4", MR_F32 }, { "<f8", MR_F64 },
};

/* What makes a type that we take of an array `a`. */
static const char *conversion(const char *descr, char *buf, size_t cap)
{
	const char *t = descr + (*descr && strchr("<>|=", *descr));

	for (size_t i = 0; i < MR_COUNT(types); i++) {
		if (!strcmp(t, types[i].descr + 1)) {
			snprintf(buf, cap, "a.astype('%s')", types[i].descr);
			return buf;
		}
	}
	switch (*t) {
	case 'i':
		return "a.astype('<i2')";
	case 'u':
		return !strcmp(t, "u2") ? "a.astype('<i4')" : "a.astype('<i8')";
	case 'c':
		return "np.stack([a.real, a.imag], -1).astype('<f4')";
	case 'm':
	case 'M':
		return "a.astype('<i8')";
	default:
		return "a.astype('<f4')";
	}
}

static int refuse_type(const char *path, const char *descr, struct mr_err *err)
{
	char buf[64];
	const char *how = conversion(descr, buf, sizeof(buf));

	if (strchr(descr, 'O'))
		return mr_err_set(
			err, MR_ETYPE,
			"an array of Python objects; if they have one shape, "
			"convert it: np.save('%s', np.stack(np.load('%s', "
			"allow_pickle=True)).astype('<f4'))",
			path, path);
	return mr_err_set(err, MR_ETYPE,
			  "type '%s' is not taken; convert it: a = "
			  "np.load('%s'); np.save('%s', %s)",
			  descr, path, path, how);
}

static int find_type(const char *path, const char *descr, enum mr_dtype *out,
		     struct mr_err *err)
{
	for (size_t i = 0; i < MR_COUNT(types); i++) {
		if (!strcmp(descr, types[i].descr)) {
			*out = types[i].dtype;
			return 0;
		}
	}
	return refuse_type(path, descr, err);
}

/* ---- a file ---- */

static int read_at(int fd, void *buf, size_t n, uint64_t at, struct mr_err *err)
{
	char *p = buf;

	while (n) {
		ssize_t got = pread(fd, p, n, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return mr_err_set(err, MR_EIO, "cannot read: %s",
					  strerror(errno));
		if (!got)
			return mr_err_set(err, MR_EDATA,
					  "truncated: the file ends at %llu, "
					  "%zu bytes are missing",
					  (unsigned long long)at, n);
		p += got;
		n -= (size_t)got;
		at += (uint64_t)got;
	}
	return 0;
}

/* Where the header's text begins and its length, from the first 12 bytes. */
static int read_prefix(const struct array *a, size_t *at, size_t *len,
		       struct mr_err *err)
{
	unsigned char b[12] = { 0 };
	int e;

	if (a->bytes < 10)
		return mr_err_set(err, MR_EDATA,
				  "no NumPy file: %llu bytes are less than "
				  "its header",
				  (unsigned long long)a->bytes);
	e = read_at(a->fd, b, a->bytes < 12 ? 10 : 12, 0, err);
	if (e)
		return e;
	if (memcmp(b, "\x93NUMPY", 6))
		return mr_err_set(err, MR_EDATA,
				  "no NumPy file: it does not begin with "
				  "\\x93NUMPY");
	if (b[6] < 1 || b[6] > 3 || b[7])
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "NumPy format %d.%d is not known, only 1.0, "
				  "2.0 and 3.0",
				  b[6], b[7]);
	*at = b[6] == 1 ? 10 : 12;
	*len = b[8] | (size_t)b[9] << 8;
	if (b[6] > 1)
		*len |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
	if (*at + *len > a->bytes)
		return mr_err_set(err, MR_EDATA,
				  "truncated: a header of %zu bytes in a file "
				  "of %llu",
				  *len, (unsigned long long)a->bytes);
	if (*len > MAX_HEADER)
		return mr_err_set(err, MR_EDATA,
				  "damaged: a header of %zu bytes", *len);
	return 0;
}

static int read_header(struct array *a, struct header *h, struct mr_err *err)
{
	size_t at = 0, len = 0;
	char *text;
	int e = read_prefix(a, &at, &len, err);

	if (e)
		return e;
	text = mr_alloc(len + 1, 1, err);
	if (!text)
		return MR_ENOMEM;
	e = read_at(a->fd, text, len, at, err);
	if (!e && strlen(text) != len)
		e = mr_err_set(err, MR_EDATA,
			       "damaged header: a zero byte in it");
	if (!e)
		e = parse_header(text, h, err);
	a->offset = at + len;
	free(text);
	return e;
}

static int check_size(const struct array *a, struct mr_err *err)
{
	uint64_t want;
	int64_t n;

	if (!mr_shape_elements(a->shape, a->ndim, a->dtype, &n))
		return mr_err_set(err, MR_EDATA,
				  "damaged header: the shape does not fit in "
				  "64 bits");
	want = (uint64_t)n * mr_dtype_size(a->dtype);
	if (a->bytes - a->offset >= want)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "truncated: its shape takes %llu bytes, the file "
			  "has %llu; copy or make it again",
			  (unsigned long long)(a->offset + want),
			  (unsigned long long)a->bytes);
}

static int read_array(struct array *a, struct mr_err *err)
{
	struct header h;
	int e = read_header(a, &h, err);

	if (!e)
		e = find_type(a->path, h.descr, &a->dtype, err);
	if (e)
		return e;
	if (h.fortran)
		return mr_err_set(err, MR_ETYPE,
				  "stored in Fortran order; convert it: "
				  "np.save('%s', np.ascontiguousarray("
				  "np.load('%s')))",
				  a->path, a->path);
	if (!h.ndim)
		return mr_err_set(err, MR_EDATA,
				  "a single number; want an array whose first "
				  "axis counts the samples");
	a->ndim = h.ndim;
	memcpy(a->shape, h.shape, sizeof(a->shape));
	return check_size(a, err);
}

static int open_array(struct array *a, struct mr_err *err)
{
	struct stat st;
	int e;

	a->fd = open(a->path, O_RDONLY | O_CLOEXEC);
	if (a->fd < 0 && (errno == EMFILE || errno == ENFILE))
		return mr_err_set(err, MR_EIO,
				  "%s: cannot open: too many open files; raise "
				  "the limit (ulimit -n), or use fewer, larger "
				  "files",
				  a->path);
	if (a->fd < 0 || fstat(a->fd, &st))
		return mr_err_sys(err, errno, a->path, "cannot open");
	if (!S_ISREG(st.st_mode))
		return mr_err_set(err, MR_EIO,
				  "%s: not a file; give .npy files, such as "
				  "%s/*.npy",
				  a->path, a->path);
	a->bytes = (uint64_t)st.st_size;
	e = read_array(a, err);
	if (e)
		mr_err_prefix(err, "%s: ", a->path);
	return e;
}

/* ---- several files as one array ---- */

static void close_arrays(struct arrays *s)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->item[i].fd >= 0)
			close(s->item[i].fd);
		free(s->item[i].path);
	}
	free(s->item);
	*s = (struct arrays){ 0 };
}

static struct mr_spec sample_spec(const struct array *a)
{
	struct mr_spec s = { .dtype = a->dtype, .ndim = a->ndim - 1 };

	for (int i = 1; i < a->ndim; i++)
		s.shape[i - 1] = a->shape[i];
	return s;
}

static int check_alike(const struct array *a, const struct array *b,
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

static int open_arrays(struct arrays *s, const char *cwd, const char *pattern,
		       struct mr_err *err)
{
	char *full = mr_path_resolve(cwd, pattern, err), **paths;
	size_t n = 0;
	int e = full ? mr_glob(full, &paths, &n, err) : MR_ENOMEM;

	free(full);
	if (e)
		return e;
	s->item = mr_alloc(n, sizeof(*s->item), err);
	for (size_t i = 0; i < n; i++) {
		if (s->item)
			s->item[s->n++] =
				(struct array){ .path = paths[i], .fd = -1 };
		else
			free(paths[i]);
	}
	free(paths);
	if (!s->item)
		return MR_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct array *a = &s->item[i];

		e = open_array(a, err);
		if (!e)
			e = check_alike(&s->item[0], a, err);
		if (e)
			return e;
		a->first = s->samples;
		if (s->samples + (uint64_t)a->shape[0] > INT64_MAX)
			return mr_err_set(err, MR_ELIMIT,
					  "%s: too many samples", pattern);
		s->samples += (uint64_t)a->shape[0];
	}
	return 0;
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

static int read_labels(const struct array *a, int64_t *out, struct mr_err *err)
{
	unsigned char buf[1 << 15];
	size_t size = mr_dtype_size(a->dtype), step = sizeof(buf) / size;
	uint64_t n = (uint64_t)a->shape[0];

	for (uint64_t i = 0; i < n; i += step) {
		size_t k = n - i < step ? (size_t)(n - i) : step;
		int e = read_at(a->fd, buf, k * size, a->offset + i * size,
				err);

		if (e) {
			mr_err_prefix(err, "%s: ", a->path);
			return e;
		}
		for (size_t j = 0; j < k; j++)
			out[a->first + i + j] =
				integer_at(buf + j * size, a->dtype);
	}
	return 0;
}

static int check_labels(const struct npy *s, const struct arrays *l,
			struct mr_err *err)
{
	const struct array *a = &l->item[0];

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

static int open_labels(struct npy *s, const char *cwd, struct mr_err *err)
{
	struct arrays l = { 0 };
	int e = open_arrays(&l, cwd, s->labels, err);

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
	int e = open_arrays(&s->data, env->cwd, s->glob, err);

	if (e)
		return e;
	if (!s->data.samples)
		return mr_err_set(err, MR_EDATA,
				  "%s: the data set is empty: the first axis "
				  "of its arrays is 0",
				  s->glob);
	spec = sample_spec(&s->data.item[0]);
	t = mr_tensor_of(&spec);
	s->sample_bytes = mr_tensor_bytes(&t);
	if (!s->sample_bytes)
		return mr_err_set(err, MR_EDATA,
				  "%s: the samples have no elements: an axis "
				  "of their shape is 0",
				  s->glob);
	return *s->labels ? open_labels(s, env->cwd, err) : 0;
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
	struct mr_spec spec = sample_spec(&s->data.item[0]);

	out->n = 0;
	mr_fields_add(out, "data", spec.dtype, spec.ndim, spec.shape);
	if (s->label)
		mr_fields_add(out, "label", MR_I64, 0, NULL);
}

/* The last array that begins at or before the sample. */
static const struct array *array_of(const struct npy *s, uint64_t index)
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
	const struct array *a = array_of(s, index);

	(void)buf;
	(void)cap;
	(void)err;
	*e = (struct mr_extent){
		.path = a->path,
		.fd = a->fd,
		.offset = a->offset + (index - a->first) * s->sample_bytes,
		.length = s->sample_bytes,
	};
	return 0;
}

static int unpack(const void *self, uint64_t index, const void *bytes,
		  size_t length, struct mr_tensor *f, struct mr_err *err)
{
	const struct npy *s = self;

	if (length != s->sample_bytes)
		return mr_err_set(err, MR_EDATA,
				  "%s: truncated since it was opened: %zu of "
				  "%llu bytes",
				  array_of(s, index)->path, length,
				  (unsigned long long)s->sample_bytes);
	f[0].data = (void *)(uintptr_t)bytes;
	if (s->label && f[1].data)
		memcpy(f[1].data, &s->label[index], sizeof(s->label[index]));
	return 0;
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct array *a = array_of(self, index);

	return (size_t)snprintf(buf, cap, "%s[%llu]", a->path,
				(unsigned long long)(index - a->first));
}

static uint64_t fingerprint(const void *self)
{
	const struct npy *s = self;
	uint64_t h = 0;

	for (size_t i = 0; i < s->data.n; i++) {
		const struct array *a = &s->data.item[i];

		h = XXH3_64bits_withSeed(a->shape, sizeof(a->shape),
					 h + (uint64_t)a->dtype);
	}
	if (s->label)
		h = XXH3_64bits_withSeed(
			s->label, s->data.samples * sizeof(*s->label), h);
	return h;
}

const struct mr_source mr_source_npy = {
	.name = "npy",
	.help = "NumPy arrays, whose first axis counts the samples",
	.flags = MR_SOURCE_RAW,
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
