/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each loop stands here once, and is compiled twice: for any CPU and for
 * AVX2. The compiler makes vectors of them; of sums only since the lanes are
 * spelt out.
 */
#include "kernel/signal.h"

#include <string.h>

#include "kernel/avx2.h"
#include "kernel/cpu.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };

/* Four lanes; of no alignment in memory, hence load(). */
typedef double four __attribute__((vector_size(32)));

#define LOAD(to, from) memcpy(&(to), from, sizeof(to))

INLINE double total(const four *lo, const four *hi)
{
	four t = *lo + *hi;

	return (t[0] + t[1]) + (t[2] + t[3]);
}

/* ---- products ---- */

INLINE void products(const double *v, const double *i, size_t n,
		     struct mr_products *out)
{
	four vi[2] = { 0 }, ii[2] = { 0 }, vv[2] = { 0 };
	size_t k = 0;

	for (; k + LANES <= n; k += LANES) {
		four a, b, c, d;

		LOAD(a, v + k);
		LOAD(b, v + k + 4);
		LOAD(c, i + k);
		LOAD(d, i + k + 4);
		vi[0] += a * c;
		vi[1] += b * d;
		ii[0] += c * c;
		ii[1] += d * d;
		vv[0] += a * a;
		vv[1] += b * b;
	}
	for (; k < n; k++) {
		size_t half = k % LANES / 4, at = k % 4;

		vi[half][at] += v[k] * i[k];
		ii[half][at] += i[k] * i[k];
		vv[half][at] += v[k] * v[k];
	}
	out->vi = total(&vi[0], &vi[1]);
	out->ii = total(&ii[0], &ii[1]);
	out->vv = total(&vv[0], &vv[1]);
}

INLINE double squares(const double *x, size_t n)
{
	four s[2] = { 0 };
	size_t k = 0;

	for (; k + LANES <= n; k += LANES) {
		four a, b;

		LOAD(a, x + k);
		LOAD(b, x + k + 4);
		s[0] += a * a;
		s[1] += b * b;
	}
	for (; k < n; k++)
		s[k % LANES / 4][k % 4] += x[k] * x[k];
	return total(&s[0], &s[1]);
}

INLINE double sum(const double *x, size_t n)
{
	four s[2] = { 0 };
	size_t k = 0;

	for (; k + LANES <= n; k += LANES) {
		four a, b;

		LOAD(a, x + k);
		LOAD(b, x + k + 4);
		s[0] += a;
		s[1] += b;
	}
	for (; k < n; k++)
		s[k % LANES / 4][k % 4] += x[k];
	return total(&s[0], &s[1]);
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
