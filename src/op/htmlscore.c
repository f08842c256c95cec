/* SPDX-License-Identifier: Apache-2.0 */
#include "op/html.h"

static bool is_frame(const struct mr_html_node *n)
{
	return n->tag == MR_TAG_body || n->tag == MR_TAG_html ||
	       n->tag == MR_TAG_PAGE || n->tag == MR_TAG_main;
}

/* Words that are no links, of a block that looks like sentences; else 0. */
static uint32_t own_prose(const struct mr_html_node *n)
{
	uint32_t words = n->words - n->links;
	unsigned flags = mr_tag_flags[n->tag];

	if (!(flags & MR_TAG_BLOCK) || flags & MR_TAG_HEADING || words < 8 ||
	    2 * n->links > n->words || !n->marks)
		return 0;
	return words;
}

/* How much of it each element holds, without what has gone. */
static void add_up(struct mr_html *h)
{
	for (uint32_t i = 0; i < h->count; i++)
		h->node[i].prose = 0;
	for (uint32_t i = h->count - 1; i; i--) {
		struct mr_html_node *n = &h->node[i];

		if (n->tag == MR_TAG_TEXT || n->flags & MR_HTML_GONE)
			continue;
		n->prose += own_prose(n);
		h->node[n->parent].prose += n->prose;
	}
}

static void leave_out(struct mr_html *h, unsigned hints, float share)
{
	uint32_t most;

	add_up(h);
	most = (uint32_t)((float)h->node[0].prose * share);
	for (uint32_t i = 1; i < h->count; i++) {
		struct mr_html_node *n = &h->node[i];

		if (n->tag != MR_TAG_TEXT && n->hints & hints && !is_frame(n) &&
		    n->prose <= most && !(n->hints & MR_HINT_BODY))
			n->flags |= MR_HTML_GONE;
	}
}

static void leave_out_tags(struct mr_html *h)
{
	for (uint32_t i = 1; i < h->count; i++) {
		struct mr_html_node *n = &h->node[i];

		if (mr_tag_flags[n->tag] & MR_TAG_DROP ||
		    n->tag == MR_TAG_figcaption)
			n->flags |= MR_HTML_GONE;
	}
}

uint32_t mr_html_article(struct mr_html *h)
{
	uint32_t best = 0;

	leave_out_tags(h);
	leave_out(h, MR_HINT_HIDDEN, 0.3f);
	leave_out(h, MR_HINT_COMMENT, 0.7f);
	leave_out(h, MR_HINT_BAD, 0.4f);
	leave_out(h, MR_HINT_NOTE, 0.2f);
	add_up(h);
	for (uint32_t i = 1; i < h->count;) {
		struct mr_html_node *n = &h->node[i];
		if (n->flags & MR_HTML_GONE) { i = n->end; continue; }
		if (n->tag != MR_TAG_TEXT && own_prose(n)) {
			float w = (float)own_prose(n);
			float s = 1 + (float)n->marks + (w / 20 > 3 ? 3 : w / 20);
			uint32_t p = i;
			if (w > 80) n->score += s;
			for (int k = 0; k < 4 && p; k++) {
				p = h->node[h->node[p].parent].block;
				h->node[p].score += s;
				s *= 0.5f;
			}
		}
		i++;
	}
	for (uint32_t i = 1; i < h->count; i++)
		if (h->node[i].score > h->node[best].score)
			best = i;
	return best;
}
