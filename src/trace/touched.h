/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where samples of the program counter lie, so that of a process's memory
 * only what they touch has to be kept: a script maps hundreds of libraries
 * and runs in a few of them.
 */
#ifndef MR_TRACE_TOUCHED_H
#define MR_TRACE_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start from { 0 }. What is held grows with the code that ran, not with the
 * samples; where there is more than can be held, all counts as touched. */
struct mr_touched {
	uint64_t *page; /* a hash table of numbers + 1, 0: free; from
			 * mr_touched_ready() on, the numbers in order */
	size_t n, cap;
	bool all;
};

/* The samples of a SMPL chunk (docs/trace-format.md). */
void mr_touched_add(struct mr_touched *t, const uint8_t *samples, size_t size);
/* No more are added. */
void mr_touched_ready(struct mr_touched *t);
void mr_touched_fini(struct mr_touched *t);

/* Copies a MAPS chunk without the lines that nothing lies in; returns its
 * bytes. `to` has room for all of it. */
size_t mr_touched_maps(const struct mr_touched *t, const uint8_t *maps,
		       size_t size, uint8_t *to);

#endif
