/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/html.h"
#include "op/htmlscan.h"

struct writer {
	uint8_t *to;
	size_t cap, used; /* used may be more than cap */
	bool space, line; /* due before the next character */
};

static void put(struct writer *w, const uint8_t *p, size_t n)
{
	if (w->used < w->cap && n <= w->cap - w->used)
		memcpy(w->to + w->used, p, n);
	w->used += n;
}

/* What separates the next character from the last one. */
static void separate(struct writer *w)
{
	if (w->used && w->line)
		put(w, (const uint8_t *)"\n", 1);
	else if (w->used && w->space)
		put(w, (const uint8_t *)" ", 1);
	w->space = w->line = false;
}

static void put_chars(struct writer *w, const uint8_t *p, size_t n)
{
	if (n == 2 && p[0] == 0xc2 && p[1] == 0xa0) {
		w->space = true; /* no-break space */
		return;
	}
	if (n == 1 && mr_html_space(p[0])) {
		w->space = true;
		return;
	}
	if (n == 1 && (p[0] < 0x20 || p[0] == 0x7f))
		return; /* control characters are no text */
	separate(w);
	put(w, p, n);
}

/* Text as it is until something special comes. */
static size_t plain(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] > ' ' && p[i] != '&' && p[i] != 0xc2 &&
	       p[i] != 0x7f)
		i++;
	return i;
}

static void text(struct writer *w, const uint8_t *p, size_t n)
{
	while (n) {
		uint8_t made[8];
		size_t count = 1, k = plain(p, n);

		if (k) {
			separate(w);
			put(w, p, k);
		} else if (*p == '&' &&
			   (k = mr_html_entity(p, n, made, &count))) {
			put_chars(w, made, count);
		} else {
			k = *p == 0xc2 && n > 1 ? 2 : 1;
			put_chars(w, p, k);
		}
		p += k;
		n -= k;
	}
}

size_t mr_html_text(const struct mr_html *h, uint32_t root, uint8_t *to,
		    size_t cap)
{
	struct writer w = { .to = to, .cap = cap };
	uint32_t block = root;

	for (uint32_t i = root; i < h->node[root].end;) {
		const struct mr_html_node *n = &h->node[i];

		w.space |= n->flags & MR_HTML_SPACE;
		w.line |= n->flags & MR_HTML_BREAK || n->block != block;
		block = n->block;
		if (n->flags & MR_HTML_GONE) {
			i = n->end;
			continue;
		}
		if (n->tag == MR_TAG_TEXT)
			text(&w, h->page + n->at, n->size);
		i++;
	}
	return w.used;
}
