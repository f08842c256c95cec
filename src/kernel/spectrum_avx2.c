/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/avx2.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernel/spectrum_loops.h"

MR_AVX2 void mr_window_i16_avx2(const int16_t *src, const double *w, size_t n,
				double *dst)
{
	mr_loop_window_i16(src, w, n, dst);
}

MR_AVX2 void mr_window_f32_avx2(const float *src, const double *w, size_t n,
				double *dst)
{
	mr_loop_window_f32(src, w, n, dst);
}

MR_AVX2 bool mr_log_avx2(const float *src, float offset, size_t n, float *dst)
{
	return mr_loop_log(src, offset, n, dst);
}

/* Squares of four complex numbers, in the order 0 2 1 3. */
static MR_AVX2_INLINE __m128 squares(const double *z)
{
	__m256d a = _mm256_loadu_pd(z), b = _mm256_loadu_pd(z + 4);

	return _mm256_cvtpd_ps(
		_mm256_hadd_pd(_mm256_mul_pd(a, a), _mm256_mul_pd(b, b)));
}

MR_AVX2 void mr_magnitude_avx2(const double *z, size_t n, float *dst)
{
	for (size_t i = 0; i < n; i += 8) {
		__m256 s = _mm256_set_m128(squares(z + 2 * i + 8),
					   squares(z + 2 * i));

		s = _mm256_permute_ps(s, _MM_SHUFFLE(3, 1, 2, 0));
		_mm256_storeu_ps(dst + i, _mm256_sqrt_ps(s));
	}
}

/* Eight rows of eight become columns. */
static MR_AVX2_INLINE void transpose(__m256 r[8])
{
	__m256 t[8], u[8];

	for (int i = 0; i < 8; i += 2) {
		t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
		t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
	}
	for (int i = 0; i < 8; i += 4) {
		u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
		u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
		u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
		u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
	}
	for (int i = 0; i < 4; i++) {
		r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
		r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
	}
}

/* n columns of eight rows, one after the other. */
static MR_AVX2_INLINE void take_columns(const float *src, size_t stride,
					size_t n, __m256 *to)
{
	size_t i = 0;

	for (; n - i >= 8; i += 8) {
		for (size_t k = 0; k < 8; k++)
			to[i + k] = _mm256_loadu_ps(src + k * stride + i);
		transpose(to + i);
	}
	for (; i < n; i++)
		to[i] = _mm256_setr_ps(src[i], src[stride + i],
				       src[2 * stride + i], src[3 * stride + i],
				       src[4 * stride + i], src[5 * stride + i],
				       src[6 * stride + i],
				       src[7 * stride + i]);
}

/* n <= 8 columns of eight rows to where they belong. */
static MR_AVX2_INLINE void put_columns(__m256 c[8], size_t n, float *dst,
				       size_t stride)
{
	transpose(c);
	for (size_t k = 0; k < 8; k++) {
		if (n == 8)
			_mm256_storeu_ps(dst + k * stride, c[k]);
		else
			memcpy(dst + k * stride, &c[k], n * sizeof(float));
	}
}

/* Each row is a lane, so that it is summed as the plain twin does it. */
MR_AVX2 void mr_bands_apply_avx2(const struct mr_band *band, size_t bands,
				 const float *w,
				 const struct mr_columns *columns,
				 const float *src, size_t inputs, float *dst)
{
	__m256 x[MR_BANDS_TILE];

	take_columns(src + columns->first, inputs, columns->count, x);
	for (size_t b = 0; b < bands; b += 8) {
		size_t n = bands - b < 8 ? bands - b : 8;
		__m256 sum[8];

		for (size_t k = 0; k < 8; k++)
			sum[k] = _mm256_setzero_ps();
		for (size_t k = 0; k < n; k++) {
			const struct mr_band *d = &band[b + k];
			const float *v = w + d->at;
			const __m256 *in =
				x + (d->count ? d->first - columns->first : 0);
			__m256 s = _mm256_setzero_ps();

			for (uint32_t i = 0; i < d->count; i++)
				s = _mm256_add_ps(
					s, _mm256_mul_ps(in[i],
							 _mm256_set1_ps(v[i])));
			sum[k] = s;
		}
		put_columns(sum, n, dst + b, bands);
	}
}

#endif
