/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of colour.c, 32 pixels at a time: bytes where bytes do, 16 bits
 * for products, float for quotients. Widening by unpack and narrowing by
 * pack both work within halves of a register, so that the order comes back
 * by itself.
 */
#include "kernel/colour_loops.h"
#include "kernel/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

enum { BLOCK = MR_COLOUR_BLOCK, STEP = 32 };

/* ---- widths ---- */

struct half { /* 32 pixels in 16 bits */
	__m256i v[2];
};

struct wide { /* 32 pixels in 32 bits */
	__m256i v[4];
};

struct real {
	__m256 v[4];
};

INLINE __m256i load(const uint8_t *x)
{
	return _mm256_load_si256((const __m256i *)(const void *)x);
}

INLINE void store(uint8_t *x, __m256i v)
{
	_mm256_store_si256((__m256i *)(void *)x, v);
}

INLINE struct half to_half(__m256i x)
{
	__m256i zero = _mm256_setzero_si256();

	return (struct half){ { _mm256_unpacklo_epi8(x, zero),
				_mm256_unpackhi_epi8(x, zero) } };
}

INLINE struct real to_real(struct half h)
{
	__m256i zero = _mm256_setzero_si256();
	struct real f;

	for (int i = 0; i < 2; i++) {
		f.v[2 * i] =
			_mm256_cvtepi32_ps(_mm256_unpacklo_epi16(h.v[i], zero));
		f.v[2 * i + 1] =
			_mm256_cvtepi32_ps(_mm256_unpackhi_epi16(h.v[i], zero));
	}
	return f;
}

/* 0 to 65535 at most. */
INLINE struct half to_half_from(struct wide w)
{
	return (struct half){ { _mm256_packus_epi32(w.v[0], w.v[1]),
				_mm256_packus_epi32(w.v[2], w.v[3]) } };
}

INLINE __m256i to_bytes(struct half h)
{
	return _mm256_packus_epi16(h.v[0], h.v[1]);
}

/* ---- layout: what the compiler makes of it is good ---- */

AVX2 static void split(struct mr_planes *p, const uint8_t *rgb, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		p->r[i] = rgb[3 * i];
		p->g[i] = rgb[3 * i + 1];
		p->b[i] = rgb[3 * i + 2];
	}
}

AVX2 static void join(const uint8_t *r, const uint8_t *g, const uint8_t *b,
		      uint8_t *rgb, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rgb[3 * i] = r[i];
		rgb[3 * i + 1] = g[i];
		rgb[3 * i + 2] = b[i];
	}
}

/* ---- grey ---- */

/* 4 pixels of each half: products of pairs (r g) and (g b), where green's
 * weight is halved to fit 16 bits with a sign. */
INLINE __m256i weigh(__m256i rg, __m256i gb)
{
	__m256i a =
		_mm256_madd_epi16(rg, _mm256_set1_epi32(19235 << 16 | 19595));
	__m256i b =
		_mm256_madd_epi16(gb, _mm256_set1_epi32(7471 << 16 | 19235));
	__m256i sum = _mm256_add_epi32(_mm256_add_epi32(a, b),
				       _mm256_set1_epi32(0x8000));

	return _mm256_srli_epi32(sum, 16);
}

AVX2 static void grey(struct mr_planes *p)
{
	for (int i = 0; i < BLOCK; i += STEP) {
		struct half r = to_half(load(p->r + i));
		struct half g = to_half(load(p->g + i));
		struct half b = to_half(load(p->b + i));
		struct wide w;

		for (int k = 0; k < 2; k++) {
			w.v[2 * k] =
				weigh(_mm256_unpacklo_epi16(r.v[k], g.v[k]),
				      _mm256_unpacklo_epi16(g.v[k], b.v[k]));
			w.v[2 * k + 1] =
				weigh(_mm256_unpackhi_epi16(r.v[k], g.v[k]),
				      _mm256_unpackhi_epi16(g.v[k], b.v[k]));
		}
		store(p->grey + i, to_bytes(to_half_from(w)));
	}
}

/* ---- blending ---- */

/* Packing with saturation is the clipping. */
INLINE __m256i blend_step(__m256i x, struct real base, __m256 factor)
{
	struct real f = to_real(to_half(x));
	struct half h;
	__m256i w[4];

	for (int k = 0; k < 4; k++) {
		__m256 d = _mm256_sub_ps(f.v[k], base.v[k]);

		w[k] = _mm256_cvttps_epi32(
			_mm256_add_ps(base.v[k], _mm256_mul_ps(factor, d)));
	}
	h.v[0] = _mm256_packs_epi32(w[0], w[1]);
	h.v[1] = _mm256_packs_epi32(w[2], w[3]);
	return to_bytes(h);
}

AVX2 static void blend_flat(uint8_t *x, uint8_t base, float factor)
{
	__m256 one = _mm256_set1_ps(base), f = _mm256_set1_ps(factor);
	struct real b = { { one, one, one, one } };

	for (int i = 0; i < BLOCK; i += STEP)
		store(x + i, blend_step(load(x + i), b, f));
}

AVX2 static void blend(uint8_t *x, const uint8_t *base, float factor)
{
	__m256 f = _mm256_set1_ps(factor);

	for (int i = 0; i < BLOCK; i += STEP) {
		struct real b = to_real(to_half(load(base + i)));

		store(x + i, blend_step(load(x + i), b, f));
	}
}

/* ---- hue ---- */

struct rgb {
	__m256i r, g, b;
};

/* A colour taken apart, see colour.c. `way` is which of the six orders its
 * channels have. */
struct parts {
	__m256i most, spread, below, way;
};

INLINE struct parts take_apart(struct rgb c)
{
	const __m256i one = _mm256_set1_epi8(1);
	__m256i most = _mm256_max_epu8(_mm256_max_epu8(c.r, c.g), c.b);
	__m256i least = _mm256_min_epu8(_mm256_min_epu8(c.r, c.g), c.b);
	__m256i mid = _mm256_xor_si256(
		_mm256_xor_si256(_mm256_xor_si256(c.r, c.g), c.b),
		_mm256_xor_si256(most, least));
	__m256i red = _mm256_cmpeq_epi8(most, c.r);
	__m256i green = _mm256_cmpeq_epi8(most, c.g);
	__m256i low_b = _mm256_cmpeq_epi8(least, c.b);
	__m256i low_r = _mm256_cmpeq_epi8(least, c.r);
	struct parts p = { .most = most };
	__m256i way;

	/* 0, 2, 4: the lowest is blue, blue, red; 1, 3, 5: it is not. */
	way = _mm256_blendv_epi8(_mm256_set1_epi8(4), _mm256_set1_epi8(2),
				 green);
	way = _mm256_andnot_si256(red, way);
	low_r = _mm256_blendv_epi8(low_r, low_b, _mm256_or_si256(red, green));
	p.way = _mm256_or_si256(way, _mm256_andnot_si256(low_r, one));
	p.spread = _mm256_subs_epu8(most, least);
	p.below = _mm256_subs_epu8(most, mid);
	return p;
}

/* 8 pixels; below 0 is a turn more. */
INLINE __m256i hue_step(__m256 below, __m256 spread, __m256i way)
{
	const __m256 base = _mm256_setr_ps(1, -1, 1, 3, 3, 5, 0, 0);
	const __m256 sign = _mm256_setr_ps(-0.0f, 0, 0, -0.0f, 0, -0.0f, 0, 0);
	__m256 t, h, turn;

	t = _mm256_div_ps(below, _mm256_max_ps(spread, _mm256_set1_ps(1)));
	t = _mm256_xor_ps(t, _mm256_permutevar8x32_ps(sign, way));
	h = _mm256_add_ps(_mm256_permutevar8x32_ps(base, way), t);
	turn = _mm256_and_ps(_mm256_cmp_ps(h, _mm256_setzero_ps(), _CMP_LT_OQ),
			     _mm256_set1_ps(1));
	h = _mm256_add_ps(_mm256_div_ps(h, _mm256_set1_ps(6)), turn);
	return _mm256_cvttps_epi32(_mm256_mul_ps(h, _mm256_set1_ps(255)));
}

INLINE __m256i saturation_step(__m256 spread, __m256 most)
{
	__m256 s = _mm256_div_ps(_mm256_mul_ps(spread, _mm256_set1_ps(255)),
				 _mm256_max_ps(most, _mm256_set1_ps(1)));

	return _mm256_cvttps_epi32(s);
}

INLINE void hue_and_saturation(const struct parts *p, struct half *hue,
			       struct half *sat)
{
	const __m256i zero = _mm256_setzero_si256();
	struct real most = to_real(to_half(p->most));
	struct real spread = to_real(to_half(p->spread));
	struct real below = to_real(to_half(p->below));
	struct half way = to_half(p->way);
	struct wide h, s;

	for (int k = 0; k < 4; k++) {
		__m256i w = k & 1 ? _mm256_unpackhi_epi16(way.v[k / 2], zero) :
				    _mm256_unpacklo_epi16(way.v[k / 2], zero);

		h.v[k] = hue_step(below.v[k], spread.v[k], w);
		s.v[k] = saturation_step(spread.v[k], most.v[k]);
	}
	*hue = to_half_from(h);
	*sat = to_half_from(s);
}

/* The nearest to x * part / 21675, where x * part is below 2^24. */
INLINE struct half portion(struct half x, struct half part)
{
	struct real a = to_real(x), b = to_real(part);
	const __m256 scale = _mm256_set1_ps(1 / 21675.0f);
	struct wide w;

	for (int k = 0; k < 4; k++)
		w.v[k] = _mm256_cvtps_epi32(
			_mm256_mul_ps(_mm256_mul_ps(a.v[k], b.v[k]), scale));
	return to_half_from(w);
}

/* The nearest to x / 255 for x up to 65025. */
INLINE __m256i by_255(__m256i x)
{
	x = _mm256_add_epi16(x, _mm256_set1_epi16(128));
	return _mm256_srli_epi16(_mm256_add_epi16(x, _mm256_srli_epi16(x, 8)),
				 8);
}

/* Which channel gets what in which sixth of the circle. */
INLINE struct rgb put_together(__m256i most, __m256i mid, __m256i low,
			       __m256i sixth)
{
	/* A shuffle looks up one bit pattern: 0 most, 1 mid, 2 low. */
	const __m256i r = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	const __m256i g = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(1, 0, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	const __m256i b = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(2, 2, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0));
	const __m256i one = _mm256_set1_epi8(1), two = _mm256_set1_epi8(2);
	__m256i to[3] = { _mm256_shuffle_epi8(r, sixth),
			  _mm256_shuffle_epi8(g, sixth),
			  _mm256_shuffle_epi8(b, sixth) };

	for (int c = 0; c < 3; c++) {
		__m256i v = _mm256_blendv_epi8(most, mid,
					       _mm256_cmpeq_epi8(to[c], one));

		to[c] = _mm256_blendv_epi8(v, low,
					   _mm256_cmpeq_epi8(to[c], two));
	}
	return (struct rgb){ to[0], to[1], to[2] };
}

INLINE struct rgb turn_step(struct rgb c, __m256i shift)
{
	const __m256i k85 = _mm256_set1_epi16(85);
	struct parts p = take_apart(c);
	struct half most = to_half(p.most), hue, sat, sixth, part, product, low;
	__m256i mid;

	hue_and_saturation(&p, &hue, &sat);
	for (int k = 0; k < 2; k++) {
		__m256i h = _mm256_add_epi16(hue.v[k], shift), odd, rest;

		h = _mm256_and_si256(h, _mm256_set1_epi16(255));
		h = _mm256_add_epi16(h, h);
		/* h / 85 for h up to 510 */
		sixth.v[k] = _mm256_mulhi_epu16(h, _mm256_set1_epi16(772));
		rest = _mm256_sub_epi16(h, _mm256_mullo_epi16(sixth.v[k], k85));
		odd = _mm256_cmpeq_epi16(
			_mm256_and_si256(sixth.v[k], _mm256_set1_epi16(1)),
			_mm256_set1_epi16(1));
		part.v[k] = _mm256_blendv_epi8(_mm256_sub_epi16(k85, rest),
					       rest, odd);
		product.v[k] = _mm256_mullo_epi16(most.v[k], sat.v[k]);
		low.v[k] = by_255(product.v[k]);
	}
	mid = _mm256_sub_epi8(p.most, to_bytes(portion(product, part)));
	return put_together(p.most, mid, _mm256_sub_epi8(p.most, to_bytes(low)),
			    to_bytes(sixth));
}

AVX2 static void hue(struct mr_planes *p, uint8_t shift)
{
	__m256i s = _mm256_set1_epi16(shift);

	for (int i = 0; i < BLOCK; i += STEP) {
		struct rgb c = { load(p->r + i), load(p->g + i),
				 load(p->b + i) };

		c = turn_step(c, s);
		store(p->r + i, c.r);
		store(p->g + i, c.g);
		store(p->b + i, c.b);
	}
}

static const struct mr_colour_loops loops = {
	.split = split,
	.join = join,
	.grey = grey,
	.blend_flat = blend_flat,
	.blend = blend,
	.hue = hue,
};

const struct mr_colour_loops *mr_colour_avx2(void)
{
	return mr_cpu_avx2() ? &loops : NULL;
}

#else

const struct mr_colour_loops *mr_colour_avx2(void)
{
	return NULL;
}

#endif
