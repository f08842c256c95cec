/* SPDX-License-Identifier: Apache-2.0 */
/* Pixels as a PNG file that is not compressed, for steps that want the bytes
 * of a file. */
#ifndef MR_SOURCE_STOREDPNG_H
#define MR_SOURCE_STOREDPNG_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that it takes; 0 when it would be too large for PNG. */
size_t mr_stored_png_size(uint32_t height, uint32_t width);

/* R G B pixels, 3 bytes each, into that many. */
void mr_stored_png(const uint8_t *rgb, uint32_t height, uint32_t width,
		   uint8_t *to);

#endif
