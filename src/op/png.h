/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PNG by libspng: 8 bits per channel, R G B; of 16 bits the upper ones, and
 * no transparency, as Pillow. Same protocol as jpeg.h.
 */
#ifndef MR_OP_PNG_H
#define MR_OP_PNG_H

#include "op/image.h"

struct mr_png;

bool mr_png_is(const uint8_t *bytes, size_t n);

int mr_png_new(struct mr_png **p, struct mr_err *err);
void mr_png_free(struct mr_png *p); /* NULL is allowed */

/* The EXIF orientation of the picture that was started; 1: upright, or it does
 * not say. */
int mr_png_orientation(const struct mr_png *p);

/* max_bytes: that the decoder may need for rows. */
int mr_png_start(struct mr_png *p, const uint8_t *bytes, size_t n,
		 int64_t max_pixels, size_t max_bytes, int64_t *h, int64_t *w,
		 struct mr_err *err);
/* Interlaced images are decoded whole, in scratch. */
int mr_png_want(struct mr_png *p, const struct mr_rect *r,
		struct mr_arena *scratch, struct mr_err *err);
int mr_png_rows(struct mr_png *p, struct mr_rows *out, struct mr_err *err);
int mr_png_stop(struct mr_png *p, bool whole, struct mr_err *err);

#endif
