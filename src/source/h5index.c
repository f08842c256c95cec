/* SPDX-License-Identifier: Apache-2.0 */
#include "source/h5index.h"

#include <stdio.h>

#include "core/le.h"

enum {
	BLOCK_MAX = 1 << 23, /* of an object header or a node */
	BLOCKS = 64,	     /* of it, in all */
	LEVELS = 32,	     /* of a B-tree */
	MESSAGE_LAYOUT = 8,
	MESSAGE_MORE = 16,
};

/* ---- the set ---- */

void mr_h5_set_fini(struct mr_h5_set *s)
{
	free(s->chunks);
	s->chunks = NULL;
	s->n_chunks = s->cap_chunks = 0;
}

void mr_h5_chunk_text(const struct mr_h5_set *s, uint64_t id, char *buf,
		      size_t cap)
{
	uint64_t at[MR_MAX_DIMS];
	size_t n = 0;

	for (int d = s->ndim - 1; d >= 0; d--) {
		at[d] = id % s->grid[d] * s->chunk[d];
		id /= s->grid[d];
	}
	for (int d = 0; d < s->ndim && n < cap; d++)
		n += (size_t)snprintf(buf + n, cap - n, "%s%llu%s",
				      d ? ", " : "[", (unsigned long long)at[d],
				      d == s->ndim - 1 ? "]" : "");
}

int mr_h5_index_add(struct mr_h5_set *s, const uint64_t *offset, uint64_t at,
		    uint64_t size, uint32_t mask, struct mr_err *err)
{
	uint64_t id = 0;
	int e;

	for (int d = 0; d < s->ndim; d++) {
		if (offset[d] >= s->dims[d])
			return 0; /* cut off when the dataset was resized */
		if (offset[d] % s->chunk[d])
			return mr_err_set(err, MR_EDATA,
					  "damaged: a chunk begins at %llu, "
					  "which is no multiple of %llu",
					  (unsigned long long)offset[d],
					  (unsigned long long)s->chunk[d]);
		id = id * s->grid[d] + offset[d] / s->chunk[d];
	}
	if (!size || size > UINT32_MAX)
		return mr_err_set(err, MR_EDATA,
				  "damaged: a chunk of %llu bytes",
				  (unsigned long long)size);
	e = mr_grow(&s->chunks, &s->cap_chunks, s->n_chunks + 1,
		    sizeof(*s->chunks), SIZE_MAX / sizeof(*s->chunks), err);
	if (e)
		return e;
	s->chunks[s->n_chunks++] = (struct mr_h5_chunk){
		.id = id, .at = at, .size = (uint32_t)size, .mask = mask
	};
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct mr_h5_chunk *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

void mr_h5_index_sort(struct mr_h5_set *s)
{
	size_t i = 1;

	while (i < s->n_chunks && s->chunks[i - 1].id < s->chunks[i].id)
		i++;
	if (i < s->n_chunks) /* rarely: a B-tree has them in order */
		qsort(s->chunks, s->n_chunks, sizeof(*s->chunks), by_id);
}

/* ---- the object header ---- */

struct walk {
	struct mr_h5_set *s;
	struct mr_input *in;
	uint64_t base;
	struct mr_err *err;
	/* Blocks of the object header that are still to be looked at. */
	struct {
		uint64_t at, size;
	} block[BLOCKS];
	int blocks;
	bool found;
	uint64_t entries; /* of the B-tree, so far */
	uint64_t layout;  /* the address that the layout message gives */
};

static int unknown(const struct walk *w, const char *what, unsigned version)
{
	return mr_err_set(w->err, MR_EUNSUPPORTED, "%s of version %u", what,
			  version);
}

/* n bytes that the caller frees. */
static int read_block(const struct walk *w, uint64_t at, uint64_t n,
		      uint8_t **out)
{
	int e;

	*out = NULL;
	if (n > BLOCK_MAX || at > UINT64_MAX - w->base ||
	    at + w->base > mr_input_size(w->in) ||
	    n > mr_input_size(w->in) - at - w->base)
		return mr_err_set(w->err, MR_EDATA,
				  "damaged or truncated: %llu bytes of its "
				  "index at %llu",
				  (unsigned long long)n,
				  (unsigned long long)at);
	*out = mr_alloc(n, 1, w->err);
	if (!*out)
		return MR_ENOMEM;
	e = mr_input_read(w->in, *out, n, at + w->base, w->err);
	if (e) {
		free(*out);
		*out = NULL;
	}
	return e;
}

static int read_layout(struct walk *w, const uint8_t *p, size_t n)
{
	int class = w->s->layout == MR_H5_CHUNKED ? 2 : 1;

	if (n < 2 || p[0] != 3)
		return unknown(w, "a layout", n ? p[0] : 0);
	if (p[1] != class || n < 11)
		return unknown(w, "a layout message of another class", p[1]);
	if (class == 2 && p[2] != w->s->ndim + 1)
		return unknown(w, "a layout of another rank", p[2]);
	w->layout = mr_le64(p + (class == 2 ? 3 : 2));
	w->found = true;
	return 0;
}

static int read_message(struct walk *w, unsigned type, const uint8_t *p,
			size_t n)
{
	if (type == MESSAGE_LAYOUT)
		return read_layout(w, p, n);
	if (type != MESSAGE_MORE)
		return 0;
	if (n < 16 || w->blocks == BLOCKS)
		return mr_err_set(w->err, MR_EDATA,
				  "damaged: an object header in too many "
				  "pieces");
	w->block[w->blocks].at = mr_le64(p);
	w->block[w->blocks++].size = mr_le64(p + 8);
	return 0;
}

/* Messages of n bytes, whose heads are of `head` bytes. */
static int read_messages(struct walk *w, const uint8_t *p, size_t n,
			 size_t head)
{
	while (n >= head && !w->found) {
		unsigned type = head == 8 ? mr_le16(p) : p[0];
		size_t size = mr_le16(p + (head == 8 ? 2 : 1));
		int e;

		if (size > n - head)
			return mr_err_set(w->err, MR_EDATA,
					  "damaged: an object header's "
					  "message of %zu bytes",
					  size);
		e = read_message(w, type, p + head, size);
		if (e)
			return e;
		p += head + size;
		n -= head + size;
	}
	return 0;
}

/* The first block of a header of version 1: where its messages are. */
static int first_block(struct walk *w, uint64_t header, size_t *head)
{
	uint8_t *p;
	uint64_t size;
	size_t at;
	int e = read_block(w, header, 16, &p);

	if (e)
		return e;
	if (p[0] == 1) {
		*head = 8;
		at = 16;
		size = mr_le32(p + 8);
	} else if (!memcmp(p, "OHDR", 4) && p[4] == 2) {
		unsigned flags = p[5];

		*head = flags & 4 ? 6 : 4;
		at = 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0);
		free(p);
		e = read_block(w, header + at, 8, &p);
		if (e)
			return e;
		size = mr_le64(p);
		if ((flags & 3) < 3)
			size &= ((uint64_t)1 << (8 << (flags & 3))) - 1;
		at += (size_t)1 << (flags & 3);
	} else {
		e = unknown(w, "an object header", p[0]);
		free(p);
		return e;
	}
	free(p);
	w->block[0].at = header + at;
	w->block[0].size = size;
	w->blocks = 1;
	return 0;
}

static int read_header(struct walk *w, uint64_t header)
{
	size_t head = 0;
	int e = first_block(w, header, &head);

	for (int i = 0; !e && i < w->blocks && !w->found; i++) {
		/* Later blocks of version 2 have a name and a checksum. */
		size_t skip = head < 8 && i > 0 ? 4 : 0;
		size_t n = (size_t)w->block[i].size;
		uint8_t *p;

		e = read_block(w, w->block[i].at, w->block[i].size, &p);
		if (e)
			return e;
		if (n >= 2 * skip)
			e = read_messages(w, p + skip, n - 2 * skip, head);
		free(p);
	}
	if (!e && !w->found)
		e = unknown(w, "an object header without a layout", 0);
	return e;
}

/* ---- the B-tree ---- */

static int damaged_node(const struct walk *w, uint64_t at)
{
	return mr_err_set(w->err, MR_EDATA,
			  "damaged: no node of a chunk index at %llu",
			  (unsigned long long)(at + w->base));
}

static int read_node(struct walk *w, uint64_t at, int level);

static int read_entries(struct walk *w, const uint8_t *p, unsigned n, int level)
{
	size_t key = 8 + 8 * ((size_t)w->s->ndim + 1);
	int e = 0;

	for (unsigned i = 0; i < n && !e; i++, p += key + 8) {
		uint64_t offset[MR_MAX_DIMS], child = mr_le64(p + key);

		if (level) {
			e = read_node(w, child, level - 1);
			continue;
		}
		for (int d = 0; d < w->s->ndim; d++)
			offset[d] = mr_le64(p + 8 + 8 * d);
		if (child > UINT64_MAX - w->base)
			return damaged_node(w, child);
		e = mr_h5_index_add(w->s, offset, child + w->base, mr_le32(p),
				    mr_le32(p + 4), w->err);
	}
	return e;
}

/* level < 0: of the root, which tells its own. Levels go down, and there are
 * no more entries than the file has room for: a damaged tree comes to an end.
 */
static int read_node(struct walk *w, uint64_t at, int level)
{
	size_t key = 8 + 8 * ((size_t)w->s->ndim + 1);
	uint64_t most = mr_input_size(w->in) / (key + 8);
	uint8_t *p;
	unsigned n;
	int e = read_block(w, at, 24, &p);

	if (e)
		return e;
	n = mr_le16(p + 6);
	w->entries += n;
	if (memcmp(p, "TREE", 4) || p[4] != 1 || p[5] > LEVELS ||
	    (level >= 0 && p[5] != level) || w->entries > most)
		e = damaged_node(w, at);
	level = p[5];
	free(p);
	if (e)
		return e;
	e = read_block(w, at + 24, n * (key + 8), &p);
	if (!e)
		e = read_entries(w, p, n, level);
	free(p);
	return e;
}

int mr_h5_index(struct mr_h5_set *s, struct mr_input *in, uint64_t header,
		uint64_t base, struct mr_err *err)
{
	struct walk w = { .s = s, .in = in, .base = base, .err = err };
	int e = read_header(&w, header);

	if (e)
		return e;
	if (s->layout == MR_H5_CHUNKED) {
		if (w.layout != MR_H5_NOWHERE)
			e = read_node(&w, w.layout, -1);
		mr_h5_index_sort(s);
		return e;
	}
	s->at = w.layout;
	if (s->at == MR_H5_NOWHERE)
		return 0;
	if (s->at > UINT64_MAX - base)
		return mr_err_set(err, MR_EDATA,
				  "damaged: a dataset at byte %llu",
				  (unsigned long long)s->at);
	s->at += base;
	return 0;
}
