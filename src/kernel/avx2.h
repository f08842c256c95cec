/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels' versions for AVX2. Callers have asked mr_cpu_avx2(), and hand
 * over only what is said here; the rest is their plain twins'.
 */
#ifndef MR_KERNEL_AVX2_H
#define MR_KERNEL_AVX2_H

#include "kernel/jpeg.h"
#include "kernel/pixels.h"
#include "kernel/resample.h"
#include "kernel/shuffle.h"
#include "kernel/spectrum.h"

#if defined(__x86_64__)

/* Not FMA: a compiler that has it could fuse what must be rounded twice. */
#define MR_AVX2	       __attribute__((target("avx2")))
#define MR_AVX2_INLINE MR_AVX2 __attribute__((always_inline)) inline

/* channels: 1, 3 or 4; t->count >= 4. */
void mr_resample_rows_avx2(const struct mr_taps *t, int channels, int rows,
			   const uint8_t *src, size_t src_stride, uint8_t *dst,
			   size_t dst_stride);
/* n >= 32. */
void mr_resample_column_avx2(const struct mr_taps *t, int i, const uint8_t *src,
			     size_t src_stride, uint8_t *dst, size_t n);

/* n >= 8. */
void mr_pixels_pack_avx2(const uint8_t *x4, size_t n, bool mirror,
			 uint8_t *rgb);
void mr_pixels_expand_avx2(const uint8_t *rgb, size_t n, uint8_t *x4);
void mr_pixels_affine_avx2(const uint8_t *src, int stride, size_t n,
			   bool mirror, float *dst, size_t plane,
			   const float scale[3], const float bias[3]);
/* n >= 32. */
void mr_pixels_planes_avx2(const uint8_t *x4, size_t n, bool mirror,
			   uint8_t *dst, size_t plane);

/* A block of DC alone has none: eight stores are eight stores. */
void mr_jpeg_idct_avx2(const int16_t coef[64], const uint16_t quant[64],
		       uint8_t *dst, size_t stride);
void mr_jpeg_h2v1_avx2(const uint8_t *c, size_t n, uint8_t *out);
void mr_jpeg_h2v2_avx2(const uint8_t *near, const uint8_t *far, size_t n,
		       uint8_t *out);
void mr_jpeg_ycc_avx2(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
		      size_t n, uint8_t *x4);
void mr_jpeg_grey_avx2(const uint8_t *y, size_t n, uint8_t *x4);

/* elements >= 32; size: 2, 4 or 8. */
void mr_shuffle_avx2(uint8_t *to, const uint8_t *from, size_t elements,
		     size_t size);
void mr_unshuffle_avx2(uint8_t *to, const uint8_t *from, size_t elements,
		       size_t size);

void mr_window_i16_avx2(const int16_t *src, const double *w, size_t n,
			double *dst);
void mr_window_f32_avx2(const float *src, const double *w, size_t n,
			double *dst);
/* n: a multiple of 8. */
void mr_magnitude_avx2(const double *z, size_t n, float *dst);
/* Eight rows; columns: what the bands look at, MR_BANDS_TILE at most. */
enum { MR_BANDS_TILE = 512 };
void mr_bands_apply_avx2(const struct mr_band *band, size_t bands,
			 const float *w, const struct mr_columns *columns,
			 const float *src, size_t inputs, float *dst);
/* As mr_loop_log(). */
bool mr_log_avx2(const float *src, float offset, size_t n, float *dst);

#endif

#endif
