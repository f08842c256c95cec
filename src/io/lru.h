/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The books of a cache that evicts what was used longest ago: which keys it
 * would hold, by their bytes. It holds no data. For one thread at a time.
 */
#ifndef MR_IO_LRU_H
#define MR_IO_LRU_H

#include "core/err.h"

struct mr_lru_node;

struct mr_lru {
	uint64_t max, bytes; /* may be held, and are */
	struct mr_lru_node *node;
	uint32_t nodes, cap;
	uint32_t *bucket; /* heads of chains, a power of two of them */
	uint32_t buckets;
	uint32_t newest, oldest, free; /* lists in `node`; 0: none */
};

void mr_lru_init(struct mr_lru *c, uint64_t max);
void mr_lru_fini(struct mr_lru *c);

/*
 * Was the key held, with as many bytes? It is the newest from now on, and
 * others give way to it. What is larger than the cache does not enter; nor
 * does anything more when the system gives no memory.
 */
bool mr_lru_touch(struct mr_lru *c, uint64_t key, uint64_t bytes);

#endif
