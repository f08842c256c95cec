/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text into the pieces that byte-level BPE works on, by GPT-2's pattern:
 *
 *	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|
 *	\s+(?!\S)|\s+
 *
 * A byte that is not well-formed UTF-8 counts as a character that is neither
 * letter, number nor space, as U+FFFD does, which decoders put in its place;
 * but it stays the byte that it is.
 */
#ifndef MR_OP_TEXTSPLIT_H
#define MR_OP_TEXTSPLIT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the piece that begins at p, 1 to n; n >= 1 are left. */
size_t mr_text_piece(const uint8_t *p, size_t n);

#endif
