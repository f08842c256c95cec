/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of 8 (planes: 32) pixels. A rest is done as a last block that
 * overlaps the one before it, so that nothing outside is touched.
 */
#include "kernel/avx2.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* Where the block lies in src that becomes pixels at and on of dst. */
static MR_AVX2_INLINE size_t source(size_t at, size_t block, size_t n,
				    bool mirror)
{
	return mirror ? n - block - at : at;
}

static MR_AVX2_INLINE __m256i load_x4(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

/* 24 bytes, as x4 with 0; the second load ends with the last of them. */
static MR_AVX2_INLINE __m256i load_rgb(const uint8_t *p)
{
	const __m256i spread = _mm256_setr_epi8(
		0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 4, 5, 6,
		-1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1);
	__m128i a = _mm_loadu_si128((const __m128i *)p);
	__m128i b = _mm_loadu_si128((const __m128i *)(p + 8));

	return _mm256_shuffle_epi8(
		_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1),
		spread);
}

static MR_AVX2_INLINE __m256i reversed(__m256i x)
{
	return _mm256_permutevar8x32_epi32(
		x, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

/* ---- x4 -> three bytes ---- */

static MR_AVX2_INLINE void pack_8(const uint8_t *x4, bool mirror, uint8_t *rgb)
{
	const __m256i squeeze = _mm256_setr_epi8(
		0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2,
		4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
	const __m256i join = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
	__m256i x = load_x4(x4);

	if (mirror)
		x = reversed(x);
	x = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(x, squeeze), join);
	_mm_storeu_si128((__m128i *)rgb, _mm256_castsi256_si128(x));
	_mm_storel_epi64((__m128i *)(rgb + 16), _mm256_extracti128_si256(x, 1));
}

static MR_AVX2_INLINE void pack(const uint8_t *x4, size_t n, bool mirror,
				uint8_t *rgb)
{
	size_t at = 0;

	for (; at + 8 <= n; at += 8)
		pack_8(x4 + 4 * source(at, 8, n, mirror), mirror, rgb + 3 * at);
	if (at < n)
		pack_8(x4 + 4 * source(n - 8, 8, n, mirror), mirror,
		       rgb + 3 * (n - 8));
}

MR_AVX2 void mr_pixels_pack_avx2(const uint8_t *x4, size_t n, bool mirror,
				 uint8_t *rgb)
{
	if (mirror)
		pack(x4, n, true, rgb);
	else
		pack(x4, n, false, rgb);
}

/* ---- three bytes -> x4 ---- */

static MR_AVX2_INLINE void expand_8(const uint8_t *rgb, uint8_t *x4)
{
	const __m256i opaque = _mm256_set1_epi32((int)0xff000000);

	_mm256_storeu_si256((__m256i *)x4,
			    _mm256_or_si256(load_rgb(rgb), opaque));
}

MR_AVX2 void mr_pixels_expand_avx2(const uint8_t *rgb, size_t n, uint8_t *x4)
{
	size_t at = 0;

	for (; at + 8 <= n; at += 8)
		expand_8(rgb + 3 * at, x4 + 4 * at);
	if (at < n)
		expand_8(rgb + 3 * (n - 8), x4 + 4 * (n - 8));
}

/* ---- x4 -> planes of bytes ---- */

/* In each lane, four pixels as RRRR GGGG BBBB xxxx. */
static MR_AVX2_INLINE __m256i by_channel(const uint8_t *x4, bool mirror)
{
	const __m128i forth = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10,
					    14, 3, 7, 11, 15);
	const __m128i back = _mm_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6,
					   2, 15, 11, 7, 3);

	return _mm256_shuffle_epi8(load_x4(x4), _mm256_broadcastsi128_si256(
							mirror ? back : forth));
}

static MR_AVX2_INLINE void planes_32(const uint8_t *x4, bool mirror,
				     uint8_t *dst, size_t plane)
{
	const __m256i forth = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	const __m256i order = mirror ? reversed(forth) : forth;
	__m256i a = by_channel(x4, mirror), b = by_channel(x4 + 32, mirror);
	__m256i c = by_channel(x4 + 64, mirror),
		d = by_channel(x4 + 96, mirror);
	__m256i ab = _mm256_unpacklo_epi32(a, b);
	__m256i cd = _mm256_unpacklo_epi32(c, d);
	__m256i rgb[3] = { _mm256_unpacklo_epi64(ab, cd),
			   _mm256_unpackhi_epi64(ab, cd) };

	ab = _mm256_unpackhi_epi32(a, b);
	cd = _mm256_unpackhi_epi32(c, d);
	rgb[2] = _mm256_unpacklo_epi64(ab, cd);
	for (size_t k = 0; k < 3; k++)
		_mm256_storeu_si256((__m256i *)(dst + k * plane),
				    _mm256_permutevar8x32_epi32(rgb[k], order));
}

static MR_AVX2_INLINE void planes(const uint8_t *x4, size_t n, bool mirror,
				  uint8_t *dst, size_t plane)
{
	size_t at = 0;

	for (; at + 32 <= n; at += 32)
		planes_32(x4 + 4 * source(at, 32, n, mirror), mirror, dst + at,
			  plane);
	if (at < n)
		planes_32(x4 + 4 * source(n - 32, 32, n, mirror), mirror,
			  dst + n - 32, plane);
}

MR_AVX2 void mr_pixels_planes_avx2(const uint8_t *x4, size_t n, bool mirror,
				   uint8_t *dst, size_t plane)
{
	if (mirror)
		planes(x4, n, true, dst, plane);
	else
		planes(x4, n, false, dst, plane);
}

/* ---- to planes of floats ---- */

/*
 * Stores that pass by the cache would spare reading the lines of the batch
 * before they are overwritten, but took longer: 1.1 to 1.7 ns per pixel
 * against 0.7 (Zen 3, batches of 38 to 300 MB, a fence per row; without any
 * fence they came out even), and hardly disturbed the work between less.
 */
struct affine {
	__m256 scale[3], bias[3];
	float *dst;
	size_t plane;
};

static MR_AVX2_INLINE void affine_8(const struct affine *a, const uint8_t *src,
				    int stride, bool mirror, size_t at)
{
	const __m256i byte = _mm256_set1_epi32(255);
	__m256i x = stride == 4 ? load_x4(src) : load_rgb(src);

	if (mirror)
		x = reversed(x);
	for (size_t c = 0; c < 3; c++) {
		__m256 f = _mm256_cvtepi32_ps(_mm256_and_si256(x, byte));

		f = _mm256_add_ps(_mm256_mul_ps(f, a->scale[c]), a->bias[c]);
		_mm256_storeu_ps(a->dst + c * a->plane + at, f);
		x = _mm256_srli_epi32(x, 8);
	}
}

static MR_AVX2_INLINE void affine(const struct affine *a, const uint8_t *src,
				  int stride, size_t n, bool mirror)
{
	size_t px = (size_t)stride, at = 0;

	for (; at + 8 <= n; at += 8)
		affine_8(a, src + px * source(at, 8, n, mirror), stride, mirror,
			 at);
	if (at < n)
		affine_8(a, src + px * source(n - 8, 8, n, mirror), stride,
			 mirror, n - 8);
}

MR_AVX2 void mr_pixels_affine_avx2(const uint8_t *src, int stride, size_t n,
				   bool mirror, float *dst, size_t plane,
				   const float scale[3], const float bias[3])
{
	struct affine a = { .dst = dst, .plane = plane };

	for (int c = 0; c < 3; c++) {
		a.scale[c] = _mm256_set1_ps(scale[c]);
		a.bias[c] = _mm256_set1_ps(bias[c]);
	}
	if (stride == 4 && mirror)
		affine(&a, src, 4, n, true);
	else if (stride == 4)
		affine(&a, src, 4, n, false);
	else if (mirror)
		affine(&a, src, 3, n, true);
	else
		affine(&a, src, 3, n, false);
}

#endif
