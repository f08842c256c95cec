/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between sound and its spectrum, around the Fourier transform itself.
 *
 * Up to the magnitudes it is f64: in f32 a strong low frequency drowns what
 * is 100 dB below it, which the logarithm would show.
 */
#ifndef MR_KERNEL_SPECTRUM_H
#define MR_KERNEL_SPECTRUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The periodic Hann window of n values, times scale, as TensorFlow has it: of
 * an odd number the last value ends the period, and of 1 it is all. */
void mr_hann(double *w, size_t n, double scale);

/* dst[i] = src[i] * w[i]. */
void mr_window_i16(const int16_t *src, const double *w, size_t n, double *dst);
void mr_window_f32(const float *src, const double *w, size_t n, double *dst);

/* |z| of n complex numbers, real and imaginary part in turn; 0 below 1e-19,
 * infinite above 1e19. */
void mr_magnitude(const double *z, size_t n, float *dst);
void mr_magnitude_plain(const double *z, size_t n, float *dst);

/* Of the rows of a matrix. */
struct mr_columns {
	size_t first, count;
};

/* The weights of one output of a filter bank: those that are not 0. */
struct mr_band {
	uint32_t first, count; /* of the input */
	uint32_t at;	       /* in the weights */
};

/*
 * TensorFlow's linear_to_mel_weight_matrix: triangles of height 1 whose
 * corners are evenly spaced on HTK's mel scale, over `inputs` frequencies from
 * 0 to rate / 2. Weights go to w where that is not NULL, and their number is
 * returned; at most 2 * inputs.
 */
size_t mr_mel_bands(size_t inputs, size_t bins, double rate, double low,
		    double high, struct mr_band *band, float *w);

/* dst[r][b] = sum of w * src[r] over band b, for each of `rows`; what a row
 * gives does not depend on the others. */
void mr_bands_apply(const struct mr_band *band, size_t bands, const float *w,
		    const float *src, size_t inputs, size_t rows, float *dst);
void mr_bands_apply_plain(const struct mr_band *band, size_t bands,
			  const float *w, const float *src, size_t inputs,
			  size_t rows, float *dst);
/* Of the input: all that any band looks at. */
struct mr_columns mr_bands_columns(const struct mr_band *band, size_t bands);

/* dst[i] = ln(src[i] + offset), within 2 units in the last place where the
 * sum is a normal number and not near 1; the twin is the C library's. src and
 * dst do not overlap. */
void mr_log(const float *src, float offset, size_t n, float *dst);
void mr_log_plain(const float *src, float offset, size_t n, float *dst);

#endif
