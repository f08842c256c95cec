/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-level byte pair encoding: text into the ids of a vocabulary, as GPT-2
 * and tiktoken do it. A vocabulary is read once and shared by all threads.
 */
#ifndef MR_OP_BPE_H
#define MR_OP_BPE_H

#include "core/err.h"
#include "op/shortwords.h"
#include "op/textsplit.h"
#include "op/words.h"

enum { MR_BPE_IDS = 1 << 24, MR_BPE_TOKEN = 1024, MR_BPE_SHORT = 64 };

/* Two tokens next to each other become one; of all pairs of a piece, those
 * of the lowest rank first. */
struct mr_bpe_pair {
	uint64_t key; /* left and right, or MR_BPE_EMPTY */
	uint32_t rank;
	int32_t id;
};

/* What two bytes next to each other make. */
struct mr_bpe_made {
	uint32_t rank;
	int32_t id;
};

#define MR_BPE_EMPTY UINT64_MAX
#define MR_BPE_NONE  UINT32_MAX /* the rank of what is no pair */

struct mr_bpe {
	int32_t byte[256]; /* the token of each byte */
	struct mr_bpe_pair *pair;
	size_t pairs, mask;
	int shift;
	/*
	 * GPT-2 merges all places of a pair before it looks for the next
	 * pair. tiktoken merges one place, then looks again, and takes a
	 * piece that is a token as it is. For vocabularies that training
	 * made that is the same; for others each is done as it was meant.
	 */
	bool one_by_one;
	mr_text_split *split; /* set by open: GPT-2's */
	/* Pieces that are taken as they are: with one_by_one all tokens, else
	 * those that merging would make anyway, since finding them is
	 * faster. May be empty. */
	struct mr_words words;
	/* Made of the above by mr_bpe_index(): the short words again, and
	 * the pairs of bytes, 256 x 256, which all merging begins with. */
	struct mr_shorts shorts;
	struct mr_bpe_made *first;
};

/* GPT-2's files: encoder.json (tokens to ids) and vocab.bpe (merges). */
int mr_bpe_open(struct mr_bpe *b, const char *vocab, const char *merges,
		struct mr_err *err);
/* tiktoken's: lines of a token in base64 and its rank, which is its id. */
int mr_bpe_open_ranks(struct mr_bpe *b, const char *path, struct mr_err *err);
void mr_bpe_close(struct mr_bpe *b); /* also of zeroed memory */
/* Memory of the vocabulary. */
size_t mr_bpe_size(const struct mr_bpe *b);

/* Room for `max` pairs, and one more of them; false when it is there. */
int mr_bpe_room(struct mr_bpe *b, size_t max, struct mr_err *err);
bool mr_bpe_add(struct mr_bpe *b, int32_t left, int32_t right, uint32_t rank,
		int32_t id);

/* The last step of opening: what makes encoding fast. */
int mr_bpe_index(struct mr_bpe *b, struct mr_err *err);

struct mr_bpe_cache;

/* Pieces and their ids that a thread remembers, in so many bytes at most. */
struct mr_bpe_cache *mr_bpe_cache_new(size_t bytes, struct mr_err *err);
void mr_bpe_cache_free(struct mr_bpe_cache *c); /* NULL is allowed */

/*
 * The ids of a text of n bytes, which are n at most, into `to`; how many in
 * *count. `cache` may be NULL; else it is of this vocabulary alone.
 */
int mr_bpe_encode(const struct mr_bpe *b, struct mr_bpe_cache *cache,
		  struct mr_arena *scratch, const uint8_t *text, size_t n,
		  int32_t *to, size_t *count, struct mr_err *err);

/* Scratch memory that the long pieces of a text share. */
struct mr_bpe_room {
	struct mr_arena *scratch;
	void *memory;
	size_t bytes;
};

/* The same for a piece alone: n >= 1; up to MR_BPE_SHORT, room may be NULL.
 * merge() is for pieces that are known not to be taken as they are. */
int mr_bpe_merge(const struct mr_bpe *b, struct mr_bpe_room *room,
		 const uint8_t *piece, size_t n, int32_t *to, size_t *count,
		 struct mr_err *err);
int mr_bpe_piece(const struct mr_bpe *b, struct mr_bpe_room *room,
		 const uint8_t *piece, size_t n, int32_t *to, size_t *count,
		 struct mr_err *err);

#endif
