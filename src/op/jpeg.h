/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG by libjpeg-turbo: the part of an image that is wanted, and no more of
 * it than has to be.
 *
 * Results are libjpeg's, as Pillow's; damaged data is an error and never a
 * grey area.
 */
#ifndef MR_OP_JPEG_H
#define MR_OP_JPEG_H

#include "op/image.h"

struct mr_jpeg; /* one thread's decoder */

struct mr_jpeg_options {
	bool fast;    /* quick inverse DCT and upsampling */
	bool lenient; /* take damaged data as far as it goes */
	bool exif;    /* tell the orientation */
	int64_t max_pixels;
	size_t max_bytes; /* that the decoder may need for coefficients */
};

int mr_jpeg_new(struct mr_jpeg **j, struct mr_err *err);
void mr_jpeg_free(struct mr_jpeg *j); /* NULL is allowed */

bool mr_jpeg_is(const uint8_t *bytes, size_t n);

/* Reads the header. The bytes stay the caller's until mr_jpeg_stop().
 * *orientation is EXIF's, 1 to 8, and 1 when it is not asked for. */
int mr_jpeg_start(struct mr_jpeg *j, const uint8_t *bytes, size_t n,
		  const struct mr_jpeg_options *opt, int64_t *h, int64_t *w,
		  int *orientation, struct mr_err *err);
/* Decode at 1/2, 1/4 or 1/8 of the size, not less than 1/most. */
void mr_jpeg_reduce(struct mr_jpeg *j, double most, int64_t *h, int64_t *w);
int mr_jpeg_want(struct mr_jpeg *j, const struct mr_rect *r,
		 struct mr_err *err);
int mr_jpeg_rows(struct mr_jpeg *j, struct mr_rows *out, struct mr_err *err);
/* whole: all wanted rows were taken; fails if the file proves truncated. */
int mr_jpeg_stop(struct mr_jpeg *j, bool whole, struct mr_err *err);

#endif
