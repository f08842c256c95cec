/* SPDX-License-Identifier: Apache-2.0 */
#include "op/unicode.h"

#include <stdbool.h>

#include "op/unicode_table.h"

enum { BLOCKS = sizeof(unicode_index) };

enum mr_char_kind mr_char_kind(uint32_t code)
{
	uint32_t block = code / UNICODE_BLOCK, at = code % UNICODE_BLOCK;
	const uint8_t *b;

	b = unicode_blocks[unicode_index[block < BLOCKS ? block : BLOCKS - 1]];
	return (enum mr_char_kind)(b[at / 4] >> at % 4 * 2 & 3);
}

static bool follows(uint8_t byte)
{
	return (byte & 0xc0) == 0x80;
}

size_t mr_utf8_read(const uint8_t *p, size_t n, uint32_t *code)
{
	if (p[0] < 0x80) {
		*code = p[0];
		return 1;
	}
	if (p[0] < 0xc2 || p[0] > 0xf4 || n < 2 || !follows(p[1]))
		return 0;
	*code = p[1] & 0x3f;
	if (p[0] < 0xe0) {
		*code |= (p[0] & 0x1fu) << 6;
		return 2;
	}
	if (n < 3 || !follows(p[2]))
		return 0;
	*code = *code << 6 | (p[2] & 0x3f);
	if (p[0] < 0xf0) {
		*code |= (p[0] & 0x0fu) << 12;
		return *code < 0x800 || (*code >= 0xd800 && *code < 0xe000) ?
			       0 :
			       3;
	}
	if (n < 4 || !follows(p[3]))
		return 0;
	*code = (p[0] & 0x07u) << 18 | *code << 6 | (p[3] & 0x3f);
	return *code < 0x10000 || *code > 0x10ffff ? 0 : 4;
}

enum mr_char_kind mr_char_at(const uint8_t *p, size_t n, size_t *bytes)
{
	uint32_t code = 0;

	*bytes = mr_utf8_read(p, n, &code);
	if (*bytes)
		return mr_char_kind(code);
	*bytes = 1;
	return MR_CHAR_OTHER;
}
