/* SPDX-License-Identifier: Apache-2.0 */
#include "source/tarfile.h"

#include <stdio.h>

#include "core/mem.h"
#include "source/tarhead.h"

enum {
	PEEK = 4 * MR_TAR_BLOCK,  /* a header with a pax header before it */
	WINDOW = 128 << 10,	  /* many headers, when members are small */
	NEAR = 3 << 10,		  /* strides that are worth copying over */
	LONG_MAX_BYTES = 1 << 20, /* of a long name or pax header */
	SPARSE_MORE = 482,	  /* flag: sparse map goes on in a block */
	SPARSE_MORE_AGAIN = 504,
};

struct mr_tar_walk {
	const struct mr_part *part;
	uint64_t size;	 /* of the file */
	uint64_t at;	 /* of the next header */
	uint64_t stride; /* between headers, lately */
	bool extras;	 /* the last member had headers before its own */
	uint8_t *buf;
	size_t cap, len; /* the window, from `from` */
	uint64_t from;
	struct mr_tar_extra global, own; /* by pax, for all and for the next */
	struct mr_str name;
};

/* ---- the window ---- */

/* n bytes at offset, which the file has. */
static int look(struct mr_tar_walk *w, uint64_t offset, size_t n,
		const uint8_t **p, struct mr_err *err)
{
	size_t want = w->extras ? PEEK : MR_TAR_BLOCK;
	int e;

	if (offset < w->from || offset - w->from > w->len ||
	    w->len - (offset - w->from) < n) {
		if (w->stride < NEAR)
			want = WINDOW;
		want = mr_part_window(w->part, w->stride, want);
		if (want < n)
			want = n;
		if (want > w->size - offset)
			want = (size_t)(w->size - offset);
		w->len = 0;
		e = mr_grow(&w->buf, &w->cap, want, 1, SIZE_MAX / 4, err);
		if (!e)
			e = mr_part_read(w->part, w->buf, want, offset, err);
		if (e)
			return e;
		w->from = offset;
		w->len = want;
	}
	*p = w->buf + (offset - w->from);
	return 0;
}

static bool has(const struct mr_tar_walk *w, uint64_t offset, uint64_t n)
{
	return offset <= w->size && n <= w->size - offset;
}

/* ---- life ---- */

int mr_tar_walk_open(struct mr_tar_walk **out, const struct mr_part *part,
		     struct mr_err *err)
{
	struct mr_tar_walk *w = mr_alloc(1, sizeof(*w), err);

	*out = w;
	if (!w)
		return MR_ENOMEM;
	w->part = part;
	w->size = part->size;
	return 0;
}

void mr_tar_walk_close(struct mr_tar_walk *w)
{
	if (!w)
		return;
	mr_str_fini(&w->name);
	mr_tar_extra_fini(&w->global);
	mr_tar_extra_fini(&w->own);
	free(w->buf);
	free(w);
}

/* ---- damage ---- */

static int damaged(struct mr_tar_entry *e, enum mr_tar_damage damage,
		   uint64_t value)
{
	e->damage = damage;
	e->value = value;
	return MR_OK;
}

/* Goes on at the next block that is surely a header; a header without the
 * magic of 1988 is not sure enough. */
static int find_header(struct mr_tar_walk *w, uint64_t from, struct mr_err *err)
{
	const uint8_t *p;

	w->stride = 0; /* all of it is read */
	for (w->at = from; has(w, w->at, MR_TAR_BLOCK); w->at += MR_TAR_BLOCK) {
		int e = look(w, w->at, MR_TAR_BLOCK, &p, err);

		if (e)
			return e;
		if (mr_tar_magic(p) && mr_tar_checksum_ok(p))
			return 0;
	}
	w->at = w->size;
	return 0;
}

static int resume(struct mr_tar_walk *w, struct mr_tar_entry *e,
		  enum mr_tar_damage damage, uint64_t from, struct mr_err *err)
{
	int r = find_header(w, from, err);

	return r ? r : damaged(e, damage, 0);
}

static int no_tar(const struct mr_tar_walk *w, struct mr_err *err)
{
	const char *path = w->part->path;

	if (w->size < MR_TAR_BLOCK)
		return mr_err_set(err, MR_EDATA,
				  "%s: no tar: its %llu bytes are less than a "
				  "header; copy or make it again",
				  path, (unsigned long long)w->size);
	return mr_err_set(err, MR_EDATA,
			  "%s: no tar: what must be its first header, at byte "
			  "0, has a wrong checksum",
			  path);
}

void mr_tar_damage_text(enum mr_tar_damage damage, uint64_t at, uint64_t value,
			uint64_t file_size, char *buf, size_t cap)
{
	static const char *const what[MR_TAR_DAMAGES] = {
		[MR_TAR_CHECKSUM] = "damaged: no header, or one with a wrong "
				    "checksum",
		[MR_TAR_CUT_HEADER] = "truncated: it ends within a header",
		[MR_TAR_CUT_DATA] = "truncated: a member is larger than what "
				    "is left of the file",
		[MR_TAR_ZEROS] = "damaged: a lone block of zeros between "
				 "members",
		[MR_TAR_NUMBER] = "damaged: a size that is no number",
		[MR_TAR_PAX] = "damaged: an extended header that is not "
			       "understood",
		[MR_TAR_SPARSE] = "a sparse file, which is not taken; make the "
				  "tar without --sparse",
		[MR_TAR_PACKED] = "the compressed data is damaged or cut off",
	};
	int n = snprintf(buf, cap, "%s, at byte %llu", what[damage],
			 (unsigned long long)at);

	if (damage == MR_TAR_CUT_DATA && n > 0 && (size_t)n < cap)
		snprintf(buf + n, cap - (size_t)n,
			 ": %llu bytes, and the file has %llu in all",
			 (unsigned long long)value,
			 (unsigned long long)file_size);
	if (damage == MR_TAR_PACKED && n > 0 && (size_t)n < cap)
		snprintf(buf + n, cap - (size_t)n,
			 " of what it holds, which is lost or in doubt; "
			 "noticed at byte %llu of the file",
			 (unsigned long long)value);
}

/* ---- headers that stand before the one of a member ---- */

/* Long names and pax headers, whose data goes to w->own or w->global. */
static int extra(struct mr_tar_walk *w, struct mr_tar_entry *e, char type,
		 uint64_t size, struct mr_err *err)
{
	struct mr_tar_extra *x = type == 'g' ? &w->global : &w->own;
	uint64_t data = w->at + MR_TAR_BLOCK;
	const uint8_t *p;
	bool ok = size <= LONG_MAX_BYTES;
	int r = 0;

	if (!has(w, data, size)) {
		w->at = w->size;
		return damaged(e, MR_TAR_CUT_DATA, size);
	}
	if (ok && type != 'K') {
		r = look(w, data, (size_t)size, &p, err);
		if (!r && type == 'L')
			r = mr_tar_extra_name(x, (const char *)p, (size_t)size,
					      err);
		else if (!r)
			r = mr_tar_extra_pax(x, (const char *)p, (size_t)size,
					     &ok, err);
	}
	if (r)
		return r;
	w->own.used |= type != 'g';
	w->own.broken |= !ok;
	w->at = data + mr_tar_padded(size);
	return MR_AGAIN;
}

/* The blocks in which an old sparse file's map goes on. */
static int skip_sparse_map(struct mr_tar_walk *w, bool more, uint64_t *data,
			   struct mr_err *err)
{
	const uint8_t *p;

	while (more && has(w, *data, MR_TAR_BLOCK)) {
		int r = look(w, *data, MR_TAR_BLOCK, &p, err);

		if (r)
			return r;
		more = p[SPARSE_MORE_AGAIN] != 0;
		*data += MR_TAR_BLOCK;
	}
	return 0;
}

/* ---- the header of a member ---- */

static int set_name(struct mr_tar_walk *w, struct mr_tar_entry *e,
		    const uint8_t *p, struct mr_err *err)
{
	const struct mr_str *found = w->own.has_name	? &w->own.name :
				     w->global.has_name ? &w->global.name :
							  NULL;

	w->name.len = 0;
	if (!found)
		mr_tar_header_name(p, &w->name);
	else
		mr_str_addn(&w->name, found->text, found->len);
	if (w->name.failed)
		return mr_err_nomem(err, 0);
	e->name = w->name.len ? w->name.text : "";
	e->name_len = w->name.len;
	return 0;
}

/* A regular file, or what is passed over: MR_AGAIN. */
static int member(struct mr_tar_walk *w, struct mr_tar_entry *e, char type,
		  uint64_t size, bool sparse_map, struct mr_err *err)
{
	bool sparse = type == 'S' || w->own.sparse || w->global.sparse;
	bool regular = !type || strchr("07S", type);
	bool broken = w->own.broken;
	int r = 0;

	/* Before 1988 directories had no type of their own. */
	if (!type && e->name_len && e->name[e->name_len - 1] == '/')
		regular = false, size = 0;
	if (!regular && type && strchr("123456", type))
		size = 0;
	e->data = w->at + MR_TAR_BLOCK;
	e->size = size;
	if (type == 'S')
		r = skip_sparse_map(w, sparse_map, &e->data, err);
	mr_tar_extra_reset(&w->own);
	if (r)
		return r;
	if (!has(w, e->data, size)) {
		w->at = w->size;
		return damaged(e, MR_TAR_CUT_DATA, size);
	}
	w->at = e->data + mr_tar_padded(size);
	w->extras = e->data - e->header > MR_TAR_BLOCK;
	w->stride = (w->stride * 7 + (w->at - e->header)) / 8;
	if (!regular)
		return MR_AGAIN;
	if (broken || sparse)
		return damaged(e, broken ? MR_TAR_PAX : MR_TAR_SPARSE, 0);
	return MR_OK;
}

/* The size of what follows the header p: pax knows it better. */
static bool size_of(const struct mr_tar_walk *w, const uint8_t *p, char type,
		    uint64_t *size)
{
	bool ok = mr_tar_number(p + MR_TAR_SIZE_AT, 12, size);

	if (strchr("LKxgX", type) && type)
		return ok;
	if (w->own.has_size)
		*size = w->own.size;
	else if (w->global.has_size)
		*size = w->global.size;
	else
		return ok;
	return true;
}

/* One header: MR_AGAIN when there is nothing to tell of it. */
static int header(struct mr_tar_walk *w, struct mr_tar_entry *e,
		  const uint8_t *p, struct mr_err *err)
{
	char type = (char)p[MR_TAR_TYPE_AT];
	bool map = p[SPARSE_MORE] != 0;
	uint64_t size;
	int r;

	if (!size_of(w, p, type, &size)) {
		r = set_name(w, e, p, err);
		mr_tar_extra_reset(&w->own);
		return r ? r :
			   resume(w, e, MR_TAR_NUMBER, w->at + MR_TAR_BLOCK,
				  err);
	}
	if (type && strchr("LKxgX", type))
		return extra(w, e, type, size, err);
	r = set_name(w, e, p, err);
	return r ? r : member(w, e, type, size, map, err);
}

/* Zeros end the tar, unless a header follows a lone block of them. */
static int zeros(struct mr_tar_walk *w, struct mr_tar_entry *e,
		 struct mr_err *err)
{
	uint64_t next = w->at + MR_TAR_BLOCK;
	const uint8_t *p;
	int r;

	w->at = w->size;
	if (!has(w, next, MR_TAR_BLOCK))
		return MR_END;
	r = look(w, next, MR_TAR_BLOCK, &p, err);
	if (r || !mr_tar_magic(p) || !mr_tar_checksum_ok(p))
		return r ? r : MR_END;
	w->at = next;
	return damaged(e, MR_TAR_ZEROS, 0);
}

/* What is left is less than a block. */
static int tail(struct mr_tar_walk *w, struct mr_tar_entry *e,
		struct mr_err *err)
{
	size_t n = w->at < w->size ? (size_t)(w->size - w->at) : 0;
	const uint8_t *p;
	bool empty = true;
	int r;

	if (w->size < MR_TAR_BLOCK)
		return no_tar(w, err);
	r = n ? look(w, w->at, n, &p, err) : 0;
	if (r)
		return r;
	for (size_t i = 0; i < n; i++)
		empty &= !p[i];
	w->at = w->size;
	/* A header for a member that never comes. */
	if (w->own.used || !empty) {
		mr_tar_extra_reset(&w->own);
		return damaged(e, MR_TAR_CUT_HEADER, 0);
	}
	return MR_END;
}

static int step(struct mr_tar_walk *w, struct mr_tar_entry *e,
		struct mr_err *err)
{
	const uint8_t *p;
	int r;

	if (!has(w, w->at, MR_TAR_BLOCK))
		return tail(w, e, err);
	r = look(w, w->at, MR_TAR_BLOCK, &p, err);
	if (r)
		return r;
	if (mr_tar_checksum_ok(p))
		return header(w, e, p, err);
	if (mr_tar_zeros(p))
		return zeros(w, e, err);
	if (!w->at && !mr_tar_magic(p))
		return no_tar(w, err);
	mr_tar_extra_reset(&w->own);
	e->header = w->at;
	return resume(w, e, MR_TAR_CHECKSUM, w->at + MR_TAR_BLOCK, err);
}

int mr_tar_next(struct mr_tar_walk *w, struct mr_tar_entry *e,
		struct mr_err *err)
{
	int r;

	do {
		if (!w->own.used)
			*e = (struct mr_tar_entry){ .name = "",
						    .header = w->at };
		r = step(w, e, err);
	} while (r == MR_AGAIN);
	return r;
}
