/* SPDX-License-Identifier: Apache-2.0 */
#include "source/recordfile.h"

#include <stdlib.h>

#include "core/le.h"
#include "core/mem.h"
#include "kernel/crc32c.h"
#include "source/indexcache.h"

enum {
	WINDOW = 1 << 18,
	/* Of records that far apart only the headers are read. */
	SPARSE = 1 << 15,
	PEEK = 1 << 12,
};

/* As Snappy does it, so that a CRC of data with CRCs in it stays good. */
static uint32_t masked_crc(const void *p, size_t n)
{
	uint32_t c = mr_crc32c(p, n);

	return (c >> 15 | c << 17) + 0xa282ead8u;
}

static bool good_length(const uint8_t *head, uint64_t *length)
{
	*length = mr_le64(head);
	return masked_crc(head, 8) == mr_le32(head + 8);
}

/* ---- the walk from header to header ---- */

struct walk {
	struct mr_recfile *r;
	uint8_t *window;
	uint64_t from, last; /* of the window; record before */
	size_t have, cap;    /* in the window; of r->at */
};

static int look_at(struct walk *w, uint64_t at, const uint8_t **head,
		   struct mr_err *err)
{
	uint64_t stride = at - w->last;
	size_t n = mr_part_window(w->r->part, stride,
				  stride > SPARSE ? PEEK : WINDOW);
	int e = 0;

	if (w->r->part->size - at < n)
		n = (size_t)(w->r->part->size - at);
	if (at < w->from || at + MR_RECORD_HEAD > w->from + w->have) {
		e = mr_part_read(w->r->part, w->window, n, at, err);
		w->from = at;
		w->have = e ? 0 : n;
	}
	w->last = at;
	*head = w->window + (at - w->from);
	return e;
}

static int add(struct walk *w, uint64_t at, struct mr_err *err)
{
	struct mr_recfile *r = w->r;
	int e = mr_grow(&r->at, &w->cap, r->n + 2, sizeof(*r->at),
			SIZE_MAX / 16, err);

	if (!e)
		r->at[r->n++] = at;
	return e;
}

static int walk_records(struct walk *w, struct mr_err *err)
{
	struct mr_recfile *r = w->r;
	uint64_t at = 0, length;
	const uint8_t *head;
	int e = 0;

	while (!e && at < r->part->size && !r->tail) {
		e = add(w, at, err);
		if (e)
			break;
		if (r->part->size - at < MR_RECORD_FRAME) {
			r->tail = MR_TAIL_CUT;
			break;
		}
		e = look_at(w, at, &head, err);
		if (e)
			break;
		if (!good_length(head, &length))
			r->tail = MR_TAIL_LENGTH;
		else if (length > r->part->size - at - MR_RECORD_FRAME)
			r->tail = MR_TAIL_CUT;
		else
			at += length + MR_RECORD_FRAME;
	}
	if (!e)
		e = mr_grow(&r->at, &w->cap, r->n + 1, sizeof(*r->at),
			    SIZE_MAX / 16, err);
	if (!e)
		r->at[r->n] = r->part->size;
	return e;
}

static int make_index(struct mr_recfile *r, struct mr_err *err)
{
	struct walk w = { .r = r, .window = mr_alloc(1, MR_FAR_WINDOW, err) };
	int e = w.window ? walk_records(&w, err) : MR_ENOMEM;
	uint64_t *less;

	free(w.window);
	if (e)
		return e;
	/* Growing took some in advance. */
	less = realloc(r->at, (size_t)(r->n + 1) * sizeof(*r->at));
	r->at = less ? less : r->at;
	return 0;
}

/* ---- a kept index: tail, then the offsets ---- */

static bool take_index(struct mr_recfile *r, const uint8_t *p, size_t bytes)
{
	uint64_t n = bytes / 8, last;

	if (bytes % 8 || n < 2 || mr_le64(p) > MR_TAIL_LENGTH)
		return false;
	r->n = n - 2;
	r->tail = (enum mr_record_tail)mr_le64(p);
	for (uint64_t i = 0; i <= r->n; i++) {
		r->at[i] = mr_le64(p + 8 + 8 * i);
		last = i ? r->at[i - 1] : 0;
		if (i ? r->at[i] <= last : r->at[i] != 0)
			return false;
		if (i && !(r->tail && i == r->n) &&
		    r->at[i] - last < MR_RECORD_FRAME)
			return false;
	}
	return r->at[r->n] == r->part->size && (r->n || !r->tail);
}

static bool load_index(struct mr_recfile *r, int place, struct mr_err *err)
{
	size_t bytes, max = (size_t)(r->part->size / MR_RECORD_FRAME + 3) * 8;
	uint8_t *p = mr_index_load(r->part->in, "tfrecord", place, max, &bytes);
	bool ok = false;

	if (!p)
		return false;
	r->at = mr_alloc(bytes / 8 + 1, sizeof(*r->at), err);
	ok = r->at && take_index(r, p, bytes);
	free(p);
	if (!ok) {
		free(r->at);
		r->at = NULL;
		r->n = 0;
		r->tail = MR_TAIL_NONE;
	}
	return ok;
}

static int save_index(const struct mr_recfile *r, int place, struct mr_err *err)
{
	uint8_t *p = mr_alloc(r->n + 2, 8, err);
	int e;

	if (!p)
		return MR_ENOMEM;
	mr_le64_put(p, r->tail);
	for (uint64_t i = 0; i <= r->n; i++)
		mr_le64_put(p + 8 + 8 * i, r->at[i]);
	e = mr_index_save(r->part->in, "tfrecord", place, p,
			  (size_t)(r->n + 2) * 8, err);
	free(p);
	return e;
}

/* ---- opening ---- */

/* A length with a good CRC is a record's, whatever its bytes look like. */
static int find_packing(const struct mr_recfile *r, enum mr_packing *packing,
			struct mr_err *err)
{
	uint8_t head[MR_RECORD_HEAD];
	uint64_t length;
	size_t n = r->part->size < sizeof(head) ? (size_t)r->part->size :
						  sizeof(head);
	int e = mr_part_read(r->part, head, n, 0, err);

	*packing = MR_PACKED_NOT;
	if (e || (n == sizeof(head) && good_length(head, &length)))
		return e;
	return mr_packing_of(r->part->path, head, n, packing, err);
}

static int no_records(const struct mr_recfile *r, struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "%s: is no TFRecord file, or damaged: its first "
			  "record %s",
			  r->part->path,
			  r->tail == MR_TAIL_CUT ?
				  "is longer than the file" :
				  "has a length whose checksum is wrong");
}

int mr_recfile_open(struct mr_recfile *r, struct mr_parts *ps, size_t i,
		    int place, struct mr_err *err)
{
	enum mr_packing packing;
	int e;

	r->part = &ps->item[i];
	e = mr_part_open(r->part, err);
	if (!e)
		e = find_packing(r, &packing, err);
	if (!e && packing)
		e = mr_part_unpack(r->part, ps, packing, err);
	if (e)
		return e;
	if (packing || !load_index(r, place, err)) {
		e = make_index(r, err);
		if (!e && r->n == 1 && r->tail)
			e = no_records(r, err);
		if (!e && !packing)
			e = save_index(r, place, err);
	}
	r->part->samples = r->n;
	return e;
}

/* ---- one record ---- */

int mr_recfile_check(const struct mr_recfile *r, uint64_t k, struct mr_err *err)
{
	unsigned long long at = r->at[k];

	if (!r->tail || k + 1 != r->n)
		return 0;
	if (r->tail == MR_TAIL_CUT)
		return mr_err_set(err, MR_EDATA,
				  "truncated: the record at byte %llu goes on "
				  "beyond the file's %llu bytes",
				  at, (unsigned long long)r->part->size);
	return mr_err_set(err, MR_EDATA,
			  "the checksum of the length at byte %llu is wrong; "
			  "all after it is lost, %llu bytes",
			  at, (unsigned long long)r->part->size - at);
}

int mr_record_data(const void *bytes, size_t n, uint64_t offset, bool check,
		   const uint8_t **data, size_t *length, struct mr_err *err)
{
	const uint8_t *p = bytes;
	uint64_t stored;
	uint32_t have, want;

	if (n < MR_RECORD_FRAME || !good_length(p, &stored) ||
	    stored != n - MR_RECORD_FRAME)
		return mr_err_set(err, MR_EDATA,
				  "the record at byte %llu is not as long as "
				  "it was when the file was opened",
				  (unsigned long long)offset);
	*data = p + MR_RECORD_HEAD;
	*length = n - MR_RECORD_FRAME;
	want = mr_le32(p + n - MR_RECORD_FOOT);
	have = check ? masked_crc(*data, *length) : want;
	if (have != want)
		return mr_err_set(err, MR_EDATA,
				  "the data of the record at byte %llu is "
				  "damaged: its checksum is %08x, not %08x",
				  (unsigned long long)offset, have, want);
	return 0;
}
