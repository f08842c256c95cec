/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arena: memory taken piece by piece and given back all at once. For one
 * thread at a time. mr_arena_take() is in plugin.h.
 */
#ifndef MR_CORE_ARENA_H
#define MR_CORE_ARENA_H

#include "core/err.h"

struct mr_arena_block;

struct mr_arena {
	struct mr_arena_block *first, *at; /* at: the one being filled */
	size_t used;			   /* bytes of *at in use */
	size_t total;			   /* bytes of all blocks */
	size_t taken, max;		   /* since it was last empty */
	size_t whole; /* bytes of the first block, the next time */
};

/* max: bytes that may be taken until it is reset; the blocks they lie in may
 * be up to twice as large. */
void mr_arena_init(struct mr_arena *a, size_t max);
/* Forget all that was taken; the memory stays for the next round. */
void mr_arena_reset(struct mr_arena *a);
void mr_arena_fini(struct mr_arena *a);

/* Copy of n bytes of s, with a zero after them; NULL as mr_arena_take(). */
char *mr_arena_text(struct mr_arena *a, const char *s, size_t n);

#endif
