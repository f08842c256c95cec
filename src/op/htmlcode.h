/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a page as UTF-8, whatever they are coded in. */
#ifndef MR_OP_HTMLCODE_H
#define MR_OP_HTMLCODE_H

#include <iconv.h>

#include "core/arena.h"

/* What a thread keeps: the converter of the last encoding that needed one.
 * Zeroed at first. */
struct mr_html_coder {
	char name[32];
	iconv_t cd;
};

void mr_html_coder_fini(struct mr_html_coder *c);

/*
 * The page as UTF-8, in *to: where it lies when it is that already, else in
 * memory of the arena. Its encoding is `given`, or if that is "" what a byte
 * order mark or the page itself says, else UTF-8 if it is valid, else
 * windows-1252. What is no character becomes U+FFFD. MR_EDATA when these are
 * not the bytes of a text.
 */
int mr_html_utf8(struct mr_html_coder *c, const char *given,
		 const uint8_t *page, size_t bytes, struct mr_arena *a,
		 const uint8_t **to, size_t *size, struct mr_err *err);

/* At most so many bytes its text has. */
size_t mr_html_bound(const char *given, const uint8_t *page, size_t bytes);

bool mr_utf8_valid(const uint8_t *p, size_t n);
size_t mr_utf8_write(uint32_t code, uint8_t *to); /* at most 4 bytes */
uint32_t mr_windows_1252(uint8_t c);

#endif
