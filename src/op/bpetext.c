/* SPDX-License-Identifier: Apache-2.0 */
/* Texts piece by piece, with a memory of pieces: most words come again. */
#include "core/le.h"
#include "core/mem.h"
#include "op/bpe.h"
#include "op/textsplit.h"

/* ---- the memory ---- */

enum { WORDS = 3, LONGEST = 8 * WORDS, IDS = 8 };

/* One line of the processor's cache. */
struct entry {
	uint64_t key[WORDS]; /* the piece, zeros behind it */
	int32_t id[IDS];
	uint8_t length, count; /* length 0: empty */
	uint8_t rest[6];
};

struct mr_bpe_cache {
	struct entry *entry; /* in twos: the newer, the older */
	int shift;
};

_Static_assert(sizeof(struct entry) == MR_ALIGN, "an entry is a line");

struct mr_bpe_cache *mr_bpe_cache_new(size_t bytes, struct mr_err *err)
{
	struct mr_bpe_cache *c = mr_alloc(1, sizeof(*c), err);
	size_t twos = 2;

	if (!c)
		return NULL;
	for (c->shift = 63; 4 * twos * sizeof(struct entry) <= bytes; twos *= 2)
		c->shift--;
	c->entry = mr_alloc_aligned(2 * twos * sizeof(struct entry), err);
	if (c->entry)
		return c;
	free(c);
	return NULL;
}

void mr_bpe_cache_free(struct mr_bpe_cache *c)
{
	if (c)
		free(c->entry);
	free(c);
}

/* The piece as numbers; `left` bytes may be read, which saves a copy. */
static inline void key_of(uint64_t *key, const uint8_t *p, size_t n,
			  size_t left)
{
	uint8_t copy[LONGEST] = { 0 };

	if (left < LONGEST) {
		memcpy(copy, p, n);
		p = copy;
	}
	for (size_t i = 0; i < WORDS; i++) {
		uint64_t v = mr_le64(p + 8 * i);
		size_t have = n > 8 * i ? n - 8 * i : 0;

		if (have < 8)
			v &= ((uint64_t)1 << 8 * have) - 1;
		key[i] = v;
	}
}

static inline uint64_t hash(const uint64_t *key, size_t n)
{
	uint64_t h = (key[0] ^ n) * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 32 ^ key[1]) * 0xbf58476d1ce4e5b9u;
	return (h ^ h >> 29 ^ key[2]) * 0x94d049bb133111ebu;
}

static inline bool is(const struct entry *e, const uint64_t *key, size_t n)
{
	return e->length == n && e->key[0] == key[0] && e->key[1] == key[1] &&
	       e->key[2] == key[2];
}

static void remember(struct entry *two, const uint64_t *key, size_t n,
		     const int32_t *id, size_t count)
{
	if (count > IDS)
		return;
	two[1] = two[0];
	two->length = (uint8_t)n;
	two->count = (uint8_t)count;
	memcpy(two->key, key, sizeof(two->key));
	memcpy(two->id, id, count * sizeof(*id));
}

/* ---- texts ---- */

static int known_piece(const struct mr_bpe *b, struct mr_bpe_cache *c,
		       struct mr_bpe_room *room, const uint8_t *p, size_t n,
		       size_t left, int32_t *to, size_t *count,
		       struct mr_err *err)
{
	struct entry *two, *e;
	uint64_t key[WORDS];
	int fault;

	key_of(key, p, n, left);
	two = c->entry + 2 * (hash(key, n) >> c->shift);
	e = is(two, key, n) ? two : is(two + 1, key, n) ? two + 1 : NULL;
	if (e) {
		*count = e->count;
		for (size_t i = 0; i < e->count; i++)
			to[i] = e->id[i];
		return 0;
	}
	fault = mr_bpe_piece(b, room, p, n, to, count, err);
	if (!fault)
		remember(two, key, n, to, *count);
	return fault;
}

int mr_bpe_encode(const struct mr_bpe *b, struct mr_bpe_cache *cache,
		  struct mr_arena *scratch, const uint8_t *text, size_t n,
		  int32_t *to, size_t *count, struct mr_err *err)
{
	struct mr_bpe_room room = { .scratch = scratch };
	size_t at = 0, done = 0, more = 0;
	int e = 0;

	while (at < n && !e) {
		size_t left = n - at, length = mr_text_piece(text + at, left);

		if (length == 1) {
			to[done] = b->byte[text[at]];
			more = 1;
		} else if (cache && length <= LONGEST) {
			e = known_piece(b, cache, &room, text + at, length,
					left, to + done, &more, err);
		} else {
			e = mr_bpe_piece(b, &room, text + at, length, to + done,
					 &more, err);
		}
		at += length;
		done += more;
	}
	*count = done;
	return e;
}
