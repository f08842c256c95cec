/* SPDX-License-Identifier: Apache-2.0 */
#include "source/npzfile.h"

#include <libdeflate.h>
#include <stdio.h>

enum { PEEK = 8192 }; /* bytes in which an array's header must end */

const struct mr_zip_member *mr_npz_find(const char *path, const char *array,
					const struct mr_zip_member *m, size_t n,
					struct mr_err *err)
{
	char name[MR_NAME_MAX + 4], have[300] = "";
	const struct mr_zip_member *found;

	snprintf(name, sizeof(name), "%s.npy", array);
	found = mr_zip_find(m, n, name);
	for (size_t k = 0; !found && k < n; k++) {
		size_t at = strlen(have), len = strlen(m[k].name);

		len -= len > 4 ? 4 : 0;
		snprintf(have + at, sizeof(have) - at, " %.*s", (int)len,
			 m[k].name);
	}
	if (!found)
		mr_err_set(err, MR_EDATA,
			   "%s: no array '%s' in it; there are:%s", path, array,
			   have);
	return found;
}

int mr_npz_error(const struct mr_npy *a, struct mr_err *err)
{
	return mr_err_prefix(err, "%s: array '%s': ", a->path, a->member);
}

int mr_npz_head(struct mr_input *in, const struct mr_zip_member *m,
		struct mr_npy *a, struct mr_err *err)
{
	uint8_t head[PEEK];
	size_t n = sizeof(head);
	int e = mr_zip_peek(in, m, head, &n, err);

	if (e)
		return e;
	a->bytes = m->size;
	e = mr_npy_parse(a, head, n, err);
	if (e)
		mr_npz_error(a, err);
	return e;
}

/* ---- a whole array as a field ---- */

/* Its header says the shape, which must be of the kind that was found. */
static int take_shape(const struct mr_load *ld, struct mr_npz_whole *w,
		      const uint8_t *head, size_t n, struct mr_tensor *t)
{
	struct mr_npy *a = &w->a;
	int e = mr_npy_parse(a, head, n, ld->err);

	if (!e && (a->dtype != w->want->dtype || a->ndim != w->want->ndim))
		e = mr_err_set(ld->err, MR_EDATA,
			       "has changed its type since it was opened");
	if (e) {
		mr_npz_error(a, ld->err);
		return e;
	}
	for (int d = 0; d < a->ndim; d++)
		t->shape[d] = a->shape[d];
	t->data = ld->room(ld, w->field, mr_tensor_bytes(t));
	return t->data ? 0 : ld->err->code;
}

static void *take(const struct mr_load *ld, const struct mr_npy *a, uint64_t n)
{
	void *p = n <= ld->limit ? mr_arena_take(ld->scratch, n ? n : 1) : NULL;

	if (p)
		return p;
	mr_err_set(ld->err, MR_ELIMIT,
		   "needs %llu bytes, more than the memory budget leaves; "
		   "raise --memory",
		   (unsigned long long)n);
	mr_npz_error(a, ld->err);
	return NULL;
}

/* All of it is inflated at once, header and data. */
static int load_packed(const struct mr_load *ld, struct mr_npz_whole *w,
		       struct mr_tensor *t)
{
	uint8_t *p = take(ld, &w->a, w->m->size);
	int e;

	if (!p)
		return MR_ELIMIT;
	e = mr_zip_read(w->in, w->m, p, w->inflate, ld->scratch, ld->err);
	if (!e)
		e = take_shape(ld, w, p, (size_t)w->m->size, t);
	if (!e)
		memcpy(t->data, p + w->a.offset, mr_tensor_bytes(t));
	return e;
}

/* Goes over the bytes from `from` on, which belong to no array but to the
 * CRC32; there are none as NumPy writes it. */
static int crc_rest(const struct mr_load *ld, const struct mr_npz_whole *w,
		    uint64_t from, uint32_t *crc)
{
	uint8_t b[4096];
	int e = 0;

	while (!e && from < w->m->size) {
		size_t n = w->m->size - from < sizeof(b) ?
				   (size_t)(w->m->size - from) :
				   sizeof(b);

		e = mr_input_read(w->in, b, n, w->m->at + from, ld->err);
		if (!e)
			*crc = libdeflate_crc32(*crc, b, n);
		from += n;
	}
	return e;
}

/* The data is read to where it belongs. */
static int load_stored(const struct mr_load *ld, struct mr_npz_whole *w,
		       struct mr_tensor *t)
{
	uint8_t *head = take(ld, &w->a, PEEK);
	size_t n = PEEK, bytes;
	uint32_t crc;
	int e = head ? mr_zip_peek(w->in, w->m, head, &n, ld->err) : MR_ELIMIT;

	if (!e)
		e = take_shape(ld, w, head, n, t);
	if (e)
		return e;
	bytes = mr_tensor_bytes(t);
	e = mr_input_read(w->in, t->data, bytes, w->m->at + w->a.offset,
			  ld->err);
	if (e)
		return e;
	crc = libdeflate_crc32(0, head, w->a.offset);
	crc = libdeflate_crc32(crc, t->data, bytes);
	e = crc_rest(ld, w, w->a.offset + bytes, &crc);
	return !e && crc != w->m->crc ? mr_zip_bad_crc(w->in, w->m, ld->err) :
					e;
}

int mr_npz_load(const struct mr_load *ld, struct mr_npz_whole *w,
		struct mr_tensor *t)
{
	w->a.bytes = w->m->size;
	return w->m->deflated ? load_packed(ld, w, t) : load_stored(ld, w, t);
}
