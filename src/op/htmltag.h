/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of HTML, and how each behaves in a tree. */
#ifndef MR_OP_HTMLTAG_H
#define MR_OP_HTMLTAG_H

#include <stddef.h>
#include <stdint.h>

enum {
	MR_TAG_VOID = 1,     /* has no content */
	MR_TAG_BLOCK = 2,    /* begins and ends a line */
	MR_TAG_RAW = 4,	     /* its content is no HTML; it is left out */
	MR_TAG_DROP = 8,     /* never part of an article */
	MR_TAG_ENDS_P = 16,  /* a paragraph ends where it begins */
	MR_TAG_SCOPE = 32,   /* ends inside do not reach out of it */
	MR_TAG_HEADING = 64, /* h1 to h6 */
};

/* NAME, its flags. In the order of their names: they are looked up so. */
/* clang-format off */
#define MR_TAGS(X) \
	X(a, 0) \
	X(address, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(area, MR_TAG_VOID) \
	X(article, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(aside, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_DROP) \
	X(audio, MR_TAG_DROP) \
	X(base, MR_TAG_VOID) \
	X(blockquote, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(body, MR_TAG_BLOCK) \
	X(br, MR_TAG_VOID) \
	X(button, MR_TAG_DROP | MR_TAG_SCOPE) \
	X(canvas, MR_TAG_DROP) \
	X(caption, MR_TAG_BLOCK | MR_TAG_SCOPE) \
	X(center, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(col, MR_TAG_VOID) \
	X(colgroup, MR_TAG_BLOCK) \
	X(datalist, MR_TAG_DROP) \
	X(dd, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(details, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(dialog, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_DROP) \
	X(dir, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(div, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(dl, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(dt, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(embed, MR_TAG_VOID) \
	X(fieldset, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(figcaption, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_DROP) \
	X(figure, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(footer, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_DROP) \
	X(form, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(frameset, MR_TAG_BLOCK) \
	X(h1, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_HEADING) \
	X(h2, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_HEADING) \
	X(h3, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_HEADING) \
	X(h4, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_HEADING) \
	X(h5, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_HEADING) \
	X(h6, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_HEADING) \
	X(head, MR_TAG_DROP) \
	X(header, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(hgroup, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(hr, MR_TAG_VOID | MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(html, MR_TAG_BLOCK | MR_TAG_SCOPE) \
	X(iframe, MR_TAG_RAW | MR_TAG_DROP) \
	X(img, MR_TAG_VOID) \
	X(input, MR_TAG_VOID) \
	X(label, MR_TAG_DROP) \
	X(legend, MR_TAG_BLOCK | MR_TAG_DROP) \
	X(li, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(link, MR_TAG_VOID) \
	X(main, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(map, MR_TAG_DROP) \
	X(math, 0) \
	X(menu, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_DROP) \
	X(meta, MR_TAG_VOID) \
	X(nav, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_DROP) \
	X(noembed, MR_TAG_RAW | MR_TAG_DROP) \
	X(noframes, MR_TAG_RAW | MR_TAG_DROP) \
	X(noscript, MR_TAG_DROP) \
	X(object, MR_TAG_DROP | MR_TAG_SCOPE) \
	X(ol, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(optgroup, MR_TAG_DROP) \
	X(option, MR_TAG_DROP) \
	X(p, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(param, MR_TAG_VOID) \
	X(pre, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(progress, MR_TAG_DROP) \
	X(rp, MR_TAG_DROP) \
	X(rt, MR_TAG_DROP) \
	X(script, MR_TAG_RAW | MR_TAG_DROP) \
	X(section, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(select, MR_TAG_DROP) \
	X(source, MR_TAG_VOID) \
	X(style, MR_TAG_RAW | MR_TAG_DROP) \
	X(summary, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(svg, MR_TAG_DROP) \
	X(table, MR_TAG_BLOCK | MR_TAG_ENDS_P | MR_TAG_SCOPE) \
	X(tbody, MR_TAG_BLOCK) \
	X(td, MR_TAG_BLOCK | MR_TAG_SCOPE) \
	X(template, MR_TAG_DROP | MR_TAG_SCOPE) \
	X(textarea, MR_TAG_RAW | MR_TAG_DROP) \
	X(tfoot, MR_TAG_BLOCK) \
	X(th, MR_TAG_BLOCK | MR_TAG_SCOPE) \
	X(thead, MR_TAG_BLOCK) \
	X(time, 0) \
	X(title, MR_TAG_RAW | MR_TAG_DROP) \
	X(tr, MR_TAG_BLOCK) \
	X(track, MR_TAG_VOID) \
	X(ul, MR_TAG_BLOCK | MR_TAG_ENDS_P) \
	X(video, MR_TAG_DROP) \
	X(wbr, MR_TAG_VOID) \
	X(xmp, MR_TAG_RAW | MR_TAG_DROP)
/* clang-format on */

enum mr_html_tag {
	MR_TAG_TEXT, /* no element at all */
	MR_TAG_PAGE, /* node 0 */
#define MR_TAG_ENUM(name, flags) MR_TAG_##name,
	MR_TAGS(MR_TAG_ENUM)
#undef MR_TAG_ENUM
	/* What is not in the list: the name decides only which end ends it. */
	MR_TAG_OTHER,
	MR_TAG_COUNT
};

extern const uint8_t mr_tag_flags[MR_TAG_COUNT];

/* Of a name in lower or upper case. */
enum mr_html_tag mr_html_tag(const uint8_t *name, size_t n);

#endif
