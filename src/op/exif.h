/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MR_OP_EXIF_H
#define MR_OP_EXIF_H

#include "op/image.h"

/* The orientation, 1 to 8, in a TIFF structure (EXIF without its "Exif"
 * mark); 1 when there is none or it is broken. */
int mr_exif_orientation(const uint8_t *tiff, size_t n);

/*
 * Orientations 5 to 8 exchange height and width. The rectangle r of the
 * upright image of h x w lies at *stored in the image as it is stored.
 */
bool mr_exif_swaps(int orientation);
void mr_exif_stored(int orientation, const struct mr_rect *r, int64_t h,
		    int64_t w, struct mr_rect *stored);

/* Pixels of 4 bytes, `stored` as above, into the upright r->h rows. */
void mr_exif_turn(int orientation, const uint8_t *src, size_t src_stride,
		  const struct mr_rect *r, uint8_t *dst, size_t dst_stride);

#endif
