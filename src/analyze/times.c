/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analyze/summary.h"

enum { FINE = 64, FINE_BITS = 6 };

static unsigned bucket_of(uint64_t v)
{
	unsigned log, i;

	if (v < FINE)
		return (unsigned)v;
	log = 63 - (unsigned)__builtin_clzll(v);
	i = (log - FINE_BITS + 1) * FINE +
	    (unsigned)(v >> (log - FINE_BITS) & (FINE - 1));
	return i < MR_TIMES_BUCKETS ? i : MR_TIMES_BUCKETS - 1;
}

/* The middle of a bucket. */
static double value_of(unsigned i)
{
	unsigned log = i / FINE, low = i % FINE;

	if (!log)
		return low;
	return ((double)(FINE + low) + 0.5) *
	       (double)((uint64_t)1 << (log - 1));
}

bool mr_times_add(struct mr_times *t, uint64_t ns)
{
	if (!t->bucket) {
		t->bucket = calloc(MR_TIMES_BUCKETS, sizeof(*t->bucket));
		if (!t->bucket)
			return false;
	}
	t->bucket[bucket_of(ns)]++;
	t->n++;
	t->total += ns;
	t->most = ns > t->most ? ns : t->most;
	t->below_100us += ns < 100000;
	t->below_10ms += ns < 10000000;
	return true;
}

double mr_times_quantile(const struct mr_times *t, double q)
{
	double want = q * (double)t->n, seen = 0;

	for (unsigned i = 0; t->bucket && i < MR_TIMES_BUCKETS; i++) {
		seen += t->bucket[i];
		if (t->bucket[i] && seen >= want)
			return value_of(i) < (double)t->most ? value_of(i) :
							       (double)t->most;
	}
	return 0;
}

void mr_times_fini(struct mr_times *t)
{
	free(t->bucket);
	t->bucket = NULL;
}
