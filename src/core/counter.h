/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters with one writer and any readers: a plain add for the thread that
 * owns it, never torn for the others. And histograms of durations.
 */
#ifndef MR_CORE_COUNTER_H
#define MR_CORE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

typedef _Atomic uint64_t mr_counter;

static inline void mr_count(mr_counter *c, uint64_t n)
{
	uint64_t v = atomic_load_explicit(c, memory_order_relaxed);

	atomic_store_explicit(c, v + n, memory_order_relaxed);
}

static inline uint64_t mr_counted(const mr_counter *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

/* The same of a real number, which is kept as its bits. */
static inline double mr_counted_real(const mr_counter *c)
{
	uint64_t bits = mr_counted(c);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static inline void mr_count_real(mr_counter *c, double n)
{
	double v = mr_counted_real(c) + n;
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	atomic_store_explicit(c, bits, memory_order_relaxed);
}

/* Eight buckets per power of two: a quantile is right within 6 %. */
#define MR_HIST_BUCKETS 320

struct mr_hist {
	mr_counter bucket[MR_HIST_BUCKETS];
};

static inline unsigned mr_hist_bucket(uint64_t v)
{
	unsigned log, i;

	if (v < 8)
		return (unsigned)v;
	log = 63 - (unsigned)__builtin_clzll(v);
	i = (log - 2) * 8 + (unsigned)(v >> (log - 3) & 7);
	return i < MR_HIST_BUCKETS ? i : MR_HIST_BUCKETS - 1;
}

static inline void mr_hist_add(struct mr_hist *h, uint64_t v)
{
	mr_count(&h->bucket[mr_hist_bucket(v)], 1);
}

/* Sums `from` into the plain array `to`. */
void mr_hist_sum(uint64_t to[MR_HIST_BUCKETS], const struct mr_hist *from);
/* The value below which the share q of the entries lies; 0 when empty. */
double mr_hist_quantile(const uint64_t sum[MR_HIST_BUCKETS], double q);

#endif
