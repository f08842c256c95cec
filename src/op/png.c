/* SPDX-License-Identifier: Apache-2.0 */
#include "op/png.h"

#include <stdio.h>

#include <spng.h>

#include "core/mem.h"
#include "op/exif.h"

enum {
	SIGNATURE = 8,
	CHUNK = 12, /* of a chunk, beside its bytes */
	STRIP = 16,
	CHUNK_MAX = 64 << 20, /* of a chunk besides the pixels, and all */
	/* bytes per column: a strip here, and three rows in libspng */
	COLUMN = 4 * STRIP + 3 * 8,
};

struct mr_png {
	spng_ctx *c;
	struct spng_ihdr head;
	const uint8_t *bytes;
	size_t n;
	struct mr_rect want;
	int64_t row, end; /* the next row, one past the last wanted */
	uint8_t *whole;	  /* of an interlaced image */
	uint8_t *strip;
	size_t stride, strip_cap;
};

bool mr_png_is(const uint8_t *b, size_t n)
{
	return n >= SIGNATURE && !memcmp(b, "\x89PNG\r\n\x1a\n", SIGNATURE);
}

int mr_png_new(struct mr_png **p, struct mr_err *err)
{
	*p = mr_alloc(1, sizeof(**p), err);
	return *p ? 0 : MR_ENOMEM;
}

static void end(struct mr_png *p)
{
	spng_ctx_free(p->c);
	p->c = NULL;
}

void mr_png_free(struct mr_png *p)
{
	if (!p)
		return;
	end(p);
	free(p->strip);
	free(p);
}

static int failed(const struct mr_png *p, int code, struct mr_err *err)
{
	if (code == SPNG_EMEM)
		return mr_err_set(err, MR_ENOMEM, "out of memory");
	if (code == SPNG_IO_EOF)
		return mr_err_set(err, MR_EDATA,
				  "PNG: truncated: the file ends after %zu "
				  "bytes",
				  p->n);
	return mr_err_set(err, MR_EDATA, "PNG: %s", spng_strerror(code));
}

static int check_size(const struct mr_png *p, int64_t max_pixels,
		      size_t max_bytes, struct mr_err *err)
{
	uint64_t w = p->head.width, h = p->head.height;

	if (w * h > (uint64_t)max_pixels)
		return mr_err_set(err, MR_EDATA,
				  "PNG: says that it has %llu x %llu pixels, "
				  "more than max_pixels=%lld",
				  (unsigned long long)w, (unsigned long long)h,
				  (long long)max_pixels);
	if (w * COLUMN > max_bytes)
		return mr_err_set(err, MR_ELIMIT,
				  "PNG: rows of %llu pixels need %llu bytes; "
				  "raise --memory",
				  (unsigned long long)w,
				  (unsigned long long)w * COLUMN);
	return 0;
}

int mr_png_start(struct mr_png *p, const uint8_t *bytes, size_t n,
		 int64_t max_pixels, size_t max_bytes, int64_t *h, int64_t *w,
		 struct mr_err *err)
{
	int e;

	p->bytes = bytes;
	p->n = n;
	p->whole = NULL;
	p->c = spng_ctx_new(0);
	if (!p->c)
		return mr_err_set(err, MR_ENOMEM, "out of memory");
	spng_set_chunk_limits(p->c, CHUNK_MAX, CHUNK_MAX);
	e = spng_set_png_buffer(p->c, bytes, n);
	if (!e)
		e = spng_get_ihdr(p->c, &p->head);
	if (e)
		return failed(p, e, err);
	e = check_size(p, max_pixels, max_bytes, err);
	if (e)
		return e;
	*h = p->head.height;
	*w = p->head.width;
	return 0;
}

static uint32_t big_endian(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

/* A chunk is its length, its name, that many bytes and a checksum. */
int mr_png_orientation(const struct mr_png *p)
{
	size_t at = SIGNATURE, length;

	for (; at <= p->n && p->n - at >= CHUNK; at += CHUNK + length) {
		const uint8_t *c = p->bytes + at;

		length = big_endian(c);
		if (length > p->n - at - CHUNK)
			break;
		if (!memcmp(c + 4, "eXIf", 4))
			return mr_exif_orientation(c + 8, length);
	}
	return 1;
}

static int reserve_strip(struct mr_png *p, struct mr_err *err)
{
	size_t need;

	p->stride = mr_round_up((size_t)p->head.width * 4 + MR_ROW_SLACK, 64);
	need = p->stride * STRIP;
	if (need <= p->strip_cap)
		return 0;
	free(p->strip);
	p->strip = NULL;
	p->strip_cap = 0;
	p->strip = aligned_alloc(64, need);
	if (!p->strip)
		return mr_err_set(err, MR_ENOMEM, "out of memory");
	memset(p->strip, 0, need);
	p->strip_cap = need;
	return 0;
}

static int decode_whole(struct mr_png *p, struct mr_arena *scratch,
			struct mr_err *err)
{
	size_t n = (size_t)p->head.width * p->head.height * 4;
	int e;

	p->stride = (size_t)p->head.width * 4;
	p->whole = mr_arena_take(scratch, n + MR_ROW_SLACK);
	if (!p->whole)
		return mr_err_set(err, MR_ELIMIT,
				  "PNG: %u x %u pixels, interlaced, need %zu "
				  "bytes; raise --memory",
				  p->head.width, p->head.height, n);
	e = spng_decode_image(p->c, p->whole, n, SPNG_FMT_RGBA8, 0);
	return e ? failed(p, e, err) : 0;
}

int mr_png_want(struct mr_png *p, const struct mr_rect *r,
		struct mr_arena *scratch, struct mr_err *err)
{
	int e;

	p->want = *r;
	p->row = r->y;
	p->end = r->y + r->h;
	if (p->head.interlace_method)
		return decode_whole(p, scratch, err);
	e = reserve_strip(p, err);
	if (e)
		return e;
	p->row = 0;
	e = spng_decode_image(p->c, NULL, 0, SPNG_FMT_RGBA8,
			      SPNG_DECODE_PROGRESSIVE);
	return e ? failed(p, e, err) : 0;
}

static int decode_row(struct mr_png *p, uint8_t *to, struct mr_err *err)
{
	int e = spng_decode_row(p->c, to, (size_t)p->head.width * 4);

	if (e && !(e == SPNG_EOI && p->row == (int64_t)p->head.height - 1))
		return failed(p, e, err);
	p->row++;
	return 0;
}

int mr_png_rows(struct mr_png *p, struct mr_rows *out, struct mr_err *err)
{
	int64_t left;
	int e = 0, n = 0;

	while (!p->whole && !e && p->row < p->want.y)
		e = decode_row(p, p->strip, err);
	left = p->end - p->row;
	if (p->whole) {
		size_t at = (size_t)p->row * p->stride;

		*out = (struct mr_rows){ p->whole + at + p->want.x * 4,
					 p->stride,
					 left < STRIP ? (int)left : STRIP };
		p->row += out->n;
		return 0;
	}
	while (!e && n < STRIP && n < left)
		e = decode_row(p, p->strip + (size_t)n++ * p->stride, err);
	*out = (struct mr_rows){ p->strip + p->want.x * 4, p->stride, n };
	return e;
}

/* The last chunk, whose content is always the same. */
static bool has_end(const struct mr_png *p)
{
	return p->n >= 12 && !memcmp(p->bytes + p->n - 12,
				     "\0\0\0\0IEND\xae\x42\x60\x82", 12);
}

int mr_png_stop(struct mr_png *p, bool whole, struct mr_err *err)
{
	int e = 0;

	/* So that a truncated file is bad with every crop, not with some. */
	if (whole && !p->whole && !has_end(p))
		while (!e && p->row < (int64_t)p->head.height)
			e = decode_row(p, p->strip, err);
	/* The checksum of the pixels comes after them. */
	if (whole && !e && (p->whole || p->row == (int64_t)p->head.height)) {
		e = spng_decode_chunks(p->c);
		e = e ? failed(p, e, err) : 0;
	}
	end(p);
	return e;
}
