/* SPDX-License-Identifier: Apache-2.0 */
#include "op/htmlcode.h"

#include <string.h>

#include "core/le.h"
#include "core/mem.h"
#include "op/htmlname.h"
#include "op/unicode.h"

/* ---- UTF-8 ---- */

/* Bytes of the ASCII that p begins with. */
static size_t ascii_run(const uint8_t *p, size_t n)
{
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
		if (mr_le64(p + i) & 0x8080808080808080u)
			break;
	while (i < n && p[i] < 0x80)
		i++;
	return i;
}

/* How many characters of several bytes there are, and how many bytes are
 * part of none. */
struct tally {
	size_t good, bad;
};

static struct tally tally(const uint8_t *p, size_t n)
{
	struct tally t = { 0 };

	for (size_t i = ascii_run(p, n); i < n; i += ascii_run(p + i, n - i)) {
		uint32_t code;
		size_t k = mr_utf8_read(p + i, n - i, &code);

		t.good += k > 0;
		t.bad += !k;
		i += k ? k : 1;
	}
	return t;
}

bool mr_utf8_valid(const uint8_t *p, size_t n)
{
	return !tally(p, n).bad;
}

size_t mr_utf8_write(uint32_t c, uint8_t *to)
{
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i; i--, c >>= 6)
		to[i] = (uint8_t)(0x80 | (c & 0x3f));
	to[0] = (uint8_t)(first[n] | c);
	return n;
}

/* ---- a page and what it becomes ---- */

struct job {
	const uint8_t *page;
	size_t bytes;
	struct mr_arena *arena;
	const uint8_t *to;
	size_t size;
	struct mr_err *err;
};

static uint8_t *room(const struct job *j, size_t n)
{
	uint8_t *p = mr_arena_take(j->arena, n);

	if (!p)
		mr_err_set(j->err, MR_ELIMIT,
			   "a page of %zu bytes needs %zu bytes as UTF-8, "
			   "which is more than a sample may take; raise "
			   "--memory",
			   j->bytes, n);
	return p;
}

/* Bad bytes become U+FFFD. */
static int repair(struct job *j, size_t bad)
{
	uint8_t *to = room(j, j->bytes + 2 * bad), *at = to;
	uint32_t code;

	if (!to)
		return MR_ELIMIT;
	for (size_t i = 0; i < j->bytes;) {
		size_t left = j->bytes - i;
		size_t n = mr_utf8_read(j->page + i, left, &code);

		if (n)
			memcpy(at, j->page + i, n);
		else
			mr_utf8_write(0xfffd, at);
		at += n ? n : 3;
		i += n ? n : 1;
	}
	j->to = to;
	j->size = (size_t)(at - to);
	return 0;
}

static int from_utf8(struct job *j)
{
	struct tally t = tally(j->page, j->bytes);

	return t.bad ? repair(j, t.bad) : 0;
}

uint32_t mr_windows_1252(uint8_t c)
{
	static const uint16_t upper[32] = {
		0x20ac, 0x81,	0x201a, 0x192,	0x201e, 0x2026, 0x2020, 0x2021,
		0x2c6,	0x2030, 0x160,	0x2039, 0x152,	0x8d,	0x17d,	0x8f,
		0x90,	0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
		0x2dc,	0x2122, 0x161,	0x203a, 0x153,	0x9d,	0x17e,	0x178
	};

	return c >= 0x80 && c < 0xa0 ? upper[c - 0x80] : c;
}

static int from_1252(struct job *j)
{
	size_t more = 0;
	uint8_t *to, *at;

	for (size_t i = 0; i < j->bytes; i++)
		more += (j->page[i] >= 0x80) +
			(j->page[i] >= 0x80 && j->page[i] < 0xa0);
	to = at = room(j, j->bytes + more);
	if (!to)
		return MR_ELIMIT;
	for (size_t i = 0; i < j->bytes; i++)
		at += mr_utf8_write(mr_windows_1252(j->page[i]), at);
	j->to = to;
	j->size = (size_t)(at - to);
	return 0;
}

/* Nothing is said: windows-1252 looks like UTF-8 by chance only. */
static int from_unknown(struct job *j)
{
	struct tally t = tally(j->page, j->bytes);

	if (!t.bad)
		return 0;
	return t.good > t.bad ? repair(j, t.bad) : from_1252(j);
}

/* ---- the others ---- */

void mr_html_coder_fini(struct mr_html_coder *c)
{
	if (c->name[0])
		iconv_close(c->cd);
	c->name[0] = 0;
}

static int start(struct mr_html_coder *c, const char *name, struct mr_err *err)
{
	if (!strcmp(c->name, name)) {
		iconv(c->cd, NULL, NULL, NULL, NULL);
		return 0;
	}
	mr_html_coder_fini(c);
	c->cd = iconv_open("UTF-8", name);
	if (c->cd == (iconv_t)-1)
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "the page is coded as %s, for which this "
				  "system has no converter (iconv -l lists "
				  "them)",
				  name);
	strcpy(c->name, name);
	return 0;
}

/* Returns the bytes made; SIZE_MAX when cap was too small. */
static size_t convert(const struct mr_html_coder *c, const struct job *j,
		      uint8_t *to, size_t cap)
{
	char *in = (char *)(uintptr_t)j->page, *out = (char *)to;
	size_t left = j->bytes, free_ = cap;
	size_t unit = !strncmp(c->name, "UTF-16", 6) ? 2 : 1;

	iconv(c->cd, NULL, NULL, NULL, NULL);
	while (left) {
		if (iconv(c->cd, &in, &left, &out, &free_) != (size_t)-1)
			break;
		if (errno == E2BIG || free_ < 3)
			return SIZE_MAX;
		/* EILSEQ, or EINVAL: the page ends inside a character */
		out += mr_utf8_write(0xfffd, (uint8_t *)out);
		free_ -= 3;
		in += left < unit ? left : unit;
		left -= left < unit ? left : unit;
	}
	/* Where an accent may follow, the last character is still held back. */
	if (iconv(c->cd, NULL, NULL, &out, &free_) == (size_t)-1)
		return SIZE_MAX;
	return cap - free_;
}

static int from_other(struct mr_html_coder *c, const char *name, struct job *j)
{
	int e = start(c, name, j->err);

	for (size_t k = 1; !e && k <= 2; k++) {
		size_t cap = 64 + j->bytes + j->bytes / 2 * (k == 1 ? 1 : 4);
		uint8_t *to = room(j, cap);

		if (!to)
			return MR_ELIMIT;
		j->size = convert(c, j, to, cap);
		j->to = to;
		if (j->size != SIZE_MAX)
			return 0;
	}
	return e ? e :
		   mr_err_set(j->err, MR_ELIMIT,
			      "a page of %zu bytes is more than three times "
			      "as long in UTF-8; its encoding cannot be %s",
			      j->bytes, name);
}

/* ---- no text at all ---- */

static const struct {
	const char *begins, *is;
	size_t n;
} magic[] = {
	{ "\x1f\x8b", "gzip; unpack it first", 2 },
	{ "\x28\xb5\x2f\xfd", "zstd; unpack it first", 4 },
	{ "PK\3\4", "a zip archive; unpack it first", 4 },
	{ "%PDF-", "a PDF", 5 },
	{ "\x89PNG", "a PNG image", 4 },
	{ "\xff\xd8\xff", "a JPEG image", 3 },
	{ "GIF8", "a GIF image", 4 },
	{ "\x7f"
	  "ELF",
	  "a program", 4 },
};

static bool is_control(uint8_t c)
{
	return c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' &&
	       c != 0x1b; /* ISO-2022-JP */
}

/* A zero here and there is what pages have, one byte in ten is not. */
static int refuse_binary(const struct job *j)
{
	size_t n = j->bytes < 4096 ? j->bytes : 4096, found = 0, first = 0;

	for (size_t i = 0; i < MR_COUNT(magic); i++)
		if (n >= magic[i].n &&
		    !memcmp(j->page, magic[i].begins, magic[i].n))
			return mr_err_set(j->err, MR_EDATA,
					  "this is no HTML but %s",
					  magic[i].is);
	for (size_t i = 0; i < n; i++) {
		if (!is_control(j->page[i]))
			continue;
		if (!found++)
			first = i;
	}
	if (found <= n / 10)
		return 0;
	return mr_err_set(j->err, MR_EDATA,
			  "this is no text: of its first %zu bytes %zu are "
			  "control characters, as 0x%02x at offset %zu",
			  n, found, j->page[first], first);
}

/* ---- all together ---- */

int mr_html_utf8(struct mr_html_coder *c, const char *given,
		 const uint8_t *page, size_t bytes, struct mr_arena *a,
		 const uint8_t **to, size_t *size, struct mr_err *err)
{
	struct job j = { page, bytes, a, page, bytes, err };
	size_t mark = 0;
	const char *name = mr_html_name(given, page, bytes, &mark);
	int e;

	j.page = j.to = page + mark;
	j.bytes = j.size = bytes - mark;
	e = name && !strncmp(name, "UTF-16", 6) ? 0 : refuse_binary(&j);
	if (e)
		return e;
	if (!name)
		e = from_unknown(&j);
	else if (!strcmp(name, "UTF-8"))
		e = from_utf8(&j);
	else if (!strcmp(name, "CP1252"))
		e = from_1252(&j);
	else
		e = from_other(c, name, &j);
	*to = j.to;
	*size = j.size;
	return e;
}

/* Of large ones it is worth looking at all. Of UTF-8, character references
 * alone may make more than they are: &nGt; is two characters of six bytes. */
size_t mr_html_bound(const char *given, const uint8_t *page, size_t bytes)
{
	enum { LARGE = 1 << 20 };
	const char *name = NULL;
	size_t mark;

	if (bytes >= LARGE)
		name = mr_html_name(given, page, bytes, &mark);
	if (bytes >= LARGE && (!name || !strcmp(name, "UTF-8")) &&
	    mr_utf8_valid(page, bytes))
		return bytes + bytes / 5 + 16;
	return bytes < SIZE_MAX / 4 ? 3 * bytes + 80 : SIZE_MAX;
}
