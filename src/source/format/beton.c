/* SPDX-License-Identifier: Apache-2.0 */
/* beton: a data set that FFCV has written. */
#include <stdio.h>

#include "core/hash.h"
#include "core/le.h"
#include "source/betonfile.h"
#include "source/paths.h"
#include "source/storedpng.h"

struct beton {
	const char *file;
	bool map;
	struct mr_beton b;
	int order[MR_MAX_FIELDS]; /* of the fields: images first */
};

static const struct mr_param params[] = {
	MR_TEXT(struct beton, file, NULL, "a .beton file"),
	MR_BOOL(struct beton, map, "no", MR_MAP_HELP), MR_PARAM_END
};

/* ---- opening ---- */

static void order_fields(struct beton *s)
{
	int n = 0;

	for (int images = 1; images >= 0; images--)
		for (int i = 0; i < s->b.fields; i++)
			if ((s->b.field[i].type == MR_BETON_IMAGE) == images)
				s->order[n++] = i;
}

static int open_beton(void *self, const struct mr_source_env *env,
		      struct mr_err *err)
{
	struct beton *s = self;
	char *path = mr_path_resolve(env->cwd, s->file, err);
	int e = path ? mr_beton_open(&s->b, path, err) : MR_ENOMEM;

	if (!e)
		order_fields(s);
	if (!e && s->map)
		e = mr_input_map(s->b.in, err);
	free(path);
	return e;
}

static void close_beton(void *self)
{
	mr_beton_close(&((struct beton *)self)->b);
}

static uint64_t count(const void *self)
{
	return ((const struct beton *)self)->b.samples;
}

/* Pixels where all images are stored so, else the bytes of files. */
static bool as_pixels(const struct mr_beton_field *f)
{
	return f->raws && !f->jpegs;
}

static struct mr_spec spec_of(const struct mr_beton_field *f)
{
	struct mr_spec bytes = { MR_U8, 1, { MR_ANY } };
	struct mr_spec pixels = { MR_U8, 3, { MR_ANY, MR_ANY, 3 } };

	switch (f->type) {
	case MR_BETON_FLOAT:
		return (struct mr_spec){ .dtype = MR_F64 };
	case MR_BETON_INT:
		return (struct mr_spec){ .dtype = MR_I64 };
	case MR_BETON_ARRAY:
		return f->spec;
	case MR_BETON_IMAGE:
		if (!as_pixels(f))
			return bytes;
		if (f->same) {
			pixels.shape[0] = f->height;
			pixels.shape[1] = f->width;
		}
		return pixels;
	default:
		return bytes;
	}
}

static void fields(const void *self, struct mr_fields *out)
{
	const struct beton *s = self;

	out->n = 0;
	for (int i = 0; i < s->b.fields; i++) {
		const struct mr_beton_field *f = &s->b.field[s->order[i]];
		struct mr_spec spec = spec_of(f);

		mr_fields_add(out, f->name, spec.dtype, spec.ndim, spec.shape);
	}
}

/* ---- samples ---- */

/* All regions of a sample lie in one page, so one read gets them. */
static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct mr_beton *b = &((const struct beton *)self)->b;
	uint64_t from = UINT64_MAX, to = 0;

	(void)buf;
	(void)cap;
	for (int i = 0; i < b->fields; i++) {
		struct mr_beton_region r;
		int c = mr_beton_region(b, index, i, &r, err);

		if (c)
			return c;
		if (!r.n)
			continue;
		from = r.at < from ? r.at : from;
		to = r.at + r.n > to ? r.at + r.n : to;
	}
	if (!to) { /* numbers only: its row */
		from = b->rows_at + index * b->row;
		to = from + b->row;
	}
	if (to - from > b->page && to - from > b->row)
		return mr_err_set(err, MR_EDATA,
				  "its fields lie at bytes %llu to %llu, which "
				  "is more than a page of %llu",
				  (unsigned long long)from,
				  (unsigned long long)to,
				  (unsigned long long)b->page);
	mr_input_extent(b->in, from, to - from, e);
	return 0;
}

static int load_image(const struct mr_load *ld, int i, int field,
		      const uint8_t *p, size_t n, struct mr_tensor *t)
{
	const struct mr_beton *b = &((const struct beton *)ld->self)->b;
	const struct mr_beton_field *f = &b->field[field];
	struct mr_beton_image m = mr_beton_image(b, ld->index, field);
	size_t size;

	t[i].data = (void *)(uintptr_t)p;
	if (as_pixels(f)) {
		t[i].shape[0] = m.height;
		t[i].shape[1] = m.width;
		return 0;
	}
	t[i].shape[0] = (int64_t)n;
	if (m.mode == MR_BETON_JPEG)
		return 0;
	size = mr_stored_png_size((uint32_t)m.height, (uint32_t)m.width);
	if (!size)
		return mr_err_set(ld->err, MR_EDATA,
				  "field '%s': an image of %lld x %lld is too "
				  "large",
				  f->name, (long long)m.width,
				  (long long)m.height);
	t[i].data = ld->room(ld, i, size);
	if (!t[i].data)
		return ld->err->code;
	t[i].shape[0] = (int64_t)size;
	mr_stored_png(p, (uint32_t)m.height, (uint32_t)m.width, t[i].data);
	return 0;
}

static int load_array(const struct mr_load *ld, int i,
		      const struct mr_number *number, const uint8_t *p,
		      size_t n, struct mr_tensor *t)
{
	size_t count_ = n / number->size;

	t[i].data = ld->room(ld, i, count_ * mr_dtype_size(number->as));
	if (!t[i].data)
		return ld->err->code;
	return mr_number_load(number, p, count_, t[i].data, ld->err);
}

/* Field i from the n bytes that are its own. */
static int load_field(const struct mr_load *ld, int i, const uint8_t *p,
		      size_t n, struct mr_tensor *t)
{
	const struct beton *s = ld->self;
	const struct mr_beton_field *f = &s->b.field[s->order[i]];
	const uint8_t *value = mr_beton_value(&s->b, ld->index, s->order[i]);

	switch (f->type) {
	case MR_BETON_IMAGE:
		return load_image(ld, i, s->order[i], p, n, t);
	case MR_BETON_ARRAY:
		return load_array(ld, i, f->number, p, n, t);
	case MR_BETON_BYTES:
	case MR_BETON_JSON:
		/* FFCV ends its JSON with a zero. */
		if (f->type == MR_BETON_JSON && n && !p[n - 1])
			n--;
		t[i].shape[0] = (int64_t)n;
		t[i].data = (void *)(uintptr_t)p;
		return 0;
	default: /* eight bytes, whichever they are */
		return mr_load_i64(ld, i, (int64_t)mr_le64(value), t);
	}
}

static int unpack(const struct mr_load *ld, const void *bytes, size_t length,
		  struct mr_tensor *t)
{
	const struct beton *s = ld->self;
	struct mr_extent x = { 0 };
	int e = locate(s, ld->index, NULL, 0, &x, ld->err);

	if (!e && length != x.length)
		e = mr_err_set(ld->err, MR_EDATA,
			       "%zu bytes were read, not %llu", length,
			       (unsigned long long)x.length);
	for (int i = 0; !e && i < s->b.fields; i++) {
		struct mr_beton_region r = { 0 };
		const uint8_t *p = bytes;

		e = mr_beton_region(&s->b, ld->index, s->order[i], &r, ld->err);
		if (!e && r.n)
			p += r.at - x.offset;
		if (!e)
			e = load_field(ld, i, p, (size_t)r.n, t);
	}
	return e;
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	const struct mr_beton *b = &((const struct beton *)self)->b;

	return (size_t)snprintf(buf, cap, "%s[%llu]", mr_input_path(b->in),
				(unsigned long long)index);
}

static uint64_t fingerprint(const void *self)
{
	const struct mr_beton *b = &((const struct beton *)self)->b;

	return XXH3_64bits_withSeed(b->rows, (size_t)b->samples * b->row,
				    mr_input_size(b->in));
}

const struct mr_source mr_source_beton = {
	.name = "beton",
	.help = "a data set that FFCV has written",
	.flags = MR_SOURCE_MAPS,
	.size = sizeof(struct beton),
	.params = params,
	.open = open_beton,
	.close = close_beton,
	.count = count,
	.fields = fields,
	.locate = locate,
	.unpack = unpack,
	.key = key,
	.fingerprint = fingerprint,
};
