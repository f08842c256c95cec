/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are done but held back until a time: a heap, the earliest
 * first. For one thread. */
#ifndef MR_PIPE_HELD_H
#define MR_PIPE_HELD_H

#include <stdbool.h>
#include <stdint.h>

enum { MR_HELD_MAX = 512 };

struct mr_held {
	unsigned n;
	struct {
		uint64_t due;
		unsigned who;
	} item[MR_HELD_MAX];
};

/* There must be room. */
void mr_held_put(struct mr_held *h, uint64_t due, unsigned who);
/* The earliest, when it is due; else false. */
bool mr_held_take(struct mr_held *h, uint64_t now, unsigned *who);
/* When the earliest is due; UINT64_MAX when there is none. */
uint64_t mr_held_next(const struct mr_held *h);

#endif
