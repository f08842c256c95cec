/* SPDX-License-Identifier: Apache-2.0 */
#include "op/htmltag.h"

#include <string.h>

const uint8_t mr_tag_flags[MR_TAG_COUNT] = {
	[MR_TAG_PAGE] = MR_TAG_BLOCK | MR_TAG_SCOPE,
#define MR_TAG_FLAGS(name, flags) [MR_TAG_##name] = flags,
	MR_TAGS(MR_TAG_FLAGS)
#undef MR_TAG_FLAGS
};

enum { NAME_MAX_BYTES = 11 };

static const struct {
	uint8_t length;
	char text[NAME_MAX_BYTES];
} names[] = {
#define MR_TAG_NAME(name, flags) { sizeof(#name) - 1, #name },
	MR_TAGS(MR_TAG_NAME)
#undef MR_TAG_NAME
};

enum mr_html_tag mr_html_tag(const uint8_t *name, size_t n)
{
	size_t lo = 0, hi = sizeof(names) / sizeof(*names);
	char s[NAME_MAX_BYTES] = { 0 };

	if (n >= NAME_MAX_BYTES)
		return MR_TAG_OTHER;
	for (size_t i = 0; i < n; i++)
		s[i] = (char)(name[i] | 0x20);
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int order = memcmp(s, names[mid].text, NAME_MAX_BYTES);

		if (!order)
			return names[mid].length == n ?
				       (enum mr_html_tag)(MR_TAG_a + mid) :
				       MR_TAG_OTHER;
		if (order < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return MR_TAG_OTHER;
}
