/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of colour.c over one block of pixels, by kind of CPU. */
#ifndef MR_KERNEL_COLOUR_LOOPS_H
#define MR_KERNEL_COLOUR_LOOPS_H

#include <stddef.h>
#include <stdint.h>

/* A block of planes stays in the L1 cache. Loops go over all of it even if
 * there are fewer pixels: without a rest they are short. */
enum { MR_COLOUR_BLOCK = 256 };

struct mr_planes {
	_Alignas(64) uint8_t r[MR_COLOUR_BLOCK];
	_Alignas(64) uint8_t g[MR_COLOUR_BLOCK];
	_Alignas(64) uint8_t b[MR_COLOUR_BLOCK];
	_Alignas(64) uint8_t grey[MR_COLOUR_BLOCK];
};

struct mr_colour_loops {
	/* n pixels to planes and back; these two end at n. */
	void (*split)(struct mr_planes *p, const uint8_t *rgb, size_t n);
	void (*join)(const uint8_t *r, const uint8_t *g, const uint8_t *b,
		     uint8_t *rgb, size_t n);
	/* Sets p->grey. */
	void (*grey)(struct mr_planes *p);
	/* x = base + factor * (x - base) as Image.blend() does it. */
	void (*blend_flat)(uint8_t *x, uint8_t base, float factor);
	void (*blend)(uint8_t *x, const uint8_t *base, float factor);
	/* Through Pillow's HSV, where `shift` is added to H modulo 256. */
	void (*hue)(struct mr_planes *p, uint8_t shift);
};

/* NULL when this CPU has no AVX2. */
const struct mr_colour_loops *mr_colour_avx2(void);

#endif
