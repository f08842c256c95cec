/* SPDX-License-Identifier: Apache-2.0 */
/* Texts piece by piece, with a memory of pieces: most words come again. */

#include "core/hash.h"
#include "core/le.h"
#include "core/mem.h"
#include "op/bpe.h"

/* ---- the memory ---- */

/*
 * What it takes is mostly waiting for the processor's caches. So common words
 * have small entries, of which two, a newer and an older one, share a line;
 * what does not fit there has larger ones, in twos as well.
 */
enum {
	BRIEF_BYTES = MR_SHORT_WORD,
	BRIEF_IDS = 3,
	LONG_BYTES = 48,
	LONG_IDS = 19
};

struct brief {
	struct mr_short_key key;
	int32_t id[BRIEF_IDS];
	uint8_t length, count; /* length 0: empty */
	uint8_t rest[2];
};

struct longer {
	uint8_t key[LONG_BYTES];
	int32_t id[LONG_IDS];
	uint8_t length, count;
	uint8_t rest[2];
};

_Static_assert(2 * sizeof(struct brief) == MR_ALIGN, "two make a line");
_Static_assert(sizeof(struct longer) == 2 * MR_ALIGN, "one is two lines");

struct mr_bpe_cache {
	struct brief *brief;
	struct longer *longer;
	int brief_shift, long_shift;
};

struct mr_bpe_cache *mr_bpe_cache_new(size_t bytes, struct mr_err *err)
{
	struct mr_bpe_cache *c = mr_alloc(1, sizeof(*c), err);
	size_t half = 4 * MR_ALIGN;

	if (!c)
		return NULL;
	for (c->long_shift = 64; 4 * half <= bytes; half *= 2)
		c->long_shift--;
	/* twos of a quarter of the size: four times as many */
	c->brief_shift = c->long_shift - 2;
	c->brief = mr_alloc_aligned(2 * half, err);
	if (!c->brief) {
		free(c);
		return NULL;
	}
	c->longer = (struct longer *)((char *)c->brief + half);
	return c;
}

void mr_bpe_cache_free(struct mr_bpe_cache *c)
{
	if (c)
		free(c->brief);
	free(c);
}

static inline struct brief *brief_two(const struct mr_bpe_cache *c,
				      uint64_t hash)
{
	return c->brief + 2 * (hash >> c->brief_shift);
}

static inline bool is(const struct brief *e, struct mr_short_key key, size_t n)
{
	return e->key.a == key.a && e->key.b == key.b && e->length == n;
}

static struct longer *long_two(const struct mr_bpe_cache *c, const uint8_t *p,
			       size_t n)
{
	/* by two shifts, as there may be a single two */
	return c->longer + 2 * (XXH3_64bits(p, n) >> 1 >> (c->long_shift - 1));
}

static const struct longer *recall(const struct longer *two, const uint8_t *p,
				   size_t n)
{
	for (int i = 0; i < 2; i++)
		if (two[i].length == n && !memcmp(two[i].key, p, n))
			return &two[i];
	return NULL;
}

static void remember(struct longer *two, const uint8_t *p, size_t n,
		     const int32_t *id, size_t count)
{
	if (count > LONG_IDS)
		return;
	two[1] = two[0];
	two->length = (uint8_t)n;
	two->count = (uint8_t)count;
	memcpy(two->key, p, n);
	memcpy(two->id, id, count * sizeof(*id));
}

static void remember_brief(struct brief *two, struct mr_short_key key, size_t n,
			   const int32_t *id, size_t count)
{
	two[1] = two[0];
	two->length = (uint8_t)n;
	two->count = (uint8_t)count;
	two->key = key;
	memcpy(two->id, id, count * sizeof(*id));
}

/* ---- texts ---- */

struct encoder {
	const struct mr_bpe *bpe;
	struct mr_bpe_cache *cache;
	struct mr_bpe_room room;
	struct mr_err *err;
};

/* A piece that is no short token. */
static int make_piece(struct encoder *x, const uint8_t *p, size_t n,
		      int32_t *to, size_t *count)
{
	return n > BRIEF_BYTES ?
		       mr_bpe_piece(x->bpe, &x->room, p, n, to, count, x->err) :
		       mr_bpe_merge(x->bpe, &x->room, p, n, to, count, x->err);
}

static int long_piece(struct encoder *x, const uint8_t *p, size_t n,
		      int32_t *to, size_t *count)
{
	struct longer *two;
	const struct longer *e;
	int fault;

	if (n > LONG_BYTES || !x->cache)
		return make_piece(x, p, n, to, count);
	two = long_two(x->cache, p, n);
	e = recall(two, p, n);
	if (e) {
		*count = e->count;
		memcpy(to, e->id, e->count * sizeof(*to));
		return 0;
	}
	fault = make_piece(x, p, n, to, count);
	if (!fault && (n > BRIEF_BYTES || *count > BRIEF_IDS))
		remember(two, p, n, to, *count);
	return fault;
}

static int brief_piece(struct encoder *x, const uint8_t *p, size_t n,
		       struct mr_short_key key, uint64_t hash, int32_t *to,
		       size_t *count)
{
	struct brief *two, *e;
	int fault;

	if (!x->cache)
		return make_piece(x, p, n, to, count);
	two = brief_two(x->cache, hash);
	e = two + !is(two, key, n);
	if (is(e, key, n)) {
		*count = e->count;
		to[0] = e->id[0];
		for (size_t i = 1; i < e->count; i++)
			to[i] = e->id[i];
		return 0;
	}
	fault = long_piece(x, p, n, to, count);
	if (!fault && *count <= BRIEF_IDS)
		remember_brief(two, key, n, to, *count);
	return fault;
}

/* Most pieces of a text are tokens: a look at the vocabulary, which knows
 * them from the start. */
static inline int any_piece(struct encoder *x, const uint8_t *p, size_t n,
			    size_t left, int32_t *to, size_t *count)
{
	struct mr_short_key key;
	uint64_t hash;

	if (n > BRIEF_BYTES)
		return long_piece(x, p, n, to, count);
	key = mr_short_key(p, n, left);
	hash = mr_short_hash(key);
	*to = mr_shorts_find(&x->bpe->shorts, key, hash, n);
	*count = 1;
	return *to >= 0 ? 0 : brief_piece(x, p, n, key, hash, to, count);
}

int mr_bpe_encode(const struct mr_bpe *b, struct mr_bpe_cache *cache,
		  struct mr_arena *scratch, const uint8_t *text, size_t n,
		  int32_t *to, size_t *count, struct mr_err *err)
{
	struct encoder x = { b, cache, { .scratch = scratch }, err };
	size_t at = 0, more = 0;
	int e = 0;

	*count = 0;
	while (at < n && !e) {
		size_t left = n - at;
		size_t length = mr_text_next(text + at, left, b->split);

		e = any_piece(&x, text + at, length, left, to + *count, &more);
		at += length;
		*count += more;
	}
	return e;
}
