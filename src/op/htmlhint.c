/* SPDX-License-Identifier: Apache-2.0 */
/* The names that pages give to their parts. */
#include <string.h>

#include "op/html.h"
#include "op/htmlscan.h"

enum { WORD = 24 };

/* A word of a name: "articleBody entry-content" has four. */
struct word {
	char text[WORD];
	size_t n;
};

enum {
	ARTICLE = 1, /* with TEXT: the text of an article */
	TEXT = 2,
	GOOD = 4,
	BAD = 8,
	COMMENT = 16,
	NOTE = 32,
	HIDDEN = 64,
};

#define IS(s, kind)                                                    \
	(w->n == sizeof(s) - 1 && !memcmp(w->text, s, sizeof(s) - 1) ? \
		 (kind) :                                              \
		 0)
#define BEGINS(s, kind) (!memcmp(w->text, s, sizeof(s) - 1) ? (kind) : 0)

/* A switch, not a table: pages have thousands of these words, and most of
 * them are none of ours. */
/* clang-format off */
static int kind_of(const struct word *w)
{
	switch (w->text[0]) {
	case 'a':
		return IS("ad", BAD) |
		       IS("ads", BAD) |
		       BEGINS("advert", BAD) |
		       IS("article", ARTICLE | GOOD) |
		       IS("articlebody", ARTICLE | TEXT | GOOD) |
		       IS("articlecontent", ARTICLE | TEXT | GOOD) |
		       IS("articletext", ARTICLE | TEXT | GOOD) |
		       BEGINS("author", NOTE);
	case 'b':
		return BEGINS("banner", BAD) |
		       IS("bio", BAD) |
		       IS("blog", GOOD) |
		       IS("body", TEXT) |
		       BEGINS("breadcrumb", BAD) |
		       IS("byline", NOTE);
	case 'c':
		return BEGINS("caption", NOTE) |
		       BEGINS("comment", COMMENT) |
		       IS("content", TEXT | GOOD) |
		       BEGINS("cookie", BAD) |
		       IS("copyright", NOTE) |
		       BEGINS("credit", NOTE);
	case 'd':
		return IS("dateline", NOTE) |
		       IS("disqus", COMMENT);
	case 'e':
		return IS("entry", ARTICLE | GOOD);
	case 'f':
		return BEGINS("footer", BAD);
	case 'h':
		return IS("hidden", HIDDEN);
	case 'm':
		return IS("masthead", BAD) |
		       BEGINS("menu", BAD) |
		       IS("meta", NOTE) |
		       IS("metadata", NOTE) |
		       IS("modal", BAD);
	case 'n':
		return IS("nav", BAD) |
		       IS("navbar", BAD) |
		       IS("navigation", BAD) |
		       BEGINS("newsletter", BAD);
	case 'o':
		return IS("outbrain", BAD);
	case 'p':
		return IS("pagination", BAD) |
		       IS("popular", BAD) |
		       IS("popup", BAD) |
		       IS("post", ARTICLE | GOOD) |
		       BEGINS("promo", BAD) |
		       IS("pullquote", NOTE);
	case 'r':
		return BEGINS("recirc", BAD) |
		       BEGINS("recommend", BAD) |
		       BEGINS("related", BAD) |
		       IS("replies", COMMENT) |
		       IS("respond", COMMENT);
	case 's':
		return BEGINS("share", BAD) |
		       IS("sharing", BAD) |
		       BEGINS("sidebar", BAD) |
		       IS("signup", BAD) |
		       IS("skip", BAD) |
		       BEGINS("social", BAD) |
		       BEGINS("sponsor", BAD) |
		       IS("story", ARTICLE | GOOD) |
		       BEGINS("subscribe", BAD);
	case 't':
		return IS("taboola", BAD) |
		       IS("tags", NOTE) |
		       BEGINS("teaser", BAD) |
		       IS("text", TEXT) |
		       IS("timestamp", NOTE) |
		       IS("toolbar", BAD) |
		       IS("trending", BAD);
	case 'w':
		return BEGINS("widget", BAD);
	default:
		return 0;
	}
}
/* clang-format on */

/* The next word of a value, in lower case; what is too long is cut. */
static size_t next_word(const uint8_t *p, size_t n, struct word *w)
{
	size_t i = 0;

	*w = (struct word){ 0 };
	while (i < n && !mr_html_letter(p[i]))
		i++;
	while (i < n && mr_html_letter(p[i])) {
		if (w->n && p[i] < 'a' && p[i - 1] >= 'a')
			break; /* camelCase */
		if (w->n < WORD - 1)
			w->text[w->n++] = (char)(p[i] | 0x20);
		i++;
	}
	return i;
}

/* Names of one part, up to a space, together say more than each. */
static unsigned meaning(int kinds)
{
	unsigned h = 0;

	if (kinds & COMMENT)
		return MR_HINT_COMMENT;
	if (kinds & BAD)
		return MR_HINT_BAD;
	if (kinds & HIDDEN)
		h |= MR_HINT_HIDDEN;
	if (kinds & NOTE)
		return h | MR_HINT_NOTE;
	if (kinds & ARTICLE && kinds & TEXT)
		h |= MR_HINT_BODY;
	if (kinds & GOOD)
		h |= MR_HINT_GOOD;
	return h;
}

unsigned mr_html_hints(const uint8_t *value, size_t n)
{
	unsigned hints = 0;

	for (size_t i = 0; i < n;) {
		size_t end = i;
		int kinds = 0;

		while (end < n && !mr_html_space(value[end]))
			end++;
		while (i < end) {
			struct word w;

			i += next_word(value + i, end - i, &w);
			if (w.n)
				kinds |= kind_of(&w);
		}
		hints |= meaning(kinds);
		while (i < n && mr_html_space(value[i]))
			i++;
	}
	return hints;
}
