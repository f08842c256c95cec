/* SPDX-License-Identifier: Apache-2.0 */
#include "io/url.h"

#include <string.h>

static void escape_one(struct mr_str *s, unsigned char c)
{
	static const char hex[] = "0123456789ABCDEF";
	char text[3] = { '%', hex[c >> 4], hex[c & 15] };

	mr_str_addn(s, text, 3);
}

static bool plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || strchr("-._~", c);
}

void mr_url_escape(struct mr_str *s, const char *text, const char *keep)
{
	for (; *text; text++) {
		if (plain(*text) || strchr(keep, *text))
			mr_str_addn(s, text, 1);
		else
			escape_one(s, (unsigned char)*text);
	}
}

void mr_url_mend(struct mr_str *s, const char *url)
{
	for (; *url; url++) {
		unsigned char c = (unsigned char)*url;

		if (c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c))
			escape_one(s, c);
		else
			mr_str_addn(s, url, 1);
	}
}
