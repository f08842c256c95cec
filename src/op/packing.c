/* SPDX-License-Identifier: Apache-2.0 */
#include "op/packing.h"

#include <stdbool.h>
#include <string.h>

#include "core/arena.h"

size_t mr_pack_bound(const int64_t *length, size_t n, int64_t room)
{
	int64_t all = 0;

	if (n > INT32_MAX)
		return SIZE_MAX;
	for (size_t i = 0; i < n; i++) {
		if (length[i] > INT32_MAX)
			return SIZE_MAX;
		/* its first and last pieces may be short */
		all += length[i] ? length[i] / room + 2 : 0;
		if (all > INT32_MAX)
			return SIZE_MAX;
	}
	return (size_t)all;
}

static struct mr_piece piece(int64_t row, int64_t start, int64_t length,
			     size_t document, int64_t from)
{
	return (struct mr_piece){ (int32_t)row, (int32_t)start, (int32_t)length,
				  (int32_t)document, (int32_t)from };
}

size_t mr_pack_cut(const int64_t *length, size_t n, int64_t room,
		   struct mr_piece *to, int64_t *rows)
{
	int64_t row = 0, start = 0;
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t part;

		for (int64_t from = 0; from < length[i]; from += part) {
			part = length[i] - from;
			if (part > room - start)
				part = room - start;
			to[k++] = piece(row, start, part, i, from);
			start += part;
			if (start == room) {
				start = 0;
				row++;
			}
		}
	}
	*rows = row + (start > 0);
	return k;
}

/* ---- best fit ---- */

struct fit {
	int64_t room, rows;
	uint32_t *place;	/* by length: of the first one in `order` */
	uint32_t *order;	/* documents, by falling rests */
	int32_t *open;		/* by room left: the last such row, or -1 */
	uint64_t *any;		/* a bit for each room that a row has left */
	int32_t *under;		/* by row: the one before it in `open` */
	struct mr_piece *piece; /* in the order of placing */
	size_t pieces;
};

static bool take(struct fit *f, struct mr_arena *a, size_t n, size_t bound)
{
	size_t room = (size_t)f->room + 1, words = room / 64 + 1;

	f->place = mr_arena_take(a, (room + 1) * sizeof(*f->place));
	f->order = mr_arena_take(a, n * sizeof(*f->order));
	f->open = mr_arena_take(a, room * sizeof(*f->open));
	f->any = mr_arena_take(a, words * sizeof(*f->any));
	f->under = mr_arena_take(a, bound * sizeof(*f->under));
	f->piece = mr_arena_take(a, bound * sizeof(*f->piece));
	if (!f->place || !f->order || !f->open || !f->any || !f->under ||
	    !f->piece)
		return false;
	memset(f->place, 0, (room + 1) * sizeof(*f->place));
	memset(f->open, 0xff, room * sizeof(*f->open));
	memset(f->any, 0, words * sizeof(*f->any));
	return true;
}

/* Documents by the rest that does not fill a row, the longest first. */
static void sort(struct fit *f, const int64_t *length, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < n; i++)
		f->place[length[i] % f->room]++;
	for (int64_t r = f->room; r >= 0; r--) {
		uint32_t here = f->place[r];

		f->place[r] = sum;
		sum += here;
	}
	for (size_t i = 0; i < n; i++)
		f->order[f->place[length[i] % f->room]++] = (uint32_t)i;
}

/* The least room that a row has left, of those with `need` or more; 0. */
static int64_t tightest(const struct fit *f, int64_t need)
{
	int64_t w = need / 64, last = f->room / 64;
	uint64_t bits = f->any[w] & UINT64_MAX << need % 64;

	while (!bits && w < last)
		bits = f->any[++w];
	return bits ? w * 64 + __builtin_ctzll(bits) : 0;
}

static void push(struct fit *f, int64_t row, int64_t left)
{
	f->under[row] = f->open[left];
	f->open[left] = (int32_t)row;
	f->any[left / 64] |= (uint64_t)1 << left % 64;
}

static int64_t pop(struct fit *f, int64_t left)
{
	int32_t row = f->open[left];

	f->open[left] = f->under[row];
	if (f->open[left] < 0)
		f->any[left / 64] &= ~((uint64_t)1 << left % 64);
	return row;
}

static void place(struct fit *f, size_t document, int64_t from, int64_t length)
{
	int64_t left = tightest(f, length), row;

	if (left) {
		row = pop(f, left);
	} else {
		left = f->room;
		row = f->rows++;
	}
	f->piece[f->pieces++] =
		piece(row, f->room - left, length, document, from);
	if (left > length)
		push(f, row, left - length);
}

/* By row; those of one row were placed from its start on. `under` has done
 * its work and becomes the count. */
static void by_row(const struct fit *f, struct mr_piece *to)
{
	int32_t *at = f->under, sum = 0;

	memset(at, 0, (size_t)f->rows * sizeof(*at));
	for (size_t i = 0; i < f->pieces; i++)
		at[f->piece[i].row]++;
	for (int64_t r = 0; r < f->rows; r++) {
		int32_t here = at[r];

		at[r] = sum;
		sum += here;
	}
	for (size_t i = 0; i < f->pieces; i++)
		to[at[f->piece[i].row]++] = f->piece[i];
}

size_t mr_pack_fit(const int64_t *length, size_t n, int64_t room,
		   struct mr_arena *scratch, struct mr_piece *to, int64_t *rows)
{
	struct fit f = { .room = room };

	if (!take(&f, scratch, n, mr_pack_bound(length, n, room)))
		return SIZE_MAX;
	for (size_t i = 0; i < n; i++)
		for (int64_t from = 0; from + room <= length[i]; from += room)
			place(&f, i, from, room);
	sort(&f, length, n);
	for (size_t k = 0; k < n; k++) {
		size_t i = f.order[k];
		int64_t rest = length[i] % room;

		if (rest)
			place(&f, i, length[i] - rest, rest);
	}
	by_row(&f, to);
	*rows = f.rows;
	return f.pieces;
}
