/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of pixels from one layout to another. "x4" pixels are four bytes
 * (R G B and one that means nothing), the layout that the other kernels
 * work on. Nothing overlaps; dst gets exactly what is said.
 *
 * mr_X() is the fastest that this CPU has; mr_X_plain() its twin in plain C,
 * which gives the same bytes. Nothing is read past n pixels.
 */
#ifndef MR_KERNEL_PIXELS_H
#define MR_KERNEL_PIXELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* n pixels of x4 -> n pixels of three bytes; mirror: last pixel first. */
void mr_pixels_pack(const uint8_t *x4, size_t n, bool mirror, uint8_t *rgb);
void mr_pixels_pack_plain(const uint8_t *x4, size_t n, bool mirror,
			  uint8_t *rgb);

/* n pixels of three bytes -> x4 (the fourth byte is 255). */
void mr_pixels_expand(const uint8_t *rgb, size_t n, uint8_t *x4);
void mr_pixels_expand_plain(const uint8_t *rgb, size_t n, uint8_t *x4);

/* n pixels of x4 -> three rows of n bytes at dst, dst + plane, ... */
void mr_pixels_planes(const uint8_t *x4, size_t n, bool mirror, uint8_t *dst,
		      size_t plane);
void mr_pixels_planes_plain(const uint8_t *x4, size_t n, bool mirror,
			    uint8_t *dst, size_t plane);

/*
 * n pixels of `stride` (3 or 4) bytes -> three rows of n floats x *
 * scale[c] + bias[c] at dst, dst + plane, ... The product is rounded before
 * the sum (no fused multiply-add), on every CPU.
 */
void mr_pixels_affine(const uint8_t *src, int stride, size_t n, bool mirror,
		      float *dst, size_t plane, const float scale[3],
		      const float bias[3]);
void mr_pixels_affine_plain(const uint8_t *src, int stride, size_t n,
			    bool mirror, float *dst, size_t plane,
			    const float scale[3], const float bias[3]);

#endif
