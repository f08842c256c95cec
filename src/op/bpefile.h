/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers of vocabularies share. The files may be anything: sizes
 * are bounded, and what does not fit together is an error that names the
 * file and the line.
 */
#ifndef MR_OP_BPEFILE_H
#define MR_OP_BPEFILE_H

#include "op/bpe.h"

enum { MR_BPE_FILE = 16 << 20 }; /* bytes of a file at most */

/* Marks id as used, in a bit of MR_BPE_IDS; false when it was already. */
bool mr_bpe_take(uint8_t *taken, int64_t id);

/* Fills b->byte; MR_EDATA when a byte is no token. */
int mr_bpe_bytes(struct mr_bpe *b, const struct mr_words *w, const char *path,
		 struct mr_err *err);

/* The lines of a text that lies between `at` and `end`. */
struct mr_lines {
	const char *path;
	char *at, *end;
	size_t number; /* of the last one, from 1 */
};

/* All lines of a file's text; in *max, how many there are at most. Too many
 * for a vocabulary: MR_ELIMIT. */
int mr_lines_init(struct mr_lines *l, const char *path, char *text, size_t n,
		  size_t *max, struct mr_err *err);
/* The next line, without what ends it; NULL at the end. */
char *mr_lines_next(struct mr_lines *l, size_t *length);
/* MR_EDATA, "PATH: line N: ..." */
int mr_lines_bad(const struct mr_lines *l, struct mr_err *err, const char *fmt,
		 ...) __attribute__((format(printf, 3, 4)));

#endif
