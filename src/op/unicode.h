/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 and what kind of character a code point is. */
#ifndef MR_OP_UNICODE_H
#define MR_OP_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum mr_char_kind {
	MR_CHAR_OTHER,
	MR_CHAR_LETTER, /* \p{L} */
	MR_CHAR_NUMBER, /* \p{N} */
	MR_CHAR_SPACE,	/* White_Space */
};

/* Of any number; what is no code point is MR_CHAR_OTHER. */
enum mr_char_kind mr_char_kind(uint32_t code);

/* The bytes of the well-formed character at p, of which n >= 1 bytes may be
 * read, and its code point; 0 when it is not well-formed. */
size_t mr_utf8_read(const uint8_t *p, size_t n, uint32_t *code);

/*
 * The kind of the character at p, of which n >= 1 bytes may be read, and in
 * *bytes how many it has. A byte that is not part of well-formed UTF-8
 * (overlong, a surrogate, over 10FFFF, cut off) is a character by itself, and
 * MR_CHAR_OTHER as U+FFFD is.
 */
enum mr_char_kind mr_char_at(const uint8_t *p, size_t n, size_t *bytes);

#endif
