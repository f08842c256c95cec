/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a page begin and end: tags, attributes, comments. */
#ifndef MR_OP_HTMLSCAN_H
#define MR_OP_HTMLSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A tag. What an attribute says is looked at while passing. */
struct mr_html_mark {
	const uint8_t *name;
	size_t size;
	bool ends;     /* </name> */
	bool empty;    /* <name/> */
	bool link;     /* has href */
	uint8_t hints; /* enum mr_html_hint */
};

/* The tag at p, which is at a letter after '<' or '</'. Returns what follows
 * it; NULL when the page ends inside. */
const uint8_t *mr_html_scan(const uint8_t *p, const uint8_t *end,
			    struct mr_html_mark *m);

/* What follows the comment, doctype or the like whose '<!' or '<?' or '</'
 * is at p. */
const uint8_t *mr_html_skip(const uint8_t *p, const uint8_t *end,
			    bool *no_comment_ends);

/* Where </name> begins; NULL when it does not come. */
const uint8_t *mr_html_find_end(const uint8_t *p, const uint8_t *end,
				const uint8_t *name, size_t size);

/* Words and marks (commas, full stops) of a text. */
struct mr_html_count {
	uint32_t words, marks;
};
struct mr_html_count mr_html_count(const uint8_t *p, size_t n);

static inline bool mr_html_space(uint8_t c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
}

static inline bool mr_html_letter(uint8_t c)
{
	return (uint8_t)((c | 0x20) - 'a') < 26;
}

#endif
