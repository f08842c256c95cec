/* SPDX-License-Identifier: Apache-2.0 */
#include "op/htmlname.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "op/htmlscan.h"

/* ---- labels ---- */

/* Browsers take supersets for what pages claim. In the standard's list,
 * several labels mean the same; what only differs by case, '-' and '_' is
 * one here. */
static const struct {
	const char *label, *is;
} labels[] = {
	{ "utf8", "UTF-8" },
	{ "unicode11utf8", "UTF-8" },
	{ "utf16", "UTF-8" }, /* ASCII could not be read if it were true */
	{ "utf16le", "UTF-8" },
	{ "utf16be", "UTF-8" },
	{ "ascii", "CP1252" },
	{ "usascii", "CP1252" },
	{ "iso88591", "CP1252" },
	{ "latin1", "CP1252" },
	{ "l1", "CP1252" },
	{ "cp1252", "CP1252" },
	{ "windows1252", "CP1252" },
	{ "xcp1252", "CP1252" },
	{ "windows1250", "CP1250" },
	{ "cp1250", "CP1250" },
	{ "windows1251", "CP1251" },
	{ "cp1251", "CP1251" },
	{ "xcp1251", "CP1251" },
	{ "windows1253", "CP1253" },
	{ "cp1253", "CP1253" },
	{ "windows1254", "CP1254" },
	{ "cp1254", "CP1254" },
	{ "iso88599", "CP1254" },
	{ "latin5", "CP1254" },
	{ "windows1255", "CP1255" },
	{ "cp1255", "CP1255" },
	{ "windows1256", "CP1256" },
	{ "cp1256", "CP1256" },
	{ "windows1257", "CP1257" },
	{ "cp1257", "CP1257" },
	{ "windows1258", "CP1258" },
	{ "cp1258", "CP1258" },
	{ "windows874", "CP874" },
	{ "tis620", "CP874" },
	{ "iso885911", "CP874" },
	{ "iso88592", "ISO-8859-2" },
	{ "latin2", "ISO-8859-2" },
	{ "iso88593", "ISO-8859-3" },
	{ "iso88594", "ISO-8859-4" },
	{ "iso88595", "ISO-8859-5" },
	{ "cyrillic", "ISO-8859-5" },
	{ "iso88596", "ISO-8859-6" },
	{ "arabic", "ISO-8859-6" },
	{ "iso88597", "ISO-8859-7" },
	{ "greek", "ISO-8859-7" },
	{ "iso88598", "ISO-8859-8" },
	{ "iso88598i", "ISO-8859-8" },
	{ "hebrew", "ISO-8859-8" },
	{ "iso885910", "ISO-8859-10" },
	{ "iso885913", "ISO-8859-13" },
	{ "iso885914", "ISO-8859-14" },
	{ "iso885915", "ISO-8859-15" },
	{ "latin9", "ISO-8859-15" },
	{ "iso885916", "ISO-8859-16" },
	{ "koi8r", "KOI8-R" },
	{ "koi8", "KOI8-R" },
	{ "koi8u", "KOI8-U" },
	{ "ibm866", "CP866" },
	{ "cp866", "CP866" },
	{ "macintosh", "MACINTOSH" },
	{ "xmaccyrillic", "MAC-CYRILLIC" },
	{ "shiftjis", "CP932" },
	{ "sjis", "CP932" },
	{ "xsjis", "CP932" },
	{ "windows31j", "CP932" },
	{ "mskanji", "CP932" },
	{ "ms932", "CP932" },
	{ "eucjp", "EUC-JP-MS" },
	{ "xeucjp", "EUC-JP-MS" },
	{ "iso2022jp", "ISO-2022-JP-3" },
	{ "gb2312", "GB18030" },
	{ "gbk", "GB18030" },
	{ "gb18030", "GB18030" },
	{ "xgbk", "GB18030" },
	{ "euccn", "GB18030" },
	{ "big5", "BIG5-HKSCS" },
	{ "big5hkscs", "BIG5-HKSCS" },
	{ "xxbig5", "BIG5-HKSCS" },
	{ "euckr", "CP949" },
	{ "ksc56011987", "CP949" },
	{ "ksc5601", "CP949" },
	{ "korean", "CP949" },
	{ "windows949", "CP949" },
	{ "cp949", "CP949" },
};

const char *mr_html_label(const char *label, size_t n)
{
	char s[20];
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (label[i] == '-' || label[i] == '_')
			continue;
		if (k + 1 == sizeof(s))
			return NULL;
		s[k++] = label[i];
	}
	s[k] = 0;
	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		if (!strcasecmp(s, labels[i].label))
			return labels[i].is;
	return NULL;
}

/* ---- where it stands ---- */

/* The value at p, after "charset" or "encoding"; quotes are optional. */
static const char *after_equals(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *from;

	while (p < end && mr_html_space(*p))
		p++;
	if (p == end || *p != '=')
		return NULL;
	p++;
	while (p < end && (mr_html_space(*p) || *p == '"' || *p == '\''))
		p++;
	from = p;
	while (p < end && !mr_html_space(*p) && *p != '"' && *p != '\'' &&
	       *p != ';' && *p != '>' && *p != '/' && *p != '?')
		p++;
	return mr_html_label((const char *)from, (size_t)(p - from));
}

/* Whether `word` is at p, in any case. */
static bool at_word(const uint8_t *p, const uint8_t *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - p) >= n && !strncasecmp((const char *)p, word, n);
}

/* Within the tag at p: what follows `word`. */
static const char *in_tag(const uint8_t *p, const uint8_t *end,
			  const char *word)
{
	for (; p < end && *p != '>'; p++) {
		const char *is;

		if (!at_word(p, end, word))
			continue;
		is = after_equals(p + strlen(word), end);
		if (is)
			return is;
	}
	return NULL;
}

static const char *said(const uint8_t *p, const uint8_t *end)
{
	bool no_comment_ends = false;
	const char *is = NULL;

	if (at_word(p, end, "<?xml"))
		is = in_tag(p, end, "encoding");
	while (!is && p < end) {
		p = memchr(p, '<', (size_t)(end - p));
		if (!p)
			break;
		if (at_word(p, end, "<!--")) {
			p = mr_html_skip(p, end, &no_comment_ends);
			continue;
		}
		if (at_word(p, end, "<meta") && end - p > 5 &&
		    (mr_html_space(p[5]) || p[5] == '/'))
			is = in_tag(p + 5, end, "charset");
		p++;
	}
	return is;
}

/* ---- the bytes themselves ---- */

static const char *by_mark(const uint8_t *p, size_t n, size_t *mark)
{
	*mark = 2;
	if (n >= 2 && p[0] == 0xfe && p[1] == 0xff)
		return "UTF-16BE";
	if (n >= 2 && p[0] == 0xff && p[1] == 0xfe)
		return "UTF-16LE";
	*mark = 3;
	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		return "UTF-8";
	*mark = 0;
	return NULL;
}

/* UTF-16 without a mark: "<!" or "<h" with zeros between. */
static const char *by_zeros(const uint8_t *p, size_t n)
{
	if (n >= 4 && p[0] == '<' && !p[1] && p[2] && !p[3])
		return "UTF-16LE";
	if (n >= 4 && !p[0] && p[1] == '<' && !p[2] && p[3])
		return "UTF-16BE";
	return NULL;
}

const char *mr_html_name(const char *given, const uint8_t *page, size_t n,
			 size_t *mark)
{
	enum { LOOK = 4096 };
	const char *is = by_mark(page, n, mark);

	if (is)
		return is;
	if (*given) {
		is = !strncasecmp(given, "utf-16le", 8) ? "UTF-16LE" :
		     !strncasecmp(given, "utf-16be", 8) ? "UTF-16BE" :
							  NULL;
		return is ? is : mr_html_label(given, strlen(given));
	}
	is = by_zeros(page, n);
	return is ? is : said(page, page + (n < LOOK ? n : LOOK));
}
