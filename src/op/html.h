/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTML as a tree that extract_text works on. It is made in one pass, in
 * memory of an arena, without recursion, from whatever the bytes are: as
 * browsers do, every page is a tree. Ends that are left out are filled in;
 * formatting that overlaps blocks ends where the block does; depth is bounded.
 */
#ifndef MR_OP_HTML_H
#define MR_OP_HTML_H

#include "core/arena.h"
#include "op/htmltag.h"

enum mr_html_flag {
	MR_HTML_SPACE = 1,  /* white space stood before it */
	MR_HTML_LINK = 2,   /* text in a link */
	MR_HTML_HIDDEN = 4, /* is not shown */
	MR_HTML_GONE = 8,   /* left out by what it is or by its surroundings */
	MR_HTML_BREAK = 16, /* text after a <br> */
};

/* What class, id, role and itemprop say about an element. */
enum mr_html_hint {
	MR_HINT_BODY = 1,    /* the text of an article */
	MR_HINT_GOOD = 2,    /* article, content, post */
	MR_HINT_BAD = 4,     /* around an article: teasers, share, sidebar */
	MR_HINT_COMMENT = 8, /* of readers */
	MR_HINT_NOTE = 16,   /* caption, credit, byline */
	MR_HINT_HIDDEN = 32, /* is not shown */
};

/*
 * Nodes lie in the order of the document: the descendants of node i are i + 1
 * to end - 1. Text has the tag MR_TAG_TEXT and no descendants.
 */
struct mr_html_node {
	uint32_t parent, end;
	uint32_t block;	   /* the element whose line it is part of */
	uint32_t at, size; /* of text: where it lies in the page */
	/* Words, and those in links; marks such as commas and full stops. Of
	 * a block what its lines have, later what it has in all. */
	uint32_t words, links, marks;
	/* In all that it holds: words of sentences, words, those in links. */
	uint32_t prose, total, linked;
	float score;
	uint8_t tag, flags, hints;
};

struct mr_html {
	const uint8_t *page; /* UTF-8 */
	size_t bytes;
	struct mr_html_node *node; /* node[0] stands for the page */
	uint32_t count;
};

/* The page has less than 4 GB. Fails when the arena has no room: MR_ELIMIT. */
int mr_html_parse(struct mr_html *h, const uint8_t *page, size_t bytes,
		  struct mr_arena *a, struct mr_err *err);

/* What the value of an attribute that holds names says. */
unsigned mr_html_hints(const uint8_t *value, size_t n);

/* Marks what does not belong to the article: MR_HTML_GONE. Returns the node
 * that holds it. */
uint32_t mr_html_article(struct mr_html *h);

/*
 * The text of what is left below a node, a line for each block: at most cap
 * bytes to `to`. Returns how many it has, which may be more.
 */
size_t mr_html_text(const struct mr_html *h, uint32_t root, uint8_t *to,
		    size_t cap);

/*
 * The character reference at p (which is at '&'), of which n bytes may be
 * read: its bytes as UTF-8 in to[8], and their number in *made. Returns how
 * many bytes it takes in the page; 0 when it is none.
 */
size_t mr_html_entity(const uint8_t *p, size_t n, uint8_t *to, size_t *made);

#endif
