/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of tokens, and merging them within a piece of text. */
#include "op/bpe.h"

#include <assert.h>

#include "core/mem.h"

/* Pieces up to here are merged by looking at all pairs again and again,
 * which is fastest for words; longer ones by a heap, in n log n. */
enum { SHORT = MR_BPE_SHORT };

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
	mr_words_fini(&b->words);
	*b = (struct mr_bpe){ 0 };
}

size_t mr_bpe_size(const struct mr_bpe *b)
{
	return sizeof(*b) + (b->mask + 1) * sizeof(*b->pair) +
	       mr_words_size(&b->words);
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

/* ---- short pieces ---- */

struct pairs {
	uint32_t rank[SHORT]; /* of tokens i and i + 1 */
	int32_t id[SHORT];    /* what they make */
};

static size_t lowest(const struct pairs *s, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i + 1 < n; i++)
		if (s->rank[i] < s->rank[best])
			best = i;
	return best;
}

/* Tokens i and i + 1 become one; n is the number before. */
static void join(const struct mr_bpe *b, struct pairs *s, int32_t *t, size_t n,
		 size_t i)
{
	size_t rest = n - i - 2;

	t[i] = s->id[i];
	memmove(t + i + 1, t + i + 2, rest * sizeof(*t));
	memmove(s->rank + i, s->rank + i + 1, rest * sizeof(*s->rank));
	memmove(s->id + i, s->id + i + 1, rest * sizeof(*s->id));
	if (rest)
		s->rank[i] = look(b, t[i], t[i + 1], &s->id[i]);
	if (i)
		s->rank[i - 1] = look(b, t[i - 1], t[i], &s->id[i - 1]);
}

static size_t merge_short(const struct mr_bpe *b, int32_t *t, size_t n)
{
	struct pairs s;

	for (size_t i = 0; i + 1 < n; i++)
		s.rank[i] = look(b, t[i], t[i + 1], &s.id[i]);
	while (n > 1) {
		size_t i = lowest(&s, n);
		uint32_t rank = s.rank[i];

		if (rank == MR_BPE_NONE)
			break;
		join(b, &s, t, n--, i);
		for (i++; !b->one_by_one && i + 1 < n; i++)
			if (s.rank[i] == rank)
				join(b, &s, t, n--, i);
	}
	return n;
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

int mr_bpe_piece(const struct mr_bpe *b, struct mr_bpe_room *room,
		 const uint8_t *piece, size_t n, int32_t *to, size_t *count,
		 struct mr_err *err)
{
	if (b->words.count) {
		*to = mr_words_find(&b->words, piece, n);
		*count = 1;
		if (*to >= 0)
			return 0;
	}
	for (size_t i = 0; i < n; i++)
		to[i] = b->byte[piece[i]];
	*count = n;
	if (n > SHORT)
		return merge_long(b, room, to, count, err);
	*count = merge_short(b, to, n);
	return 0;
}
