/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping of what stands in URLs. */
#ifndef MR_IO_URL_H
#define MR_IO_URL_H

#include "core/str.h"

/* Append `text` with all but letters, digits, -._~ and the characters of
 * `keep` as %XX. */
void mr_url_escape(struct mr_str *s, const char *text, const char *keep);

/* Append a URL as a person wrote it: escapes only what must not stand in
 * one at all, such as spaces. */
void mr_url_mend(struct mr_str *s, const char *url);

#endif
