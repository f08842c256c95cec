/* SPDX-License-Identifier: Apache-2.0 */
/* A table from strings of bytes to numbers: the tokens of a vocabulary. */
#ifndef MR_OP_WORDS_H
#define MR_OP_WORDS_H

#include "core/err.h"

struct mr_word {
	size_t at; /* of its bytes in mr_words.bytes */
	uint32_t length;
	int32_t id;
};

struct mr_words {
	struct mr_word *word;
	uint32_t *slot; /* place in `word` and 1, or 0 */
	uint8_t *bytes;
	size_t count, used, mask, max, cap;
};

/* Room for `max` words of `cap` bytes together. */
int mr_words_init(struct mr_words *w, size_t max, size_t cap,
		  struct mr_err *err);
void mr_words_fini(struct mr_words *w);
/* False when it is there already. There must be room. */
bool mr_words_add(struct mr_words *w, const void *bytes, size_t n, int32_t id);
/* Its number, or -1. */
int32_t mr_words_find(const struct mr_words *w, const void *bytes, size_t n);
/* Memory that it takes. */
size_t mr_words_size(const struct mr_words *w);

#endif
