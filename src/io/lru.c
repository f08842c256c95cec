/* SPDX-License-Identifier: Apache-2.0 */
#include "io/lru.h"

#include "core/mem.h"
#include "core/rng.h"

enum { NODES_MAX = 1 << 30, FIRST = 1024 };

/* Number 0 is nobody's: it stands for none. */
struct mr_lru_node {
	uint64_t key, bytes;
	uint32_t newer, older;
	uint32_t chain; /* the next of its bucket, or of the free ones */
};

void mr_lru_init(struct mr_lru *c, uint64_t max)
{
	*c = (struct mr_lru){ .max = max };
}

void mr_lru_fini(struct mr_lru *c)
{
	free(c->node);
	free(c->bucket);
	*c = (struct mr_lru){ 0 };
}

static uint32_t *bucket_of(const struct mr_lru *c, uint64_t key)
{
	return &c->bucket[mr_mix64(key) & (c->buckets - 1)];
}

/* ---- the list ---- */

static void unlink_node(struct mr_lru *c, uint32_t i)
{
	struct mr_lru_node *n = &c->node[i];

	*(n->newer ? &c->node[n->newer].older : &c->newest) = n->older;
	*(n->older ? &c->node[n->older].newer : &c->oldest) = n->newer;
}

static void link_newest(struct mr_lru *c, uint32_t i)
{
	c->node[i].newer = 0;
	c->node[i].older = c->newest;
	*(c->newest ? &c->node[c->newest].newer : &c->oldest) = i;
	c->newest = i;
}

static void evict(struct mr_lru *c, uint32_t i)
{
	uint32_t *at = bucket_of(c, c->node[i].key);

	while (*at != i)
		at = &c->node[*at].chain;
	*at = c->node[i].chain;
	unlink_node(c, i);
	c->bytes -= c->node[i].bytes;
	c->node[i].chain = c->free;
	c->free = i;
}

/* ---- the table ---- */

static uint32_t find(const struct mr_lru *c, uint64_t key)
{
	uint32_t i = c->buckets ? *bucket_of(c, key) : 0;

	while (i && c->node[i].key != key)
		i = c->node[i].chain;
	return i;
}

/* As many buckets as nodes. */
static bool rehash(struct mr_lru *c)
{
	uint32_t n = c->buckets ? 2 * c->buckets : FIRST;
	uint32_t *bucket = mr_alloc(n, sizeof(*bucket), NULL);

	if (!bucket)
		return false;
	free(c->bucket);
	c->bucket = bucket;
	c->buckets = n;
	for (uint32_t i = c->newest; i; i = c->node[i].older) {
		uint32_t *at = bucket_of(c, c->node[i].key);

		c->node[i].chain = *at;
		*at = i;
	}
	return true;
}

/* A node that is in no list; 0 when there is no memory. */
static uint32_t make_node(struct mr_lru *c)
{
	size_t cap = c->cap;
	uint32_t i = c->free;

	if (i) {
		c->free = c->node[i].chain;
		return i;
	}
	if (c->nodes + 1 >= c->buckets && !rehash(c))
		return 0;
	if (mr_grow(&c->node, &cap, c->nodes + 2, sizeof(*c->node), NODES_MAX,
		    NULL))
		return 0;
	c->cap = (uint32_t)cap;
	return ++c->nodes;
}

bool mr_lru_touch(struct mr_lru *c, uint64_t key, uint64_t bytes)
{
	uint32_t i = find(c, key), *at;

	if (i && c->node[i].bytes >= bytes) {
		unlink_node(c, i);
		link_newest(c, i);
		return true;
	}
	if (i)
		evict(c, i);
	if (!bytes || bytes > c->max)
		return false;
	while (c->bytes > c->max - bytes)
		evict(c, c->oldest);
	i = make_node(c);
	if (!i)
		return false;
	at = bucket_of(c, key);
	c->node[i] = (struct mr_lru_node){ .key = key,
					   .bytes = bytes,
					   .chain = *at };
	*at = i;
	link_newest(c, i);
	c->bytes += bytes;
	return false;
}
