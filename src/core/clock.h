/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time in ticks: the time-stamp counter where it is invariant (a dozen ns
 * to read), CLOCK_MONOTONIC's nanoseconds elsewhere.
 */
#ifndef MR_CORE_CLOCK_H
#define MR_CORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t mr_clock_ns(void); /* CLOCK_MONOTONIC */

/* The thread's own time: what others take of its CPU is not in it. */
uint64_t mr_clock_cpu_ns(void);

/* A pair of readings that ties ticks to nanoseconds. */
struct mr_clock {
	uint64_t tick0, ns0;
	bool tsc;
};

void mr_clock_init(struct mr_clock *c);

/*
 * Nanoseconds per tick, from all the time since init: the longer a loader
 * runs, the more exact. Waits a fraction of a millisecond when asked right
 * after init.
 */
double mr_clock_ns_per_tick(const struct mr_clock *c);

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t mr_clock_tick(const struct mr_clock *c)
{
	return c->tsc ? __rdtsc() : mr_clock_ns();
}
#else
static inline uint64_t mr_clock_tick(const struct mr_clock *c)
{
	(void)c;
	return mr_clock_ns();
}
#endif

#endif
