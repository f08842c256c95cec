/* SPDX-License-Identifier: Apache-2.0 */
#include "op/huffman.h"

/* ---- tables ---- */

/* What `code`, of len bits, and the bits after it say. */
static uint32_t ac_entry(int symbol, int len, uint32_t rest)
{
	int run = symbol >> 4, size = symbol & 15, v;

	if (symbol == 0x00)
		return (uint32_t)(MR_HUFF_EOB << 8 | len);
	if (symbol == 0xf0)
		return (uint32_t)(MR_HUFF_ZRL << 8 | len);
	if (!size || len + size > MR_HUFF_BITS)
		return MR_HUFF_LONG << 8;
	v = (int)(rest >> (MR_HUFF_BITS - len - size));
	if (!(v >> (size - 1)))
		v -= (1 << size) - 1;
	return (uint32_t)v << 16 | (uint32_t)(run << 8 | (len + size));
}

static uint16_t skip_entry(int symbol, int len)
{
	int run = symbol >> 4, size = symbol & 15;

	if (symbol == 0x00)
		run = 63; /* to the end, and past it */
	else if (!size && symbol != 0xf0)
		return 0; /* means nothing in a baseline file */
	return (uint16_t)((run + 1) << 8 | (len + size));
}

/* All that begins with `code` of len bits. */
static void enter(struct mr_huffman *h, uint32_t code, int len, int symbol)
{
	int free = MR_HUFF_BITS - len;

	for (uint32_t rest = 0; rest < 1u << free; rest++) {
		uint32_t at = code << free | rest;

		h->ac[at] = ac_entry(symbol, len, rest);
		h->skip[at] = skip_entry(symbol, len);
		h->look[at] = (uint16_t)(symbol << 8 | len);
	}
}

static bool build(struct mr_huffman *h)
{
	uint32_t code = 0;
	int k = 0;

	for (int i = 0; i < MR_HUFF_SIZE; i++) {
		h->ac[i] = MR_HUFF_LONG << 8;
		h->skip[i] = h->look[i] = 0;
	}
	for (int len = 1; len <= 16; len++, code <<= 1) {
		h->first[len] = k - (int32_t)code;
		for (int i = 0; i < h->bits[len]; i++, code++, k++) {
			/* too many of this length, or in all */
			if (code >= 1u << len || k > 255)
				return false;
			h->symbol[k] = h->values[k];
			if (len <= MR_HUFF_BITS)
				enter(h, code, len, h->values[k]);
		}
		h->last[len] = h->bits[len] ? (int32_t)code - 1 : -1;
	}
	return true;
}

bool mr_huffman_make(struct mr_huffman *h, const JHUFF_TBL *t)
{
	if (h->made && !memcmp(h->bits, t->bits, sizeof(h->bits)) &&
	    !memcmp(h->values, t->huffval, sizeof(h->values)))
		return true;
	memcpy(h->bits, t->bits, sizeof(h->bits));
	memcpy(h->values, t->huffval, sizeof(h->values));
	h->made = build(h);
	return h->made;
}

int mr_huffman_long(const struct mr_huffman *h, struct mr_bits *b)
{
	for (int len = MR_HUFF_BITS + 1; len <= 16; len++) {
		int32_t code = (int32_t)mr_bits_peek(b, len);

		if (code <= h->last[len]) {
			mr_bits_drop(b, len);
			return h->symbol[code + h->first[len]];
		}
	}
	return -1;
}

/* ---- bits ---- */

void mr_bits_start(struct mr_bits *b, const uint8_t *at, const uint8_t *end)
{
	*b = (struct mr_bits){ .at = at, .end = end };
}

/* Byte by byte: ff 00 is a byte ff, anything else after ff ends the data. */
void mr_bits_fill_slowly(struct mr_bits *b)
{
	while (b->have <= 56) {
		uint64_t byte = 0;

		if (b->at < b->end && *b->at != 0xff) {
			byte = *b->at++;
		} else if (b->end - b->at >= 2 && b->at[1] == 0) {
			byte = 0xff;
			b->at += 2;
		} else {
			b->fake += 8;
		}
		b->bits |= byte << (56 - b->have);
		b->have += 8;
	}
}

bool mr_bits_restart(struct mr_bits *b)
{
	const uint8_t *at = b->at;

	/* All bits before the marker are used, but for those that fill up a
	 * byte. */
	if (b->have - b->fake > 7 || mr_bits_over(b))
		return false;
	while (b->end - at > 2 && at[0] == 0xff && at[1] == 0xff)
		at++;
	if (b->end - at < 2 || at[0] != 0xff || at[1] < 0xd0 || at[1] > 0xd7)
		return false;
	mr_bits_start(b, at + 2, b->end);
	return true;
}
