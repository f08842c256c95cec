/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual JPEG (baseline, one scan, grey or YCbCr 4:4:4, 4:2:2, 4:2:0)
 * decoded by ourselves, byte for byte as libjpeg-turbo does it. Three
 * quarters of a photo's cost are Huffman decoding; looking up code, run and
 * value at once is about twice as fast, and blocks outside of the wanted
 * rectangle are only skipped.
 *
 * Whatever is unusual or damaged is left to libjpeg, which knows best what to
 * say about it.
 */
#ifndef MR_OP_BASELINE_H
#define MR_OP_BASELINE_H

#include <stdio.h>

#include <jpeglib.h>

#include "op/image.h"

struct mr_baseline; /* one thread's */

int mr_baseline_new(struct mr_baseline **b, struct mr_err *err);
void mr_baseline_free(struct mr_baseline *b); /* NULL is allowed */

/* Is it one of the usual kind, by the header that libjpeg has just read? */
bool mr_baseline_fits(const struct jpeg_decompress_struct *c);

/*
 * Decode the blocks that rectangle r needs, of an image that fits; scan: the
 * bytes after its header. by: 1, or 2, 4, 8 for an image that is so many times
 * smaller (r is in its pixels then), which is no longer libjpeg's to the byte.
 * MR_EDATA: let libjpeg do it. MR_ELIMIT: more than `max` bytes of memory would
 * be needed.
 */
int mr_baseline_decode(struct mr_baseline *b,
		       const struct jpeg_decompress_struct *c, int by,
		       const struct mr_rect *r, const uint8_t *scan, size_t n,
		       size_t max);

/* The next rows of the rectangle as pixels. */
void mr_baseline_rows(struct mr_baseline *b, struct mr_rows *out);

#endif
