/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/spectrum.h"

#include <float.h>
#include <math.h>
#include <string.h>

void mr_hann(double *w, size_t n, double scale)
{
	for (size_t i = 0; i < n; i++)
		w[i] = scale *
		       (0.5 - 0.5 * cos(2 * M_PI * (double)i / (double)n));
}

void mr_window_i16(const int16_t *src, const double *w, size_t n, size_t all,
		   double *dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = (double)src[i] * w[i];
	memset(dst + n, 0, (all - n) * sizeof(*dst));
}

void mr_window_f32(const float *src, const double *w, size_t n, size_t all,
		   double *dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = (double)src[i] * w[i];
	memset(dst + n, 0, (all - n) * sizeof(*dst));
}

void mr_magnitude(const double *z, size_t n, float *dst)
{
	for (size_t i = 0; i < n; i++) {
		double re = z[2 * i], im = z[2 * i + 1];

		dst[i] = sqrtf((float)(re * re + im * im));
	}
}

/* ---- mel ---- */

static double mel(double hertz)
{
	return 1127 * log1p(hertz / 700);
}

static double weight(double m, const double corner[3])
{
	double up = (m - corner[0]) / (corner[1] - corner[0]);
	double down = (corner[2] - m) / (corner[2] - corner[1]);

	return up < down ? up : down;
}

size_t mr_mel_bands(size_t inputs, size_t bins, double rate, double low,
		    double high, struct mr_band *band, float *w)
{
	double from = mel(low), gap = (mel(high) - from) / (double)(bins + 1);
	size_t used = 0;

	for (size_t b = 0; b < bins; b++) {
		const double corner[3] = { from + gap * (double)b,
					   from + gap * (double)(b + 1),
					   from + gap * (double)(b + 2) };

		band[b] = (struct mr_band){ .at = (uint32_t)used };
		/* the constant part, input 0, counts for nothing */
		for (size_t i = 1; i < inputs; i++) {
			double hertz =
				rate / 2 * (double)i / (double)(inputs - 1);
			double x = weight(mel(hertz), corner);

			if (x <= 0)
				continue;
			if (!band[b].count++)
				band[b].first = (uint32_t)i;
			if (w)
				w[used] = (float)x;
			used++;
		}
	}
	return used;
}

void mr_bands_apply(const struct mr_band *band, size_t bands, const float *w,
		    const float *src, size_t inputs, size_t rows, float *dst)
{
	for (size_t r = 0; r < rows; r++, src += inputs, dst += bands) {
		for (size_t b = 0; b < bands; b++) {
			const float *x = src + band[b].first;
			const float *v = w + band[b].at;
			float sum = 0;

			for (uint32_t i = 0; i < band[b].count; i++)
				sum += x[i] * v[i];
			dst[b] = sum;
		}
	}
}

/* ---- logarithm ---- */

void mr_log_plain(const float *src, float offset, size_t n, float *dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = logf(src[i] + offset);
}

/*
 * x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m by the polynomial of Cephes'
 * logf. No branch, so that a compiler makes vectors of it; for normal numbers
 * above 0.
 */
static float log_normal(float x)
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

enum { BLOCK = 64 };

static bool all_normal(const float *src, float offset, size_t n)
{
	int odd = 0;

	for (size_t i = 0; i < n; i++) {
		float x = src[i] + offset;

		odd |= !(x >= FLT_MIN) | !(x <= FLT_MAX);
	}
	return !odd;
}

void mr_log(const float *src, float offset, size_t n, float *dst)
{
	for (size_t at = 0; at < n; at += BLOCK) {
		size_t k = n - at < BLOCK ? n - at : BLOCK;

		if (!all_normal(src + at, offset, k)) {
			mr_log_plain(src + at, offset, k, dst + at);
			continue;
		}
		for (size_t i = 0; i < k; i++)
			dst[at + i] = log_normal(src[at + i] + offset);
	}
}
