/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the article is. Sentences are what tells: blocks of several words,
 * with commas or full stops, and few of them in links. In this order:
 *
 *  1. What is never part of an article has gone: scripts, navigation, asides.
 *  2. What names itself comments, teasers, captions goes too, unless much of
 *     the page's sentences is in there: then the name means something else.
 *  3. Each block gives points to those around it, the nearest most; one that
 *     is named as an article's text has an advantage. The best is the root.
 *  4. If the text goes on beside it, the root becomes what holds both; but
 *     never more than one <article>, or one text that is named so.
 *  5. Within the root, blocks that are mostly links go, and titles.
 *
 * The numbers were chosen on pages of news and blogs; the result hardly
 * depends on any of them (bench/extract.py).
 */
#include "op/html.h"

/* ---- 1: sentences ---- */

enum { SOME_WORDS = 8, MANY_WORDS = 20 };

static bool is_block(const struct mr_html_node *n)
{
	return mr_tag_flags[n->tag] & MR_TAG_BLOCK;
}

static bool is_frame(const struct mr_html_node *n)
{
	return n->tag == MR_TAG_body || n->tag == MR_TAG_html ||
	       n->tag == MR_TAG_PAGE || n->tag == MR_TAG_main;
}

/* Words that are no links, of lines that look like sentences; else 0. Some
 * scripts have no marks to tell them by, but then they are long. */
static uint32_t own_prose(const struct mr_html_node *n)
{
	uint32_t words = n->words - n->links;

	if (!is_block(n) || mr_tag_flags[n->tag] & MR_TAG_HEADING ||
	    words < (n->marks ? SOME_WORDS : MANY_WORDS) || n->links > words)
		return 0;
	return words;
}

/* What each element holds, without what has gone. */
static void add_up(struct mr_html *h)
{
	for (uint32_t i = 0; i < h->count; i++)
		h->node[i].prose = h->node[i].total = h->node[i].linked = 0;
	for (uint32_t i = h->count - 1; i; i--) {
		struct mr_html_node *n = &h->node[i];
		struct mr_html_node *up = &h->node[n->parent];

		if (n->tag == MR_TAG_TEXT || n->flags & MR_HTML_GONE)
			continue;
		n->prose += own_prose(n);
		n->total += n->words;
		n->linked += n->links;
		up->prose += n->prose;
		up->total += n->total;
		up->linked += n->linked;
	}
	h->node[0].prose += own_prose(&h->node[0]);
}

static void leave_out_tags(struct mr_html *h)
{
	for (uint32_t i = 1; i < h->count; i++) {
		struct mr_html_node *n = &h->node[i];

		if (mr_tag_flags[n->tag] & MR_TAG_DROP)
			n->flags |= MR_HTML_GONE;
	}
}

/* ---- 2: names ---- */

/* Those of which one says `hint`, with at most this share of the prose. */
static void leave_out(struct mr_html *h, unsigned hint, double share)
{
	uint32_t most;

	add_up(h);
	most = (uint32_t)(share * h->node[0].prose);
	for (uint32_t i = 1; i < h->count; i++) {
		struct mr_html_node *n = &h->node[i];

		if (n->hints & hint && !(n->hints & MR_HINT_BODY) &&
		    !is_frame(n) && n->prose <= most)
			n->flags |= MR_HTML_GONE;
	}
}

/* ---- 3: the best block ---- */

static uint32_t block_above(const struct mr_html *h, uint32_t i)
{
	return h->node[h->node[i].parent].block;
}

static void give_points(struct mr_html *h, uint32_t i)
{
	enum { LEVELS = 4 };
	struct mr_html_node *n = &h->node[i];
	uint32_t words = own_prose(n);
	float points = 1 + (float)n->marks;

	points += words < 60 ? (float)words / 20 : 3;
	if (words > 80) /* a text in one block, by <br> */
		n->score += points;
	for (int k = 0; k < LEVELS && i; k++) {
		i = block_above(h, i);
		h->node[i].score += points;
		points /= 2;
	}
}

static uint32_t best_block(struct mr_html *h)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < h->count;) {
		struct mr_html_node *n = &h->node[i];

		if (own_prose(n) && !(n->flags & MR_HTML_GONE))
			give_points(h, i);
		i = n->flags & MR_HTML_GONE ? n->end : i + 1;
	}
	for (uint32_t i = 1; i < h->count; i++) {
		struct mr_html_node *n = &h->node[i];

		if (n->hints & MR_HINT_BODY)
			n->score *= 1.5f;
		if (n->score > h->node[best].score)
			best = i;
	}
	return best;
}

/* ---- 4: all of it ---- */

/* Named as an article's text, and nothing around it is. */
static bool is_whole_body(const struct mr_html *h, uint32_t i)
{
	if (!(h->node[i].hints & MR_HINT_BODY))
		return false;
	do {
		i = h->node[i].parent;
		if (h->node[i].hints & MR_HINT_BODY && !is_frame(&h->node[i]))
			return false;
	} while (i && h->node[i].tag != MR_TAG_article);
	return true;
}

/* Worth it for a fifth more, most of which is sentences. */
static uint32_t widen(const struct mr_html *h, uint32_t root)
{
	const struct mr_html_node *r = &h->node[root];
	uint32_t i = root;

	while (i && h->node[i].tag != MR_TAG_article && !is_whole_body(h, i)) {
		const struct mr_html_node *n;
		double more;

		i = block_above(h, i);
		n = &h->node[i];
		more = (double)n->prose - r->prose;
		if (i && more >= 0.2 * r->prose &&
		    more >= 0.6 * ((double)n->total - r->total)) {
			root = i;
			r = n;
		}
	}
	return root;
}

/* ---- 5: what is in between ---- */

static void clean(struct mr_html *h, uint32_t root)
{
	enum { FEW = 30 };

	for (uint32_t i = root + 1; i < h->node[root].end; i++) {
		struct mr_html_node *n = &h->node[i];

		if (is_block(n) && 2 * (uint64_t)n->linked > n->total &&
		    n->prose < FEW)
			n->flags |= MR_HTML_GONE;
		if (n->tag == MR_TAG_h1)
			n->flags |= MR_HTML_GONE;
	}
}

/* Headings that nothing follows. */
static void trim(struct mr_html *h, uint32_t root)
{
	uint32_t last = root;

	for (uint32_t i = root; i < h->node[root].end;) {
		const struct mr_html_node *n = &h->node[i];

		if (n->tag == MR_TAG_TEXT &&
		    !(mr_tag_flags[h->node[n->block].tag] & MR_TAG_HEADING))
			last = i;
		i = n->flags & MR_HTML_GONE ? n->end : i + 1;
	}
	for (uint32_t i = last + 1; i < h->node[root].end; i++)
		if (mr_tag_flags[h->node[i].tag] & MR_TAG_HEADING)
			h->node[i].flags |= MR_HTML_GONE;
}

uint32_t mr_html_article(struct mr_html *h)
{
	uint32_t root;

	leave_out_tags(h);
	leave_out(h, MR_HINT_HIDDEN, 0.3);
	leave_out(h, MR_HINT_COMMENT, 0.7);
	leave_out(h, MR_HINT_BAD, 0.4);
	leave_out(h, MR_HINT_NOTE, 0.1);
	add_up(h);
	root = widen(h, best_block(h));
	clean(h, root);
	trim(h, root);
	return root;
}
