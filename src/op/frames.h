/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps over frames that are joined: the first makes rows of f32 from what
 * comes in, the others turn each row into another one. The runner
 * (pipe/strips.c) takes a few rows at a time through all of them, so that what
 * lies between them never leaves the CPU's cache. Each step alone gives the
 * same bytes as joined with its neighbours.
 */
#ifndef MR_OP_FRAMES_H
#define MR_OP_FRAMES_H

#include "kernel/spectrum.h"
#include "op/op.h"

enum { MR_STRIP = 8 }; /* rows at a time */

struct mr_frames_op {
	/* The first: rows [at, at + n) of what run() gives, n <= MR_STRIP, of
	 * which only the columns in *want are looked at. Its shape() says how
	 * many rows there are. */
	int (*make)(const struct mr_opctx *cx, const struct mr_tensor *in,
		    size_t at, size_t n, const struct mr_columns *want,
		    float *dst);
	/* The others: n rows of `inputs` values each; rows stay rows. */
	int (*map)(const struct mr_opctx *cx, const float *src, size_t inputs,
		   size_t n, float *dst);
	/* The columns that map() looks at. NULL: all. */
	int (*needs)(const struct mr_opctx *cx, size_t inputs,
		     struct mr_columns *want);
};

/* MR_EDATA when the sound's rate is known to be another than `rate`, which
 * the step called `name` was told; 0: it was told none. */
int mr_rate_check(const struct mr_opctx *cx, const char *name, int64_t rate);

#endif
