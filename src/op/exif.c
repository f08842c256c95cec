/* SPDX-License-Identifier: Apache-2.0 */
#include "op/exif.h"

/* ---- the tag ---- */

enum { LONG = 4 }; /* an entry's type; other numbers are of two bytes */

struct tiff {
	const uint8_t *at;
	size_t n;
	bool big; /* endian */
};

static uint32_t number(const struct tiff *t, size_t at, int bytes)
{
	uint32_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint32_t)t->at[at + (size_t)i]
		     << 8 * (t->big ? bytes - 1 - i : i);
	return v;
}

int mr_exif_orientation(const uint8_t *bytes, size_t n)
{
	struct tiff t = { bytes, n, false };
	size_t dir;
	uint32_t entries;

	if (n < 8 || (memcmp(bytes, "II*\0", 4) && memcmp(bytes, "MM\0*", 4)))
		return 1;
	t.big = bytes[0] == 'M';
	dir = number(&t, 4, 4);
	if (dir > n - 2)
		return 1;
	entries = number(&t, dir, 2);
	for (size_t e = dir + 2; entries && e <= n - 8 && n - e >= 12;
	     e += 12, entries--) {
		uint32_t v;

		if (number(&t, e, 2) != 0x112)
			continue;
		v = number(&t, e + 8, number(&t, e + 2, 2) == LONG ? 4 : 2);
		return v >= 1 && v <= 8 ? (int)v : 1;
	}
	return 1;
}

/* ---- turning ---- */

/*
 * Each orientation is: exchange x and y (or not), then mirror x and y (or
 * not): where an upright pixel lies in the stored image.
 */
struct turn {
	bool swap, mirror_x, mirror_y; /* the mirrors of the stored axes */
};

static struct turn turn_of(int orientation)
{
	static const struct turn turns[] = {
		{ false, false, false }, { false, true, false },
		{ false, true, true },	 { false, false, true },
		{ true, false, false },	 { true, false, true },
		{ true, true, true },	 { true, true, false },
	};

	return turns[orientation - 1];
}

bool mr_exif_swaps(int orientation)
{
	return orientation >= 5;
}

void mr_exif_stored(int orientation, const struct mr_rect *r, int64_t h,
		    int64_t w, struct mr_rect *s)
{
	struct turn t = turn_of(orientation);

	*s = *r;
	if (t.swap) {
		int64_t x = h;

		*s = (struct mr_rect){ r->y, r->x, r->h, r->w };
		h = w;
		w = x;
	}
	if (t.mirror_x)
		s->x = w - s->x - s->w;
	if (t.mirror_y)
		s->y = h - s->y - s->h;
}

void mr_exif_turn(int orientation, const uint8_t *src, size_t src_stride,
		  const struct mr_rect *r, uint8_t *dst, size_t dst_stride)
{
	struct turn t = turn_of(orientation);
	int64_t sw = t.swap ? r->h : r->w, sh = t.swap ? r->w : r->h;

	for (int64_t y = 0; y < r->h; y++) {
		for (int64_t x = 0; x < r->w; x++) {
			int64_t sx = t.swap ? y : x, sy = t.swap ? x : y;

			if (t.mirror_x)
				sx = sw - 1 - sx;
			if (t.mirror_y)
				sy = sh - 1 - sy;
			memcpy(dst + (size_t)y * dst_stride + (size_t)x * 4,
			       src + (size_t)sy * src_stride + (size_t)sx * 4,
			       4);
		}
	}
}
