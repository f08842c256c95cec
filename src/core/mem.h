/* SPDX-License-Identifier: Apache-2.0 */
/* Heap memory: sizes are checked, failure fills *err. Free with free(). */
#ifndef MR_CORE_MEM_H
#define MR_CORE_MEM_H

#include <stdlib.h>

#include "core/err.h"

#define MR_ALIGN    64
#define MR_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Zeroed memory for n objects of `size` bytes; NULL on failure. n = 0 gives
 * a valid pointer. */
void *mr_alloc(size_t n, size_t size, struct mr_err *err);

/*
 * Make room for at least `need` objects in the growing array *p of *cap
 * objects; grows by half. Contents are kept. `max` objects at most: MR_ELIMIT.
 */
int mr_grow(void *p, size_t *cap, size_t need, size_t size, size_t max,
	    struct mr_err *err);

char *mr_strdup(const char *s, struct mr_err *err);

/* Zeroed, MR_ALIGN-aligned; for objects that threads share. */
void *mr_alloc_aligned(size_t bytes, struct mr_err *err);

/* Zeroed pages of their own, which take no memory until they are touched. */
void *mr_map(size_t bytes, struct mr_err *err);
void mr_unmap(void *p, size_t bytes); /* NULL is allowed */

static inline size_t mr_round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

#endif
