/* SPDX-License-Identifier: Apache-2.0 */
/* What color_jitter draws, apart from what it does with it: for its tests. */
#ifndef MR_OP_COLOR_JITTER_H
#define MR_OP_COLOR_JITTER_H

#include "kernel/colour.h"
#include "millrace/plugin.h"

/* By enum mr_adjust_kind. */
struct mr_jitter {
	struct {
		bool on;
		double lo, hi;
	} range[MR_ADJUSTS];
};

/* Factors from their ranges, in random order; returns how many. The n-th
 * number of rng always serves the same purpose, so that a range switched on
 * or off leaves the other factors and the order as they are. */
int mr_jitter_draw(const struct mr_jitter *j, struct mr_rng *rng,
		   struct mr_adjust a[MR_ADJUSTS]);

#endif
