/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences that look like English to a program: its short words, made-up
 * long ones, as frequent as words are (Zipf), commas, full stops.
 */
#ifndef MR_CLI_SYNTH_PROSE_H
#define MR_CLI_SYNTH_PROSE_H

#include "core/str.h"
#include "synth/synth.h"

#define PROSE_WORDS 4000 /* of the made-up ones */
#define PROSE_MAX   24	 /* bytes of a word, with its zero */

/* The r-th most frequent of the made-up words, for the seed. */
void prose_word(uint64_t seed, int r, char buf[PROSE_MAX]);
/* The i-th short word and its weight; NULL past the end. */
const char *prose_short(int i, int *weight);

struct prose {
	uint64_t seed;
	struct synth_rng *rng;
};

/* A word drawn by its frequency. */
void prose_draw(const struct prose *p, char buf[PROSE_MAX]);

/*
 * n sentences, added to `plain` as a reader sees them and to `html` as a page
 * has them, with references, emphasis and, if asked for, links. Either may be
 * NULL.
 */
void prose_sentences(const struct prose *p, int n, bool links,
		     struct mr_str *plain, struct mr_str *html);
/* n words, the first with a capital. */
void prose_title(const struct prose *p, int n, struct mr_str *plain,
		 struct mr_str *html);

/* encoder.json, vocab.bpe and table.npy in s->dir: a vocabulary of
 * PROSE_TOKENS, learned from these words, and a row of PROSE_WIDTH f32 for
 * each token. */
#define PROSE_TOKENS 2000
#define PROSE_WIDTH  768
int prose_vocabulary(struct synth *s, struct mr_err *err);

#endif
