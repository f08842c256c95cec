/* SPDX-License-Identifier: Apache-2.0 */
#include "source/mdscolumn.h"

#include <stdio.h>

#include "core/le.h"

/* ---- from the encoding's name ---- */

static int unusable(const struct mr_mds_column *c, const char *why,
		    struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA, "column '%.100s' is '%.100s': %s",
			  c->name, c->encoding, why);
}

/* "3,4" */
static bool parse_shape(const char *s, struct mr_spec *spec)
{
	for (;;) {
		char *end;
		long long v = strtoll(s, &end, 10);

		if (*s < '0' || *s > '9' || v < 1 || v > UINT32_MAX ||
		    spec->ndim == MR_MAX_DIMS)
			return false;
		spec->shape[spec->ndim++] = v;
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		s = end + 1;
	}
}

/* What follows "ndarray". */
static int init_array(struct mr_mds_field *f, const char *s, struct mr_err *err)
{
	const struct mr_mds_column *c = f->column;
	char type[16] = "";
	int64_t elements;
	size_t n;

	f->kind = MR_MDS_TYPED;
	if (!*s)
		return 0;
	n = strcspn(++s, ":");
	snprintf(type, sizeof(type), "%.*s", (int)n, s);
	f->number = mr_number_find(type);
	if (!f->number)
		return unusable(c, "no such type of numbers", err);
	f->spec.dtype = f->number->as;
	f->kind = MR_MDS_SHAPED;
	if (!s[n])
		return 0;
	f->kind = MR_MDS_FIXED;
	if (!parse_shape(s + n + 1, &f->spec))
		return unusable(c, "its shape is none that we take", err);
	if (!mr_shape_elements(f->spec.shape, f->spec.ndim, f->spec.dtype,
			       &elements) ||
	    (uint64_t)elements > UINT32_MAX ||
	    (uint64_t)elements * f->number->size != c->size)
		return unusable(c, "its size is not what its shape needs", err);
	return 0;
}

int mr_mds_field_init(struct mr_mds_field *f, const struct mr_mds_column *c,
		      struct mr_err *err)
{
	const char *s = c->encoding;
	bool array = !strncmp(s, "ndarray", 7) && (!s[7] || s[7] == ':');

	*f = (struct mr_mds_field){ .column = c };
	if (array && !(c->size && (!s[7] || !strchr(s + 8, ':'))))
		return init_array(f, s + 7, err);
	f->number = mr_number_find(!strcmp(s, "int") ? "int64" : s);
	if (f->number) {
		f->kind = MR_MDS_NUMBER;
		f->spec = (struct mr_spec){ .dtype = f->number->as };
		return c->size == f->number->size ?
			       0 :
			       unusable(c, "its size is another", err);
	}
	f->kind = MR_MDS_BYTES;
	f->spec = (struct mr_spec){ .dtype = MR_U8, .ndim = 1 };
	f->spec.shape[0] = c->size ? (int64_t)c->size : MR_ANY;
	f->picture = !strcmp(s, "jpeg") || !strncmp(s, "jpeg:", 5) ||
		     !strcmp(s, "png");
	return 0;
}

/* ---- arrays that describe themselves ---- */

/* [type 1] [dimensions << 2 | bytes of each as a power of two 1] [shape] */
struct head {
	const struct mr_number *number;
	int ndim;
	int64_t shape[MR_MAX_DIMS];
	size_t size;
};

static const struct mr_number *number_of(uint8_t code)
{
	static const char *const kinds[] = { "uint", "int", "float" };
	char name[16];

	if ((code & 7) > 2 || (code & ~7) < 8)
		return NULL;
	snprintf(name, sizeof(name), "%s%d", kinds[code & 7], code & ~7);
	return mr_number_find(name);
}

static int64_t dimension(const uint8_t *p, size_t width)
{
	uint64_t v = width == 1 ? *p :
		     width == 2 ? mr_le16(p) :
		     width == 4 ? mr_le32(p) :
				  mr_le64(p);

	return v > INT64_MAX ? -1 : (int64_t)v;
}

static bool read_head(const struct mr_mds_field *f, const uint8_t *p, size_t n,
		      struct head *h)
{
	size_t at = 0, width;

	h->number = f->number;
	if (f->kind == MR_MDS_TYPED) {
		h->number = n ? number_of(p[0]) : NULL;
		at = 1;
	}
	if (!h->number || at >= n)
		return false;
	h->ndim = p[at] >> 2;
	width = (size_t)1 << (p[at++] & 3);
	if (h->ndim > MR_MAX_DIMS || (size_t)h->ndim * width > n - at)
		return false;
	for (int i = 0; i < h->ndim; i++, at += width)
		h->shape[i] = dimension(p + at, width);
	h->size = at;
	return true;
}

int mr_mds_field_learn(struct mr_mds_field *f, const uint8_t *value, size_t n,
		       struct mr_err *err)
{
	struct head h;

	if (f->kind != MR_MDS_SHAPED && f->kind != MR_MDS_TYPED)
		return 0;
	if (!read_head(f, value, n, &h))
		return unusable(f->column, "the first sample holds no array",
				err);
	f->number = h.number;
	f->spec.dtype = h.number->as;
	f->spec.ndim = h.ndim;
	for (int i = 0; i < h.ndim; i++)
		f->spec.shape[i] = MR_ANY;
	return 0;
}

/* ---- values ---- */

static int bad_value(const struct mr_mds_field *f, const struct mr_load *ld,
		     const char *why)
{
	return mr_err_set(ld->err, MR_EDATA, "column '%.100s' (%.100s): %s",
			  f->column->name, f->column->encoding, why);
}

static int load_numbers(const struct mr_mds_field *f, int i,
			const struct mr_load *ld, const uint8_t *p, size_t n,
			struct mr_tensor *t)
{
	/* Bytes have no alignment to care for. */
	if (f->number->size == 1 && mr_number_same(f->number)) {
		t[i].data = (void *)(uintptr_t)p;
		return 0;
	}
	t[i].data = ld->room(ld, i, n * mr_dtype_size(t[i].dtype));
	if (!t[i].data)
		return ld->err->code;
	return mr_number_load(f->number, p, n, t[i].data, ld->err);
}

static int load_array(const struct mr_mds_field *f, int i,
		      const struct mr_load *ld, const uint8_t *p, size_t n,
		      struct mr_tensor *t)
{
	int64_t elements;
	struct head h;

	if (!read_head(f, p, n, &h))
		return bad_value(f, ld, "it holds no array");
	if (h.number != f->number || h.ndim != f->spec.ndim)
		return bad_value(f, ld,
				 "an array of another type, or with another "
				 "number of dimensions, than in the first "
				 "sample");
	if (!mr_shape_elements(h.shape, h.ndim, h.number->as, &elements) ||
	    (uint64_t)elements > (n - h.size) / h.number->size ||
	    (uint64_t)elements * h.number->size != n - h.size)
		return bad_value(f, ld,
				 "the array's shape does not fit its bytes");
	memcpy(t[i].shape, h.shape, (size_t)h.ndim * sizeof(h.shape[0]));
	return load_numbers(f, i, ld, p + h.size, (size_t)elements, t);
}

int mr_mds_field_load(const struct mr_mds_field *f, int i,
		      const struct mr_load *ld, const uint8_t *value, size_t n,
		      struct mr_tensor *t)
{
	if (f->kind == MR_MDS_SHAPED || f->kind == MR_MDS_TYPED)
		return load_array(f, i, ld, value, n, t);
	if (f->kind != MR_MDS_BYTES)
		return load_numbers(f, i, ld, value, n / f->number->size, t);
	t[i].shape[0] = (int64_t)n;
	t[i].data = (void *)(uintptr_t)value;
	return 0;
}
