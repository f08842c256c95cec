/* SPDX-License-Identifier: Apache-2.0 */
#include "source/storedpng.h"

#include <libdeflate.h>
#include <string.h>

/*
 * signature 8 | IHDR 25 | IDAT: length 4, type 4, zlib stream, CRC 4 |
 * IEND 12. The stream: 2 bytes, blocks of at most 65,535 with 5 before each,
 * Adler-32. Each row of pixels has a byte before it: not filtered.
 */
enum { BLOCK = 65535, BEFORE = 8 + 25 + 8, AFTER = 4 + 12, HEADER = 5 };

static size_t pixels(uint32_t height, uint32_t width)
{
	return (size_t)height * (3 * (size_t)width + 1);
}

static size_t stream(size_t n)
{
	return 2 + n + (n + BLOCK - 1) / BLOCK * HEADER + 4;
}

size_t mr_stored_png_size(uint32_t height, uint32_t width)
{
	size_t n = pixels(height, width);

	if (!height || !width || n > INT32_MAX / 2)
		return 0;
	return BEFORE + stream(n) + AFTER;
}

static uint8_t *be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
	return p + 4;
}

/* The CRC of a chunk whose type is at `from`. */
static uint8_t *checksum(const uint8_t *from, uint8_t *to)
{
	return be32(to, libdeflate_crc32(0, from, (size_t)(to - from)));
}

/* Bytes into blocks, as they come. */
struct blocks {
	uint8_t *to;
	size_t left, room; /* bytes to come; in this block */
	uint32_t adler;
};

static void add(struct blocks *b, const uint8_t *p, size_t n)
{
	b->adler = libdeflate_adler32(b->adler, p, n);
	while (n) {
		size_t k;

		if (!b->room) {
			b->room = b->left < BLOCK ? b->left : BLOCK;
			b->to[0] = b->left == b->room; /* the last one */
			b->to[1] = (uint8_t)b->room;
			b->to[2] = (uint8_t)(b->room >> 8);
			b->to[3] = (uint8_t)~b->to[1];
			b->to[4] = (uint8_t)~b->to[2];
			b->to += HEADER;
		}
		k = n < b->room ? n : b->room;
		memcpy(b->to, p, k);
		b->to += k;
		b->room -= k;
		b->left -= k;
		p += k;
		n -= k;
	}
}

static uint8_t *put_head(uint8_t *to, uint32_t height, uint32_t width)
{
	static const uint8_t rgb8[] = { 8, 2, 0, 0, 0 };
	uint8_t *type;

	memcpy(to, "\x89PNG\r\n\x1a\n", 8);
	to = be32(to + 8, 13);
	type = to;
	memcpy(to, "IHDR", 4);
	to = be32(to + 4, width);
	to = be32(to, height);
	memcpy(to, rgb8, sizeof(rgb8));
	return checksum(type, to + sizeof(rgb8));
}

void mr_stored_png(const uint8_t *rgb, uint32_t height, uint32_t width,
		   uint8_t *to)
{
	size_t n = pixels(height, width);
	struct blocks b = { .left = n, .adler = 1 };
	uint8_t *type;

	to = put_head(to, height, width);
	type = be32(to, (uint32_t)stream(n));
	memcpy(type, "IDAT\x78\x01", 6);
	b.to = type + 6;
	for (uint32_t y = 0; y < height; y++) {
		add(&b, (const uint8_t *)"", 1);
		add(&b, rgb + (size_t)y * 3 * width, 3 * (size_t)width);
	}
	to = checksum(type, be32(b.to, b.adler));
	memcpy(be32(to, 0), "IEND", 4);
	checksum(to + 4, to + 8);
}
