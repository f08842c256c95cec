/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/spectrum.h"

#include <math.h>

#include "kernel/avx2.h"
#include "kernel/cpu.h"
#include "kernel/spectrum_loops.h"

void mr_hann(double *w, size_t n, double scale)
{
	size_t period = n - n % 2;

	if (n == 1) {
		w[0] = scale;
		return;
	}
	for (size_t i = 0; i < n; i++)
		w[i] = scale *
		       (0.5 - 0.5 * cos(2 * M_PI * (double)i / (double)period));
}

void mr_window_i16(const int16_t *src, const double *w, size_t n, double *dst)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		mr_window_i16_avx2(src, w, n, dst);
		return;
	}
#endif
	mr_loop_window_i16(src, w, n, dst);
}

void mr_window_f32(const float *src, const double *w, size_t n, double *dst)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		mr_window_f32_avx2(src, w, n, dst);
		return;
	}
#endif
	mr_loop_window_f32(src, w, n, dst);
}

void mr_magnitude_plain(const double *z, size_t n, float *dst)
{
	for (size_t i = 0; i < n; i++) {
		double re = z[2 * i], im = z[2 * i + 1];

		dst[i] = sqrtf((float)(re * re + im * im));
	}
}

void mr_magnitude(const double *z, size_t n, float *dst)
{
	size_t done = 0;

#if defined(__x86_64__)
	if (mr_cpu_avx2()) {
		done = n / 8 * 8;
		mr_magnitude_avx2(z, done, dst);
	}
#endif
	mr_magnitude_plain(z + 2 * done, n - done, dst + done);
}

/* ---- mel ---- */

static double mel(double hertz)
{
	return 1127 * log1p(hertz / 700);
}

static double mel_of(size_t input, size_t inputs, double rate)
{
	return mel(rate / 2 * (double)input / (double)(inputs - 1));
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
	size_t used = 0, start = 1; /* input 0, the constant, counts for
				     * nothing */

	for (size_t b = 0; b < bins; b++) {
		const double corner[3] = { from + gap * (double)b,
					   from + gap * (double)(b + 1),
					   from + gap * (double)(b + 2) };

		band[b] = (struct mr_band){ .at = (uint32_t)used };
		while (start < inputs &&
		       mel_of(start, inputs, rate) <= corner[0])
			start++;
		for (size_t i = start; i < inputs; i++) {
			double m = mel_of(i, inputs, rate), x;

			if (m >= corner[2])
				break;
			x = weight(m, corner);
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

void mr_bands_apply_plain(const struct mr_band *band, size_t bands,
			  const float *w, const float *src, size_t inputs,
			  size_t rows, float *dst)
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

struct mr_columns mr_bands_columns(const struct mr_band *band, size_t bands)
{
	size_t from = SIZE_MAX, to = 0;

	for (size_t b = 0; b < bands; b++) {
		size_t end = (size_t)band[b].first + band[b].count;

		if (!band[b].count)
			continue;
		from = band[b].first < from ? band[b].first : from;
		to = end > to ? end : to;
	}
	return to ? (struct mr_columns){ from, to - from } :
		    (struct mr_columns){ 0, 0 };
}

void mr_bands_apply(const struct mr_band *band, size_t bands, const float *w,
		    const float *src, size_t inputs, size_t rows, float *dst)
{
	size_t done = 0;

#if defined(__x86_64__)
	struct mr_columns c = mr_bands_columns(band, bands);

	if (mr_cpu_avx2() && c.count <= MR_BANDS_TILE) {
		for (; rows - done >= 8; done += 8)
			mr_bands_apply_avx2(band, bands, w, &c,
					    src + done * inputs, inputs,
					    dst + done * bands);
	}
#endif
	mr_bands_apply_plain(band, bands, w, src + done * inputs, inputs,
			     rows - done, dst + done * bands);
}

/* ---- logarithm ---- */

void mr_log_plain(const float *src, float offset, size_t n, float *dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = logf(src[i] + offset);
}

enum { BLOCK = 64 };

static bool log_block(const float *src, float offset, size_t n, float *dst)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2())
		return mr_log_avx2(src, offset, n, dst);
#endif
	return mr_loop_log(src, offset, n, dst);
}

/* Those that are not normal numbers, each by itself: what a number gives does
 * not depend on its neighbours. */
static void mend_log(const float *src, float offset, size_t n, float *dst)
{
	for (size_t i = 0; i < n; i++)
		if (!mr_loop_normal(src[i] + offset))
			mr_log_plain(src + i, offset, 1, dst + i);
}

void mr_log(const float *src, float offset, size_t n, float *dst)
{
	for (size_t at = 0; at < n; at += BLOCK) {
		size_t k = n - at < BLOCK ? n - at : BLOCK;

		if (!log_block(src + at, offset, k, dst + at))
			mend_log(src + at, offset, k, dst + at);
	}
}
