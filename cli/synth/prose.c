/* SPDX-License-Identifier: Apache-2.0 */
#include "synth/prose.h"

#include <math.h>
#include <string.h>

static const struct {
	const char *word;
	int weight;
} shorts[] = {
	{ "the", 70 },	{ "of", 35 },	 { "and", 30 },	 { "to", 28 },
	{ "a", 25 },	{ "in", 22 },	 { "that", 12 }, { "is", 11 },
	{ "was", 10 },	{ "for", 10 },	 { "it", 9 },	 { "with", 8 },
	{ "as", 8 },	{ "his", 7 },	 { "on", 7 },	 { "be", 7 },
	{ "at", 6 },	{ "by", 6 },	 { "had", 5 },	 { "not", 5 },
	{ "are", 5 },	{ "but", 5 },	 { "from", 5 },	 { "or", 4 },
	{ "have", 4 },	{ "an", 4 },	 { "they", 4 },	 { "which", 4 },
	{ "one", 4 },	{ "were", 4 },	 { "her", 4 },	 { "all", 3 },
	{ "she", 3 },	{ "there", 3 },	 { "would", 3 }, { "their", 3 },
	{ "we", 3 },	{ "him", 3 },	 { "been", 3 },	 { "has", 3 },
	{ "when", 3 },	{ "who", 3 },	 { "will", 3 },	 { "more", 3 },
	{ "no", 3 },	{ "if", 3 },	 { "out", 3 },	 { "so", 3 },
	{ "said", 3 },	{ "what", 3 },	 { "up", 2 },	 { "its", 2 },
	{ "about", 2 }, { "into", 2 },	 { "than", 2 },	 { "them", 2 },
	{ "can", 2 },	{ "only", 2 },	 { "other", 2 }, { "new", 2 },
	{ "some", 2 },	{ "could", 2 },	 { "time", 2 },	 { "these", 2 },
	{ "two", 2 },	{ "may", 2 },	 { "then", 2 },	 { "do", 2 },
	{ "first", 2 }, { "any", 2 },	 { "my", 2 },	 { "now", 2 },
	{ "such", 2 },	{ "like", 2 },	 { "our", 2 },	 { "over", 2 },
	{ "man", 2 },	{ "me", 2 },	 { "even", 2 },	 { "most", 2 },
	{ "made", 2 },	{ "after", 2 },	 { "also", 2 },	 { "did", 2 },
	{ "many", 2 },	{ "before", 2 }, { "must", 2 },	 { "through", 2 },
};

enum { SHORTS = sizeof(shorts) / sizeof(*shorts), SHORT_WEIGHT = 501 };

const char *prose_short(int i, int *weight)
{
	if (i >= SHORTS)
		return NULL;
	*weight = shorts[i].weight;
	return shorts[i].word;
}

void prose_word(uint64_t seed, int r, char buf[PROSE_MAX])
{
	static const char *const first[] = {
		"b",  "c",  "d",  "f",	"g",  "h",  "l",  "m",	"n",
		"p",  "r",  "s",  "t",	"v",  "w",  "st", "tr", "pr",
		"ch", "sh", "gr", "br", "cl", "pl", "th", "sp",
	};
	static const char *const then[] = { "a",  "e",	"i",  "o", "u",
					    "ea", "ou", "ai", "e", "i" };
	static const char *const last[] = { "",	 "n", "r",  "s",  "t", "l",
					    "d", "m", "nt", "ck", "",  "" };
	struct synth_rng rng = synth_rng_for(seed, 0x70726f7365 + (uint64_t)r);
	int syllables = 1 + (r > 60) + synth_below(&rng, 2) +
			(r > 1000 && !synth_below(&rng, 3));

	buf[0] = 0;
	for (int i = 0; i < syllables; i++) {
		strcat(buf, first[synth_below(&rng, 26)]);
		strcat(buf, then[synth_below(&rng, 10)]);
		strcat(buf, last[synth_below(&rng, 12)]);
	}
}

static void draw_short(const struct prose *p, char buf[PROSE_MAX])
{
	int at = synth_below(p->rng, SHORT_WEIGHT), i = 0;

	while (i + 1 < SHORTS && at >= shorts[i].weight)
		at -= shorts[i++].weight;
	strcpy(buf, shorts[i].word);
}

void prose_draw(const struct prose *p, char buf[PROSE_MAX])
{
	double u;

	if (synth_below(p->rng, 100) < 45) {
		draw_short(p, buf);
		return;
	}
	u = (double)synth_real(p->rng, 0, 1);
	prose_word(p->seed, (int)exp(u * log(PROSE_WORDS)) - 1, buf);
}

/* ---- as a reader sees it and as it is written ---- */

struct pair {
	struct mr_str *plain, *html;
};

static void both(const struct pair *to, const char *plain, const char *html)
{
	if (to->plain)
		mr_str_add(to->plain, plain);
	if (to->html)
		mr_str_add(to->html, html);
}

static void capital(char *word)
{
	if (word[0] >= 'a' && word[0] <= 'z')
		word[0] = (char)(word[0] - 'a' + 'A');
}

/* A word, and what may be around it. */
static void dress(const struct prose *p, bool links, const char *word,
		  const struct pair *to)
{
	int how = synth_below(p->rng, 100);
	struct pair tag = { NULL, to->html };

	if (how < 2 && links)
		both(&tag, "", "<a href=\"/topic\" class=\"inline-link\">");
	else if (how < 4)
		both(&tag, "", "<em>");
	both(to, word, word);
	if (how < 2 && links)
		both(&tag, "", "</a>");
	else if (how < 4)
		both(&tag, "", "</em>");
	if (how == 5)
		both(to, "\xe2\x80\x99s", "&rsquo;s");
	else if (how == 6)
		both(to, " &", " &amp;");
	else if (how == 7)
		both(to, " caf\xc3\xa9", "\n\tcaf&eacute;");
	else if (how >= 8 && how < 16)
		both(to, ",", ",");
}

static void sentence(const struct prose *p, bool links, const struct pair *to)
{
	int n = 6 + synth_below(p->rng, 16);
	char word[PROSE_MAX];

	for (int i = 0; i < n; i++) {
		prose_draw(p, word);
		if (!i)
			capital(word);
		else
			both(to, " ", synth_below(p->rng, 14) ? " " : "\n");
		if (i && i < n - 1)
			dress(p, links, word, to);
		else
			both(to, word, word);
	}
	both(to, ".", ".");
}

void prose_sentences(const struct prose *p, int n, bool links,
		     struct mr_str *plain, struct mr_str *html)
{
	struct pair to = { plain, html };

	for (int i = 0; i < n; i++) {
		if (i)
			both(&to, " ", " ");
		sentence(p, links, &to);
	}
}

void prose_title(const struct prose *p, int n, struct mr_str *plain,
		 struct mr_str *html)
{
	struct pair to = { plain, html };
	char word[PROSE_MAX];

	for (int i = 0; i < n; i++) {
		prose_draw(p, word);
		if (!i)
			capital(word);
		else
			both(&to, " ", " ");
		both(&to, word, word);
	}
}
