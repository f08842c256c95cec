/* SPDX-License-Identifier: Apache-2.0 */
#include "source/npyfile.h"

#include <stdio.h>
#include <sys/stat.h>

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
	case 'U': /* texts: each by its number among those that differ */
	case 'S':
		return "np.unique(a, return_inverse=True)[1].reshape(a.shape)";
	case 'm':
	case 'M':
		return "a.astype('<i8')";
	default:
		return "a.astype('<f4')";
	}
}

static int refuse_type(const struct mr_npy *a, const char *descr,
		       struct mr_err *err)
{
	char buf[64];
	const char *how = conversion(descr, buf, sizeof(buf));
	const char *path = a->path;

	if (a->member)
		return mr_err_set(err, MR_ETYPE,
				  "type '%s' is not taken; convert it: d = "
				  "dict(np.load('%s', allow_pickle=True)); a "
				  "= d['%s']; d['%s'] = %s; np.savez('%s', "
				  "**d)",
				  descr, path, a->member, a->member, how, path);

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

static int find_type(struct mr_npy *a, const char *descr, struct mr_err *err)
{
	for (size_t i = 0; i < MR_COUNT(types); i++) {
		if (!strcmp(descr, types[i].descr)) {
			a->dtype = types[i].dtype;
			return 0;
		}
	}
	return refuse_type(a, descr, err);
}

/* ---- a file ---- */

/* Where the header's text begins and its length, from the first 12 bytes. */
static int parse_prefix(const struct mr_npy *a, const unsigned char *b,
			size_t *at, size_t *len, struct mr_err *err)
{
	if (!memcmp(b, "PK\3\4", 4))
		return mr_err_set(err, MR_EDATA,
				  "no NumPy file: it begins as a zip file, "
				  "not with \\x93NUMPY; the source npz reads "
				  ".npz files");
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

static int check_size(struct mr_npy *a, struct mr_err *err)
{
	uint64_t want;
	int64_t n;

	if (!mr_shape_elements(a->shape, a->ndim, a->dtype, &n))
		return mr_err_set(err, MR_EDATA,
				  "damaged header: the shape does not fit in "
				  "64 bits");
	want = (uint64_t)n * mr_dtype_size(a->dtype);
	a->whole = a->ndim ? (uint64_t)a->shape[0] : 1;
	if (a->bytes - a->offset >= want)
		return 0;
	a->whole = (a->bytes - a->offset) / (want / a->whole);
	return mr_err_set(err, MR_EDATA,
			  "truncated: its shape takes %llu bytes, the file "
			  "has %llu; copy or make it again",
			  (unsigned long long)(a->offset + want),
			  (unsigned long long)a->bytes);
}

static int take_header(struct mr_npy *a, const struct header *h,
		       struct mr_err *err)
{
	int e = find_type(a, h->descr, err);

	if (e)
		return e;
	if (h->fortran && a->member)
		return mr_err_set(err, MR_ETYPE,
				  "stored in Fortran order; save "
				  "np.ascontiguousarray() of it");
	if (h->fortran)
		return mr_err_set(err, MR_ETYPE,
				  "stored in Fortran order; convert it: "
				  "np.save('%s', np.ascontiguousarray("
				  "np.load('%s')))",
				  a->path, a->path);
	a->ndim = h->ndim;
	memcpy(a->shape, h->shape, sizeof(a->shape));
	return check_size(a, err);
}

/* The header's text, with a zero after it. */
static int parse_text(struct mr_npy *a, const char *text, size_t at, size_t len,
		      struct mr_err *err)
{
	struct header h;
	int e;

	if (strlen(text) != len)
		return mr_err_set(err, MR_EDATA,
				  "damaged header: a zero byte in it");
	e = parse_header(text, &h, err);
	a->offset = at + len;
	return e ? e : take_header(a, &h, err);
}

int mr_npy_parse(struct mr_npy *a, const void *bytes, size_t n,
		 struct mr_err *err)
{
	unsigned char b[12] = { 0 };
	size_t at = 0, len = 0;
	char *text;
	int e;

	if (n < 10)
		return mr_err_set(err, MR_EDATA,
				  "no NumPy file: %llu bytes are less than "
				  "its header",
				  (unsigned long long)a->bytes);
	memcpy(b, bytes, n < 12 ? n : 12);
	e = parse_prefix(a, b, &at, &len, err);
	if (!e && at + len > n)
		e = mr_err_set(err, MR_ELIMIT, "a header of %zu bytes", len);
	text = e ? NULL : mr_alloc(len + 1, 1, err);
	if (!text)
		return e ? e : MR_ENOMEM;
	memcpy(text, (const char *)bytes + at, len);
	e = parse_text(a, text, at, len, err);
	free(text);
	return e;
}

static int read_array(struct mr_npy *a, struct mr_err *err)
{
	unsigned char b[12] = { 0 };
	size_t at = 0, len = 0;
	char *text;
	int e;

	if (a->bytes < 10)
		return mr_npy_parse(a, b, 0, err);
	e = mr_input_read(a->input, b, a->bytes < 12 ? 10 : 12, 0, err);
	if (!e)
		e = parse_prefix(a, b, &at, &len, err);
	text = e ? NULL : mr_alloc(len + 1, 1, err);
	if (!text)
		return e ? e : MR_ENOMEM;
	e = mr_input_read(a->input, text, len, at, err);
	if (!e)
		e = parse_text(a, text, at, len, err);
	free(text);
	if (!e && !a->ndim)
		e = mr_err_set(err, MR_EDATA,
			       "a single number; want an array whose first "
			       "axis counts the samples");
	return e;
}

int mr_npy_open(struct mr_npy *a, struct mr_err *err)
{
	size_t n = strlen(a->path);
	struct stat st;
	int e;

	if (!mr_input_is_url(a->path) && !stat(a->path, &st) &&
	    S_ISDIR(st.st_mode))
		return mr_err_set(err, MR_EIO,
				  "%s: not a file; give .npy files, such as "
				  "%s/*.npy",
				  a->path, a->path);
	e = mr_input_open(&a->input, a->path, err);
	if (e)
		return e;
	a->bytes = mr_input_size(a->input);
	e = read_array(a, err);
	if (e && strncmp(err->text, a->path, n)) /* a read names it itself */
		mr_err_prefix(err, "%s: ", a->path);
	return e;
}
