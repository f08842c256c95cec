/* SPDX-License-Identifier: Apache-2.0 */
#include "source/betonfile.h"

#include <json-c/json.h>
#include <stdio.h>

#include "core/le.h"
#include "core/mem.h"
#include "core/tensor.h"

enum {
	VERSION = 2,
	HEADER = 24,
	DESCRIPTOR = 1041, /* type 1, name 16, arguments 1024 */
	ARGUMENTS = 1024,
	SHAPE_MAX = 32, /* numbers of 8 bytes, then the length of the type */
	TYPE_AT = (SHAPE_MAX + 1) * 8,
	IMAGE_ROW = 13, /* mode 1, width 2, height 2, place 8; not aligned */
	BYTES_ROW = 16, /* place 8, size 8; not aligned */
	ENTRY = 24,	/* sample 8, place 8, size 8 */
};

static int broken(const struct mr_beton *b, const char *why, struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "%s: is no FFCV data set, or damaged: "
			  "%s",
			  mr_input_path(b->in), why);
}

/* ---- header ---- */

static int read_header(struct mr_beton *b, struct mr_err *err)
{
	uint64_t size = mr_input_size(b->in);
	uint8_t h[HEADER];
	int e = size < HEADER ? broken(b, "it is too short", err) :
				mr_input_read(b->in, h, HEADER, 0, err);

	if (e)
		return e;
	if (mr_le16(h) != VERSION)
		return mr_err_set(err, MR_EDATA,
				  "%s: version %u of FFCV's format; this reads "
				  "%d. Or it is another kind of file",
				  mr_input_path(b->in), mr_le16(h), VERSION);
	b->fields = mr_le16(h + 2);
	b->page = mr_le32(h + 4);
	b->samples = mr_le64(h + 8);
	b->table = mr_le64(h + 16);
	if (!b->fields || b->fields > MR_MAX_FIELDS)
		return mr_err_set(
			err, MR_ELIMIT, "%s: %d fields; 1 to %d can be read",
			mr_input_path(b->in), b->fields, MR_MAX_FIELDS);
	/* It is written last. */
	if (!b->table || b->table > size)
		return broken(b,
			      "its allocation table is missing; was it written "
			      "to the end?",
			      err);
	return 0;
}

/* ---- fields ---- */

/* [["", "<f4"]] */
static const struct mr_number *parse_type(const uint8_t *p, size_t n)
{
	char text[ARGUMENTS - TYPE_AT + 1];
	struct json_object *o, *v;
	const struct mr_number *t = NULL;

	memcpy(text, p, n);
	text[n] = 0;
	o = json_tokener_parse(text);
	v = json_object_is_type(o, json_type_array) ?
		    json_object_array_get_idx(o, 0) :
		    NULL;
	v = json_object_is_type(v, json_type_array) &&
			    json_object_array_length(v) == 2 ?
		    json_object_array_get_idx(v, 1) :
		    NULL;
	if (json_object_is_type(v, json_type_string))
		t = mr_number_find(json_object_get_string(v));
	json_object_put(o);
	return t;
}

static int init_array(const struct mr_beton *b, struct mr_beton_field *f,
		      const uint8_t *args, struct mr_err *err)
{
	uint64_t type_n = mr_le64(args + SHAPE_MAX * 8), dim[SHAPE_MAX];
	int ndim = 0;
	int64_t elements;

	for (int i = 0; i < SHAPE_MAX; i++) {
		dim[i] = mr_le64(args + 8 * i);
		ndim = dim[i] ? i + 1 : ndim;
	}
	f->number = type_n <= ARGUMENTS - TYPE_AT ?
			    parse_type(args + TYPE_AT, (size_t)type_n) :
			    NULL;
	if (!f->number)
		return mr_err_set(err, MR_EDATA,
				  "%s: field '%s' is an array of a type that "
				  "cannot be read",
				  mr_input_path(b->in), f->name);
	f->spec = (struct mr_spec){ .dtype = f->number->as, .ndim = ndim };
	for (int i = 0; i < ndim && i < MR_MAX_DIMS; i++)
		f->spec.shape[i] = dim[i] > INT64_MAX ? -1 : (int64_t)dim[i];
	if (ndim >= MR_MAX_DIMS ||
	    !mr_shape_elements(f->spec.shape, ndim, MR_I64, &elements) ||
	    (uint64_t)elements > mr_input_size(b->in))
		return mr_err_set(err, MR_EDATA,
				  "%s: field '%s' has a shape that cannot be "
				  "read",
				  mr_input_path(b->in), f->name);
	f->bytes = (uint64_t)elements * f->number->size;
	return 0;
}

/* Its place in a row, as NumPy lays out an aligned structure: parts that
 * are structures themselves are not aligned. */
static void place(struct mr_beton *b, struct mr_beton_field *f)
{
	bool image = f->type == MR_BETON_IMAGE;
	bool bytes = f->type == MR_BETON_BYTES || f->type == MR_BETON_JSON;

	f->at = image || bytes ? b->row : mr_round_up(b->row, 8);
	b->row = f->at + (image ? IMAGE_ROW : bytes ? BYTES_ROW : 8);
	if (image)
		f->image = b->images++;
}

static int read_field(struct mr_beton *b, int i, struct mr_err *err)
{
	struct mr_beton_field *f = &b->field[i];
	uint8_t d[DESCRIPTOR];
	int e = mr_input_read(b->in, d, DESCRIPTOR,
			      HEADER + (uint64_t)i * DESCRIPTOR, err);

	if (e)
		return e;
	memcpy(f->name, d + 1, 16);
	for (char *c = f->name; *c; c++)
		*c = *c <= ' ' || *c > '~' ? '_' : *c;
	if (!f->name[0])
		snprintf(f->name, sizeof(f->name), "field%d", i);
	for (int k = 0; k < i; k++)
		if (!strcmp(b->field[k].name, f->name))
			return mr_err_set(err, MR_EDATA,
					  "%s: two fields are called '%s'",
					  mr_input_path(b->in), f->name);
	if (d[0] > MR_BETON_JSON)
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "%s: field '%s' is of a type of its writer's "
				  "own (%d), which only that one can read",
				  mr_input_path(b->in), f->name, d[0]);
	f->type = (enum mr_beton_type)d[0];
	place(b, f);
	return f->type == MR_BETON_ARRAY ? init_array(b, f, d + 17, err) : 0;
}

static int read_fields(struct mr_beton *b, struct mr_err *err)
{
	bool aligned = false;
	int e = 0;

	b->rows_at = HEADER + (uint64_t)b->fields * DESCRIPTOR;
	if (b->rows_at > b->table)
		return broken(b, "its fields lie behind its end", err);
	for (int i = 0; !e && i < b->fields; i++) {
		e = read_field(b, i, err);
		aligned = aligned || b->field[i].type <= MR_BETON_INT ||
			  b->field[i].type == MR_BETON_ARRAY;
	}
	if (aligned)
		b->row = mr_round_up(b->row, 8);
	return e;
}

/* ---- rows ---- */

static int read_rows(struct mr_beton *b, struct mr_err *err)
{
	size_t bytes;

	if (b->samples > (b->table - b->rows_at) / b->row)
		return broken(b, "it is too short for its samples", err);
	if (!b->samples)
		return mr_err_set(err, MR_EDATA,
				  "%s: the data set is empty: no samples",
				  mr_input_path(b->in));
	bytes = (size_t)b->samples * b->row;
	b->rows = mr_alloc(bytes, 1, err);
	return b->rows ? mr_input_read(b->in, b->rows, bytes, b->rows_at, err) :
			 MR_ENOMEM;
}

const uint8_t *mr_beton_value(const struct mr_beton *b, uint64_t k, int field)
{
	return b->rows + k * b->row + b->field[field].at;
}

struct mr_beton_image mr_beton_image(const struct mr_beton *b, uint64_t k,
				     int field)
{
	const uint8_t *p = mr_beton_value(b, k, field);

	return (struct mr_beton_image){ p[0], mr_le16(p + 1), mr_le16(p + 3) };
}

/* What all images of a field have in common. */
static void survey(struct mr_beton *b, int field)
{
	struct mr_beton_field *f = &b->field[field];

	f->same = true;
	for (uint64_t k = 0; k < b->samples; k++) {
		struct mr_beton_image m = mr_beton_image(b, k, field);

		f->jpegs = f->jpegs || m.mode == MR_BETON_JPEG;
		if (m.mode != MR_BETON_RAW)
			continue;
		f->same = f->same && (!f->raws || (m.height == f->height &&
						   m.width == f->width));
		f->height = m.height;
		f->width = m.width;
		f->raws = true;
	}
}

/* ---- sizes of JPEGs, which only the allocation table knows ---- */

struct entry {
	uint64_t at, n;
};

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->n < y->n ? -1 : x->n > y->n;
}

static int read_table(const struct mr_beton *b, struct entry **out, size_t *n,
		      struct mr_err *err)
{
	size_t count = (size_t)((mr_input_size(b->in) - b->table) / ENTRY);
	struct entry *t = mr_alloc(count, sizeof(*t), err);
	uint8_t buf[256 * ENTRY];
	int e = t ? 0 : MR_ENOMEM;

	for (size_t i = 0; !e && i < count; i += 256) {
		size_t k = count - i < 256 ? count - i : 256;

		e = mr_input_read(b->in, buf, k * ENTRY, b->table + i * ENTRY,
				  err);
		for (size_t j = 0; !e && j < k; j++)
			t[i + j] =
				(struct entry){ mr_le64(buf + j * ENTRY + 8),
						mr_le64(buf + j * ENTRY + 16) };
	}
	if (e) {
		free(t);
		return e;
	}
	qsort(t, count, sizeof(*t), by_place);
	*out = t;
	*n = count;
	return 0;
}

/* The largest one there: regions without bytes share their place. */
static uint32_t size_at(const struct entry *t, size_t n, uint64_t at)
{
	size_t lo = 0, hi = n;

	while (hi > lo) { /* the first behind it */
		size_t mid = lo + (hi - lo) / 2;

		if (t[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && t[lo - 1].at == at && t[lo - 1].n <= UINT32_MAX ?
		       (uint32_t)t[lo - 1].n :
		       0;
}

static int find_jpegs(struct mr_beton *b, struct mr_err *err)
{
	struct entry *t;
	size_t n;
	int e = read_table(b, &t, &n, err);

	if (e)
		return e;
	b->jpeg = mr_alloc((size_t)b->samples * (size_t)b->images,
			   sizeof(*b->jpeg), err);
	for (int i = 0; b->jpeg && i < b->fields; i++) {
		const struct mr_beton_field *f = &b->field[i];

		for (uint64_t k = 0; f->jpegs && k < b->samples; k++) {
			const uint8_t *p = mr_beton_value(b, k, i);

			b->jpeg[k * (unsigned)b->images + (unsigned)f->image] =
				size_at(t, n, mr_le64(p + 5));
		}
	}
	free(t);
	return b->jpeg ? 0 : MR_ENOMEM;
}

/* ---- all of it ---- */

int mr_beton_open(struct mr_beton *b, const char *path, struct mr_err *err)
{
	bool jpegs = false;
	int e = mr_input_open(&b->in, path, err);

	if (!e)
		e = read_header(b, err);
	if (!e)
		e = read_fields(b, err);
	if (!e)
		e = read_rows(b, err);
	for (int i = 0; !e && i < b->fields; i++) {
		if (b->field[i].type == MR_BETON_IMAGE)
			survey(b, i);
		jpegs = jpegs || b->field[i].jpegs;
	}
	return !e && jpegs ? find_jpegs(b, err) : e;
}

void mr_beton_close(struct mr_beton *b)
{
	mr_input_close(b->in);
	free(b->rows);
	free(b->jpeg);
	*b = (struct mr_beton){ 0 };
}

static int image_region(const struct mr_beton *b, uint64_t k, int field,
			struct mr_beton_region *r, struct mr_err *err)
{
	const struct mr_beton_field *f = &b->field[field];
	struct mr_beton_image m = mr_beton_image(b, k, field);

	r->at = mr_le64(mr_beton_value(b, k, field) + 5);
	if (m.mode == MR_BETON_RAW)
		r->n = (uint64_t)(m.width * m.height * 3);
	else if (m.mode == MR_BETON_JPEG)
		r->n = b->jpeg[k * (unsigned)b->images + (unsigned)f->image];
	else
		return mr_err_set(err, MR_EDATA,
				  "field '%s': there is no mode %d of images",
				  f->name, m.mode);
	if (!r->n)
		return mr_err_set(
			err, MR_EDATA,
			"field '%s': an image of 0 bytes, or one that "
			"the allocation table does not know",
			f->name);
	return 0;
}

int mr_beton_region(const struct mr_beton *b, uint64_t k, int field,
		    struct mr_beton_region *r, struct mr_err *err)
{
	const struct mr_beton_field *f = &b->field[field];
	const uint8_t *p = mr_beton_value(b, k, field);
	uint64_t from = b->rows_at + b->samples * b->row;
	int e = 0;

	*r = (struct mr_beton_region){ 0 };
	if (f->type == MR_BETON_IMAGE)
		e = image_region(b, k, field, r, err);
	else if (f->type == MR_BETON_ARRAY)
		*r = (struct mr_beton_region){ mr_le64(p), f->bytes };
	else if (f->type == MR_BETON_BYTES || f->type == MR_BETON_JSON)
		*r = (struct mr_beton_region){ mr_le64(p), mr_le64(p + 8) };
	if (e || !r->n)
		return e;
	if (r->at < from || r->at > b->table || r->n > b->table - r->at)
		return mr_err_set(err, MR_EDATA,
				  "field '%s' lies at byte %llu, %llu long, "
				  "which is not in the data of the file",
				  f->name, (unsigned long long)r->at,
				  (unsigned long long)r->n);
	return 0;
}
