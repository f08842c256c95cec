/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours of u8 images, bit by bit as Pillow 9 computes them: convert("L"),
 * ImageEnhance, and torchvision's adjust_hue() on top of convert("HSV").
 *
 * mr_X() is the fastest that this CPU has; mr_X_plain() its twin in plain C,
 * which gives the same bytes. src and dst do not overlap. `channels` is 1 or
 * 3, the channel varies fastest.
 */
#ifndef MR_KERNEL_COLOUR_H
#define MR_KERNEL_COLOUR_H

#include <stddef.h>
#include <stdint.h>

/* `from` channels into `to` equal ones. */
void mr_colour_grey(const uint8_t *src, int from, uint8_t *dst, int to,
		    size_t pixels);

/* Three planes of n into one, or into three that are the same:
 * 0.299 R + 0.587 G + 0.114 B. */
void mr_colour_grey_planes(const float *rgb, float *dst, int channels,
			   size_t n);
void mr_colour_grey_plain(const uint8_t *src, int from, uint8_t *dst, int to,
			  size_t pixels);

enum mr_adjust_kind {
	MR_ADJUST_BRIGHTNESS, /* 0: black, 1: as it is */
	MR_ADJUST_CONTRAST,   /* 0: the mean of the image, 1: as it is */
	MR_ADJUST_SATURATION, /* 0: grey, 1: as it is */
	MR_ADJUST_HUE,	      /* in turns of the colour circle */
	MR_ADJUSTS
};

enum { MR_ADJUST_MAX = 8000000 }; /* times 255 it is still an int */

struct mr_adjust {
	enum mr_adjust_kind kind;
	double factor; /* 0 to MR_ADJUST_MAX; of hue: -0.5 to 0.5 */
};

/*
 * n adjustments, one after the other: each takes the whole image that the
 * one before left, rounded to u8. Saturation and hue leave one channel as it
 * is.
 */
void mr_colour_adjust(const struct mr_adjust *a, int n, const uint8_t *src,
		      uint8_t *dst, size_t pixels, int channels);
void mr_colour_adjust_plain(const struct mr_adjust *a, int n,
			    const uint8_t *src, uint8_t *dst, size_t pixels,
			    int channels);

#endif
