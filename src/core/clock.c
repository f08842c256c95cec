/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static uint64_t read_ns(clockid_t id)
{
	struct timespec t = { 0 };

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t mr_clock_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t mr_clock_cpu_ns(void)
{
	return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Invariant: ticks at one rate in all power states (CPUID 80000007h, bit 8). */
static bool tsc_invariant(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
	return false;
#endif
}

void mr_clock_init(struct mr_clock *c)
{
	c->tsc = tsc_invariant();
	c->ns0 = mr_clock_ns();
	c->tick0 = mr_clock_tick(c);
}

double mr_clock_ns_per_tick(const struct mr_clock *c)
{
	enum { ENOUGH_NS = 200000 };
	uint64_t ns, tick;

	if (!c->tsc)
		return 1;
	do {
		ns = mr_clock_ns() - c->ns0;
		tick = mr_clock_tick(c) - c->tick0;
	} while (ns < ENOUGH_NS);
	return (double)ns / (double)tick;
}
