/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where samples of the program counter lie, so that of a process's memory
 * only what they touch has to be kept: a script maps hundreds of libraries
 * and runs in a few of them.
 */
#ifndef MR_TRACE_TOUCHED_H
#define MR_TRACE_TOUCHED_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct mr_touched {
	uint64_t *at; /* addresses; sorted by mr_touched_ready() */
	size_t n, cap;
};

/* The samples of a SMPL chunk (docs/trace-format.md). */
int mr_touched_add(struct mr_touched *t, const uint8_t *samples, size_t size,
		   struct mr_err *err);
void mr_touched_ready(struct mr_touched *t);
void mr_touched_fini(struct mr_touched *t);

/* Copies a MAPS chunk without the lines that nothing lies in; returns its
 * bytes. `to` has room for all of it. */
size_t mr_touched_maps(const struct mr_touched *t, const uint8_t *maps,
		       size_t size, uint8_t *to);

#endif
