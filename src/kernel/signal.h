/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Voltage and current, period by period. All sums are f64, over eight lanes
 * (element k goes to lane k modulo 8) that are added in a fixed order: the
 * same bits with AVX2 and without, mr_X_plain().
 */
#ifndef MR_KERNEL_SIGNAL_H
#define MR_KERNEL_SIGNAL_H

#include <stddef.h>
#include <stdint.h>

/* Sums over n samples. */
struct mr_products {
	double vi, ii, vv; /* voltage x current, and their squares */
};

void mr_products(const double *v, const double *i, size_t n,
		 struct mr_products *out);
void mr_products_plain(const double *v, const double *i, size_t n,
		       struct mr_products *out);

double mr_squares(const double *x, size_t n);
double mr_squares_plain(const double *x, size_t n);

double mr_sum(const double *x, size_t n);
double mr_sum_plain(const double *x, size_t n);
double mr_sum_i16(const int16_t *x, size_t n); /* exact for n < 2^38 */

/* A line that is subtracted before all is multiplied by scale. */
struct mr_slant {
	double y, slope;
	double x; /* of the first sample, counted from where the line is y */
	double scale;
};

/* dst[k] = (src[k] - (y + slope * (x + k))) * scale. */
void mr_level(const double *src, size_t n, const struct mr_slant *s,
	      double *dst);
void mr_level_plain(const double *src, size_t n, const struct mr_slant *s,
		    double *dst);
void mr_level_i16(const int16_t *src, size_t n, const struct mr_slant *s,
		  double *dst);
void mr_level_i16_plain(const int16_t *src, size_t n, const struct mr_slant *s,
			double *dst);

#endif
