/* SPDX-License-Identifier: Apache-2.0 */
#include "core/arena.h"

#include "core/mem.h"

struct mr_arena_block {
	struct mr_arena_block *next;
	size_t size;
	_Alignas(MR_ALIGN) unsigned char data[];
};

enum { BLOCK = 1 << 16 };

void mr_arena_init(struct mr_arena *a, size_t max)
{
	*a = (struct mr_arena){ .max = max };
}

static void free_blocks(struct mr_arena *a)
{
	while (a->first) {
		struct mr_arena_block *b = a->first;

		a->first = b->next;
		free(b);
	}
	a->at = NULL;
	a->total = 0;
}

/* What took several blocks gets one the next time, so that rounds of about
 * the same need soon take the same memory again and again. */
void mr_arena_reset(struct mr_arena *a)
{
	if (a->first && a->first->next) {
		size_t more = a->taken + a->taken / 2;

		a->whole = mr_round_up(more < a->max ? more : a->max, MR_ALIGN);
		free_blocks(a);
	}
	a->at = a->first;
	a->used = a->taken = 0;
}

void mr_arena_fini(struct mr_arena *a)
{
	free_blocks(a);
	mr_arena_init(a, a->max);
}

/* The next block with room for n bytes, new where there is none. */
static struct mr_arena_block *block_for(struct mr_arena *a, size_t n)
{
	struct mr_arena_block **link = a->at ? &a->at->next : &a->first;
	struct mr_arena_block *b;
	size_t least = a->first ? BLOCK : a->whole > BLOCK ? a->whole : BLOCK;
	size_t size = n > least ? mr_round_up(n, MR_ALIGN) : least;

	while (*link && (*link)->size < n)
		link = &(*link)->next;
	if (*link)
		return *link;
	b = aligned_alloc(MR_ALIGN, sizeof(*b) + size);
	if (!b)
		return NULL;
	b->size = size;
	b->next = NULL;
	*link = b;
	a->total += size;
	return b;
}

void *mr_arena_take(struct mr_arena *a, size_t bytes)
{
	size_t n = mr_round_up(bytes ? bytes : 1, MR_ALIGN);
	void *p;

	/* Not by the blocks there are: what other rounds needed must not make
	 * a difference. */
	if (n < bytes || n > a->max - a->taken)
		return NULL;
	if (!a->at || a->at->size - a->used < n) {
		struct mr_arena_block *b = block_for(a, n);

		if (!b)
			return NULL;
		a->at = b;
		a->used = 0;
	}
	p = a->at->data + a->used;
	a->used += n;
	a->taken += n;
	return p;
}

char *mr_arena_text(struct mr_arena *a, const char *s, size_t n)
{
	char *p = mr_arena_take(a, n + 1);

	if (!p)
		return NULL;
	memcpy(p, s, n);
	p[n] = 0;
	return p;
}
