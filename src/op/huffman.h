/* SPDX-License-Identifier: Apache-2.0 */
/* Huffman codes of baseline JPEG: tables, and the bits they are read from. */
#ifndef MR_OP_HUFFMAN_H
#define MR_OP_HUFFMAN_H

#include <stdio.h>

#include <jpeglib.h>

#include "op/image.h"

enum { MR_HUFF_BITS = 10, MR_HUFF_SIZE = 1 << MR_HUFF_BITS };

/*
 * What the next MR_HUFF_BITS bits say. One look-up gives code, run and value
 * when all of it is among them:
 *	ac[]: value << 16 | run << 8 | bits to drop. value 0: run is KIND
 *	skip[]: (run + 1) << 8 | bits to drop, value included, whatever it is
 *	look[]: symbol << 8 | bits of the code
 * skip and look are 0 when the code is longer.
 */
struct mr_huffman {
	uint32_t ac[MR_HUFF_SIZE];
	uint16_t skip[MR_HUFF_SIZE], look[MR_HUFF_SIZE];
	/* longer codes */
	int32_t last[17];  /* largest code of that length, -1: none */
	int32_t first[17]; /* place of its first symbol, minus the code */
	uint8_t symbol[256];
	/* what it was made of: most files have the same few tables */
	uint8_t bits[17], values[256];
	bool made;
};

/* Of ac[] with value 0: what the code says, beside bits to drop. */
enum { MR_HUFF_EOB = 1, MR_HUFF_ZRL = 2, MR_HUFF_LONG = 3 };

/* false when the table is none. */
bool mr_huffman_make(struct mr_huffman *h, const JHUFF_TBL *t);

/* ---- bits ---- */

struct mr_bits {
	uint64_t bits; /* the next one is the highest */
	int have;      /* of them, at least 57 after mr_bits_fill() */
	int fake;      /* of those: zeros past the end of the data */
	const uint8_t *at, *end;
};

void mr_bits_start(struct mr_bits *b, const uint8_t *at, const uint8_t *end);
void mr_bits_fill_slowly(struct mr_bits *b);

static inline void mr_bits_fill(struct mr_bits *b)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t v;

	if (b->end - b->at >= 8) {
		memcpy(&v, b->at, sizeof(v));
		/* no byte is 0xff, which means something */
		if (!((~v - ones) & v & ones << 7)) {
			b->bits |= __builtin_bswap64(v) >> b->have;
			b->at += (63 - b->have) >> 3;
			b->have |= 56;
			return;
		}
	}
	mr_bits_fill_slowly(b);
}

static inline uint32_t mr_bits_peek(const struct mr_bits *b, int n)
{
	return (uint32_t)(b->bits >> (64 - n));
}

static inline void mr_bits_drop(struct mr_bits *b, int n)
{
	b->bits <<= n;
	b->have -= n;
}

/* More was read than there is. */
static inline bool mr_bits_over(const struct mr_bits *b)
{
	return b->have < b->fake;
}

/* A value of `size` (1 to 16) bits, as JPEG stores it. */
static inline int mr_bits_value(struct mr_bits *b, int size)
{
	int v = (int)mr_bits_peek(b, size);

	mr_bits_drop(b, size);
	return v >> (size - 1) ? v : v - (1 << size) + 1;
}

/* Codes longer than MR_HUFF_BITS. */
int mr_huffman_long(const struct mr_huffman *h, struct mr_bits *b);

/* The symbol of a code; -1: there is no such code. */
static inline int mr_huffman_symbol(const struct mr_huffman *h,
				    struct mr_bits *b)
{
	unsigned e = h->look[mr_bits_peek(b, MR_HUFF_BITS)];

	if (!e)
		return mr_huffman_long(h, b);
	mr_bits_drop(b, (int)(e & 255));
	return (int)(e >> 8);
}

/* The next restart marker; false when something else comes. */
bool mr_bits_restart(struct mr_bits *b);

#endif
