/* SPDX-License-Identifier: Apache-2.0 */
#include "op/words.h"

#include <assert.h>

#include "core/hash.h"
#include "core/mem.h"

int mr_words_init(struct mr_words *w, size_t max, size_t cap,
		  struct mr_err *err)
{
	size_t slots = 16;

	while (slots < 2 * max)
		slots *= 2;
	*w = (struct mr_words){ .mask = slots - 1, .max = max, .cap = cap };
	w->word = mr_alloc(max, sizeof(*w->word), err);
	if (w->word)
		w->slot = mr_alloc(slots, sizeof(*w->slot), err);
	if (w->slot)
		w->bytes = mr_alloc(cap, 1, err);
	if (w->bytes)
		return 0;
	mr_words_fini(w);
	return MR_ENOMEM;
}

void mr_words_fini(struct mr_words *w)
{
	free(w->word);
	free(w->slot);
	free(w->bytes);
	*w = (struct mr_words){ 0 };
}

/* The slot that it has, or would have. */
static uint32_t *find(const struct mr_words *w, const void *bytes, size_t n)
{
	size_t i = XXH3_64bits(bytes, n) & w->mask;

	for (;; i = (i + 1) & w->mask) {
		const struct mr_word *x;

		if (!w->slot[i])
			return &w->slot[i];
		x = &w->word[w->slot[i] - 1];
		if (x->length == n && !memcmp(w->bytes + x->at, bytes, n))
			return &w->slot[i];
	}
}

bool mr_words_add(struct mr_words *w, const void *bytes, size_t n, int32_t id)
{
	uint32_t *slot = find(w, bytes, n);

	if (*slot)
		return false;
	assert(w->count < w->max && n <= w->cap - w->used);
	memcpy(w->bytes + w->used, bytes, n);
	w->word[w->count] = (struct mr_word){ .at = w->used,
					      .length = (uint32_t)n,
					      .id = id };
	w->used += n;
	*slot = (uint32_t)++w->count;
	return true;
}

int32_t mr_words_find(const struct mr_words *w, const void *bytes, size_t n)
{
	uint32_t place = *find(w, bytes, n);

	return place ? w->word[place - 1].id : -1;
}

size_t mr_words_size(const struct mr_words *w)
{
	return w->max * sizeof(*w->word) +
	       (w->word ? (w->mask + 1) * sizeof(*w->slot) : 0) + w->cap;
}
