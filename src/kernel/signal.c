/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each loop stands here once, and is compiled twice: for any CPU and for
 * AVX2. The compiler makes vectors of them; of sums only since the lanes are
 * spelt out.
 */
#include "kernel/signal.h"

#include <stdbool.h>
#include <string.h>

#include "kernel/avx2.h"
#include "kernel/cpu.h"

#define INLINE static inline __attribute__((always_inline))

enum {
	LANES = 8,
	/* Numbers that are asked for before their turn: the CPU by itself does
	 * not look beyond a page, so what lies at the same place in the next
	 * one. A quarter of that was slower than nothing on a Zen 5. */
	AHEAD = 512,
};

/* Four lanes; of no alignment in memory, hence LOAD. */
typedef double four __attribute__((vector_size(32)));

#define LOAD(to, from) memcpy(&(to), from, sizeof(to))

INLINE double total(const four s[2])
{
	four t = s[0] + s[1];

	return (t[0] + t[1]) + (t[2] + t[3]);
}

/* What does not fill the lanes, with 0 in the others. */
INLINE void fill(double to[LANES], const double *x, size_t n)
{
	for (size_t k = 0; k < LANES; k++)
		to[k] = k < n ? x[k] : 0;
}

/* ---- products ---- */

struct sums {
	four vi[2], ii[2], vv[2];
};

INLINE void add_products(struct sums *s, const double *v, const double *i)
{
	four a, b, c, d;

	LOAD(a, v);
	LOAD(b, v + 4);
	LOAD(c, i);
	LOAD(d, i + 4);
	s->vi[0] += a * c;
	s->vi[1] += b * d;
	s->ii[0] += c * c;
	s->ii[1] += d * d;
	s->vv[0] += a * a;
	s->vv[1] += b * b;
}

INLINE void products(const double *v, const double *i, size_t n,
		     struct mr_products *out)
{
	struct sums s = { 0 };
	size_t k = 0;

	for (; k + LANES <= n; k += LANES) {
		__builtin_prefetch(v + k + AHEAD);
		__builtin_prefetch(i + k + AHEAD);
		add_products(&s, v + k, i + k);
	}
	if (k < n) {
		double x[LANES], y[LANES];

		fill(x, v + k, n - k);
		fill(y, i + k, n - k);
		add_products(&s, x, y);
	}
	out->vi = total(s.vi);
	out->ii = total(s.ii);
	out->vv = total(s.vv);
}

INLINE void add(four s[2], const double *x, bool square)
{
	four a, b;

	LOAD(a, x);
	LOAD(b, x + 4);
	s[0] += square ? a * a : a;
	s[1] += square ? b * b : b;
}

INLINE double sum_of(const double *x, size_t n, bool square)
{
	four s[2] = { 0 };
	double rest[LANES];
	size_t k = 0;

	for (; k + LANES <= n; k += LANES)
		add(s, x + k, square);
	if (k < n) {
		fill(rest, x + k, n - k);
		add(s, rest, square);
	}
	return total(s);
}

INLINE double squares(const double *x, size_t n)
{
	return sum_of(x, n, true);
}

INLINE double sum(const double *x, size_t n)
{
	return sum_of(x, n, false);
}

/* Blocks whose sums fit in 32 bits. */
double mr_sum_i16(const int16_t *x, size_t n)
{
	int64_t all = 0;

	while (n) {
		size_t k = n < 65536 ? n : 65536;
		int32_t s = 0;

		for (size_t i = 0; i < k; i++)
			s += x[i];
		all += s;
		x += k;
		n -= k;
	}
	return (double)all;
}

/* ---- lines ---- */

/* Numbers of samples as 32 bits, which a CPU can convert. */
enum { BLOCK = 1 << 16 };

#define LEVEL                                                             \
	for (size_t at = 0; at < n; at += BLOCK) {                        \
		int m = (int)(n - at < BLOCK ? n - at : BLOCK);           \
		double x = s->x + (double)at, y = s->y, slope = s->slope; \
		double scale = s->scale;                                  \
                                                                          \
		for (int k = 0; k < m; k++)                               \
			dst[at + k] = ((double)src[at + k] -              \
				       (y + slope * (x + (double)k))) *   \
				      scale;                              \
	}

INLINE void level(const double *restrict src, size_t n,
		  const struct mr_slant *s, double *restrict dst){ LEVEL }

INLINE void level_i16(const int16_t *restrict src, size_t n,
		      const struct mr_slant *s, double *restrict dst)
{
	LEVEL
}

/* ---- for any CPU ---- */

void mr_products_plain(const double *v, const double *i, size_t n,
		       struct mr_products *out)
{
	products(v, i, n, out);
}

double mr_squares_plain(const double *x, size_t n)
{
	return squares(x, n);
}

double mr_sum_plain(const double *x, size_t n)
{
	return sum(x, n);
}

void mr_level_plain(const double *src, size_t n, const struct mr_slant *s,
		    double *dst)
{
	level(src, n, s, dst);
}

void mr_level_i16_plain(const int16_t *src, size_t n, const struct mr_slant *s,
			double *dst)
{
	level_i16(src, n, s, dst);
}

/* ---- for this one ---- */

#if defined(__x86_64__)
MR_AVX2 static void products_avx2(const double *v, const double *i, size_t n,
				  struct mr_products *out)
{
	products(v, i, n, out);
}

MR_AVX2 static double squares_avx2(const double *x, size_t n)
{
	return squares(x, n);
}

MR_AVX2 static double sum_avx2(const double *x, size_t n)
{
	return sum(x, n);
}

MR_AVX2 static void level_avx2(const double *src, size_t n,
			       const struct mr_slant *s, double *dst)
{
	level(src, n, s, dst);
}

MR_AVX2 static void level_i16_avx2(const int16_t *src, size_t n,
				   const struct mr_slant *s, double *dst)
{
	level_i16(src, n, s, dst);
}

#define PICK(name) (mr_cpu_avx2() ? name##_avx2 : mr_##name##_plain)
#else
#define PICK(name) mr_##name##_plain
#endif

void mr_products(const double *v, const double *i, size_t n,
		 struct mr_products *out)
{
	PICK(products)(v, i, n, out);
}

double mr_squares(const double *x, size_t n)
{
	return PICK(squares)(x, n);
}

double mr_sum(const double *x, size_t n)
{
	return PICK(sum)(x, n);
}

void mr_level(const double *src, size_t n, const struct mr_slant *s,
	      double *dst)
{
	PICK(level)(src, n, s, dst);
}

void mr_level_i16(const int16_t *src, size_t n, const struct mr_slant *s,
		  double *dst)
{
	PICK(level_i16)(src, n, s, dst);
}
