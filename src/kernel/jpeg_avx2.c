/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse DCT one block at a time, 8 numbers of 32 bits in a register;
 * rows of pixels in blocks of 16 or 32, of which the last runs into the slack.
 */
#include "kernel/avx2.h"
#include "kernel/jpeg_idct.h"

#if defined(__x86_64__)

#include <immintrin.h>

static MR_AVX2_INLINE __m256i load(const void *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

static MR_AVX2_INLINE void store(void *p, __m256i x)
{
	_mm256_storeu_si256((__m256i *)p, x);
}

/* a in the even places of 16 bits, b in the odd ones. */
static MR_AVX2_INLINE __m256i pairs(int a, int b)
{
	return _mm256_set1_epi32((int)((uint32_t)b << 16 | (uint16_t)a));
}

/* ---- inverse DCT ---- */

/*
 * Two rows of 16 bits, a and b, lie in a register as
 *	a0 a1 a2 a3 b0 b1 b2 b3 | a4 a5 a6 a7 b4 b5 b6 b7
 * so that an unpack of two registers pairs up two rows, all 8 columns of
 * them, for vpmaddwd. v[k] has rows 2k and 2k + 1.
 */
struct rows {
	__m256i v[4];
};

/* 8 rows of 32 bits. */
struct wide {
	__m256i v[8];
};

/* Down the columns; the sums are those of idct_8() in jpeg.c, and `half` is
 * what rounds them. */
static MR_AVX2_INLINE struct wide idct_8(const struct rows *x, int half)
{
	const __m256i zero = _mm256_setzero_si256();
	__m256i sum = _mm256_add_epi16(x->v[0], x->v[2]); /* 0 + 4, 1 + 5 */
	__m256i diff = _mm256_sub_epi16(x->v[0], x->v[2]);
	__m256i x26 = _mm256_unpacklo_epi16(x->v[1], x->v[3]);
	__m256i x17 = _mm256_unpackhi_epi16(x->v[0], x->v[3]);
	__m256i x35 = _mm256_unpackhi_epi16(x->v[1], x->v[2]);
	__m256i z34 = _mm256_unpackhi_epi16(_mm256_add_epi16(x->v[1], x->v[3]),
					    sum); /* 3 + 7, 1 + 5 */
	/* to the upper 16 bits, and down to 13 after the point */
	__m256i s = _mm256_srai_epi32(_mm256_unpacklo_epi16(zero, sum),
				      16 - CONST_BITS);
	__m256i d = _mm256_srai_epi32(_mm256_unpacklo_epi16(zero, diff),
				      16 - CONST_BITS);
	__m256i e0 = _mm256_madd_epi16(x26, pairs(F_0_541 + F_0_765, F_0_541));
	__m256i e1 = _mm256_madd_epi16(x26, pairs(F_0_541, F_0_541 - F_1_847));
	__m256i z37 = _mm256_madd_epi16(z34, pairs(F_1_175 - F_1_961, F_1_175));
	__m256i z15 = _mm256_madd_epi16(z34, pairs(F_1_175, F_1_175 - F_0_390));
	__m256i even[4], odd[4];
	struct wide y;

	s = _mm256_add_epi32(s, _mm256_set1_epi32(half));
	d = _mm256_add_epi32(d, _mm256_set1_epi32(half));
	even[0] = _mm256_add_epi32(s, e0);
	even[1] = _mm256_add_epi32(d, e1);
	even[2] = _mm256_sub_epi32(d, e1);
	even[3] = _mm256_sub_epi32(s, e0);
	odd[0] = _mm256_madd_epi16(x17, pairs(F_1_501 - F_0_899, -F_0_899));
	odd[1] = _mm256_madd_epi16(x35, pairs(F_3_072 - F_2_562, -F_2_562));
	odd[2] = _mm256_madd_epi16(x35, pairs(-F_2_562, F_2_053 - F_2_562));
	odd[3] = _mm256_madd_epi16(x17, pairs(-F_0_899, F_0_298 - F_0_899));
	odd[0] = _mm256_add_epi32(odd[0], z15);
	odd[1] = _mm256_add_epi32(odd[1], z37);
	odd[2] = _mm256_add_epi32(odd[2], z15);
	odd[3] = _mm256_add_epi32(odd[3], z37);
	for (int i = 0; i < 4; i++) {
		y.v[i] = _mm256_add_epi32(even[i], odd[i]);
		y.v[7 - i] = _mm256_sub_epi32(even[i], odd[i]);
	}
	return y;
}

/* To 16 bits, saturated, with 2 after the point. */
static MR_AVX2_INLINE __m256i narrow(__m256i a, __m256i b)
{
	return _mm256_packs_epi32(_mm256_srai_epi32(a, PASS1_SHIFT),
				  _mm256_srai_epi32(b, PASS1_SHIFT));
}

/* Narrowed; rows become columns. */
static MR_AVX2_INLINE struct rows turn(const struct wide *y)
{
	__m256i y02 = narrow(y->v[0], y->v[2]), y13 = narrow(y->v[1], y->v[3]);
	__m256i y46 = narrow(y->v[4], y->v[6]), y57 = narrow(y->v[5], y->v[7]);
	__m256i y01 = _mm256_unpacklo_epi16(y02, y13);
	__m256i y23 = _mm256_unpackhi_epi16(y02, y13);
	__m256i y45 = _mm256_unpacklo_epi16(y46, y57);
	__m256i y67 = _mm256_unpackhi_epi16(y46, y57);
	/* of columns 0, 1 | 4, 5 and 2, 3 | 6, 7 */
	__m256i a = _mm256_unpacklo_epi32(y01, y23);
	__m256i b = _mm256_unpackhi_epi32(y01, y23);
	__m256i c = _mm256_unpacklo_epi32(y45, y67);
	__m256i d = _mm256_unpackhi_epi32(y45, y67);

	__m256i ac = _mm256_permute2x128_si256(a, c, 0x21);
	__m256i bd = _mm256_permute2x128_si256(b, d, 0x21);

	return (struct rows){ {
		_mm256_blend_epi32(a, ac, 0xf0),
		_mm256_blend_epi32(b, bd, 0xf0),
		_mm256_blend_epi32(ac, c, 0xf0),
		_mm256_blend_epi32(bd, d, 0xf0),
	} };
}

/* a >> PASS2_SHIFT in the even places of 16 bits, b's in the odd ones. */
static MR_AVX2_INLINE __m256i narrow_pairs(__m256i a, __m256i b)
{
	return _mm256_srai_epi16(
		_mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa),
		PASS2_SHIFT - 16);
}

/* Four rows of y as bytes that still lack the 128, a column in each 32 bits. */
static MR_AVX2_INLINE __m256i bytes(const __m256i *y)
{
	const __m256i turned = _mm256_setr_epi8(
		0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8,
		9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
	__m256i x = _mm256_packs_epi16(narrow_pairs(y[0], y[1]),
				       narrow_pairs(y[2], y[3]));

	return _mm256_shuffle_epi8(x, turned);
}

static MR_AVX2_INLINE void store_2(uint8_t *dst, size_t stride, __m128i x)
{
	_mm_storel_epi64((__m128i *)dst, x);
	_mm_storeh_pd((double *)(void *)(dst + stride), _mm_castsi128_pd(x));
}

/* As bytes, 128 added; rows become columns. */
static MR_AVX2_INLINE void store_turned(const struct wide *y, uint8_t *dst,
					size_t stride)
{
	const __m256i middle = _mm256_set1_epi8(-128);
	__m256i left = _mm256_xor_si256(bytes(y->v), middle);
	__m256i right = _mm256_xor_si256(bytes(y->v + 4), middle);
	__m256i ab = _mm256_unpacklo_epi32(left, right); /* 0, 1 | 4, 5 */
	__m256i cd = _mm256_unpackhi_epi32(left, right); /* 2, 3 | 6, 7 */

	store_2(dst, stride, _mm256_castsi256_si128(ab));
	store_2(dst + 2 * stride, stride, _mm256_castsi256_si128(cd));
	store_2(dst + 4 * stride, stride, _mm256_extracti128_si256(ab, 1));
	store_2(dst + 6 * stride, stride, _mm256_extracti128_si256(cd, 1));
}

/* Two rows of 16 bits, as struct rows has them: a4 to b3, loaded once more,
 * lie where they belong. */
static MR_AVX2_INLINE __m256i load_rows(const void *p)
{
	const __m128i *middle = (const __m128i *)((const char *)p + 8);
	__m256i x = _mm256_load_si256((const __m256i *)p);
	__m256i y = _mm256_broadcastsi128_si256(_mm_loadu_si128(middle));

	return _mm256_blend_epi32(x, y, 0x3c);
}

/* Is any number out of 14 bits? */
static MR_AVX2_INLINE int is_wild(__m256i x)
{
	return !_mm256_testz_si256(_mm256_add_epi16(x, _mm256_set1_epi16(8192)),
				   _mm256_set1_epi16(-16384));
}

MR_AVX2 void mr_jpeg_idct_avx2(const int16_t coef[64], const uint16_t quant[64],
			       uint8_t *dst, size_t stride)
{
	struct rows x;
	struct wide y;

	for (int i = 0; i < 4; i++)
		x.v[i] = _mm256_mullo_epi16(load_rows(coef + 16 * i),
					    load_rows(quant + 16 * i));
	/* If there is nothing but the first row, it wraps where the others
	 * saturate. */
	if (__builtin_expect(is_wild(x.v[0]), 0)) {
		mr_jpeg_idct_plain(coef, quant, dst, stride);
		return;
	}
	y = idct_8(&x, 1 << (PASS1_SHIFT - 1));
	x = turn(&y);
	y = idct_8(&x, 1 << (PASS2_SHIFT - 1));
	store_turned(&y, dst, stride);
}

/* ---- upsampling ---- */

/* The results of an unpack of lower and of upper halves, 64 bytes in order. */
static MR_AVX2_INLINE void store_woven(uint8_t *out, __m256i lo, __m256i hi)
{
	store(out, _mm256_permute2x128_si256(lo, hi, 0x20));
	store(out + 32, _mm256_permute2x128_si256(lo, hi, 0x31));
}

/*
 * In bytes: vpavgb rounds up, and less the last bit of what it sums up it
 * rounds down. (3 c + l + 1) >> 2 is the mean of c and [the mean of c and l,
 * rounded up], rounded down; (3 c + r + 2) >> 2 the other way around.
 */
MR_AVX2 void mr_jpeg_h2v1_avx2(const uint8_t *c, size_t n, uint8_t *out)
{
	const __m256i one = _mm256_set1_epi8(1);

	for (size_t i = 0; i < n; i += 32) {
		__m256i m = load(c + i);
		__m256i l = load(c + i - 1), r = load(c + i + 1);
		__m256i a = _mm256_avg_epu8(m, l), b = _mm256_avg_epu8(m, r);
		__m256i odd_a = _mm256_and_si256(_mm256_xor_si256(m, a), one);
		__m256i odd_b = _mm256_and_si256(_mm256_xor_si256(m, r), one);

		a = _mm256_sub_epi8(_mm256_avg_epu8(m, a), odd_a);
		b = _mm256_avg_epu8(m, _mm256_sub_epi8(b, odd_b));
		store_woven(out + 2 * i, _mm256_unpacklo_epi8(a, b),
			    _mm256_unpackhi_epi8(a, b));
	}
}

/* 9 near + 3 far + 3 near's neighbour + far's. */
static MR_AVX2_INLINE __m256i sum_4(__m256i near, __m256i far)
{
	const __m256i w93 = _mm256_set1_epi16(3 << 8 | 9);
	const __m256i w31 = _mm256_set1_epi16(1 << 8 | 3);

	return _mm256_add_epi16(_mm256_maddubs_epi16(near, w93),
				_mm256_maddubs_epi16(far, w31));
}

/* Of 16 sums each: even ones in the lower bytes, odd ones in the upper. */
static MR_AVX2_INLINE __m256i weave_sums(__m256i even, __m256i odd)
{
	const __m256i upper = _mm256_set1_epi16((short)0xff00);

	even = _mm256_add_epi16(even, _mm256_set1_epi16(8));
	odd = _mm256_add_epi16(odd, _mm256_set1_epi16(7));
	return _mm256_or_si256(
		_mm256_srli_epi16(even, 4),
		_mm256_and_si256(_mm256_slli_epi16(odd, 4), upper));
}

MR_AVX2 void mr_jpeg_h2v2_avx2(const uint8_t *near, const uint8_t *far,
			       size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i += 32) {
		__m256i a = load(near + i), b = load(far + i);
		__m256i al = load(near + i - 1), bl = load(far + i - 1);
		__m256i ar = load(near + i + 1), br = load(far + i + 1);
		__m256i lo = weave_sums(sum_4(_mm256_unpacklo_epi8(a, al),
					      _mm256_unpacklo_epi8(b, bl)),
					sum_4(_mm256_unpacklo_epi8(a, ar),
					      _mm256_unpacklo_epi8(b, br)));
		__m256i hi = weave_sums(sum_4(_mm256_unpackhi_epi8(a, al),
					      _mm256_unpackhi_epi8(b, bl)),
					sum_4(_mm256_unpackhi_epi8(a, ar),
					      _mm256_unpackhi_epi8(b, br)));

		store_woven(out + 2 * i, lo, hi);
	}
}

/* ---- colour ---- */

/* 16 bytes, once per lane. */
static MR_AVX2_INLINE __m256i load_twice(const uint8_t *p)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

/* 16 bytes as 16 bits, in the order 0 to 3, 8 to 11 | 4 to 7, 12 to 15:
 * pixels that are woven from such registers come out in order. */
static MR_AVX2_INLINE __m256i load_16(const uint8_t *p)
{
	const __m256i spread = _mm256_setr_epi8(
		0, -1, 1, -1, 2, -1, 3, -1, 8, -1, 9, -1, 10, -1, 11, -1, 4, -1,
		5, -1, 6, -1, 7, -1, 12, -1, 13, -1, 14, -1, 15, -1);

	return _mm256_shuffle_epi8(load_twice(p), spread);
}

/* y + 1.402 r, y - 0.344 b - 0.714 r, y + 1.772 b, as libjpeg rounds them. */
struct rgb {
	__m256i r, g, b;
};

/* The upper 16 bits of base * 65536 + b * -22554 + r * 18734. */
static MR_AVX2_INLINE __m256i green(__m256i base, __m256i br)
{
	__m256i x = _mm256_madd_epi16(br, pairs(-22554, 18734));

	return _mm256_srai_epi32(_mm256_add_epi32(base, x), 16);
}

/*
 * vpmulhrsw is (2 x * f + 2^14) >> 15; for the factors here it agrees with
 * libjpeg's (x * F + 2^15) >> 16 for each x that there is. Green's sum of two
 * products needs all bits: -46802 = 18734 - 65536, so that they fit.
 */
static MR_AVX2_INLINE struct rgb to_rgb(__m256i y, __m256i b, __m256i r)
{
	const __m256i middle = _mm256_set1_epi16(128);
	const __m256i half = _mm256_set1_epi16(-32768);
	__m256i base, lo, hi;

	b = _mm256_sub_epi16(b, middle);
	r = _mm256_sub_epi16(r, middle);
	base = _mm256_sub_epi16(y, r);
	lo = green(_mm256_unpacklo_epi16(half, base),
		   _mm256_unpacklo_epi16(b, r));
	hi = green(_mm256_unpackhi_epi16(half, base),
		   _mm256_unpackhi_epi16(b, r));
	r = _mm256_mulhrs_epi16(_mm256_add_epi16(r, r),
				_mm256_set1_epi16(22970));
	b = _mm256_mulhrs_epi16(_mm256_add_epi16(b, b),
				_mm256_set1_epi16(29033));
	return (struct rgb){ _mm256_add_epi16(y, r), _mm256_packs_epi32(lo, hi),
			     _mm256_add_epi16(y, b) };
}

MR_AVX2 void mr_jpeg_ycc_avx2(const uint8_t *y, const uint8_t *cb,
			      const uint8_t *cr, size_t n, uint8_t *x4)
{
	const __m256i opaque = _mm256_set1_epi16(255);

	for (size_t i = 0; i < n; i += 16) {
		struct rgb p = to_rgb(load_16(y + i), load_16(cb + i),
				      load_16(cr + i));
		__m256i rb = _mm256_packus_epi16(p.r, p.b);
		__m256i gx = _mm256_packus_epi16(p.g, opaque);
		__m256i rg = _mm256_unpacklo_epi8(rb, gx);
		__m256i bx = _mm256_unpackhi_epi8(rb, gx);

		store(x4 + 4 * i, _mm256_unpacklo_epi16(rg, bx));
		store(x4 + 4 * i + 32, _mm256_unpackhi_epi16(rg, bx));
	}
}

MR_AVX2 void mr_jpeg_grey_avx2(const uint8_t *y, size_t n, uint8_t *x4)
{
	const __m256i opaque = _mm256_set1_epi32((int)0xff000000);
	const __m256i first = _mm256_setr_epi8(
		0, 0, 0, -1, 1, 1, 1, -1, 2, 2, 2, -1, 3, 3, 3, -1, 4, 4, 4, -1,
		5, 5, 5, -1, 6, 6, 6, -1, 7, 7, 7, -1);
	const __m256i second = _mm256_setr_epi8(
		8, 8, 8, -1, 9, 9, 9, -1, 10, 10, 10, -1, 11, 11, 11, -1, 12,
		12, 12, -1, 13, 13, 13, -1, 14, 14, 14, -1, 15, 15, 15, -1);

	for (size_t i = 0; i < n; i += 16) {
		__m256i x = load_twice(y + i);

		store(x4 + 4 * i,
		      _mm256_or_si256(_mm256_shuffle_epi8(x, first), opaque));
		store(x4 + 4 * i + 32,
		      _mm256_or_si256(_mm256_shuffle_epi8(x, second), opaque));
	}
}

#endif
