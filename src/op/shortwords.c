/* SPDX-License-Identifier: Apache-2.0 */
#include "op/shortwords.h"

#include <assert.h>

_Static_assert(sizeof(struct mr_short_line) == MR_ALIGN, "a line of the cache");

int mr_shorts_init(struct mr_shorts *t, size_t max, struct mr_err *err)
{
	size_t lines = 2;

	/* half full at most, so that few words lie in the next line */
	for (t->shift = 63; lines * MR_SHORT_LINE < 2 * max; t->shift--)
		lines *= 2;
	t->mask = lines - 1;
	t->line = mr_alloc_aligned(lines * sizeof(*t->line), err);
	return t->line ? 0 : MR_ENOMEM;
}

void mr_shorts_fini(struct mr_shorts *t)
{
	free(t->line);
	*t = (struct mr_shorts){ 0 };
}

void mr_shorts_add(struct mr_shorts *t, const uint8_t *p, size_t n, int number)
{
	struct mr_short_key k = mr_short_key(p, n, n);
	size_t i = mr_short_hash(k) >> t->shift;

	assert(n && n <= MR_SHORT_WORD && number >= 0 &&
	       number < MR_SHORT_VALUES);
	for (;; i = (i + 1) & t->mask) {
		struct mr_short_line *l = &t->line[i];

		for (int j = 0; j < MR_SHORT_LINE; j++) {
			if (l->value[j])
				continue;
			l->key[j] = k;
			l->value[j] = (uint32_t)n << 24 | (uint32_t)number;
			return;
		}
	}
}

size_t mr_shorts_size(const struct mr_shorts *t)
{
	return t->line ? (t->mask + 1) * sizeof(*t->line) : 0;
}
