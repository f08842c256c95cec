/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes after a JPEG's entropy coding, byte by byte as libjpeg-turbo's
 * defaults do it: the "islow" inverse DCT, "fancy" upsampling, YCbCr to RGB.
 * On wild coefficients, where libjpeg-turbo's C and SIMD differ, this does
 * as the SIMD: products and some sums wrap at 16 bits.
 *
 * Rows are padded by the caller: up to MR_JPEG_READ_SLACK bytes past the end
 * of an input row may be read (not used), and up to MR_JPEG_WRITE_SLACK bytes
 * past the end of an output row may be written (with anything). Only the
 * inverse DCT writes exactly its 8 x 8 bytes. Nothing overlaps; rows need not
 * be aligned.
 *
 * mr_X() is the fastest that this CPU has; mr_X_plain() its twin in plain C,
 * which gives the same bytes (but for the slack).
 */
#ifndef MR_KERNEL_JPEG_H
#define MR_KERNEL_JPEG_H

#include <stddef.h>
#include <stdint.h>

enum { MR_JPEG_READ_SLACK = 32, MR_JPEG_WRITE_SLACK = 64 };

/*
 * coef (in natural order, not zigzag) times quant, wrapped to 16 bits,
 * through the inverse DCT, + 128, clamped: 8 rows of 8 bytes at dst, dst +
 * stride, ... coef and quant are 32-byte aligned.
 */
void mr_jpeg_idct(const int16_t coef[64], const uint16_t quant[64],
		  uint8_t *dst, size_t stride);
void mr_jpeg_idct_plain(const int16_t coef[64], const uint16_t quant[64],
			uint8_t *dst, size_t stride);

/* The same if all but coef[0] are 0; dc is the product, already wrapped to
 * 16 bits. */
void mr_jpeg_idct_dc(int dc, uint8_t *dst, size_t stride);
void mr_jpeg_idct_dc_plain(int dc, uint8_t *dst, size_t stride);

/*
 * Chroma of half the width to full width, by a triangle filter:
 *	out[2i]     = (3 c[i] + c[i - 1] + 1) >> 2
 *	out[2i + 1] = (3 c[i] + c[i + 1] + 2) >> 2
 * Uses c[-1] to c[n], where the caller repeats the edges (libjpeg's rule for
 * them then comes out by itself); makes 2 n bytes. The edges are those of the
 * image, not of its blocks: n is half its width, rounded up. libjpeg filters
 * only if n > 2, here and below; narrower rows it merely repeats.
 */
void mr_jpeg_h2v1(const uint8_t *c, size_t n, uint8_t *out);
void mr_jpeg_h2v1_plain(const uint8_t *c, size_t n, uint8_t *out);

/*
 * Chroma of half the width and height. near is the chroma row that the output
 * row lies in, far its other neighbour: the one above for even output rows,
 * the one below for odd ones. With s[i] = 3 near[i] + far[i]:
 *	out[2i]     = (3 s[i] + s[i - 1] + 8) >> 4
 *	out[2i + 1] = (3 s[i] + s[i + 1] + 7) >> 4
 * Uses [-1] to [n] of both, as above; makes 2 n bytes.
 */
void mr_jpeg_h2v2(const uint8_t *near, const uint8_t *far, size_t n,
		  uint8_t *out);
void mr_jpeg_h2v2_plain(const uint8_t *near, const uint8_t *far, size_t n,
			uint8_t *out);

/* n pixels of YCbCr -> RGB in x4 pixels, whose fourth byte is 255. */
void mr_jpeg_ycc(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
		 size_t n, uint8_t *x4);
void mr_jpeg_ycc_plain(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
		       size_t n, uint8_t *x4);

/* n grey pixels -> x4, as above. */
void mr_jpeg_grey(const uint8_t *y, size_t n, uint8_t *x4);
void mr_jpeg_grey_plain(const uint8_t *y, size_t n, uint8_t *x4);

#endif
