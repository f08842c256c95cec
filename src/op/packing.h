/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of any lengths into rows of one length. */
#ifndef MR_OP_PACKING_H
#define MR_OP_PACKING_H

#include <stddef.h>
#include <stdint.h>

struct mr_arena;

/* So many elements of a document, from its element `from` on, lie in a row. */
struct mr_piece {
	int32_t row, start, length, document, from;
};

/* Pieces that n documents have at most, whichever way they are packed;
 * SIZE_MAX: more than 32 bits can number. room >= 1. */
size_t mr_pack_bound(const int64_t *length, size_t n, int64_t room);

/*
 * Either way fills `to`, by row and by place in it, and returns how many
 * there are. Every element is in one piece; empty documents have none. What a
 * row has left is behind its last piece.
 *
 * cut: one document after the other; a row that is full ends where it ends.
 */
size_t mr_pack_cut(const int64_t *length, size_t n, int64_t room,
		   struct mr_piece *to, int64_t *rows);

/*
 * fit: as few rows as best fit by decreasing length finds. A document longer
 * than a row fills rows of its own, and only its rest is placed. The longest
 * is placed first, of equal ones the first, into the row that it leaves the
 * least room in; of equal rows, into the one that was added to last.
 * SIZE_MAX: no memory in `scratch`.
 */
size_t mr_pack_fit(const int64_t *length, size_t n, int64_t room,
		   struct mr_arena *scratch, struct mr_piece *to,
		   int64_t *rows);

#endif
