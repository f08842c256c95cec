/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of MPEG audio frames, so far as their lengths go. */
#include "core/le.h"
#include "op/sound.h"

enum { V1 = 3, V2 = 2, V25 = 0, LAYER1 = 3, LAYER3 = 1 };

/* kb/s by number: of version 1 and layers I, II, III; of the others, layer I
 * and the rest. */
static const uint16_t kbps[5][16] = {
	{ 0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416,
	  448 },
	{ 0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384 },
	{ 0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320 },
	{ 0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256 },
	{ 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160 },
};

static const uint16_t rates[4] = { 44100, 48000, 32000, 0 };

/* Bytes of the frame whose head is at b, and its samples; 0: it is none, or
 * one whose length its head does not tell. */
static size_t frame(const uint8_t *b, int64_t *samples)
{
	unsigned version = b[1] >> 3 & 3, layer = b[1] >> 1 & 3;
	unsigned rate = rates[b[2] >> 2 & 3], pad = b[2] >> 1 & 1, k, units;

	if (b[0] != 0xff || (b[1] & 0xe0) != 0xe0 || version == 1 || !layer ||
	    !rate)
		return 0;
	rate >>= version == V1 ? 0 : version == V2 ? 1 : 2;
	k = kbps[version == V1	 ? 3 - layer :
		 layer == LAYER1 ? 3 :
				   4][b[2] >> 4];
	*samples = layer == LAYER1		    ? 384 :
		   layer == LAYER3 && version != V1 ? 576 :
						      1152;
	units = (unsigned)*samples / 8 * 1000;
	if (layer == LAYER1)
		return k ? (units / 4 * k / rate + pad) * 4 : 0;
	return k ? units * k / rate + pad : 0;
}

static bool is_tag(const uint8_t *b, size_t n)
{
	return n >= 3 &&
	       (!memcmp(b, "TAG", 3) || (n >= 8 && !memcmp(b, "APETAGEX", 8)));
}

int64_t mr_mpeg_samples(const uint8_t *b, size_t n)
{
	int64_t all = 0, samples;
	size_t at = 0, size;

	while (n - at >= 4 && (size = frame(b + at, &samples))) {
		all += samples;
		if (size > n - at)
			return all;
		at += size;
	}
	return at && (at == n || is_tag(b + at, n - at)) ? all : -1;
}
