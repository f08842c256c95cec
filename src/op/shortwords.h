/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table from words of up to 16 bytes to numbers, made once and then only
 * read: as a rule one line of the processor's cache per look.
 */
#ifndef MR_OP_SHORTWORDS_H
#define MR_OP_SHORTWORDS_H

#include "core/le.h"
#include "core/mem.h"

enum { MR_SHORT_WORD = 16, MR_SHORT_VALUES = 1 << 24 };

/* A word's bytes as numbers, filled up with zeros: with its length they are
 * the word. */
struct mr_short_key {
	uint64_t a, b;
};

enum { MR_SHORT_LINE = 3 };

struct mr_short_line {
	struct mr_short_key key[MR_SHORT_LINE];
	uint32_t value[MR_SHORT_LINE]; /* length << 24 | number; 0: empty */
	uint32_t rest;
};

struct mr_shorts {
	struct mr_short_line *line;
	size_t mask;
	int shift;
};

/* Room for `max` words. */
int mr_shorts_init(struct mr_shorts *t, size_t max, struct mr_err *err);
void mr_shorts_fini(struct mr_shorts *t);
/* 1 <= n <= MR_SHORT_WORD, 0 <= number < MR_SHORT_VALUES; not there yet. */
void mr_shorts_add(struct mr_shorts *t, const uint8_t *p, size_t n, int number);
size_t mr_shorts_size(const struct mr_shorts *t);

/* Bytes of a number that are part of the word, n <= 8. */
static inline uint64_t mr_short_mask(size_t n)
{
	return n < 8 ? ((uint64_t)1 << 8 * n) - 1 : UINT64_MAX;
}

/* n <= MR_SHORT_WORD; `left` >= n bytes may be read, which saves a copy. */
static inline struct mr_short_key mr_short_key(const uint8_t *p, size_t n,
					       size_t left)
{
	uint8_t copy[MR_SHORT_WORD] = { 0 };
	size_t second = n > 8 ? n - 8 : 0;

	if (left < sizeof(copy)) {
		memcpy(copy, p, n);
		p = copy;
	}
	return (struct mr_short_key){ mr_le64(p) & mr_short_mask(n - second),
				      mr_le64(p + 8) & mr_short_mask(second) };
}

static inline uint64_t mr_short_hash(struct mr_short_key k)
{
	uint64_t h = k.a * 0x9e3779b97f4a7c15u;

	return (h ^ h >> 32 ^ k.b) * 0xbf58476d1ce4e5b9u;
}

/* Its number, or -1. */
static inline int32_t mr_shorts_find(const struct mr_shorts *t,
				     struct mr_short_key k, uint64_t hash,
				     size_t n)
{
	for (size_t i = hash >> t->shift;; i = (i + 1) & t->mask) {
		const struct mr_short_line *l = &t->line[i];
		uint32_t found = 0;

		/* No branch for each: which of them it is, nobody can guess. */
		for (int j = 0; j < MR_SHORT_LINE; j++) {
			uint64_t other = (l->key[j].a ^ k.a) |
					 (l->key[j].b ^ k.b) |
					 (l->value[j] >> 24 ^ n);

			found |= other ? 0 : l->value[j];
		}
		if (found)
			return (int32_t)(found & (MR_SHORT_VALUES - 1));
		if (!l->value[MR_SHORT_LINE - 1])
			return -1;
	}
}

#endif
