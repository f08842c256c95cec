/* SPDX-License-Identifier: Apache-2.0 */
/* Huffman codes of baseline JPEG: tables, and the bits they are read from. */
#ifndef MR_OP_HUFFMAN_H
#define MR_OP_HUFFMAN_H

#include <stdio.h>

#include <jpeglib.h>

#include "op/image.h"

enum { MR_HUFF_BITS = 10, MR_HUFF_SIZE = 1 << MR_HUFF_BITS };

/*
 * What the next MR_HUFF_BITS bits say, as one number, so that a symbol costs
 * one look-up and no branch:
 *	bits 0-7	to drop: the code and the value after it
 *	bits 8-15	how far to go: the run and the value's own place
 *	bits 16-19	of the value
 *	bits 20-23	of the code
 * 0: the code is longer.
 *
 * Who only wants to get past the values may take two symbols at once, where
 * both codes are among those bits: skip[] is go << 8 | drop.
 */
struct mr_huffman {
	uint32_t look[MR_HUFF_SIZE];
	uint16_t skip[MR_HUFF_SIZE];
	/* longer codes */
	int32_t last[17];  /* largest code of that length, -1: none */
	int32_t first[17]; /* place of its first symbol, minus the code */
	/* what it was made of: most files have the same few tables */
	uint8_t bits[17], values[256];
	bool dc, made;
};

/* How far the end of a block goes: to where nothing else does. */
enum { MR_HUFF_END = 128 };

static inline int mr_huff_drop(uint32_t e)
{
	return (int)(e & 255);
}

static inline int mr_huff_go(uint32_t e)
{
	return (int)(e >> 8 & 255);
}

static inline int mr_huff_size(uint32_t e)
{
	return (int)(e >> 16 & 15);
}

static inline int mr_huff_code(uint32_t e)
{
	return (int)(e >> 20);
}

/* dc: symbols are sizes, without runs. false when the table is none. */
bool mr_huffman_make(struct mr_huffman *h, const JHUFF_TBL *t, bool dc);

/* The entry of a code longer than MR_HUFF_BITS, which is the highest of
 * `bits`; 0: there is no such code. */
uint32_t mr_huffman_long(const struct mr_huffman *h, uint64_t bits);

/* ---- bits ---- */

struct mr_bits {
	uint64_t bits; /* the next one is the highest */
	int have;
	const uint8_t *at, *end;
	bool over; /* more was read than there is */
};

enum { MR_BITS_SLACK = 16 }; /* zeros that must follow the data */

static inline void mr_bits_start(struct mr_bits *b, const uint8_t *data,
				 size_t n)
{
	*b = (struct mr_bits){ .at = data, .end = data + n };
}

/* Now there are 56 or more. */
static inline void mr_bits_fill(struct mr_bits *b)
{
	uint64_t v;

	memcpy(&v, b->at, sizeof(v));
	b->bits |= __builtin_bswap64(v) >> b->have;
	b->at += (63 - b->have) >> 3;
	b->have |= 56;
	if (__builtin_expect(b->at > b->end + 8, 0)) {
		b->at = b->end + 8;
		b->over = true;
	}
}

static inline void mr_bits_drop(struct mr_bits *b, int n)
{
	b->bits <<= n;
	b->have -= n;
}

static inline bool mr_bits_over(const struct mr_bits *b)
{
	return b->over || (b->at - b->end) * 8 > b->have;
}

/* The value that an entry's code is followed by, as JPEG stores it. */
static inline int mr_huff_value(uint32_t e, uint64_t bits)
{
	uint64_t v = bits << mr_huff_code(e);
	int size = mr_huff_size(e);

	return (int)(v >> 1 >> (63 - size)) - (int)((v >> 63 ^ 1) << size) +
	       (int)(v >> 63 ^ 1);
}

static inline uint32_t mr_huffman_next(const struct mr_huffman *h,
				       struct mr_bits *b)
{
	uint32_t e = h->look[b->bits >> (64 - MR_HUFF_BITS)];

	if (__builtin_expect(!e, 0)) {
		mr_bits_fill(b);
		e = mr_huffman_long(h, b->bits);
	}
	return e;
}

#endif
