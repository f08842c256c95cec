/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image goes block by block through all adjustments. Only contrast needs
 * more, the mean of the image as the one before left it: there a new pass
 * begins.
 *
 * Why the arithmetic is exact: grey and blending are Pillow's own formulas
 * (in float, where -ffp-contract=off keeps the product rounded). Hue and back
 * is shorter than Pillow's mix of float and double; tests compare it over all
 * colours.
 */
#include "kernel/colour.h"

#include <stdbool.h>
#include <string.h>

#include "kernel/colour_loops.h"

enum { BLOCK = MR_COLOUR_BLOCK };

/* ---- one block, in plain C ---- */

static void split(struct mr_planes *p, const uint8_t *rgb, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		p->r[i] = rgb[3 * i];
		p->g[i] = rgb[3 * i + 1];
		p->b[i] = rgb[3 * i + 2];
	}
}

static void join(const uint8_t *r, const uint8_t *g, const uint8_t *b,
		 uint8_t *rgb, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rgb[3 * i] = r[i];
		rgb[3 * i + 1] = g[i];
		rgb[3 * i + 2] = b[i];
	}
}

static void grey(struct mr_planes *p)
{
	for (int i = 0; i < BLOCK; i++)
		p->grey[i] = (uint8_t)((p->r[i] * 19595u + p->g[i] * 38470u +
					p->b[i] * 7471u + 0x8000u) >>
				       16);
}

static uint8_t blend_one(int base, int x, float factor)
{
	int v = (int)((float)base + factor * (float)(x - base));

	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void blend_flat(uint8_t *x, uint8_t base, float factor)
{
	for (int i = 0; i < BLOCK; i++)
		x[i] = blend_one(base, x[i], factor);
}

static void blend(uint8_t *x, const uint8_t *base, float factor)
{
	for (int i = 0; i < BLOCK; i++)
		x[i] = blend_one(base[i], x[i], factor);
}

/* What a colour is made of: the largest channel, how far the others lie
 * below it, and the place on the circle of hues, 0 to 255 from red over green
 * and blue. */
struct colour {
	int most, spread, hue;
};

static struct colour colour_of(int r, int g, int b)
{
	int most = r > g ? r : g, least = r < g ? r : g, mid;
	float t, h;

	most = most > b ? most : b;
	least = least < b ? least : b;
	mid = r + g + b - most - least;
	if (most == least)
		return (struct colour){ .most = most };
	/* Sixths of the circle; the roundings of t and h count. */
	t = (float)(most - mid) / (float)(most - least);
	if (most == r)
		h = least == b ? 1 - t : t - 1;
	else if (most == g)
		h = least == b ? 1 + t : 3 - t;
	else
		h = least == r ? 3 + t : 5 - t;
	h = h / 6 + (h < 0 ? 1.0f : 0.0f);
	return (struct colour){ most, most - least, (int)(h * 255) };
}

static void hue_one(uint8_t *r, uint8_t *g, uint8_t *b, uint8_t shift)
{
	/* By sixth of the circle: which of `level` red, green and blue get. */
	static const uint8_t place[7][3] = { { 0, 1, 2 }, { 1, 0, 2 },
					     { 2, 0, 1 }, { 2, 1, 0 },
					     { 1, 2, 0 }, { 0, 2, 1 },
					     { 0, 1, 2 } };
	struct colour c = colour_of(*r, *g, *b);
	int sat = c.most ? 255 * c.spread / c.most : 0;
	int hue2 = 2 * (uint8_t)(c.hue + shift), sixth = hue2 / 85;
	int part = sixth % 2 ? hue2 % 85 : 85 - hue2 % 85;
	/* To the nearest; odd divisors make no ties. */
	int level[3] = { c.most,
			 c.most - (2 * c.most * sat * part + 21675) / 43350,
			 c.most - (2 * c.most * sat + 255) / 510 };

	*r = (uint8_t)level[place[sixth][0]];
	*g = (uint8_t)level[place[sixth][1]];
	*b = (uint8_t)level[place[sixth][2]];
}

static void hue(struct mr_planes *p, uint8_t shift)
{
	for (int i = 0; i < BLOCK; i++)
		hue_one(&p->r[i], &p->g[i], &p->b[i], shift);
}

static const struct mr_colour_loops plain = {
	.split = split,
	.join = join,
	.grey = grey,
	.blend_flat = blend_flat,
	.blend = blend,
	.hue = hue,
};

static const struct mr_colour_loops *fastest(void)
{
	const struct mr_colour_loops *f = mr_colour_avx2();

	return f ? f : &plain;
}

/* ---- whole images ---- */

struct image {
	const uint8_t *src;
	uint8_t *dst;
	size_t pixels;
	int channels;
};

static void adjust_grey(const struct mr_colour_loops *f, struct mr_planes *p,
			const struct mr_adjust *a, uint8_t mean)
{
	if (a->kind == MR_ADJUST_BRIGHTNESS)
		f->blend_flat(p->grey, 0, (float)a->factor);
	else if (a->kind == MR_ADJUST_CONTRAST)
		f->blend_flat(p->grey, mean, (float)a->factor);
}

static void adjust_rgb(const struct mr_colour_loops *f, struct mr_planes *p,
		       const struct mr_adjust *a, uint8_t mean)
{
	uint8_t *const plane[] = { p->r, p->g, p->b };
	uint8_t base = a->kind == MR_ADJUST_BRIGHTNESS ? 0 : mean;

	if (a->kind == MR_ADJUST_HUE) {
		f->hue(p, (uint8_t)(int)(a->factor * 255));
		return;
	}
	if (a->kind == MR_ADJUST_SATURATION)
		f->grey(p);
	for (int c = 0; c < 3; c++) {
		if (a->kind == MR_ADJUST_SATURATION)
			f->blend(plane[c], p->grey, (float)a->factor);
		else
			f->blend_flat(plane[c], base, (float)a->factor);
	}
}

static void load(const struct mr_colour_loops *f, struct mr_planes *p,
		 const struct image *im, size_t at, size_t n)
{
	if (im->channels == 3)
		f->split(p, im->src + 3 * at, n);
	else
		memcpy(p->grey, im->src + at, n);
}

static void store(const struct mr_colour_loops *f, const struct mr_planes *p,
		  const struct image *im, size_t at, size_t n)
{
	if (im->channels == 3)
		f->join(p->r, p->g, p->b, im->dst + 3 * at, n);
	else
		memcpy(im->dst + at, p->grey, n);
}

static uint64_t sum(const uint8_t *x, size_t n)
{
	uint32_t s = 0;

	for (size_t i = 0; i < n; i++)
		s += x[i];
	return s;
}

/* n adjustments, of which the first alone may be contrast, with this mean.
 * Without any, nothing is written. Returns the sum of the result's grey
 * values if it is wanted. */
static uint64_t pass(const struct mr_colour_loops *f, const struct image *im,
		     const struct mr_adjust *a, int n, uint8_t mean,
		     bool want_sum)
{
	struct mr_planes p = { 0 };
	uint64_t total = 0;

	for (size_t at = 0; at < im->pixels; at += BLOCK) {
		size_t left = im->pixels - at, k = left < BLOCK ? left : BLOCK;

		load(f, &p, im, at, k);
		for (int i = 0; i < n; i++) {
			if (im->channels == 3)
				adjust_rgb(f, &p, a + i, mean);
			else
				adjust_grey(f, &p, a + i, mean);
		}
		if (n)
			store(f, &p, im, at, k);
		if (want_sum && im->channels == 3)
			f->grey(&p);
		if (want_sum)
			total += sum(p.grey, k);
	}
	return total;
}

static void adjust(const struct mr_colour_loops *f, const struct mr_adjust *a,
		   int n, struct image im)
{
	uint8_t mean = 0;
	int from = 0, to = 0;

	if (!n)
		memcpy(im.dst, im.src, im.pixels * (size_t)im.channels);
	while (im.pixels && from < n) {
		uint64_t total;

		while (to < n && a[to].kind != MR_ADJUST_CONTRAST)
			to++;
		total = pass(f, &im, a + from, to - from, mean, to < n);
		mean = (uint8_t)((double)total / (double)im.pixels + 0.5);
		if (to > from)
			im.src = im.dst;
		from = to++;
	}
}

void mr_colour_adjust(const struct mr_adjust *a, int n, const uint8_t *src,
		      uint8_t *dst, size_t pixels, int channels)
{
	adjust(fastest(), a, n, (struct image){ src, dst, pixels, channels });
}

void mr_colour_adjust_plain(const struct mr_adjust *a, int n,
			    const uint8_t *src, uint8_t *dst, size_t pixels,
			    int channels)
{
	adjust(&plain, a, n, (struct image){ src, dst, pixels, channels });
}

static void to_grey(const struct mr_colour_loops *f, const struct image *im,
		    int to)
{
	struct mr_planes p = { 0 };

	for (size_t at = 0; at < im->pixels; at += BLOCK) {
		size_t left = im->pixels - at, k = left < BLOCK ? left : BLOCK;

		load(f, &p, im, at, k);
		if (im->channels == 3)
			f->grey(&p);
		if (to == 3)
			f->join(p.grey, p.grey, p.grey, im->dst + 3 * at, k);
		else
			memcpy(im->dst + at, p.grey, k);
	}
}

void mr_colour_grey(const uint8_t *src, int from, uint8_t *dst, int to,
		    size_t pixels)
{
	to_grey(fastest(), &(struct image){ src, dst, pixels, from }, to);
}

void mr_colour_grey_plain(const uint8_t *src, int from, uint8_t *dst, int to,
			  size_t pixels)
{
	to_grey(&plain, &(struct image){ src, dst, pixels, from }, to);
}

void mr_colour_grey_planes(const float *rgb, float *dst, int channels, size_t n)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = 0.299f * rgb[i] + 0.587f * rgb[n + i] +
			 0.114f * rgb[2 * n + i];
	for (int c = 1; c < channels; c++)
		memcpy(dst + (size_t)c * n, dst, n * sizeof(*dst));
}
