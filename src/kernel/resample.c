/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling in plain C, and the choice of what runs. */
#include "kernel/resample.h"

#include "kernel/avx2.h"
#include "kernel/cpu.h"

enum { BLOCK = 256, HALF = 1 << (MR_TAP_BITS - 1) };

static inline uint8_t clip8(int32_t sum)
{
	int32_t v = sum >> MR_TAP_BITS;

	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Taps of output i; those past hi weigh nothing. */
static inline int taps_of(const struct mr_taps *t, int i)
{
	int there = t->hi - t->from[i];

	return there < t->taps ? there : t->taps;
}

static inline void row(const struct mr_taps *t, int channels,
		       const uint8_t *src, uint8_t *dst)
{
	for (int i = 0; i < t->count; i++, dst += channels) {
		const uint8_t *p =
			src + (ptrdiff_t)(t->from[i] - t->lo) * channels;
		const int16_t *w = t->weight + (ptrdiff_t)i * t->taps;
		int32_t sum[4] = { HALF, HALF, HALF, HALF };
		int n = taps_of(t, i);

		for (int k = 0; k < n; k++, p += channels)
			for (int c = 0; c < channels; c++)
				sum[c] += p[c] * w[k];
		for (int c = 0; c < channels; c++)
			dst[c] = clip8(sum[c]);
	}
}

void mr_resample_rows_plain(const struct mr_taps *t, int channels, int rows,
			    const uint8_t *src, size_t src_stride, uint8_t *dst,
			    size_t dst_stride)
{
	for (int r = 0; r < rows; r++, src += src_stride, dst += dst_stride) {
		switch (channels) { /* a copy of the loop for each */
		case 1:
			row(t, 1, src, dst);
			break;
		case 2:
			row(t, 2, src, dst);
			break;
		case 3:
			row(t, 3, src, dst);
			break;
		default:
			row(t, 4, src, dst);
			break;
		}
	}
}

void mr_resample_column_plain(const struct mr_taps *t, int i,
			      const uint8_t *src, size_t src_stride,
			      uint8_t *dst, size_t n)
{
	const int16_t *w = t->weight + (ptrdiff_t)i * t->taps;
	int taps = taps_of(t, i);

	src += (size_t)(t->from[i] - t->lo) * src_stride;
	for (size_t at = 0; at < n; at += BLOCK) {
		size_t m = n - at < BLOCK ? n - at : BLOCK;
		int32_t sum[BLOCK];

		for (size_t j = 0; j < m; j++)
			sum[j] = HALF;
		for (int k = 0; k < taps; k++) {
			const uint8_t *p = src + at + (size_t)k * src_stride;

			for (size_t j = 0; j < m; j++)
				sum[j] += p[j] * w[k];
		}
		for (size_t j = 0; j < m; j++)
			dst[at + j] = clip8(sum[j]);
	}
}

void mr_resample_rows(const struct mr_taps *t, int channels, int rows,
		      const uint8_t *src, size_t src_stride, uint8_t *dst,
		      size_t dst_stride)
{
#if defined(__x86_64__)
	if (channels != 2 && t->count >= 4 && mr_cpu_avx2()) {
		mr_resample_rows_avx2(t, channels, rows, src, src_stride, dst,
				      dst_stride);
		return;
	}
#endif
	mr_resample_rows_plain(t, channels, rows, src, src_stride, dst,
			       dst_stride);
}

void mr_resample_column(const struct mr_taps *t, int i, const uint8_t *src,
			size_t src_stride, uint8_t *dst, size_t n)
{
#if defined(__x86_64__)
	if (n >= 32 && mr_cpu_avx2()) {
		mr_resample_column_avx2(t, i, src, src_stride, dst, n);
		return;
	}
#endif
	mr_resample_column_plain(t, i, src, src_stride, dst, n);
}
