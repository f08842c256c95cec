/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/html.h"
#include "op/htmlcode.h"
#include "op/htmlentity_table.h"
#include "op/htmlscan.h"

/* ---- by number ---- */

/* What the standard makes of numbers that are none of a character. */
static uint32_t repair(uint32_t c)
{
	if (c >= 0x80 && c < 0xa0)
		return mr_windows_1252((uint8_t)c);
	if (!c || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0xfffd;
	return c;
}

static int digit(uint8_t c, bool hex)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return hex && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t by_number(const uint8_t *p, size_t n, uint8_t *to, size_t *made)
{
	bool hex = n > 2 && (p[2] | 0x20) == 'x';
	size_t first = hex ? 3 : 2, i = first;
	uint32_t c = 0;

	for (; i < n && digit(p[i], hex) >= 0; i++)
		if (c <= 0x10ffff)
			c = c * (hex ? 16 : 10) + (uint32_t)digit(p[i], hex);
	if (i == first)
		return 0;
	*made = mr_utf8_write(repair(c), to);
	return i + (i < n && p[i] == ';');
}

/* ---- by name ---- */

/* What stands after the name in the table, or NULL. */
static const char *lookup(const uint8_t *name, size_t n)
{
	size_t lo = 0, hi = ENTITIES;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const char *is = (const char *)entities + entity_at[mid];
		size_t length = strlen(is);
		int order = memcmp(name, is, n < length ? n : length);

		if (!order && n == length)
			return is + length + 1;
		if (order < 0 || (!order && n < length))
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static bool in_name(uint8_t c)
{
	return mr_html_letter(c) || (c >= '0' && c <= '9');
}

static size_t by_name(const uint8_t *p, size_t n, uint8_t *to, size_t *made)
{
	const char *is = NULL;
	size_t i = 1;

	while (i < n && i <= ENTITY_LONGEST && in_name(p[i]))
		i++;
	if (i < n && p[i] == ';')
		is = lookup(p + 1, i - 1);
	if (is) {
		i++;
	} else {
		/* Old ones go without the semicolon; none has more than six
		 * letters. */
		i = i > 7 ? 7 : i;
		for (; i > 2; i--) {
			is = lookup(p + 1, i - 1);
			if (is && *is == 1)
				break;
		}
		if (i <= 2)
			return 0;
	}
	*made = strlen(is + 1);
	memcpy(to, is + 1, *made);
	return i;
}

size_t mr_html_entity(const uint8_t *p, size_t n, uint8_t *to, size_t *made)
{
	if (n < 3)
		return 0;
	return p[1] == '#' ? by_number(p, n, to, made) :
			     by_name(p, n, to, made);
}
