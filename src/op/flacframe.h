/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of FLAC as nearly all files have them, decoded a sixth faster than
 * libFLAC does it. Whatever is not quite so is not decoded at all here: it is
 * libFLAC that judges what is odd or damaged.
 */
#ifndef MR_OP_FLACFRAME_H
#define MR_OP_FLACFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MR_FLAC_CHANNELS = 8,
	MR_FLAC_BITS = 24, /* more are libFLAC's */
};

/* What all frames of a file have in common. */
struct mr_flac_form {
	int channels, bits;
	int64_t rate;
};

struct mr_flac_frame {
	size_t bytes;	  /* that it has in the file */
	uint32_t samples; /* of each channel */
	uint64_t number; /* of its first sample, if blocks vary; else its own */
	bool varies;
};

/* of[k]: what a byte with k more behind it adds to a CRC-16; so eight bytes
 * are taken at a time. */
struct mr_flac_crc {
	uint16_t of[8][256];
};

void mr_flac_crc_init(struct mr_flac_crc *c);
/* Of n bytes, as frames end with it. */
uint16_t mr_flac_crc16(const struct mr_flac_crc *c, const uint8_t *b, size_t n);
/* As their heads do. */
uint8_t mr_flac_crc8(const uint8_t *b, size_t n);

/*
 * The frame that begins at b, of n bytes up to the end of the file; its
 * samples go to plane[channel], each with room for `room` of them. False when
 * it is none of this form, damaged, cut off, too large, or odd.
 */
bool mr_flac_frame(const uint8_t *b, size_t n, const struct mr_flac_form *form,
		   const struct mr_flac_crc *crc, int32_t *const *plane,
		   size_t room, struct mr_flac_frame *out);

#endif
