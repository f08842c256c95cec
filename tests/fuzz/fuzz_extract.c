/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a page: a tree that is one, a text that is UTF-8 and no longer
 * than was promised. */
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "op/html.h"
#include "op/htmlcode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const given[] = {
	"",	  "utf-8",	  "shift_jis",	 "gb18030",
	"euc-kr", "windows-1251", "iso-2022-jp", "utf-16le"
};

static void check_tree(const struct mr_html *h)
{
	for (uint32_t i = 0; i < h->count; i++) {
		const struct mr_html_node *n = &h->node[i];
		const struct mr_html_node *up = &h->node[n->parent];

		if (n->end <= i || n->end > h->count || n->block > i)
			abort();
		if (i && (n->parent >= i || n->end > up->end))
			abort();
		if (n->tag == MR_TAG_TEXT &&
		    (n->end != i + 1 || n->at > h->bytes ||
		     n->size > h->bytes - n->at))
			abort();
		if (n->links > n->words)
			abort();
	}
}

static void check_text(const uint8_t *text, size_t n)
{
	if (!mr_utf8_valid(text, n))
		abort();
	for (size_t i = 0; i < n; i++)
		if ((text[i] < ' ' && text[i] != '\n') || text[i] == 0x7f)
			abort();
	if (n && (text[0] <= ' ' || text[n - 1] <= ' '))
		abort();
}

/* Memory of its own, so that its end is watched. */
static void extract(struct mr_html_coder *c, struct mr_arena *scratch,
		    const char *encoding, const uint8_t *page, size_t bytes)
{
	struct mr_err err;
	struct mr_html h;
	size_t cap = mr_html_bound(encoding, page, bytes), n;
	const uint8_t *utf8;
	uint8_t *text;

	if (mr_html_utf8(c, encoding, page, bytes, scratch, &utf8, &n, &err))
		return;
	if (!mr_utf8_valid(utf8, n))
		abort();
	if (mr_html_parse(&h, utf8, n, scratch, &err))
		return;
	check_tree(&h);
	text = malloc(cap + !cap);
	n = mr_html_text(&h, mr_html_article(&h), text, cap);
	check_tree(&h);
	if (n > cap)
		abort();
	check_text(text, n);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mr_html_coder coder;
	static struct mr_arena scratch;
	uint8_t *page;

	if (!size)
		return 0;
	if (!scratch.max)
		mr_arena_init(&scratch, (size_t)16 << 20);
	page = malloc(size - 1 + (size == 1));
	memcpy(page, data + 1, size - 1);
	extract(&coder, &scratch, given[data[0] % 8], page, size - 1);
	mr_arena_reset(&scratch);
	free(page);
	return 0;
}
