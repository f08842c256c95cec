/* SPDX-License-Identifier: Apache-2.0 */
#include "io/xml.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The place after `what`, or NULL. */
static const char *after(const char *at, const char *end, const char *what)
{
	size_t n = strlen(what);
	const char *p =
		at < end ? memmem(at, (size_t)(end - at), what, n) : NULL;

	return p ? p + n : NULL;
}

static const struct {
	const char *name;
	char is;
} entities[] = {
	{ "amp", '&' },	 { "lt", '<' },	   { "gt", '>' },
	{ "quot", '"' }, { "apos", '\'' },
};

/* The character of "#65" or "#x41"; 0 when it is none. */
static uint32_t numbered(const char *s, size_t n)
{
	unsigned base = n > 1 && s[1] == 'x' ? 16 : 10;
	uint32_t v = 0;
	size_t i = base == 16 ? 2 : 1;

	if (i == n || n > 10)
		return 0;
	for (; i < n; i++) {
		const char *set = "0123456789abcdef";
		char c = s[i] >= 'A' && s[i] <= 'F' ? (char)(s[i] + 32) : s[i];
		const char *d = c ? strchr(set, c) : NULL;

		if (!d || (unsigned)(d - set) >= base)
			return 0;
		v = v * base + (uint32_t)(d - set);
		if (v > 0x10ffff)
			return 0;
	}
	return v;
}

static size_t put_utf8(char *to, uint32_t c)
{
	int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };

	for (int i = more; i > 0; i--) {
		to[i] = (char)(0x80 | (c & 0x3f));
		c >>= 6;
	}
	to[0] = (char)(lead[more] | c);
	return (size_t)more + 1;
}

/* The bytes of the entity whose name is s[0..n): how many; 0: not known. */
static size_t entity(const char *s, size_t n, char *to)
{
	uint32_t c;

	for (size_t i = 0; i < sizeof(entities) / sizeof(*entities); i++) {
		if (strlen(entities[i].name) == n &&
		    !memcmp(entities[i].name, s, n)) {
			*to = entities[i].is;
			return 1;
		}
	}
	c = n && *s == '#' ? numbered(s, n) : 0;
	return c ? put_utf8(to, c) : 0;
}

static bool decode(const char *s, const char *end, char *buf, size_t cap)
{
	size_t used = 0;

	while (s < end) {
		char c[4] = { *s };
		size_t n = 1;

		if (*s == '&') {
			const char *semi = memchr(s, ';', (size_t)(end - s));

			n = semi ? entity(s + 1, (size_t)(semi - s - 1), c) : 0;
			s = semi;
		}
		if (!n || !c[0] || used + n >= cap)
			return false;
		memcpy(buf + used, c, n);
		used += n;
		s++;
	}
	buf[used] = 0;
	return true;
}

int mr_xml_next(struct mr_xml *x, const char *name, char *buf, size_t cap)
{
	char open[64], close[64];
	const char *from, *to;

	snprintf(open, sizeof(open), "<%s>", name);
	snprintf(close, sizeof(close), "</%s>", name);
	from = after(x->at, x->end, open);
	if (!from)
		return 0;
	to = after(from, x->end, close);
	if (!to || !decode(from, to - strlen(close), buf, cap))
		return -1;
	x->at = to;
	return 1;
}

bool mr_xml_find(struct mr_xml x, const char *name, char *buf, size_t cap)
{
	return mr_xml_next(&x, name, buf, cap) > 0;
}
