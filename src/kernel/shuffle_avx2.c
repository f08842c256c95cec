/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of 32 elements, 16 in each half of the registers; a rest is a last
 * block that overlaps the one before it.
 *
 * Sixteen elements of `size` bytes are a table whose rows and columns are
 * exchanged. Written as bits, the place of a byte in it is its element (4
 * bits), then its byte in the element; to interleave the first half of the
 * table with the second turns these bits round by one. So merging takes as
 * many rounds as a byte number has bits, and splitting four.
 */
#include "kernel/avx2.h"

#if defined(__x86_64__)

#include <immintrin.h>

static MR_AVX2_INLINE void interleave(__m256i r[], size_t size, int rounds)
{
	__m256i t[8];

	for (int k = 0; k < rounds; k++) {
		for (size_t i = 0; i < size / 2; i++) {
			__m256i a = r[i], b = r[i + size / 2];

			t[2 * i] = _mm256_unpacklo_epi8(a, b);
			t[2 * i + 1] = _mm256_unpackhi_epi8(a, b);
		}
		for (size_t i = 0; i < size; i++)
			r[i] = t[i];
	}
}

static MR_AVX2_INLINE __m256i load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

static MR_AVX2_INLINE void store(uint8_t *p, __m256i x)
{
	_mm256_storeu_si256((__m256i *)p, x);
}

/* 32 elements at from -> 32 bytes in each of the planes, n bytes apart. */
static MR_AVX2_INLINE void split_32(uint8_t *to, const uint8_t *from, size_t n,
				    size_t size)
{
	__m256i r[8];

	for (size_t i = 0; i < size / 2; i++) {
		__m256i a = load(from + 32 * i);
		__m256i b = load(from + 16 * size + 32 * i);

		r[2 * i] = _mm256_permute2x128_si256(a, b, 0x20);
		r[2 * i + 1] = _mm256_permute2x128_si256(a, b, 0x31);
	}
	interleave(r, size, 4);
	for (size_t b = 0; b < size; b++)
		store(to + b * n, r[b]);
}

static MR_AVX2_INLINE void merge_32(uint8_t *to, const uint8_t *from, size_t n,
				    size_t size)
{
	__m256i r[8];

	for (size_t b = 0; b < size; b++)
		r[b] = load(from + b * n);
	interleave(r, size, size == 2 ? 1 : size == 4 ? 2 : 3);
	for (size_t i = 0; i < size / 2; i++) {
		__m256i a = r[2 * i], b = r[2 * i + 1];

		store(to + 32 * i, _mm256_permute2x128_si256(a, b, 0x20));
		store(to + 16 * size + 32 * i,
		      _mm256_permute2x128_si256(a, b, 0x31));
	}
}

static MR_AVX2_INLINE void split(uint8_t *to, const uint8_t *from, size_t n,
				 size_t size)
{
	size_t at = 0;

	for (; at + 32 <= n; at += 32)
		split_32(to + at, from + at * size, n, size);
	if (at < n)
		split_32(to + n - 32, from + (n - 32) * size, n, size);
}

static MR_AVX2_INLINE void merge(uint8_t *to, const uint8_t *from, size_t n,
				 size_t size)
{
	size_t at = 0;

	for (; at + 32 <= n; at += 32)
		merge_32(to + at * size, from + at, n, size);
	if (at < n)
		merge_32(to + (n - 32) * size, from + n - 32, n, size);
}

MR_AVX2 void mr_shuffle_avx2(uint8_t *to, const uint8_t *from, size_t elements,
			     size_t size)
{
	if (size == 2)
		split(to, from, elements, 2);
	else if (size == 4)
		split(to, from, elements, 4);
	else
		split(to, from, elements, 8);
}

MR_AVX2 void mr_unshuffle_avx2(uint8_t *to, const uint8_t *from,
			       size_t elements, size_t size)
{
	if (size == 2)
		merge(to, from, elements, 2);
	else if (size == 4)
		merge(to, from, elements, 4);
	else
		merge(to, from, elements, 8);
}

#endif
