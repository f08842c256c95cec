/* SPDX-License-Identifier: Apache-2.0 */
/* Any lengths and any room: pieces lie in their rows in order, do not
 * overlap, and hold each element once. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "op/packing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 512 };

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void look(const int64_t *length, size_t n, int64_t room,
		 const struct mr_piece *x, size_t pieces, int64_t rows,
		 bool fit)
{
	static int64_t seen[MAX], parts[MAX];
	int64_t end = 0, row = -1;

	memset(seen, 0, sizeof(seen));
	memset(parts, 0, sizeof(parts));
	for (size_t i = 0; i < pieces; i++) {
		if (x[i].row != row) {
			check(x[i].row == row + 1);
			row++;
			end = 0;
		}
		check(x[i].start == end && x[i].length > 0);
		end += x[i].length;
		check(end <= room && x[i].document >= 0 &&
		      (size_t)x[i].document < n);
		check(fit || x[i].from == seen[x[i].document]);
		seen[x[i].document] += x[i].length;
		parts[x[i].document]++;
	}
	check(row + 1 == rows);
	for (size_t i = 0; i < n; i++) {
		check(seen[i] == length[i]);
		check(!fit || parts[i] == (length[i] + room - 1) / room);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t length[MAX], room, rows;
	struct mr_arena scratch;
	struct mr_piece *to;
	size_t n = 0, bound, k;

	if (size < 2)
		return 0;
	room = 1 + (data[0] | (data[1] & 15) << 8);
	for (size_t i = 2; i + 1 < size && n < MAX; i += 2)
		length[n++] = data[i] | (data[i + 1] & 31) << 8;
	bound = mr_pack_bound(length, n, room);
	check(bound != SIZE_MAX);
	to = malloc(bound * sizeof(*to) + 1);
	mr_arena_init(&scratch, (size_t)1 << 30);
	k = mr_pack_cut(length, n, room, to, &rows);
	check(k <= bound);
	look(length, n, room, to, k, rows, false);
	k = mr_pack_fit(length, n, room, &scratch, to, &rows);
	check(k <= bound);
	look(length, n, room, to, k, rows, true);
	mr_arena_fini(&scratch);
	free(to);
	return 0;
}
