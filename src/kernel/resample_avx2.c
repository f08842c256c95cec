/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both directions multiply pairs of taps (vpmaddwd: two 16-bit products, and
 * their sum in 32 bits), as sums of 14-bit weights times bytes always fit.
 */
#include "kernel/avx2.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

enum { HALF = 1 << (MR_TAP_BITS - 1) };

/* Two weights, to all the pairs of a register. */
static MR_AVX2_INLINE __m256i pair_of(const int16_t *w)
{
	int32_t two;

	memcpy(&two, w, sizeof(two));
	return _mm256_set1_epi32(two);
}

static MR_AVX2_INLINE __m256i shifted(__m256i sum)
{
	return _mm256_srai_epi32(sum, MR_TAP_BITS);
}

/* Four registers of sums -> bytes, lane by lane. */
static MR_AVX2_INLINE __m256i bytes_of(__m256i a, __m256i b, __m256i c,
				       __m256i d)
{
	return _mm256_packus_epi16(_mm256_packs_epi32(shifted(a), shifted(b)),
				   _mm256_packs_epi32(shifted(c), shifted(d)));
}

/* ---- along rows of three or four channels ---- */

/*
 * Four outputs of four rows at a time; the weights are loaded once for the
 * four rows. Each lane of a register holds one row.
 */
struct rows {
	const uint8_t *src[4];
	uint8_t *dst[4];
};

/* Bytes of two pixels side by side, as 16-bit pairs: pixels 0 and 1, and 2
 * and 3. -1 gives 0. */
static MR_AVX2_INLINE __m256i pair_bytes(int channels, int first)
{
	int p = first * channels, q = p + channels;

	return _mm256_broadcastsi128_si256(_mm_setr_epi8(
		(char)p, -1, (char)q, -1, (char)(p + 1), -1, (char)(q + 1), -1,
		(char)(p + 2), -1, (char)(q + 2), -1,
		channels == 4 ? (char)(p + 3) : -1, -1,
		channels == 4 ? (char)(q + 3) : -1, -1));
}

static MR_AVX2_INLINE __m256i load_two(const uint8_t *a, const uint8_t *b)
{
	return _mm256_inserti128_si256(
		_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a)),
		_mm_loadu_si128((const __m128i *)b), 1);
}

/* Adds the products of four taps of two rows. */
static MR_AVX2_INLINE __m256i add_taps(__m256i sum, __m256i px, __m256i first,
				       __m256i second, __m256i w01, __m256i w23)
{
	__m256i a = _mm256_madd_epi16(_mm256_shuffle_epi8(px, first), w01);
	__m256i b = _mm256_madd_epi16(_mm256_shuffle_epi8(px, second), w23);

	return _mm256_add_epi32(sum, _mm256_add_epi32(a, b));
}

/* The sums of output i: rows 0 and 1 in sum[0], 2 and 3 in sum[1]. */
static MR_AVX2_INLINE void output_sums(const struct mr_taps *t, int channels,
				       int taps, const struct rows *r, int i,
				       __m256i sum[2])
{
	const __m256i first = pair_bytes(channels, 0);
	const __m256i second = pair_bytes(channels, 2);
	const int16_t *w = t->weight + (ptrdiff_t)i * taps;
	ptrdiff_t at = (ptrdiff_t)(t->from[i] - t->lo) * channels;

	sum[0] = sum[1] = _mm256_set1_epi32(HALF);
	for (int k = 0; k < taps; k += 4, at += 4 * channels) {
		__m256i w01 = pair_of(w + k), w23 = pair_of(w + k + 2);
		__m256i p = load_two(r->src[0] + at, r->src[1] + at);
		__m256i q = load_two(r->src[2] + at, r->src[3] + at);

		sum[0] = add_taps(sum[0], p, first, second, w01, w23);
		sum[1] = add_taps(sum[1], q, first, second, w01, w23);
	}
}

/* Four pixels of four bytes, or their first three each. */
static MR_AVX2_INLINE void store_four(uint8_t *dst, int channels, __m128i x)
{
	const __m128i rgb = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13,
					  14, -1, -1, -1, -1);
	int32_t rest;

	if (channels == 4) {
		_mm_storeu_si128((__m128i *)dst, x);
		return;
	}
	x = _mm_shuffle_epi8(x, rgb);
	_mm_storel_epi64((__m128i *)dst, x);
	rest = _mm_extract_epi32(x, 2);
	memcpy(dst + 8, &rest, sizeof(rest));
}

static MR_AVX2_INLINE void four_outputs(const struct mr_taps *t, int channels,
					int taps, const struct rows *r, int i)
{
	__m256i s0[2], s1[2], s2[2], s3[2];
	ptrdiff_t at = (ptrdiff_t)i * channels;

	output_sums(t, channels, taps, r, i, s0);
	output_sums(t, channels, taps, r, i + 1, s1);
	output_sums(t, channels, taps, r, i + 2, s2);
	output_sums(t, channels, taps, r, i + 3, s3);
	for (int k = 0; k < 2; k++) {
		__m256i x = bytes_of(s0[k], s1[k], s2[k], s3[k]);

		store_four(r->dst[2 * k] + at, channels,
			   _mm256_castsi256_si128(x));
		store_four(r->dst[2 * k + 1] + at, channels,
			   _mm256_extracti128_si256(x, 1));
	}
}

static MR_AVX2_INLINE void four_rows(const struct mr_taps *t, int channels,
				     int taps, const struct rows *r)
{
	int i = 0;

	for (; i + 4 <= t->count; i += 4)
		four_outputs(t, channels, taps, r, i);
	if (i < t->count) /* some of them again */
		four_outputs(t, channels, taps, r, t->count - 4);
}

/* Copies for what is usual: shrinking up to twice, and up to four times. */
static MR_AVX2_INLINE void colour_rows(const struct mr_taps *t, int channels,
				       const struct rows *r)
{
	if (t->taps == 4)
		four_rows(t, channels, 4, r);
	else if (t->taps == 8)
		four_rows(t, channels, 8, r);
	else
		four_rows(t, channels, t->taps, r);
}

/* ---- along rows of one channel ---- */

/* Four bytes of each of four rows. */
static MR_AVX2_INLINE __m128i load_grey(const struct rows *r, ptrdiff_t at)
{
	int32_t x[4];

	for (int k = 0; k < 4; k++)
		memcpy(&x[k], r->src[k] + at, sizeof(x[k]));
	return _mm_setr_epi32(x[0], x[1], x[2], x[3]);
}

/* Output i of the four rows, as if they were the channels of one. */
static MR_AVX2_INLINE __m128i grey_sums(const struct mr_taps *t,
					const struct rows *r, int i)
{
	const __m128i first = _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1,
					    9, -1, 12, -1, 13, -1);
	const __m128i second = _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1,
					     11, -1, 14, -1, 15, -1);
	const int16_t *w = t->weight + (ptrdiff_t)i * t->taps;
	ptrdiff_t at = t->from[i] - t->lo;
	__m128i sum = _mm_set1_epi32(HALF);

	for (int k = 0; k < t->taps; k += 4) {
		__m128i px = load_grey(r, at + k);
		__m128i w01 = _mm256_castsi256_si128(pair_of(w + k));
		__m128i w23 = _mm256_castsi256_si128(pair_of(w + k + 2));
		__m128i a = _mm_madd_epi16(_mm_shuffle_epi8(px, first), w01);
		__m128i b = _mm_madd_epi16(_mm_shuffle_epi8(px, second), w23);

		sum = _mm_add_epi32(sum, _mm_add_epi32(a, b));
	}
	return _mm_srai_epi32(sum, MR_TAP_BITS);
}

static MR_AVX2_INLINE void four_grey_outputs(const struct mr_taps *t,
					     const struct rows *r, int i)
{
	const __m128i turn = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10,
					   14, 3, 7, 11, 15);
	__m128i a = _mm_packs_epi32(grey_sums(t, r, i), grey_sums(t, r, i + 1));
	__m128i b =
		_mm_packs_epi32(grey_sums(t, r, i + 2), grey_sums(t, r, i + 3));
	uint8_t x[16];

	_mm_storeu_si128((__m128i *)x,
			 _mm_shuffle_epi8(_mm_packus_epi16(a, b), turn));
	for (int k = 0; k < 4; k++)
		memcpy(r->dst[k] + i, x + 4 * k, 4);
}

static MR_AVX2_INLINE void grey_rows(const struct mr_taps *t,
				     const struct rows *r)
{
	int i = 0;

	for (; i + 4 <= t->count; i += 4)
		four_grey_outputs(t, r, i);
	if (i < t->count) /* some of them again */
		four_grey_outputs(t, r, t->count - 4);
}

/* ---- all rows ---- */

/* Rows n to n + 3; when there are fewer, the last one several times. */
static inline struct rows rows_at(int n, int rows, const uint8_t *src,
				  size_t src_stride, uint8_t *dst,
				  size_t dst_stride)
{
	struct rows r;

	for (int k = 0; k < 4; k++) {
		size_t at = (size_t)(n + k < rows ? n + k : rows - 1);

		r.src[k] = src + at * src_stride;
		r.dst[k] = dst + at * dst_stride;
	}
	return r;
}

MR_AVX2 void mr_resample_rows_avx2(const struct mr_taps *t, int channels,
				   int rows, const uint8_t *src,
				   size_t src_stride, uint8_t *dst,
				   size_t dst_stride)
{
	const struct mr_taps own = *t; /* which no byte of dst can be */

	for (int n = 0; n < rows; n += 4) {
		struct rows r =
			rows_at(n, rows, src, src_stride, dst, dst_stride);

		if (channels == 4)
			colour_rows(&own, 4, &r);
		else if (channels == 3)
			colour_rows(&own, 3, &r);
		else
			grey_rows(&own, &r);
	}
}

/* ---- down columns ---- */

/* Rows of input, in pairs, to one row of output. The last pair may be one row
 * twice, the second time with a weight of 0. */
struct column {
	const uint8_t *src;
	size_t stride, last; /* from a row to the next; within the last pair */
	const int16_t *weight;
};

static MR_AVX2_INLINE void add_pair(const uint8_t *p, const uint8_t *q,
				    __m256i w, __m256i sum[4])
{
	const __m256i zero = _mm256_setzero_si256();
	__m256i a = _mm256_loadu_si256((const __m256i *)p);
	__m256i b = _mm256_loadu_si256((const __m256i *)q);
	__m256i lo = _mm256_unpacklo_epi8(a, b);
	__m256i hi = _mm256_unpackhi_epi8(a, b);
	__m256i x[4] = { _mm256_unpacklo_epi8(lo, zero),
			 _mm256_unpackhi_epi8(lo, zero),
			 _mm256_unpacklo_epi8(hi, zero),
			 _mm256_unpackhi_epi8(hi, zero) };

	for (int j = 0; j < 4; j++)
		sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(x[j], w));
}

static MR_AVX2_INLINE void column_32(const struct column *c, int pairs,
				     size_t at, uint8_t *dst)
{
	__m256i half = _mm256_set1_epi32(HALF);
	__m256i sum[4] = { half, half, half, half };
	const uint8_t *p = c->src + at;

	for (int k = 0; k < pairs; k++, p += 2 * c->stride)
		add_pair(p, p + (k == pairs - 1 ? c->last : c->stride),
			 pair_of(c->weight + 2 * k), sum);
	_mm256_storeu_si256((__m256i *)(dst + at),
			    bytes_of(sum[0], sum[1], sum[2], sum[3]));
}

static MR_AVX2_INLINE void column(const struct column *c, int pairs,
				  uint8_t *dst, size_t n)
{
	size_t at = 0;

	for (; at + 32 <= n; at += 32)
		column_32(c, pairs, at, dst);
	if (at < n) /* some of it again */
		column_32(c, pairs, n - 32, dst);
}

MR_AVX2 void mr_resample_column_avx2(const struct mr_taps *t, int i,
				     const uint8_t *src, size_t src_stride,
				     uint8_t *dst, size_t n)
{
	struct column c = { .stride = src_stride };
	int taps = t->taps;

	c.src = src + (size_t)(t->from[i] - t->lo) * src_stride;
	c.weight = t->weight + (ptrdiff_t)i * t->taps;
	while (taps > 1 && !c.weight[taps - 1]) /* so are those past hi */
		taps--;
	c.last = taps % 2 ? 0 : src_stride;
	switch ((taps + 1) / 2) { /* copies for what is usual */
	case 1:
		column(&c, 1, dst, n);
		break;
	case 2:
		column(&c, 2, dst, n);
		break;
	case 3:
		column(&c, 3, dst, n);
		break;
	default:
		column(&c, (taps + 1) / 2, dst, n);
		break;
	}
}

#endif
