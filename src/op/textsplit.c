/* SPDX-License-Identifier: Apache-2.0 */
#include "op/textsplit.h"

#include <stdbool.h>

#include "op/unicode.h"

/* mr_char_kind() of ASCII, for speed: a test holds them together. */
static const uint8_t ascii[128] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 0, 0, /* tab to return */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /**/
	3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* space */
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, /* 0 to 9 */
	0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* A */
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, /* to Z */
	0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* a */
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, /* to z */
};

static inline enum mr_char_kind kind_at(const uint8_t *p, size_t n,
					size_t *bytes)
{
	if (*p >= 0x80)
		return mr_char_at(p, n, bytes);
	*bytes = 1;
	return (enum mr_char_kind)ascii[*p];
}

/* Where the run of characters of that kind ends which goes on at i. */
static size_t run_end(const uint8_t *p, size_t n, size_t i,
		      enum mr_char_kind kind)
{
	size_t bytes;

	while (i < n) {
		if (p[i] < 0x80) {
			if (ascii[p[i]] != kind)
				break;
			i++;
			continue;
		}
		if (mr_char_at(p + i, n - i, &bytes) != kind)
			break;
		i += bytes;
	}
	return i;
}

/* All of the spaces at the end of the text; else all but the last, which
 * belongs to what follows; or the only one. */
static size_t spaces(const uint8_t *p, size_t n)
{
	size_t last = 0, i = 0, bytes;

	while (i < n && kind_at(p + i, n - i, &bytes) == MR_CHAR_SPACE) {
		last = i;
		i += bytes;
	}
	return i < n && last ? last : i;
}

/* 's 't 'm 'd 're 've 'll: the bytes of one at the apostrophe, or 0. */
static size_t contraction(const uint8_t *p, size_t n)
{
	if (n < 2)
		return 0;
	switch (p[1]) {
	case 's':
	case 't':
	case 'm':
	case 'd':
		return 2;
	case 'r':
	case 'v':
		return n > 2 && p[2] == 'e' ? 3 : 0;
	case 'l':
		return n > 2 && p[2] == 'l' ? 3 : 0;
	default:
		return 0;
	}
}

size_t mr_text_piece(const uint8_t *p, size_t n)
{
	enum mr_char_kind kind;
	size_t at = 0, bytes;

	if (*p == '\'') {
		bytes = contraction(p, n);
		if (bytes)
			return bytes;
	}
	if (*p == ' ' && n > 1)
		at = 1;
	kind = kind_at(p + at, n - at, &bytes);
	if (kind == MR_CHAR_SPACE)
		return spaces(p, n);
	return run_end(p, n, at + bytes, kind);
}

/* ---- cl100k ---- */

/* The contractions in either case; the long s, U+017F, is an s as well. */
static size_t contraction_any_case(const uint8_t *p, size_t n)
{
	uint8_t low[3] = { '\'', 0, 0 };

	if (n > 2 && p[1] == 0xc5 && p[2] == 0xbf)
		return 3;
	for (size_t i = 1; i < 3 && i < n; i++)
		low[i] = p[i] >= 'A' && p[i] <= 'Z' ? p[i] | 0x20 : p[i];
	return contraction(low, n < 3 ? n : 3);
}

static bool is_line_end(uint8_t c)
{
	return c == '\r' || c == '\n';
}

/* Three digits at most. */
static size_t numbers(const uint8_t *p, size_t n)
{
	size_t at = 0, bytes;

	for (int i = 0; i < 3 && at < n; i++, at += bytes)
		if (kind_at(p + at, n - at, &bytes) != MR_CHAR_NUMBER)
			break;
	return at;
}

/* A run of spaces up to the last end of a line in it; else as spaces(). */
static size_t lines(const uint8_t *p, size_t n)
{
	size_t last = 0, i = 0, bytes;

	while (i < n && kind_at(p + i, n - i, &bytes) == MR_CHAR_SPACE) {
		if (is_line_end(p[i]))
			last = i + 1;
		i += bytes;
	}
	return last ? last : spaces(p, n);
}

size_t mr_text_piece_cl100k(const uint8_t *p, size_t n)
{
	enum mr_char_kind kind, next = MR_CHAR_SPACE;
	size_t bytes, more = 0;

	if (*p == '\'') {
		bytes = contraction_any_case(p, n);
		if (bytes)
			return bytes;
	}
	kind = kind_at(p, n, &bytes);
	if (kind == MR_CHAR_LETTER)
		return run_end(p, n, bytes, kind);
	if (kind == MR_CHAR_NUMBER)
		return numbers(p, n);
	if (bytes < n)
		next = kind_at(p + bytes, n - bytes, &more);
	if (next == MR_CHAR_LETTER && !is_line_end(*p))
		return run_end(p, n, bytes + more, next);
	if (*p == ' ' && next == MR_CHAR_OTHER) {
		kind = next;
		bytes += more;
	}
	if (kind == MR_CHAR_SPACE)
		return lines(p, n);
	bytes = run_end(p, n, bytes, kind);
	while (bytes < n && is_line_end(p[bytes]))
		bytes++;
	return bytes;
}
