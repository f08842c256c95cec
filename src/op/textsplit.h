/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text into the pieces that byte-level BPE works on, by GPT-2's pattern:
 *
 *	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|
 *	\s+(?!\S)|\s+
 *
 * or by that of cl100k:
 *
 *	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * A byte that is not well-formed UTF-8 counts as a character that is neither
 * letter, number nor space, as U+FFFD does, which decoders put in its place;
 * but it stays the byte that it is.
 */
#ifndef MR_OP_TEXTSPLIT_H
#define MR_OP_TEXTSPLIT_H

#include <stddef.h>

#include "core/le.h"

/* Bytes of the piece that begins at p, 1 to n; n >= 1 are left. */
typedef size_t mr_text_split(const uint8_t *p, size_t n);
mr_text_split mr_text_piece, mr_text_piece_cl100k;

#define MR_TEXT_HIGH 0x8080808080808080u

/* The high bit of each of 8 bytes that is no ASCII letter. */
static inline uint64_t mr_text_others(uint64_t x)
{
	uint64_t y = (x | 0x2020202020202020u) & ~MR_TEXT_HIGH;
	uint64_t from_a = y + 0x1f1f1f1f1f1f1f1fu;
	uint64_t past_z = y + 0x0505050505050505u;

	return (~from_a | past_z | x) & MR_TEXT_HIGH;
}

/*
 * The same, eight letters at a time, for words of up to 16 ASCII letters and
 * a blank before, on which both patterns agree: most of what texts in many
 * languages are made of. Going byte by byte, the processor would guess wrong
 * at the end of each word.
 */
static inline size_t mr_text_next(const uint8_t *p, size_t n,
				  mr_text_split *any)
{
	size_t at = *p == ' ', letters = 0;
	uint64_t others = 0;

	if (n < 24)
		return any(p, n);
	others = mr_text_others(mr_le64(p + at));
	if (!others) {
		letters = 8;
		others = mr_text_others(mr_le64(p + at + 8));
		if (!others)
			return any(p, n);
	}
	letters += (size_t)__builtin_ctzll(others) / 8;
	if (!letters || p[at + letters] >= 0x80)
		return any(p, n);
	return at + letters;
}

#endif
