/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/held.h"

#include <assert.h>

void mr_held_put(struct mr_held *h, uint64_t due, unsigned who)
{
	unsigned i = h->n++;

	assert(i < MR_HELD_MAX);
	while (i > 0 && h->item[(i - 1) / 2].due > due) {
		h->item[i] = h->item[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	h->item[i].due = due;
	h->item[i].who = who;
}

bool mr_held_take(struct mr_held *h, uint64_t now, unsigned *who)
{
	unsigned i = 0, last, child;

	if (mr_held_next(h) > now)
		return false;
	*who = h->item[0].who;
	last = --h->n;
	while ((child = 2 * i + 1) < last) {
		if (child + 1 < last &&
		    h->item[child + 1].due < h->item[child].due)
			child++;
		if (h->item[last].due <= h->item[child].due)
			break;
		h->item[i] = h->item[child];
		i = child;
	}
	h->item[i] = h->item[last];
	return true;
}

uint64_t mr_held_next(const struct mr_held *h)
{
	return h->n ? h->item[0].due : UINT64_MAX;
}
