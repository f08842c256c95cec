/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/depth.h"

enum {
	FIRST = 16,
	ROUND_NS = 5 * 1000 * 1000, /* a rate is measured over, at least */
	PATIENCE = 4, /* rounds until a greater depth is tried again */
	PATIENCE_MAX = 64,
};

void mr_depth_init(struct mr_depth *d, uint64_t now)
{
	*d = (struct mr_depth){ .since = now,
				.base = FIRST,
				.patience = PATIENCE };
	atomic_init(&d->now, FIRST);
}

void mr_depth_filled(struct mr_depth *d, unsigned in_flight)
{
	d->slack |= in_flight < atomic_load(&d->now);
}

/* What is in flight was asked for at the old depth, and is not counted. */
static void begin_round(struct mr_depth *d, unsigned depth, uint64_t now,
			unsigned in_flight, uint64_t starved)
{
	d->settling = depth == atomic_load(&d->now) ? 0 : in_flight;
	atomic_store(&d->now, depth);
	d->starved = starved;
	d->since = now;
	d->completions = 0;
	d->slack = false;
}

/* The depth to go on with, given the rate at the present one. */
static unsigned next_depth(struct mr_depth *d, unsigned depth, unsigned most,
			   double rate)
{
	if (d->hold > 0) {
		d->hold--;
		return depth;
	}
	if (depth > d->base && rate < d->base_rate * 1.05) {
		d->hold = d->patience;
		d->patience *= d->patience < PATIENCE_MAX ? 2 : 1;
		return d->base;
	}
	if (depth > d->base)
		d->patience = PATIENCE;
	d->base_rate = rate;
	d->base = depth;
	return depth * 2 < most ? depth * 2 : most;
}

void mr_depth_adapt(struct mr_depth *d, uint64_t now, unsigned in_flight,
		    unsigned most, uint64_t starved)
{
	unsigned depth = atomic_load(&d->now);
	uint64_t ns = now - d->since;

	/* A round in which something else was the limit says nothing about
	 * the storage. */
	if (!d->slack && d->settling && d->completions < d->settling)
		return;
	if (!d->slack && !d->settling) {
		if (d->completions < depth || ns < ROUND_NS)
			return;
		if (starved > d->starved)
			depth = next_depth(d, depth, most,
					   (double)d->completions / (double)ns);
	}
	begin_round(d, depth, now, in_flight, starved);
}
