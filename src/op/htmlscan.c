/* SPDX-License-Identifier: Apache-2.0 */
#include "op/htmlscan.h"

#include <string.h>

#include "op/html.h"

static uint8_t lower(uint8_t c)
{
	return mr_html_letter(c) ? c | 0x20 : c;
}

static bool same(const uint8_t *p, size_t n, const char *word)
{
	if (n != strlen(word))
		return false;
	for (size_t i = 0; i < n; i++)
		if (lower(p[i]) != (uint8_t)word[i])
			return false;
	return true;
}

/* ---- attributes ---- */

/* display:none and visibility:hidden, with blanks or without. */
static bool hides(const uint8_t *p, size_t n)
{
	static const char *const words[] = { "display:none",
					     "visibility:hidden" };

	for (size_t w = 0; w < 2; w++) {
		size_t at = 0;

		for (size_t i = 0; i < n; i++) {
			if (mr_html_space(p[i]))
				continue;
			if (lower(p[i]) == (uint8_t)words[w][at])
				at++;
			else
				at = lower(p[i]) == (uint8_t)words[w][0];
			if (!words[w][at])
				return true;
		}
	}
	return false;
}

static unsigned role_hints(const uint8_t *v, size_t n)
{
	static const char *const bad[] = { "navigation",    "banner",
					   "complementary", "contentinfo",
					   "search",	    "dialog",
					   "menu",	    "menubar",
					   "toolbar",	    "alertdialog" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (same(v, n, bad[i]))
			return MR_HINT_BAD;
	return same(v, n, "main") || same(v, n, "article") ? MR_HINT_GOOD : 0;
}

static void attribute(struct mr_html_mark *m, const uint8_t *name, size_t size,
		      const uint8_t *v, size_t n)
{
	unsigned h = 0;

	switch (name[0] | 0x20) {
	case 'a':
		if (same(name, size, "aria-hidden") && same(v, n, "true"))
			h = MR_HINT_HIDDEN;
		break;
	case 'c':
		if (same(name, size, "class"))
			h = mr_html_hints(v, n);
		break;
	case 'h':
		if (same(name, size, "href"))
			m->link = true;
		else if (same(name, size, "hidden"))
			h = MR_HINT_HIDDEN;
		break;
	case 'i':
		if (same(name, size, "id"))
			h = mr_html_hints(v, n);
		else if (same(name, size, "itemprop"))
			h = same(v, n, "articlebody") ? MR_HINT_BODY :
							mr_html_hints(v, n);
		break;
	case 'r':
		if (same(name, size, "role"))
			h = role_hints(v, n);
		break;
	case 's':
		if (same(name, size, "style") && hides(v, n))
			h = MR_HINT_HIDDEN;
		break;
	default:
		break;
	}
	m->hints |= (uint8_t)h;
}

static const uint8_t *skip_space(const uint8_t *p, const uint8_t *end)
{
	while (p < end && mr_html_space(*p))
		p++;
	return p;
}

/* The value at p, which follows '='; NULL when the page ends inside. */
static const uint8_t *value(const uint8_t *p, const uint8_t *end,
			    const uint8_t **from, const uint8_t **to)
{
	p = skip_space(p, end);
	if (p == end)
		return NULL;
	if (*p == '"' || *p == '\'') {
		*from = p + 1;
		*to = memchr(p + 1, *p, (size_t)(end - p) - 1);
		return *to ? *to + 1 : NULL;
	}
	*from = p;
	while (p < end && !mr_html_space(*p) && *p != '>')
		p++;
	*to = p;
	return p;
}

/* The attribute at p; returns what follows it. */
static const uint8_t *one_attribute(const uint8_t *p, const uint8_t *end,
				    struct mr_html_mark *m)
{
	const uint8_t *name = p, *from = p, *to = p, *after;
	size_t size;

	p += *p == '=';
	while (p < end && !mr_html_space(*p) && *p != '=' && *p != '>' &&
	       *p != '/')
		p++;
	size = (size_t)(p - name);
	after = skip_space(p, end);
	if (after < end && *after == '=') {
		p = value(after + 1, end, &from, &to);
		if (!p)
			return NULL;
	}
	attribute(m, name, size, from, (size_t)(to - from));
	return p;
}

const uint8_t *mr_html_scan(const uint8_t *p, const uint8_t *end,
			    struct mr_html_mark *m)
{
	m->name = p;
	m->empty = m->link = false;
	m->hints = 0;
	while (p < end && !mr_html_space(*p) && *p != '>' && *p != '/')
		p++;
	m->size = (size_t)(p - m->name);
	while (p && p < end) {
		if (*p == '>')
			return p + 1;
		m->empty = *p == '/';
		if (*p == '/' || mr_html_space(*p))
			p++;
		else
			p = one_attribute(p, end, m);
	}
	return NULL;
}

/* ---- what is no tag ---- */

const uint8_t *mr_html_skip(const uint8_t *p, const uint8_t *end,
			    bool *no_comment_ends)
{
	const uint8_t *q;

	if (end - p >= 4 && !memcmp(p, "<!--", 4) && !*no_comment_ends) {
		/* <!--> and <!---> are whole ones */
		for (q = p + 4; q < end; q++) {
			q = memchr(q, '>', (size_t)(end - q));
			if (!q)
				break;
			if ((q[-1] == '-' && q[-2] == '-') ||
			    (q[-1] == '!' && q[-2] == '-' && q[-3] == '-' &&
			     q - p > 5))
				return q + 1;
		}
		*no_comment_ends = true;
	}
	q = memchr(p, '>', (size_t)(end - p));
	return q ? q + 1 : end;
}

const uint8_t *mr_html_find_end(const uint8_t *p, const uint8_t *end,
				const uint8_t *name, size_t size)
{
	while ((size_t)(end - p) >= size + 2) {
		size_t i = 0;

		p = memchr(p, '<', (size_t)(end - p) - size - 1);
		if (!p)
			return NULL;
		if (p[1] == '/')
			while (i < size && lower(p[2 + i]) == lower(name[i]))
				i++;
		if (i == size && p[1] == '/' &&
		    (p + 2 + size == end || !mr_html_letter(p[2 + size])))
			return p;
		p++;
	}
	return NULL;
}

/* ---- text ---- */

enum { SPACE = 1, MARK = 2, WIDE = 4, DENSE = 8, LEAD = 16 };

/* By a character's first byte. Chinese and Japanese write no blanks, nor
 * does Thai: their words are counted by characters. */
static const uint8_t kinds[256] = {
	[0] = SPACE,	['\t'] = SPACE,	       ['\n'] = SPACE,
	['\f'] = SPACE, ['\r'] = SPACE,	       [' '] = SPACE,
	['!'] = MARK,	[','] = MARK,	       ['.'] = MARK,
	[';'] = MARK,	['?'] = MARK,	       [0xd8] = LEAD,
	[0xdb] = LEAD,	[0xe0] = DENSE | LEAD, [0xe3] = WIDE | LEAD,
	[0xe4] = WIDE,	[0xe5] = WIDE,	       [0xe6] = WIDE,
	[0xe7] = WIDE,	[0xe8] = WIDE,	       [0xe9] = WIDE,
	[0xef] = LEAD,
};

/* Commas and full stops of other scripts. */
static bool is_mark(const uint8_t *p, size_t n)
{
	static const char marks[][4] = {
		"\xd8\x8c",	"\xdb\x94",	"\xe0\xa5\xa4", "\xe3\x80\x81",
		"\xe3\x80\x82", "\xef\xbc\x81", "\xef\xbc\x8c", "\xef\xbc\x9f",
	};

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		size_t k = marks[i][2] ? 3 : 2;

		if (n >= k && !memcmp(p, marks[i], k))
			return true;
	}
	return false;
}

struct mr_html_count mr_html_count(const uint8_t *p, size_t n)
{
	struct mr_html_count c = { 0 };
	uint32_t wide = 0, dense = 0;
	bool in_word = false;

	for (size_t i = 0; i < n; i++) {
		uint8_t k = kinds[p[i]];

		c.words += !in_word && k != SPACE;
		in_word = k != SPACE;
		c.marks += k == MARK;
		if (k <= MARK)
			continue;
		wide += k & WIDE && 1;
		dense += k & DENSE && 1;
		c.marks += k & LEAD && is_mark(p + i, n - i);
	}
	wide = wide / 2 + dense / 5;
	if (wide > c.words)
		c.words = wide;
	return c;
}
