/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of spectrum.c that a compiler turns into vectors, for each kind of
 * CPU; the same bytes on all of them. */
#ifndef MR_KERNEL_SPECTRUM_LOOPS_H
#define MR_KERNEL_SPECTRUM_LOOPS_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MR_LOOP static inline __attribute__((always_inline))

MR_LOOP void mr_loop_window_i16(const int16_t *restrict src,
				const double *restrict w, size_t n,
				double *restrict dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = (double)src[i] * w[i];
}

MR_LOOP void mr_loop_window_f32(const float *restrict src,
				const double *restrict w, size_t n,
				double *restrict dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = (double)src[i] * w[i];
}

/*
 * x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m by the polynomial of Cephes'
 * logf. No branch; for normal numbers above 0.
 */
MR_LOOP float mr_loop_log_normal(float x)
{
	uint32_t bits;
	int32_t e;
	float m, y, z, k;

	memcpy(&bits, &x, 4);
	/* 0x3f3504f3 is sqrt(1/2) */
	e = (int32_t)(bits - 0x3f3504f3u) >> 23;
	bits -= (uint32_t)e << 23;
	memcpy(&m, &bits, 4);
	m -= 1;
	k = (float)e;
	z = m * m;
	y = 7.0376836292e-2f;
	y = y * m - 1.1514610310e-1f;
	y = y * m + 1.1676998740e-1f;
	y = y * m - 1.2420140846e-1f;
	y = y * m + 1.4249322787e-1f;
	y = y * m - 1.6668057665e-1f;
	y = y * m + 2.0000714765e-1f;
	y = y * m - 2.4999993993e-1f;
	y = y * m + 3.3333331174e-1f;
	y = y * m * z - 2.12194440e-4f * k - 0.5f * z;
	return m + y + 0.693359375f * k;
}

/* And above 0. */
MR_LOOP bool mr_loop_normal(float x)
{
	return (x >= FLT_MIN) & (x <= FLT_MAX);
}

/* Of n numbers; false: not all sums are normal, and what dst has for those is
 * nothing. */
MR_LOOP bool mr_loop_log(const float *restrict src, float offset, size_t n,
			 float *restrict dst)
{
	int odd = 0;

	for (size_t i = 0; i < n; i++) {
		float x = src[i] + offset;

		odd |= !mr_loop_normal(x);
		dst[i] = mr_loop_log_normal(x);
	}
	return !odd;
}

#endif
