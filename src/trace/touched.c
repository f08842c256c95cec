/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/touched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/le.h"
#include "core/mem.h"

enum {
	HEAD = 24,
	PAGE = 12, /* bits; what is mapped begins and ends with one */
	FIRST = 1 << 10,
	MOST = 1 << 20, /* 4 GB of code */
	NUMBERS = 64,
};

/* ---- the set ---- */

static uint64_t *place_of(const struct mr_touched *t, uint64_t page)
{
	size_t at = (size_t)((page + 1) * 0x9e3779b97f4a7c15u >> 32);

	for (at &= t->cap - 1; t->page[at] && t->page[at] != page + 1;)
		at = (at + 1) & (t->cap - 1);
	return &t->page[at];
}

static void grow(struct mr_touched *t)
{
	struct mr_touched big = { .cap = t->cap ? 2 * t->cap : FIRST,
				  .n = t->n };

	if (t->n < MOST)
		big.page = mr_alloc(big.cap, sizeof(*big.page), NULL);
	big.all = !big.page;
	for (size_t i = 0; i < t->cap && big.page; i++)
		if (t->page[i])
			*place_of(&big, t->page[i] - 1) = t->page[i];
	free(t->page);
	*t = big.all ? (struct mr_touched){ .all = true } : big;
}

static void touch(struct mr_touched *t, uint64_t page)
{
	uint64_t *place;

	if (2 * t->n >= t->cap && !t->all)
		grow(t);
	if (t->all)
		return;
	place = place_of(t, page);
	t->n += !*place;
	*place = page + 1;
}

void mr_touched_add(struct mr_touched *t, const uint8_t *samples, size_t size)
{
	size_t at = 0;

	while (size - at >= HEAD) {
		size_t n = mr_le16(samples + at + 16);

		if (8 * n > size - at - HEAD)
			break;
		at += HEAD;
		for (size_t i = 0; i < n; i++, at += 8)
			touch(t, mr_le64(samples + at) >> PAGE);
	}
}

static int ascending(const void *a_, const void *b_)
{
	uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

	return (a > b) - (a < b);
}

void mr_touched_ready(struct mr_touched *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->cap; i++)
		if (t->page[i])
			t->page[n++] = t->page[i] - 1;
	if (n)
		qsort(t->page, n, sizeof(*t->page), ascending);
}

void mr_touched_fini(struct mr_touched *t)
{
	free(t->page);
	*t = (struct mr_touched){ 0 };
}

/* ---- lines ---- */

static bool any_within(const struct mr_touched *t, uint64_t from, uint64_t to)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->page[mid] < from >> PAGE)
			low = mid + 1;
		else
			high = mid;
	}
	return t->all || (low < t->n && t->page[low] << PAGE < to);
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
