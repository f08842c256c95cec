/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a text: its ids give it back, and are the same with and
 * without a cache, for long pieces and short. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "op/bpe.h"
#include "op/textsplit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MERGES = 14, TOKENS = 256 + MERGES };

static const char *const merges[MERGES][2] = {
	{ "t", "h" },	    { "th", "e" },   { " ", "the" },	 { "a", "a" },
	{ "aa", "aa" },	    { "a", "aa" },   { "\xc3", "\xa9" }, { " ", "t" },
	{ "1", "2" },	    { "aaaa", "a" }, { "'", "'" },	 { "\n", "\n" },
	{ "\xe2", "\x80" }, { "h", "e" },
};

static char tokens[TOKENS][8];
static size_t lengths[TOKENS];

static int find(const char *s)
{
	for (int i = 0; i < TOKENS; i++)
		if (lengths[i] == strlen(s) &&
		    !memcmp(tokens[i], s, lengths[i]))
			return i;
	abort();
}

static void make(struct mr_bpe *b, bool one_by_one)
{
	struct mr_err err;

	*b = (struct mr_bpe){ .one_by_one = one_by_one };
	if (mr_bpe_room(b, MERGES, &err) ||
	    mr_words_init(&b->words, TOKENS, sizeof(tokens), &err))
		abort();
	for (int i = 0; i < 256; i++) {
		tokens[i][0] = (char)i;
		lengths[i] = 1;
		b->byte[i] = i;
	}
	for (int i = 0; i < MERGES; i++) {
		char *to = tokens[256 + i];

		snprintf(to, 8, "%s%s", merges[i][0], merges[i][1]);
		lengths[256 + i] = strlen(to);
	}
	for (int i = 0; i < MERGES; i++)
		mr_bpe_add(b, find(merges[i][0]), find(merges[i][1]),
			   (uint32_t)i, 256 + i);
	for (int i = 0; i < TOKENS; i++)
		mr_words_add(&b->words, tokens[i], lengths[i], i);
	if (mr_bpe_index(b, &err))
		abort();
	if (one_by_one)
		b->split = mr_text_piece_cl100k;
}

static void check(const uint8_t *data, size_t size, const int32_t *id, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (id[i] < 0 || id[i] >= TOKENS ||
		    lengths[id[i]] > size - at ||
		    memcmp(data + at, tokens[id[i]], lengths[id[i]]))
			abort();
		at += lengths[id[i]];
	}
	if (at != size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mr_bpe bpe[2];
	static struct mr_bpe_cache *cache[2];
	static struct mr_arena scratch;
	struct mr_err err;
	uint8_t *text = malloc(size + !size); /* its end is watched */
	int32_t *a = malloc(4 * size + 4), *b = malloc(4 * size + 4);
	size_t n, m;

	for (int i = 0; i < 2 && !cache[i]; i++) {
		make(&bpe[i], i);
		cache[i] = mr_bpe_cache_new(1024, &err);
		mr_arena_init(&scratch, (size_t)64 << 20);
	}
	if (size)
		memcpy(text, data, size);
	for (int i = 0; i < 2; i++) {
		if (mr_bpe_encode(&bpe[i], NULL, &scratch, text, size, a, &n,
				  &err) ||
		    mr_bpe_encode(&bpe[i], cache[i], &scratch, text, size, b,
				  &m, &err))
			abort();
		mr_arena_reset(&scratch);
		check(data, size, a, n);
		if (n != m || memcmp(a, b, n * sizeof(*a)))
			abort();
	}
	free(text);
	free(a);
	free(b);
	return 0;
}
