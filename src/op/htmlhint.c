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

enum kind {
	ARTICLE = 1, /* with TEXT: the text of an article */
	TEXT = 2,
	GOOD = 4,
	BAD = 8,
	COMMENT = 16,
	NOTE = 32,
	HIDDEN = 64,
};

/* Sorted. A word that ends with '*' stands for all that begin so. */
static const struct {
	const char *word;
	unsigned kind;
} words[] = {
	{ "ad", BAD },
	{ "ads", BAD },
	{ "advert*", BAD },
	{ "article", ARTICLE | GOOD },
	{ "articlebody", ARTICLE | TEXT | GOOD },
	{ "articlecontent", ARTICLE | TEXT | GOOD },
	{ "articletext", ARTICLE | TEXT | GOOD },
	{ "author*", NOTE },
	{ "banner*", BAD },
	{ "bio", BAD },
	{ "blog", GOOD },
	{ "body", TEXT },
	{ "breadcrumb*", BAD },
	{ "byline", NOTE },
	{ "caption*", NOTE },
	{ "comment*", COMMENT },
	{ "content", TEXT | GOOD },
	{ "cookie*", BAD },
	{ "copyright", NOTE },
	{ "credit*", NOTE },
	{ "dateline", NOTE },
	{ "disqus", COMMENT },
	{ "entry", ARTICLE | GOOD },
	{ "footer*", BAD },
	{ "hidden", HIDDEN },
	{ "masthead", BAD },
	{ "menu*", BAD },
	{ "meta", NOTE },
	{ "metadata", NOTE },
	{ "modal", BAD },
	{ "nav", BAD },
	{ "navbar", BAD },
	{ "navigation", BAD },
	{ "newsletter*", BAD },
	{ "outbrain", BAD },
	{ "pagination", BAD },
	{ "popular", BAD },
	{ "popup", BAD },
	{ "post", ARTICLE | GOOD },
	{ "promo*", BAD },
	{ "pullquote", NOTE },
	{ "recirc*", BAD },
	{ "recommend*", BAD },
	{ "related*", BAD },
	{ "replies", COMMENT },
	{ "respond", COMMENT },
	{ "share*", BAD },
	{ "sharing", BAD },
	{ "sidebar*", BAD },
	{ "signup", BAD },
	{ "skip", BAD },
	{ "social*", BAD },
	{ "sponsor*", BAD },
	{ "story", ARTICLE | GOOD },
	{ "subscribe*", BAD },
	{ "taboola", BAD },
	{ "tags", NOTE },
	{ "teaser*", BAD },
	{ "text", TEXT },
	{ "timestamp", NOTE },
	{ "toolbar", BAD },
	{ "trending", BAD },
	{ "widget*", BAD },
};

static int order(const struct word *w, const char *is)
{
	size_t n = strlen(is);

	if (is[n - 1] == '*' && w->n >= n - 1)
		return memcmp(w->text, is, n - 1);
	return strcmp(w->text, is);
}

static unsigned lookup(const struct word *w)
{
	size_t lo = 0, hi = sizeof(words) / sizeof(*words);

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int o = order(w, words[mid].word);

		if (!o)
			return words[mid].kind;
		if (o < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return 0;
}

/* The next word of a value, in lower case; what is too long is cut. */
static size_t next_word(const uint8_t *p, size_t n, struct word *w)
{
	size_t i = 0;

	w->n = 0;
	while (i < n && !mr_html_letter(p[i]))
		i++;
	while (i < n && mr_html_letter(p[i])) {
		if (w->n && p[i] < 'a' && p[i - 1] >= 'a')
			break; /* camelCase */
		if (w->n < WORD - 1)
			w->text[w->n++] = (char)(p[i] | 0x20);
		i++;
	}
	w->text[w->n] = 0;
	return i;
}

/* Names of one part, up to a space, together say more than each. */
static unsigned meaning(unsigned kinds)
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
		unsigned kinds = 0;

		while (i < n && !mr_html_space(value[i])) {
			struct word w;
			size_t left = 0;

			while (i + left < n && !mr_html_space(value[i + left]))
				left++;
			i += next_word(value + i, left, &w);
			if (w.n)
				kinds |= lookup(&w);
		}
		hints |= meaning(kinds);
		while (i < n && mr_html_space(value[i]))
			i++;
	}
	return hints;
}
