/* SPDX-License-Identifier: Apache-2.0 */
#include "source/h5read.h"

#include <libdeflate.h>
#include <stdio.h>

#include "core/le.h"
#include "kernel/shuffle.h"

enum {
	SLOTS = 64,   /* chunks that a thread keeps, at most */
	SHARE = 8,    /* of the limit that they may take */
	TRAILER = 64, /* what filters may add to a chunk, at most */
};

struct mr_h5_slot {
	uint64_t file, id; /* whose bytes it has; `full` only */
	bool full;
	uint8_t *data;
	size_t cap;
};

void mr_h5_cache_fini(struct mr_h5_cache *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->slot[i].data);
	free(c->slot);
	*c = (struct mr_h5_cache){ 0 };
}

size_t mr_h5_bytes(const struct mr_h5_set *s, uint64_t rows)
{
	return (size_t)rows * (s->row_bytes / s->type.size) *
	       mr_dtype_size(s->type.dtype);
}

/* ---- filters ---- */

static int bad_chunk(const struct mr_h5_rows *r, const struct mr_h5_chunk *c,
		     const char *why)
{
	char at[200];

	mr_h5_chunk_text(r->set, c->id, at, sizeof(at));
	return mr_err_set(r->err, MR_EDATA,
			  "%s: dataset '%s', chunk %s at byte %llu: %s",
			  mr_input_path(r->in), r->set->name, at,
			  (unsigned long long)c->at, why);
}

/* As HDF5 defines it: over big-endian words of 16 bits. */
static uint32_t fletcher32(const uint8_t *p, size_t n)
{
	uint32_t a = 0, b = 0;
	size_t words = n / 2;

	while (words) {
		size_t k = words < 360 ? words : 360;

		words -= k;
		for (; k; k--, p += 2) {
			a += (uint32_t)p[0] << 8 | p[1];
			b += a;
		}
		a = (a & 0xffff) + (a >> 16);
		b = (b & 0xffff) + (b >> 16);
	}
	if (n % 2) {
		a += (uint32_t)*p << 8;
		b += a;
		a = (a & 0xffff) + (a >> 16);
		b = (b & 0xffff) + (b >> 16);
	}
	a = (a & 0xffff) + (a >> 16);
	b = (b & 0xffff) + (b >> 16);
	return b << 16 | a;
}

static bool fletcher_is_right(const uint8_t *p, size_t n)
{
	uint32_t have = mr_le32(p + n), want = fletcher32(p, n);

	/* HDF5 1.6.2 wrote the bytes of each half in the other order. */
	return have == want ||
	       have == ((want & 0x00ff00ff) << 8 | (want & 0xff00ff00) >> 8);
}

static void *take(const struct mr_h5_rows *r, size_t n)
{
	void *p = mr_arena_take(r->scratch, n);

	if (!p)
		mr_err_set(r->err, MR_ELIMIT,
			   "%s: dataset '%s': a chunk needs %zu bytes more "
			   "than the memory budget leaves; raise --memory",
			   mr_input_path(r->in), r->set->name, n);
	return p;
}

static int inflate(const struct mr_h5_rows *r, const struct mr_h5_chunk *c,
		   uint8_t **p, size_t *n)
{
	size_t room = r->set->chunk_bytes + TRAILER, got = 0;
	uint8_t *to = take(r, room);

	if (!to)
		return MR_ELIMIT;
	if (!*r->inflate)
		*r->inflate = libdeflate_alloc_decompressor();
	if (!*r->inflate)
		return mr_err_nomem(r->err, room);
	if (libdeflate_zlib_decompress(*r->inflate, *p, *n, to, room, &got))
		return bad_chunk(r, c,
				 "damaged: does not inflate to the "
				 "chunk's size");
	*p = to;
	*n = got;
	return 0;
}

/* Undo one filter; *p becomes another place. */
static int undo(const struct mr_h5_rows *r, const struct mr_h5_chunk *c,
		enum mr_h5_filter f, uint8_t **p, size_t *n)
{
	size_t width;
	uint8_t *to;

	switch (f) {
	case MR_H5_DEFLATE:
		return inflate(r, c, p, n);
	case MR_H5_FLETCHER:
		if (*n < 4 || !fletcher_is_right(*p, *n - 4))
			return bad_chunk(r, c,
					 "damaged: its checksum "
					 "(fletcher32) is wrong");
		*n -= 4;
		return 0;
	case MR_H5_SHUFFLE:
		to = take(r, *n);
		if (!to)
			return MR_ELIMIT;
		width = r->set->type.size;
		mr_unshuffle(to, *p, *n / width, width);
		/* What does not fill an element is left as it is. */
		memcpy(to + *n / width * width, *p + *n / width * width,
		       *n % width);
		*p = to;
	}
	return 0;
}

/* The chunk's bytes, in scratch memory. */
static int decode(const struct mr_h5_rows *r, const struct mr_h5_chunk *c,
		  uint8_t **out)
{
	const struct mr_h5_set *s = r->set;
	size_t n = c->size;
	uint8_t *p;
	int e;

	if (n > mr_input_size(r->in) || c->at > mr_input_size(r->in) - n)
		return bad_chunk(r, c,
				 "lies beyond the file's end; the file "
				 "is damaged or truncated");
	p = take(r, n);
	if (!p)
		return MR_ELIMIT;
	e = mr_input_read(r->in, p, n, c->at, r->err);
	for (int i = s->filters - 1; !e && i >= 0; i--)
		if (!(c->mask >> i & 1))
			e = undo(r, c, s->filter[i], &p, &n);
	if (!e && n != s->chunk_bytes)
		e = bad_chunk(r, c, "damaged: too few bytes for a chunk");
	*out = p;
	return e;
}

/* ---- chunks ---- */

static const struct mr_h5_chunk *find_chunk(const struct mr_h5_set *s,
					    uint64_t id)
{
	size_t lo = 0, hi = s->n_chunks;

	if (id < s->n_chunks && s->chunks[id].id == id)
		return &s->chunks[id];
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->chunks[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n_chunks && s->chunks[lo].id == id ? &s->chunks[lo] :
							    NULL;
}

/* Chunks side by side: those that hold the same rows. */
static uint64_t band_of(const struct mr_h5_set *s)
{
	uint64_t n = 1;

	for (int d = 1; d < s->ndim; d++)
		n *= s->grid[d];
	return n;
}

/* As many as the next rows need again, within a share of the memory. */
static int make_slots(const struct mr_h5_rows *r)
{
	const struct mr_h5_set *s = r->set;
	uint64_t band = band_of(s);
	uint64_t high = r->keep_rows ? r->keep_rows / s->chunk[0] + 2 : 1;
	uint64_t most = r->limit / SHARE / (s->chunk_bytes + 1);
	uint64_t n = band < SLOTS && high < SLOTS ? band * high : SLOTS;

	if (n > SLOTS)
		n = SLOTS;
	if (n > most)
		n = most ? most : 1;
	r->cache->slot = mr_alloc(n, sizeof(*r->cache->slot), r->err);
	if (!r->cache->slot)
		return MR_ENOMEM;
	r->cache->n = n;
	return 0;
}

static int fill_slot(const struct mr_h5_rows *r, struct mr_h5_slot *slot,
		     const struct mr_h5_chunk *c)
{
	uint8_t *p = NULL;
	int e = decode(r, c, &p);

	slot->full = false;
	if (e)
		return e;
	e = mr_grow(&slot->data, &slot->cap, r->set->chunk_bytes, 1, SIZE_MAX,
		    r->err);
	if (e)
		return e;
	memcpy(slot->data, p, r->set->chunk_bytes);
	slot->file = r->file;
	slot->id = c->id;
	slot->full = true;
	return 0;
}

/* A decoded chunk; *data is NULL where there is none in the file. */
static int get_chunk(const struct mr_h5_rows *r, uint64_t id,
		     const uint8_t **data)
{
	const struct mr_h5_chunk *c = find_chunk(r->set, id);
	struct mr_h5_slot *slot;
	int e = 0;

	*data = NULL;
	if (!c)
		return 0;
	if (r->set->chunk_bytes > r->limit)
		return mr_err_set(r->err, MR_ELIMIT,
				  "%s: dataset '%s' has chunks of %zu bytes; "
				  "with this memory budget they may have %zu: "
				  "raise --memory",
				  mr_input_path(r->in), r->set->name,
				  r->set->chunk_bytes, r->limit);
	if (!r->cache->n)
		e = make_slots(r);
	if (e)
		return e;
	slot = &r->cache->slot[id % r->cache->n];
	if (!slot->full || slot->file != r->file || slot->id != id)
		e = fill_slot(r, slot, c);
	*data = slot->data;
	return e;
}

/* ---- from chunks to rows ---- */

/* The part of a chunk that is wanted, and where it goes. */
struct box {
	const struct mr_h5_set *s;
	uint64_t from[MR_MAX_DIMS], len[MR_MAX_DIMS]; /* in the chunk */
	size_t in[MR_MAX_DIMS], out[MR_MAX_DIMS];     /* bytes per step */
	int last; /* dimension that is copied in one go */
};

static void copy_box(const struct box *b, int d, const uint8_t *from,
		     uint8_t *to)
{
	size_t size = b->s->type.size;

	if (from)
		from += b->from[d] * b->in[d];
	if (d < b->last) {
		for (uint64_t i = 0; i < b->len[d]; i++)
			copy_box(b, d + 1, from ? from + i * b->in[d] : NULL,
				 to + i * b->out[d]);
		return;
	}
	if (from) {
		memcpy(to, from, b->len[d] * b->in[d]);
		return;
	}
	for (size_t i = 0; i < b->len[d] * b->out[d]; i += size)
		memcpy(to + i, b->s->fill, size);
}

/* What chunk `id` has of the rows; returns where that goes in `to`. */
static uint8_t *place_box(const struct mr_h5_rows *r, uint64_t id, uint8_t *to,
			  struct box *b)
{
	const struct mr_h5_set *s = r->set;
	size_t in = s->type.size, out = s->type.size;
	bool whole = true; /* dimensions after this one, in chunk and rows */

	b->s = s;
	b->last = s->ndim - 1;
	for (int d = s->ndim - 1; d >= 0; d--) {
		uint64_t at = id % s->grid[d] * s->chunk[d];
		uint64_t end = at + s->chunk[d];
		uint64_t lo = d ? 0 : r->first;
		uint64_t hi = d ? s->dims[d] : r->first + r->n;

		id /= s->grid[d];
		if (whole)
			b->last = d;
		whole = whole && s->chunk[d] == s->dims[d];
		b->from[d] = at < lo ? lo - at : 0;
		b->len[d] = (end < hi ? end : hi) - (at < lo ? lo : at);
		b->in[d] = in;
		b->out[d] = out;
		to += ((at < lo ? lo : at) - lo) * out;
		in *= s->chunk[d];
		out *= hi - lo;
	}
	return to;
}

static int read_chunked(const struct mr_h5_rows *r, uint8_t *to)
{
	const struct mr_h5_set *s = r->set;
	uint64_t band = band_of(s);
	uint64_t id = r->first / s->chunk[0] * band;
	uint64_t end = ((r->first + r->n - 1) / s->chunk[0] + 1) * band;

	for (; id < end; id++) {
		const uint8_t *data;
		struct box b;
		uint8_t *at = place_box(r, id, to, &b);
		int e = get_chunk(r, id, &data);

		if (e)
			return e;
		copy_box(&b, 0, data, at);
	}
	return 0;
}

/* Chunks that nothing was done to, and whose rows are whole: only what is
 * wanted of them is read, to where it belongs. */
static bool is_plain(const struct mr_h5_set *s)
{
	for (int d = 1; d < s->ndim; d++)
		if (s->chunk[d] != s->dims[d])
			return false;
	return !s->filters;
}

static int read_plain(const struct mr_h5_rows *r, uint8_t *to)
{
	const struct mr_h5_set *s = r->set;
	uint64_t id = r->first / s->chunk[0];
	int e = 0;

	for (; !e && id <= (r->first + r->n - 1) / s->chunk[0]; id++) {
		const struct mr_h5_chunk *c = find_chunk(s, id);
		struct box b;
		uint8_t *at = place_box(r, id, to, &b);

		if (!c)
			copy_box(&b, 0, NULL, at);
		else if (c->size != s->chunk_bytes)
			e = bad_chunk(r, c,
				      "damaged: it has not the size of "
				      "a chunk");
		else
			e = mr_input_read(r->in, at, b.len[0] * b.in[0],
					  c->at + b.from[0] * b.in[0], r->err);
	}
	return e;
}

static int read_contiguous(const struct mr_h5_rows *r, uint8_t *to)
{
	const struct mr_h5_set *s = r->set;
	size_t n = (size_t)r->n * s->row_bytes;

	if (s->at != MR_H5_NOWHERE)
		return mr_input_read(r->in, to, n,
				     s->at + r->first * s->row_bytes, r->err);
	for (size_t i = 0; i < n; i += s->type.size)
		memcpy(to + i, s->fill, s->type.size);
	return 0;
}

/* ---- numbers ---- */

static void swap_bytes(uint8_t *p, size_t n, size_t size)
{
	for (; n; n--, p += size)
		for (size_t i = 0; i < size / 2; i++) {
			uint8_t t = p[i];

			p[i] = p[size - 1 - i];
			p[size - 1 - i] = t;
		}
}

/* n numbers at `from`, little-endian, to twice their size at `to`; `from` is
 * the end of the same memory, so that what is written has been read. */
static void widen(uint8_t *to, const uint8_t *from, size_t n, size_t size,
		  bool is_signed)
{
	for (; n; n--, from += size, to += 2 * size) {
		uint8_t v[16];
		bool minus = is_signed && from[size - 1] & 0x80;

		memcpy(v, from, size);
		memset(v + size, minus ? 0xff : 0, size);
		memcpy(to, v, 2 * size);
	}
}

int mr_h5_read(const struct mr_h5_rows *r, void *to)
{
	const struct mr_h5_set *s = r->set;
	size_t size = s->type.size;
	size_t n = (size_t)r->n * (s->row_bytes / size);
	bool wider = mr_dtype_size(s->type.dtype) > size;
	uint8_t *p = to, *at = wider ? p + n * size : p;
	int e;

	if (!n)
		return 0;
	if (s->layout == MR_H5_CONTIGUOUS)
		e = read_contiguous(r, at);
	else if (is_plain(s))
		e = read_plain(r, at);
	else
		e = read_chunked(r, at);
	if (e)
		return e;
	if (s->type.big)
		swap_bytes(at, n, size);
	if (wider)
		widen(p, at, n, size, s->type.is_signed);
	return 0;
}
