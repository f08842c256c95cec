/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	size_t size;
} dtypes[MR_DTYPES] = {
	[MR_NONE] = { "none", 0 }, [MR_U8] = { "u8", 1 },
	[MR_I16] = { "i16", 2 },   [MR_I32] = { "i32", 4 },
	[MR_I64] = { "i64", 8 },   [MR_F16] = { "f16", 2 },
	[MR_F32] = { "f32", 4 },   [MR_F64] = { "f64", 8 },
};

size_t mr_dtype_size(enum mr_dtype dtype)
{
	return (unsigned)dtype < MR_DTYPES ? dtypes[dtype].size : 0;
}

const char *mr_dtype_name(enum mr_dtype dtype)
{
	return (unsigned)dtype < MR_DTYPES ? dtypes[dtype].name : "none";
}

enum mr_dtype mr_dtype_parse(const char *name)
{
	for (int t = MR_U8; t < MR_DTYPES; t++)
		if (!strcmp(name, dtypes[t].name))
			return (enum mr_dtype)t;
	return MR_NONE;
}

bool mr_spec_fixed(const struct mr_spec *s)
{
	for (int i = 0; i < s->ndim; i++)
		if (s->shape[i] == MR_ANY)
			return false;
	return true;
}

size_t mr_spec_text(const struct mr_spec *s, char *buf, size_t cap)
{
	size_t n = (size_t)snprintf(buf, cap, "%s[", mr_dtype_name(s->dtype));

	for (int i = 0; i < s->ndim; i++) {
		char dim[24] = "?";

		if (s->shape[i] != MR_ANY)
			snprintf(dim, sizeof(dim), "%lld",
				 (long long)s->shape[i]);
		n += (size_t)snprintf(n < cap ? buf + n : NULL,
				      n < cap ? cap - n : 0, "%s%s",
				      i ? " " : "", dim);
	}
	n += (size_t)snprintf(n < cap ? buf + n : NULL, n < cap ? cap - n : 0,
			      "]");
	return n;
}

struct mr_tensor mr_tensor_of(const struct mr_spec *s)
{
	struct mr_tensor t = { .dtype = s->dtype, .ndim = s->ndim };

	for (int i = 0; i < s->ndim; i++)
		t.shape[i] = s->shape[i] == MR_ANY ? 0 : s->shape[i];
	return t;
}

bool mr_shape_elements(const int64_t *shape, int ndim, enum mr_dtype dtype,
		       int64_t *elements)
{
	int64_t n = 1, max = INT64_MAX;

	if (ndim < 0 || ndim > MR_MAX_DIMS)
		return false;
	max /= (int64_t)(dtype == MR_NONE ? 1 : mr_dtype_size(dtype));
	for (int i = 0; i < ndim; i++) {
		if (shape[i] < 0)
			return false;
		if (shape[i] && n > max / shape[i])
			return false;
		n *= shape[i];
	}
	*elements = n;
	return true;
}

int64_t mr_tensor_elements(const struct mr_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

size_t mr_tensor_bytes(const struct mr_tensor *t)
{
	return (size_t)mr_tensor_elements(t) * mr_dtype_size(t->dtype);
}

void mr_fields_text(const struct mr_fields *fs, struct mr_str *out)
{
	for (int i = 0; i < fs->n; i++) {
		char spec[128];

		mr_spec_text(&fs->item[i].spec, spec, sizeof(spec));
		mr_str_addf(out, "%s%s %s", i ? ", " : "", fs->item[i].name,
			    spec);
	}
}

void mr_fields_json(const struct mr_fields *fs, struct mr_json *j)
{
	mr_json_open(j, "fields", '[');
	for (int i = 0; i < fs->n; i++) {
		const struct mr_spec *s = &fs->item[i].spec;

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "name", fs->item[i].name);
		mr_json_text(j, "dtype", mr_dtype_name(s->dtype));
		mr_json_open(j, "shape", '[');
		for (int d = 0; d < s->ndim; d++)
			mr_json_int(j, NULL, s->shape[d]);
		mr_json_close(j, ']');
		if (fs->item[i].rated)
			mr_json_bool(j, "rate", true);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

int64_t mr_tensor_integer(const struct mr_tensor *t, int64_t i)
{
	const uint8_t *p =
		(const uint8_t *)t->data + (size_t)i * mr_dtype_size(t->dtype);
	int16_t h;
	int32_t w;
	int64_t v;

	switch (t->dtype) {
	case MR_U8:
		return *p;
	case MR_I16:
		memcpy(&h, p, 2);
		return h;
	case MR_I32:
		memcpy(&w, p, 4);
		return w;
	default:
		memcpy(&v, p, 8);
		return v;
	}
}
