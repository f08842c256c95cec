/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse DCT of Loeffler, Ligtenberg and Moschytz with 12 products, in
 * the integers that libjpeg uses, and the choice of what runs.
 */
#include "kernel/jpeg.h"

#include <string.h>

#include "kernel/avx2.h"
#include "kernel/cpu.h"
#include "kernel/jpeg_idct.h"

static inline int clamp(int x, int lo, int hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

static inline uint8_t to_u8(int x)
{
	return (uint8_t)clamp(x, 0, 255);
}

/* ---- inverse DCT ---- */

/* a * x + b * y, wrapped to 32 bits, as vpmaddwd has it. */
static inline uint32_t dot(int a, int x, int b, int y)
{
	return (uint32_t)(a * x) + (uint32_t)(b * y);
}

/* x, wrapped to 16 bits, as a number of CONST_BITS bits after the point. */
static inline uint32_t fixed(int x)
{
	return (uint32_t)((int16_t)x * (1 << CONST_BITS));
}

/* Rounds `bits` bits away, and saturates. */
static inline int16_t descale(uint32_t x, int bits)
{
	int v = (int32_t)(x + (1u << (bits - 1))) >> bits;

	return (int16_t)clamp(v, INT16_MIN, INT16_MAX);
}

/* In place, of 8 numbers that are `step` apart. Each product with a sum, as
 * in (a + b) * f + b * g, is spread out to a * f + b * (f + g). */
static inline void idct_8(int16_t *x, size_t step, int bits)
{
	int x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
	int x5 = x[5 * step], x6 = x[6 * step], x7 = x[7 * step];
	int z3 = (int16_t)(x3 + x7), z4 = (int16_t)(x1 + x5);
	uint32_t s = fixed(x[0] + x[4 * step]), d = fixed(x[0] - x[4 * step]);
	uint32_t e0 = dot(F_0_541 + F_0_765, x2, F_0_541, x6);
	uint32_t e1 = dot(F_0_541, x2, F_0_541 - F_1_847, x6);
	uint32_t z37 = dot(F_1_175 - F_1_961, z3, F_1_175, z4);
	uint32_t z15 = dot(F_1_175, z3, F_1_175 - F_0_390, z4);
	uint32_t even[4] = { s + e0, d + e1, d - e1, s - e0 };
	uint32_t odd[4] = {
		z15 + dot(F_1_501 - F_0_899, x1, -F_0_899, x7),
		z37 + dot(F_3_072 - F_2_562, x3, -F_2_562, x5),
		z15 + dot(F_2_053 - F_2_562, x5, -F_2_562, x3),
		z37 + dot(F_0_298 - F_0_899, x7, -F_0_899, x1),
	};

	for (size_t i = 0; i < 4; i++) {
		x[i * step] = descale(even[i] + odd[i], bits);
		x[(7 - i) * step] = descale(even[i] - odd[i], bits);
	}
}

void mr_jpeg_idct_plain(const int16_t coef[64], const uint16_t quant[64],
			uint8_t *dst, size_t stride)
{
	int16_t work[64];
	int rest = 0;

	for (size_t i = 0; i < 64; i++)
		work[i] = (int16_t)(coef[i] * quant[i]);
	for (size_t i = 8; i < 64; i++)
		rest |= coef[i];
	if (rest) {
		for (size_t i = 0; i < 8; i++)
			idct_8(work + i, 8, PASS1_SHIFT);
	} else { /* all rows are the same; wraps where descale() saturates */
		for (size_t i = 0; i < 8; i++)
			work[i] = (int16_t)(work[i] * (1 << PASS1_BITS));
		for (size_t i = 1; i < 8; i++)
			memcpy(work + 8 * i, work, 8 * sizeof(*work));
	}
	for (size_t y = 0; y < 8; y++) {
		int16_t *row = work + 8 * y;

		idct_8(row, 1, PASS2_SHIFT);
		for (size_t i = 0; i < 8; i++)
			dst[y * stride + i] = to_u8(row[i] + 128);
	}
}

void mr_jpeg_idct_dc_plain(int dc, uint8_t *dst, size_t stride)
{
	int x = (int16_t)(dc * (1 << PASS1_BITS));
	uint8_t v = to_u8(((x + 16) >> (PASS1_BITS + 3)) + 128);

	for (size_t y = 0; y < 8; y++)
		memset(dst + y * stride, v, 8);
}

/* ---- upsampling ---- */

void mr_jpeg_h2v1_plain(const uint8_t *c, size_t n, uint8_t *out)
{
	const uint8_t *left = c - 1, *right = c + 1;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = (uint8_t)((3 * c[i] + left[i] + 1) >> 2);
		out[2 * i + 1] = (uint8_t)((3 * c[i] + right[i] + 2) >> 2);
	}
}

/* Written out, so that compilers make vectors of it. */
void mr_jpeg_h2v2_plain(const uint8_t *near, const uint8_t *far, size_t n,
			uint8_t *out)
{
	const uint8_t *near_l = near - 1, *near_r = near + 1;
	const uint8_t *far_l = far - 1, *far_r = far + 1;

	for (size_t i = 0; i < n; i++) {
		int s = 3 * (3 * near[i] + far[i]);
		int l = 3 * near_l[i] + far_l[i], r = 3 * near_r[i] + far_r[i];

		out[2 * i] = (uint8_t)((s + l + 8) >> 4);
		out[2 * i + 1] = (uint8_t)((s + r + 7) >> 4);
	}
}

/* ---- colour ---- */

enum { HALF = 1 << 15 };

void mr_jpeg_ycc_plain(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
		       size_t n, uint8_t *x4)
{
	for (size_t i = 0; i < n; i++) {
		int b = cb[i] - 128, r = cr[i] - 128;

		x4[4 * i] = to_u8(y[i] + ((91881 * r + HALF) >> 16));
		x4[4 * i + 1] =
			to_u8(y[i] + ((-22554 * b - 46802 * r + HALF) >> 16));
		x4[4 * i + 2] = to_u8(y[i] + ((116130 * b + HALF) >> 16));
		x4[4 * i + 3] = 255;
	}
}

void mr_jpeg_grey_plain(const uint8_t *y, size_t n, uint8_t *x4)
{
	for (size_t i = 0; i < n; i++) {
		memset(x4 + 4 * i, y[i], 3);
		x4[4 * i + 3] = 255;
	}
}

/* ---- what runs ---- */

void mr_jpeg_idct(const int16_t coef[64], const uint16_t quant[64],
		  uint8_t *dst, size_t stride)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		mr_jpeg_idct_avx2(coef, quant, dst, stride);
		return;
	}
#endif
	mr_jpeg_idct_plain(coef, quant, dst, stride);
}

void mr_jpeg_idct_dc(int dc, uint8_t *dst, size_t stride)
{
	mr_jpeg_idct_dc_plain(dc, dst, stride);
}

void mr_jpeg_h2v1(const uint8_t *c, size_t n, uint8_t *out)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		mr_jpeg_h2v1_avx2(c, n, out);
		return;
	}
#endif
	mr_jpeg_h2v1_plain(c, n, out);
}

void mr_jpeg_h2v2(const uint8_t *near, const uint8_t *far, size_t n,
		  uint8_t *out)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		mr_jpeg_h2v2_avx2(near, far, n, out);
		return;
	}
#endif
	mr_jpeg_h2v2_plain(near, far, n, out);
}

void mr_jpeg_ycc(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
		 size_t n, uint8_t *x4)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		mr_jpeg_ycc_avx2(y, cb, cr, n, x4);
		return;
	}
#endif
	mr_jpeg_ycc_plain(y, cb, cr, n, x4);
}

void mr_jpeg_grey(const uint8_t *y, size_t n, uint8_t *x4)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		mr_jpeg_grey_avx2(y, n, x4);
		return;
	}
#endif
	mr_jpeg_grey_plain(y, n, x4);
}
