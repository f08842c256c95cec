/* SPDX-License-Identifier: Apache-2.0 */
/* What a page says about its encoding. */
#ifndef MR_OP_HTMLNAME_H
#define MR_OP_HTMLNAME_H

#include <stddef.h>
#include <stdint.h>

/*
 * The encoding of a page, as iconv calls it: by a byte order mark, of which
 * *mark says how many bytes it has, by `given` if that is not "", by what the
 * page says in an XML declaration or a meta element. NULL when nothing tells.
 */
const char *mr_html_name(const char *given, const uint8_t *page, size_t n,
			 size_t *mark);

/* iconv's name for a label, by the rules of browsers; NULL: unknown. */
const char *mr_html_label(const char *label, size_t n);

#endif
