/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/touched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/le.h"
#include "core/mem.h"

enum { HEAD = 24, MOST = 1 << 28, NUMBERS = 64 };

int mr_touched_add(struct mr_touched *t, const uint8_t *samples, size_t size,
		   struct mr_err *err)
{
	size_t at = 0;

	while (size - at >= HEAD) {
		size_t n = mr_le16(samples + at + 16);

		if (8 * n > size - at - HEAD)
			break;
		if (mr_grow(&t->at, &t->cap, t->n + n, sizeof(*t->at), MOST,
			    err))
			return err->code;
		for (size_t i = 0; i < n; i++)
			t->at[t->n++] = mr_le64(samples + at + HEAD + 8 * i);
		at += HEAD + 8 * n;
	}
	return 0;
}

static int ascending(const void *a_, const void *b_)
{
	uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

	return (a > b) - (a < b);
}

void mr_touched_ready(struct mr_touched *t)
{
	if (t->n)
		qsort(t->at, t->n, sizeof(*t->at), ascending);
}

void mr_touched_fini(struct mr_touched *t)
{
	free(t->at);
	*t = (struct mr_touched){ 0 };
}

static bool any_within(const struct mr_touched *t, uint64_t from, uint64_t to)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->at[mid] < from)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->n && t->at[low] < to;
}

/* A line that is not of memory, as `fork PID`, is kept. */
static bool is_wanted(const struct mr_touched *t, const uint8_t *line, size_t n)
{
	char text[NUMBERS];
	uint64_t from, to;

	if (n >= sizeof(text))
		n = sizeof(text) - 1;
	memcpy(text, line, n);
	text[n] = 0;
	return sscanf(text, "%" SCNx64 "-%" SCNx64 " ", &from, &to) != 2 ||
	       any_within(t, from, to);
}

size_t mr_touched_maps(const struct mr_touched *t, const uint8_t *maps,
		       size_t size, uint8_t *to)
{
	size_t at = size < 4 ? size : 4, n = at;

	memcpy(to, maps, n); /* the process */
	while (at < size) {
		const uint8_t *end = memchr(maps + at, '\n', size - at);
		size_t len = end ? (size_t)(end - maps) + 1 - at : size - at;

		if (is_wanted(t, maps + at, len)) {
			memcpy(to + n, maps + at, len);
			n += len;
		}
		at += len;
	}
	return n;
}
