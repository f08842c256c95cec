/* SPDX-License-Identifier: Apache-2.0 */
#include "op/huffman.h"

/* 0: a symbol that means nothing. */
static uint32_t entry(const struct mr_huffman *h, int symbol, int len)
{
	int size = symbol & 15, go = (symbol >> 4) + 1;

	if (h->dc && symbol > 11)
		return 0;
	if (!h->dc && symbol == 0)
		go = MR_HUFF_END;
	else if (!h->dc && !size && symbol != 0xf0)
		return 0;
	return (uint32_t)(len << 20 | size << 16 | go << 8 | (len + size));
}

/* Two symbols, if the second one's code is in sight. */
static void pair_up(struct mr_huffman *h)
{
	for (uint32_t i = 0; i < MR_HUFF_SIZE; i++) {
		uint32_t e = h->look[i], next = 0;
		int drop = mr_huff_drop(e), go = mr_huff_go(e);

		if (e && go < MR_HUFF_END && drop < MR_HUFF_BITS)
			next = h->look[i << drop & (MR_HUFF_SIZE - 1)];
		if (next && drop + mr_huff_code(next) <= MR_HUFF_BITS) {
			drop += mr_huff_drop(next);
			go += mr_huff_go(next);
		}
		h->skip[i] = (uint16_t)(go << 8 | drop);
	}
}

static bool build(struct mr_huffman *h)
{
	uint32_t code = 0;
	int k = 0;

	memset(h->look, 0, sizeof(h->look));
	for (int len = 1; len <= 16; len++, code <<= 1) {
		h->first[len] = k - (int32_t)code;
		for (int i = 0; i < h->bits[len]; i++, code++, k++) {
			int free = MR_HUFF_BITS - len;
			uint32_t e;

			/* too many of this length or in all, or the one of
			 * ones only, which is kept free; no size */
			if (code + 1 >= 1u << len || k > 255 ||
			    (h->dc && h->values[k] > 15))
				return false;
			e = entry(h, h->values[k], len);
			for (uint32_t r = 0; free >= 0 && r < 1u << free; r++)
				h->look[code << free | r] = e;
		}
		h->last[len] = h->bits[len] ? (int32_t)code - 1 : -1;
	}
	pair_up(h);
	return true;
}

bool mr_huffman_make(struct mr_huffman *h, const JHUFF_TBL *t, bool dc)
{
	if (h->made && h->dc == dc &&
	    !memcmp(h->bits, t->bits, sizeof(h->bits)) &&
	    !memcmp(h->values, t->huffval, sizeof(h->values)))
		return true;
	memcpy(h->bits, t->bits, sizeof(h->bits));
	memcpy(h->values, t->huffval, sizeof(h->values));
	h->dc = dc;
	h->made = build(h);
	return h->made;
}

uint32_t mr_huffman_long(const struct mr_huffman *h, uint64_t bits)
{
	for (int len = 1; len <= 16; len++) {
		int32_t code = (int32_t)(bits >> (64 - len));

		if (code <= h->last[len])
			return entry(h, h->values[code + h->first[len]], len);
	}
	return 0;
}
