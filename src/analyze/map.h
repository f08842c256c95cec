/* SPDX-License-Identifier: Apache-2.0 */
/* From numbers of 64 bits to numbers of 32: a growing hash table. */
#ifndef MR_ANALYZE_MAP_H
#define MR_ANALYZE_MAP_H

#include <stdint.h>

#include "core/mem.h"

/* Start from { 0 }; free with mr_map_fini(). Values are stored as value + 1:
 * 0 is an empty place. */
struct mr_map64 {
	uint64_t *key;
	uint32_t *value;
	size_t cap, n; /* a power of two */
};

static inline size_t mr_map64_at(const struct mr_map64 *m, uint64_t key)
{
	size_t at = (size_t)((key ^ key >> 29) * 0x9e3779b97f4a7c15u >> 20);

	for (at &= m->cap - 1; m->value[at] && m->key[at] != key;)
		at = (at + 1) & (m->cap - 1);
	return at;
}

/* False, and *value as it was, when there is none. */
static inline bool mr_map64_get(const struct mr_map64 *m, uint64_t key,
				uint32_t *value)
{
	size_t at;

	if (!m->cap)
		return false;
	at = mr_map64_at(m, key);
	if (!m->value[at])
		return false;
	*value = m->value[at] - 1;
	return true;
}

static inline void mr_map64_fini(struct mr_map64 *m)
{
	free(m->key);
	free(m->value);
	*m = (struct mr_map64){ 0 };
}

static inline int mr_map64_grow(struct mr_map64 *m, struct mr_err *err)
{
	struct mr_map64 big = { .cap = m->cap ? 2 * m->cap : 256, .n = m->n };

	big.key = mr_alloc(big.cap, sizeof(*big.key), err);
	big.value = mr_alloc(big.cap, sizeof(*big.value), err);
	if (!big.key || !big.value) {
		mr_map64_fini(&big);
		return MR_ENOMEM;
	}
	for (size_t i = 0; i < m->cap; i++) {
		size_t at;

		if (!m->value[i])
			continue;
		at = mr_map64_at(&big, m->key[i]);
		big.key[at] = m->key[i];
		big.value[at] = m->value[i];
	}
	mr_map64_fini(m);
	*m = big;
	return 0;
}

/* Adds or changes; value < UINT32_MAX. */
static inline int mr_map64_put(struct mr_map64 *m, uint64_t key, uint32_t value,
			       struct mr_err *err)
{
	size_t at;

	if (2 * m->n >= m->cap && mr_map64_grow(m, err))
		return MR_ENOMEM;
	at = mr_map64_at(m, key);
	m->n += !m->value[at];
	m->key[at] = key;
	m->value[at] = value + 1;
	return 0;
}

#endif
