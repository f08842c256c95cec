/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaling of u8 images as Pillow does it: a filter along each row, rounded
 * to u8, then one down the columns. Coefficients have MR_TAP_BITS bits, and
 * those of each output sum up to exactly 1, so that flat areas stay flat.
 *
 * mr_X() is the fastest that this CPU has; mr_X_plain() its twin in plain C,
 * which gives the same bytes.
 */
#ifndef MR_KERNEL_RESAMPLE_H
#define MR_KERNEL_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_TAP_BITS = 14 };

enum mr_filter { MR_FILTER_BILINEAR, MR_FILTER_BICUBIC, MR_FILTER_AREA };

/* What is wanted of one axis: outputs [first, first + count) of scaling
 * `in` elements to `out`. */
struct mr_scale {
	int in, out;
	int first, count;
	enum mr_filter filter;
	bool antialias; /* widen the filter when the image shrinks */
};

/* For each output, `taps` weights for the inputs from `from` on. */
struct mr_taps {
	int count, taps; /* taps: a multiple of 4, the last ones may be 0 */
	int32_t *from;	 /* [count] */
	int16_t *weight; /* [count][taps] */
	int lo, hi;	 /* weights other than 0 are in inputs [lo, hi) */
};

/*
 * Bytes of memory that mr_taps_make() needs for s, 0 when out of range: 1 <=
 * in, out <= 2^24, 0 <= first, 1 <= count, first + count <= out, and at most
 * 2^26 taps in all.
 */
size_t mr_taps_size(const struct mr_scale *s);
/* mem: 64-byte aligned. from is relative to input 0 and never falls; from[i]
 * >= lo, and from[i] + taps <= hi + 3: up to three taps, of weight 0, may lie
 * past hi. */
void mr_taps_make(struct mr_taps *t, const struct mr_scale *s, void *mem);

/*
 * Along rows: `rows` rows of pixels of `channels` (1 to 4) bytes each into
 * t->count pixels. src points at input t->lo: input i of a row lies at src +
 * (i - t->lo) * channels. A row ends at input t->hi; up to MR_ROW_SLACK bytes
 * past that may be read (not used).
 */
enum { MR_ROW_SLACK = 32 };
void mr_resample_rows(const struct mr_taps *t, int channels, int rows,
		      const uint8_t *src, size_t src_stride, uint8_t *dst,
		      size_t dst_stride);
void mr_resample_rows_plain(const struct mr_taps *t, int channels, int rows,
			    const uint8_t *src, size_t src_stride, uint8_t *dst,
			    size_t dst_stride);

/* Down columns: output row i of t from rows of n bytes; src points at input
 * row t->lo. Of the rows, only those from t->from[i] on, at most t->taps and
 * none from t->hi on, are read. dst need not be aligned; exactly n bytes of it
 * are written. */
void mr_resample_column(const struct mr_taps *t, int i, const uint8_t *src,
			size_t src_stride, uint8_t *dst, size_t n);
void mr_resample_column_plain(const struct mr_taps *t, int i,
			      const uint8_t *src, size_t src_stride,
			      uint8_t *dst, size_t n);

#endif
