/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/html.h"
#include "op/htmlscan.h"

/* Browsers stop at 512 too: what is deeper is put beside the last. */
enum { DEPTH = 512 };

struct open {
	uint32_t node, name; /* name: a hash, for those not in the list */
	uint8_t tag;
	bool link;
};

struct parser {
	struct mr_html *h;
	struct open stack[DEPTH];
	int depth;
	int links; /* open, with an address */
	uint16_t open[MR_TAG_COUNT];
	bool space, line;	   /* what the next text has before it */
	bool no_comment_ends;	   /* from here to the end of the page */
	bool no_end[MR_TAG_COUNT]; /* the same, of raw elements */
};

static unsigned flags_of(const struct open *o)
{
	return mr_tag_flags[o->tag];
}

/* ---- the stack of open elements ---- */

static void pop(struct parser *p)
{
	struct open *o = &p->stack[--p->depth];

	p->h->node[o->node].end = p->h->count;
	p->open[o->tag]--;
	p->links -= o->link;
}

static void pop_to(struct parser *p, int depth)
{
	while (p->depth > depth)
		pop(p);
}

static struct mr_html_node *add(struct parser *p, enum mr_html_tag tag)
{
	uint32_t i = p->h->count++, up = 0;
	struct mr_html_node *n = &p->h->node[i];

	if (p->depth)
		up = p->stack[p->depth - 1].node;
	*n = (struct mr_html_node){ .parent = up,
				    .tag = (uint8_t)tag,
				    .end = i + 1 };
	n->block = mr_tag_flags[tag] & MR_TAG_BLOCK ? i : p->h->node[up].block;
	n->flags = (uint8_t)((p->space ? MR_HTML_SPACE : 0) |
			     (p->line ? MR_HTML_BREAK : 0));
	p->space = p->line = false;
	return n;
}

static uint32_t hash(const uint8_t *s, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (s[i] | 0x20)) * 16777619u;
	return h;
}

static void push(struct parser *p, enum mr_html_tag tag,
		 const struct mr_html_mark *m)
{
	struct mr_html_node *n;

	if (p->depth == DEPTH)
		pop(p);
	n = add(p, tag);
	n->hints = m->hints;
	if (m->hints & MR_HINT_HIDDEN)
		n->flags |= MR_HTML_HIDDEN;
	p->stack[p->depth++] = (struct open){
		.node = (uint32_t)(n - p->h->node),
		.name = tag == MR_TAG_OTHER ? hash(m->name, m->size) : 0,
		.tag = (uint8_t)tag,
		.link = tag == MR_TAG_a && m->link
	};
	p->open[tag]++;
	p->links += p->stack[p->depth - 1].link;
}

/* The innermost open `tag`, or -1; not out of what holds ends back. */
static int find(const struct parser *p, enum mr_html_tag tag)
{
	if (!p->open[tag])
		return -1;
	for (int i = p->depth - 1; i > 0; i--) {
		if (p->stack[i].tag == tag)
			return i;
		if (flags_of(&p->stack[i]) & MR_TAG_SCOPE)
			return -1;
	}
	return -1;
}

static void close_tag(struct parser *p, enum mr_html_tag tag)
{
	int at = find(p, tag);

	if (at > 0)
		pop_to(p, at);
}

/* ---- ends that are left out ---- */

/* An item ends the one before it, in the same list. */
static void close_item(struct parser *p, enum mr_html_tag a, enum mr_html_tag b)
{
	if (!p->open[a] && !p->open[b])
		return;
	for (int i = p->depth - 1; i > 0; i--) {
		uint8_t tag = p->stack[i].tag;

		if (tag == a || tag == b) {
			pop_to(p, i);
			return;
		}
		if ((flags_of(&p->stack[i]) & (MR_TAG_BLOCK | MR_TAG_SCOPE)) &&
		    tag != MR_TAG_div && tag != MR_TAG_p &&
		    tag != MR_TAG_address)
			return;
	}
}

enum { CELL = 1, ROW = 2, PART = 4 };

static int table_level(unsigned tag)
{
	switch (tag) {
	case MR_TAG_td:
	case MR_TAG_th:
	case MR_TAG_caption:
		return CELL;
	case MR_TAG_tr:
	case MR_TAG_colgroup:
		return ROW;
	case MR_TAG_tbody:
	case MR_TAG_thead:
	case MR_TAG_tfoot:
		return PART;
	default:
		return 0;
	}
}

/* Within the table: the outermost part of these levels ends. */
static void close_table_parts(struct parser *p, int levels)
{
	int at = 0;

	if (!p->open[MR_TAG_table])
		return;
	for (int i = p->depth - 1; i > 0; i--) {
		if (p->stack[i].tag == MR_TAG_table)
			break;
		if (table_level(p->stack[i].tag) & levels)
			at = i;
	}
	if (at)
		pop_to(p, at);
}

/* A link in a link ends that. Where blocks lie between, it is only a link no
 * more: an end that was forgotten must not make a page of links. */
static void end_link(struct parser *p)
{
	int at = find(p, MR_TAG_a);

	if (at < 0)
		return;
	for (int i = at + 1; i < p->depth; i++) {
		if (flags_of(&p->stack[i]) & MR_TAG_BLOCK) {
			p->links -= p->stack[at].link;
			p->stack[at].link = false;
			return;
		}
	}
	pop_to(p, at);
}

static bool belongs_to_head(enum mr_html_tag tag)
{
	return tag == MR_TAG_noscript || tag == MR_TAG_template ||
	       tag == MR_TAG_head || tag == MR_TAG_html ||
	       mr_tag_flags[tag] & (MR_TAG_VOID | MR_TAG_RAW);
}

static void close_heading(struct parser *p)
{
	if (flags_of(&p->stack[p->depth - 1]) & MR_TAG_HEADING)
		pop(p);
}

/* What ends where an element of this tag begins. */
static void make_way(struct parser *p, enum mr_html_tag tag)
{
	unsigned flags = mr_tag_flags[tag];

	if (p->open[MR_TAG_head] && !belongs_to_head(tag))
		close_tag(p, MR_TAG_head);
	if (p->open[MR_TAG_select] && flags & MR_TAG_BLOCK)
		close_tag(p, MR_TAG_select);
	if (flags & MR_TAG_ENDS_P)
		close_tag(p, MR_TAG_p);
	if (flags & MR_TAG_HEADING)
		close_heading(p);
	if (tag == MR_TAG_li)
		close_item(p, tag, tag);
	else if (tag == MR_TAG_dt || tag == MR_TAG_dd)
		close_item(p, MR_TAG_dt, MR_TAG_dd);
	else if (tag == MR_TAG_a)
		end_link(p);
	else if (tag == MR_TAG_option || tag == MR_TAG_optgroup)
		close_tag(p, MR_TAG_option);
	else if (tag == MR_TAG_button || tag == MR_TAG_select)
		close_tag(p, tag);
	else if (table_level(tag))
		/* with all levels below its own */
		close_table_parts(p, 2 * table_level(tag) - 1);
}

/* ---- tags ---- */

/* Elements of which there is one: a second begin says nothing. */
static bool is_repeated(const struct parser *p, enum mr_html_tag tag)
{
	switch (tag) {
	case MR_TAG_html:
	case MR_TAG_body:
	case MR_TAG_form:
		return p->open[tag];
	case MR_TAG_head:
		return p->open[tag] || p->open[MR_TAG_body];
	default:
		return false;
	}
}

/* Returns what follows the element's content, for those that hold no HTML. */
static const uint8_t *begin(struct parser *p, const struct mr_html_mark *m,
			    const uint8_t *at, const uint8_t *end)
{
	enum mr_html_tag tag = mr_html_tag(m->name, m->size);
	unsigned flags = mr_tag_flags[tag];

	if (is_repeated(p, tag))
		return at;
	make_way(p, tag);
	if (flags & MR_TAG_RAW && !p->no_end[tag] && !p->open[MR_TAG_svg]) {
		const uint8_t *q = mr_html_find_end(at, end, m->name, m->size);

		p->no_end[tag] = !q;
		return q ? q : tag == MR_TAG_script ? end : at;
	}
	if (flags & MR_TAG_VOID || tag == MR_TAG_br) {
		p->line |= tag == MR_TAG_br || tag == MR_TAG_hr;
		return at;
	}
	if (flags & MR_TAG_RAW ||
	    (m->empty && (p->open[MR_TAG_svg] || p->open[MR_TAG_math] ||
			  tag == MR_TAG_svg)))
		return at;
	push(p, tag, m);
	return at;
}

static bool same_open(const struct open *o, enum mr_html_tag tag, uint32_t name)
{
	return o->tag == tag && (tag != MR_TAG_OTHER || o->name == name);
}

/* The end of formatting and the like: blocks hold it back. */
static void end_inline(struct parser *p, enum mr_html_tag tag, uint32_t name)
{
	for (int i = p->depth - 1; i > 0; i--) {
		if (same_open(&p->stack[i], tag, name)) {
			pop_to(p, i);
			return;
		}
		if (flags_of(&p->stack[i]) & MR_TAG_BLOCK)
			return;
	}
}

static void end_table_part(struct parser *p, enum mr_html_tag tag)
{
	for (int i = p->depth - 1; i > 0; i--) {
		if (p->stack[i].tag == tag) {
			pop_to(p, i);
			return;
		}
		if (p->stack[i].tag == MR_TAG_table)
			return;
	}
}

static void end_heading(struct parser *p)
{
	for (int i = p->depth - 1; i > 0; i--) {
		unsigned flags = flags_of(&p->stack[i]);

		if (flags & MR_TAG_HEADING) {
			pop_to(p, i);
			return;
		}
		if (flags & MR_TAG_SCOPE)
			return;
	}
}

static void end(struct parser *p, const struct mr_html_mark *m)
{
	enum mr_html_tag tag = mr_html_tag(m->name, m->size);
	unsigned flags = mr_tag_flags[tag];

	if (tag == MR_TAG_br || tag == MR_TAG_p)
		p->line = true;
	if (flags & MR_TAG_HEADING)
		end_heading(p);
	/* What follows </body> is shown as if it came before. */
	if (!p->open[tag] || tag == MR_TAG_html || tag == MR_TAG_body ||
	    flags & MR_TAG_HEADING)
		return;
	if (tag == MR_TAG_a)
		end_link(p);
	else if (tag == MR_TAG_table || table_level(tag))
		end_table_part(p, tag);
	else if (flags & (MR_TAG_BLOCK | MR_TAG_DROP | MR_TAG_SCOPE))
		close_tag(p, tag);
	else
		end_inline(p, tag,
			   tag == MR_TAG_OTHER ? hash(m->name, m->size) : 0);
}

/* ---- text ---- */

static bool is_blank(const uint8_t *p, const uint8_t *end)
{
	while (p < end && (mr_html_space(*p) || !*p))
		p++;
	return p == end;
}

static void text(struct parser *p, const uint8_t *from, const uint8_t *to)
{
	struct mr_html_count c;
	struct mr_html_node *n, *block;

	if (from == to)
		return;
	if (is_blank(from, to)) {
		p->space = true;
		return;
	}
	if (p->open[MR_TAG_head])
		close_tag(p, MR_TAG_head);
	c = mr_html_count(from, (size_t)(to - from));
	n = add(p, MR_TAG_TEXT);
	n->at = (uint32_t)(from - p->h->page);
	n->size = (uint32_t)(to - from);
	n->words = c.words;
	n->marks = c.marks;
	block = &p->h->node[n->block];
	block->words += c.words;
	block->marks += c.marks;
	if (p->links) {
		n->flags |= MR_HTML_LINK;
		n->links = c.words;
		block->links += c.words;
	}
}

/* ---- the page ---- */

/* What follows the '<' at q; text up to it has not been taken yet. Returns
 * NULL when it is only a character. */
static const uint8_t *markup(struct parser *p, const uint8_t *from,
			     const uint8_t *q, const uint8_t *last)
{
	struct mr_html_mark m;
	const uint8_t *next;

	if (last - q < 2)
		return NULL;
	m.ends = q[1] == '/';
	if (q[1] == '!' || q[1] == '?' ||
	    (m.ends && last - q > 2 && !mr_html_letter(q[2]))) {
		text(p, from, q);
		return mr_html_skip(q, last, &p->no_comment_ends);
	}
	if (last - q < 2 + m.ends || !mr_html_letter(q[1 + m.ends]))
		return NULL;
	text(p, from, q);
	next = mr_html_scan(q + 1 + m.ends, last, &m);
	if (!next)
		return last;
	if (!m.ends)
		return begin(p, &m, next, last);
	end(p, &m);
	return next;
}

static void parse(struct parser *p)
{
	const uint8_t *at = p->h->page, *last = at + p->h->bytes;
	const uint8_t *from = at;
	struct mr_html_mark page = { 0 };

	push(p, MR_TAG_PAGE, &page);
	while (at < last) {
		const uint8_t *q = memchr(at, '<', (size_t)(last - at));
		const uint8_t *next;

		if (!q)
			break;
		next = markup(p, from, q, last);
		at = next ? next : q + 1;
		if (next)
			from = next;
	}
	if (from < last)
		text(p, from, last);
	pop_to(p, 0);
}

/* A node at most for a '<', and one for the text before it. */
static size_t count_marks(const uint8_t *p, size_t n)
{
	size_t count = 0;

	/* in bytes as long as they last, which vectors like */
	while (n) {
		size_t part = n < 192 ? n : 192;
		uint8_t some = 0;

		for (size_t i = 0; i < part; i++)
			some = (uint8_t)(some + (p[i] == '<'));
		count += some;
		p += part;
		n -= part;
	}
	return count;
}

int mr_html_parse(struct mr_html *h, const uint8_t *page, size_t bytes,
		  struct mr_arena *a, struct mr_err *err)
{
	size_t tags = count_marks(page, bytes);
	size_t need = (2 * tags + 2) * sizeof(*h->node);
	struct parser *p = mr_arena_take(a, sizeof(*p));

	*h = (struct mr_html){ .page = page, .bytes = bytes };
	h->node = mr_arena_take(a, need);
	if (!p || !h->node)
		return mr_err_set(err, MR_ELIMIT,
				  "a page of %zu bytes with %zu tags needs %zu "
				  "bytes for its tree, and %zu is what a "
				  "sample may take; raise --memory, or leave "
				  "it out with --on-error skip",
				  bytes, tags, need, a->max);
	memset(p, 0, sizeof(*p));
	p->h = h;
	parse(p);
	return 0;
}
