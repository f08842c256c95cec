/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a frame of FLAC, behind a head that is right: the first two
 * choose channels, bits and block. A frame's own checksum is looked at last,
 * so everything else is reached without one.
 */
#include <stdlib.h>
#include <string.h>

#include "op/flacframe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 6, LARGEST = 32768 };

static int32_t *plane[MR_FLAC_CHANNELS];
static struct mr_flac_crc crc;

static void prepare(void)
{
	if (plane[0])
		return;
	mr_flac_crc_init(&crc);
	for (int c = 0; c < MR_FLAC_CHANNELS; c++) {
		plane[c] = malloc(LARGEST * sizeof(**plane));
		if (!plane[c])
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t bits[] = { 8, 12, 16, 16, 20, 24, 24, 16 };
	static const uint8_t blocks[] = { 1, 2, 3, 4, 5, 8, 9, 12 };
	struct mr_flac_form form = { .rate = 16000 };
	struct mr_flac_frame x;
	unsigned stereo;
	uint8_t *b;

	if (size < 2)
		return 0;
	prepare();
	stereo = data[1] % 12; /* 0 to 7: so many more channels than one */
	stereo = stereo > 10 ? 10 : stereo;
	form.channels = stereo < 8 ? (int)stereo + 1 : 2;
	form.bits = bits[data[0] & 7];
	b = malloc(HEAD + size - 2);
	if (!b)
		abort();
	memcpy(b, (uint8_t[]){ 0xff, 0xf8 }, 2);
	b[2] = (uint8_t)(blocks[data[0] >> 3 & 7] << 4);
	b[3] = (uint8_t)(stereo << 4);
	b[4] = 0;
	b[5] = mr_flac_crc8(b, 5);
	memcpy(b + HEAD, data + 2, size - 2);
	if (mr_flac_frame(b, HEAD + size - 2, &form, &crc, plane, LARGEST,
			  &x) &&
	    x.bytes > HEAD + size - 2)
		abort();
	free(b);
	return 0;
}
