/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of tokens, and merging them within a piece of text. */
#include "op/bpe.h"

#include <assert.h>

#include "core/mem.h"

/* Pieces up to here are merged by looking at all pairs again and again,
 * which is fastest for words; longer ones by a heap, in n log n. */
enum { SHORT = MR_BPE_SHORT, BYTE_PAIRS = 256 * 256 };

/* ---- the table of pairs ---- */

int mr_bpe_room(struct mr_bpe *b, size_t max, struct mr_err *err)
{
	size_t slots = 16;

	for (b->shift = 60; slots < 2 * max; b->shift--)
		slots *= 2;
	b->pair = mr_alloc(slots, sizeof(*b->pair), err);
	if (!b->pair)
		return MR_ENOMEM;
	for (size_t i = 0; i < slots; i++)
		b->pair[i].key = MR_BPE_EMPTY;
	b->mask = slots - 1;
	return 0;
}

/* The slot that the pair has, or would have. */
static inline struct mr_bpe_pair *find(const struct mr_bpe *b, int32_t left,
				       int32_t right)
{
	uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	size_t i = (key ^ key >> 29) * 0x9e3779b97f4a7c15u >> b->shift;

	while (b->pair[i].key != key && b->pair[i].key != MR_BPE_EMPTY)
		i = (i + 1) & b->mask;
	return &b->pair[i];
}

bool mr_bpe_add(struct mr_bpe *b, int32_t left, int32_t right, uint32_t rank,
		int32_t id)
{
	struct mr_bpe_pair *p = find(b, left, right);

	if (p->key != MR_BPE_EMPTY)
		return false;
	assert(2 * b->pairs <= b->mask);
	p->key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	p->rank = rank;
	p->id = id;
	b->pairs++;
	return true;
}

void mr_bpe_close(struct mr_bpe *b)
{
	free(b->pair);
	free(b->first);
	mr_words_fini(&b->words);
	mr_shorts_fini(&b->shorts);
	*b = (struct mr_bpe){ 0 };
}

size_t mr_bpe_size(const struct mr_bpe *b)
{
	return sizeof(*b) + (b->mask + 1) * sizeof(*b->pair) +
	       mr_words_size(&b->words) + mr_shorts_size(&b->shorts) +
	       (b->first ? BYTE_PAIRS * sizeof(*b->first) : 0);
}

/* What the two tokens make: the rank, or MR_BPE_NONE. */
static inline uint32_t look(const struct mr_bpe *b, int32_t left, int32_t right,
			    int32_t *id)
{
	const struct mr_bpe_pair *p = find(b, left, right);

	if (p->key == MR_BPE_EMPTY)
		return MR_BPE_NONE;
	*id = p->id;
	return p->rank;
}

int mr_bpe_index(struct mr_bpe *b, struct mr_err *err)
{
	int e = mr_shorts_init(&b->shorts, b->words.count, err);

	if (!b->split)
		b->split = mr_text_piece;
	if (e)
		return e;
	for (size_t i = 0; i < b->words.count; i++) {
		const struct mr_word *x = &b->words.word[i];

		if (x->length <= MR_SHORT_WORD)
			mr_shorts_add(&b->shorts, b->words.bytes + x->at,
				      x->length, x->id);
	}
	b->first = mr_alloc(BYTE_PAIRS, sizeof(*b->first), err);
	if (!b->first)
		return MR_ENOMEM;
	for (int i = 0; i < BYTE_PAIRS; i++)
		b->first[i].rank = look(b, b->byte[i >> 8], b->byte[i & 255],
					&b->first[i].id);
	return 0;
}

/* ---- short pieces ---- */

/*
 * Tokens at the places of their first bytes. Nothing is moved when two become
 * one: the second's place stays behind, without a rank.
 */
struct row {
	uint32_t rank[SHORT]; /* of the pair that begins here */
	int32_t made[SHORT];  /* what it makes */
	uint8_t prev[SHORT], next[SHORT];
};

static void look_bytes(const struct mr_bpe *b, struct row *s, const uint8_t *p,
		       const int32_t *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		s->prev[i] = (uint8_t)(i - 1);
		s->next[i] = (uint8_t)(i + 1);
	}
	for (size_t i = 0; i + 1 < n; i++) {
		if (b->first) {
			struct mr_bpe_made m = b->first[p[i] << 8 | p[i + 1]];

			s->rank[i] = m.rank;
			s->made[i] = m.id;
		} else {
			s->rank[i] = look(b, t[i], t[i + 1], &s->made[i]);
		}
	}
	s->rank[n - 1] = MR_BPE_NONE;
}

static size_t lowest(const struct row *s, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		best = s->rank[i] < s->rank[best] ? i : best;
	return best;
}

/* The token at i and the one after it become one. */
static void join(const struct mr_bpe *b, struct row *s, int32_t *t, size_t n,
		 size_t i)
{
	size_t gone = s->next[i], after = s->next[gone];

	t[i] = s->made[i];
	s->next[i] = (uint8_t)after;
	s->rank[gone] = s->rank[i] = MR_BPE_NONE;
	if (after < n) {
		s->prev[after] = (uint8_t)i;
		s->rank[i] = look(b, t[i], t[after], &s->made[i]);
	}
	if (i) {
		size_t k = s->prev[i];

		s->rank[k] = look(b, t[k], t[i], &s->made[k]);
	}
}

static size_t merge_short(const struct mr_bpe *b, const uint8_t *p, int32_t *t,
			  size_t n)
{
	size_t out = 0;
	struct row s;

	look_bytes(b, &s, p, t, n);
	for (;;) {
		size_t i = lowest(&s, n);
		uint32_t rank = s.rank[i];

		if (rank == MR_BPE_NONE)
			break;
		join(b, &s, t, n, i);
		for (i++; !b->one_by_one && i < n; i++)
			if (s.rank[i] == rank)
				join(b, &s, t, n, i);
	}
	for (size_t i = 0; i < n; i = s.next[i])
		t[out++] = t[i];
	return out;
}

/* ---- long pieces ---- */

/*
 * A list of tokens by the places of their first bytes, and a heap of pairs,
 * rank << 32 | place. A pair whose rank is no longer that of its place is
 * void: its tokens have become part of others.
 */
struct list {
	int32_t *token, *made;
	uint32_t *rank, *prev, *next, *turn;
	uint64_t *heap;
	size_t heaped;
};

enum {
	/* Each merge makes two pairs at most: 3 n of them in all. */
	PER_BYTE = 3 * sizeof(uint64_t) + 6 * sizeof(uint32_t)
};

static int take_list(struct list *l, struct mr_bpe_room *room, size_t n,
		     struct mr_err *err)
{
	size_t bytes = n * PER_BYTE;

	if (room->bytes < bytes) {
		room->memory = mr_arena_take(room->scratch, bytes);
		room->bytes = room->memory ? bytes : 0;
	}
	if (!room->memory)
		return mr_err_set(err, MR_ELIMIT,
				  "a piece of %zu bytes without a break takes "
				  "%zu bytes to encode; raise --memory, or "
				  "split the text",
				  n, bytes);
	l->heap = room->memory;
	l->rank = (uint32_t *)(l->heap + 3 * n);
	l->prev = l->rank + n;
	l->next = l->prev + n;
	l->turn = l->next + n;
	l->token = (int32_t *)(l->turn + n);
	l->made = l->token + n;
	l->heaped = 0;
	return 0;
}

static void heap_push(struct list *l, uint64_t v)
{
	size_t i = l->heaped++;

	for (; i && l->heap[(i - 1) / 2] > v; i = (i - 1) / 2)
		l->heap[i] = l->heap[(i - 1) / 2];
	l->heap[i] = v;
}

static uint64_t heap_pop(struct list *l)
{
	uint64_t top = l->heap[0], v = l->heap[--l->heaped];
	size_t i = 0;

	for (;;) {
		size_t c = 2 * i + 1;

		if (c + 1 < l->heaped && l->heap[c + 1] < l->heap[c])
			c++;
		if (c >= l->heaped || l->heap[c] >= v)
			break;
		l->heap[i] = l->heap[c];
		i = c;
	}
	l->heap[i] = v;
	return top;
}

/* The pair that begins at i has changed. */
static void pair_at(const struct mr_bpe *b, struct list *l, size_t n, size_t i)
{
	l->rank[i] = l->next[i] < n ? look(b, l->token[i], l->token[l->next[i]],
					   &l->made[i]) :
				      MR_BPE_NONE;
	if (l->rank[i] != MR_BPE_NONE)
		heap_push(l, (uint64_t)l->rank[i] << 32 | i);
}

static void join_at(const struct mr_bpe *b, struct list *l, size_t n, size_t i)
{
	uint32_t gone = l->next[i];

	l->token[i] = l->made[i];
	l->next[i] = l->next[gone];
	l->rank[gone] = MR_BPE_NONE;
	if (l->next[i] < n)
		l->prev[l->next[i]] = (uint32_t)i;
	pair_at(b, l, n, i);
	if (i)
		pair_at(b, l, n, l->prev[i]);
}

/* Places of the lowest rank into l->turn: all of them, or the first. */
static size_t next_turn(const struct mr_bpe *b, struct list *l, uint32_t *rank)
{
	size_t k = 0;

	*rank = (uint32_t)(l->heap[0] >> 32);
	do {
		uint32_t at = (uint32_t)heap_pop(l);

		/* the same pair may be in the heap twice */
		if (l->rank[at] == *rank && (!k || l->turn[k - 1] != at))
			l->turn[k++] = at;
	} while (l->heaped && l->heap[0] >> 32 == *rank &&
		 !(b->one_by_one && k));
	return k;
}

static int merge_long(const struct mr_bpe *b, struct mr_bpe_room *room,
		      int32_t *t, size_t *count, struct mr_err *err)
{
	size_t n = *count, k, out = 0;
	struct list l = { 0 };
	uint32_t rank;
	int e = take_list(&l, room, n, err);

	if (e)
		return e;
	for (size_t i = 0; i < n; i++) {
		l.token[i] = t[i];
		l.prev[i] = (uint32_t)i - 1;
		l.next[i] = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < n; i++)
		pair_at(b, &l, n, i);
	while (l.heaped) {
		k = next_turn(b, &l, &rank);
		for (size_t i = 0; i < k; i++)
			if (l.rank[l.turn[i]] == rank)
				join_at(b, &l, n, l.turn[i]);
	}
	for (size_t i = 0; i < n; i = l.next[i])
		t[out++] = l.token[i];
	*count = out;
	return 0;
}

int mr_bpe_merge(const struct mr_bpe *b, struct mr_bpe_room *room,
		 const uint8_t *piece, size_t n, int32_t *to, size_t *count,
		 struct mr_err *err)
{
	for (size_t i = 0; i < n; i++)
		to[i] = b->byte[piece[i]];
	*count = n;
	if (n > SHORT)
		return merge_long(b, room, to, count, err);
	*count = merge_short(b, piece, to, n);
	return 0;
}

int mr_bpe_piece(const struct mr_bpe *b, struct mr_bpe_room *room,
		 const uint8_t *piece, size_t n, int32_t *to, size_t *count,
		 struct mr_err *err)
{
	*to = -1;
	*count = 1;
	if (n <= MR_SHORT_WORD && b->shorts.line) {
		struct mr_short_key k = mr_short_key(piece, n, n);

		*to = mr_shorts_find(&b->shorts, k, mr_short_hash(k), n);
	} else if (b->words.count) {
		*to = mr_words_find(&b->words, piece, n);
	}
	return *to >= 0 ? 0 : mr_bpe_merge(b, room, piece, n, to, count, err);
}
