/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests to have in flight: as many as the storage rewards, while
 * the workers want more. The depth is doubled as long as that gives more
 * completions per second; else it goes back, and is tried again after a
 * while, a longer one each time, since storage changes. For one thread; any
 * may read `now`.
 */
#ifndef MR_PIPE_DEPTH_H
#define MR_PIPE_DEPTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mr_depth {
	atomic_uint now;
	/* the present round of measuring */
	uint64_t since, completions, starved;
	uint64_t settling; /* completions until a new depth shows */
	bool slack;	   /* fewer were in flight than might have been */
	/* what is known */
	double base_rate; /* completions per ns at depth `base` */
	unsigned base;	  /* the best so far; `now` may be one step up */
	unsigned hold, patience;
};

/* Times are nanoseconds of any clock. */
void mr_depth_init(struct mr_depth *d, uint64_t now);

/* All was asked for that could be, and so many are in flight. When that is
 * less than the depth, something else is the limit: positions, memory. */
void mr_depth_filled(struct mr_depth *d, unsigned in_flight);

/* After completions: looks whether another depth is due, at most `most`.
 * starved: how often workers have waited, all in all. */
void mr_depth_adapt(struct mr_depth *d, uint64_t now, unsigned in_flight,
		    unsigned most, uint64_t starved);

#endif
