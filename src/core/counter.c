/* SPDX-License-Identifier: Apache-2.0 */
#include "core/counter.h"

#include <math.h>

void mr_hist_sum(uint64_t to[MR_HIST_BUCKETS], const struct mr_hist *from)
{
	for (int i = 0; i < MR_HIST_BUCKETS; i++)
		to[i] += mr_counted(&from->bucket[i]);
}

static double lower_bound(unsigned i)
{
	if (i < 8)
		return i;
	return ldexp(1 + (i % 8) / 8.0, (int)(i / 8) + 2);
}

/* The harmonic mean of the bounds: no value in between is further off than
 * a 17th, however they lie. The first buckets hold one number each. */
static double middle(unsigned i)
{
	double low = lower_bound(i), high = lower_bound(i + 1);

	return i < 16 ? low : 2 * low * high / (low + high);
}

double mr_hist_quantile(const uint64_t sum[MR_HIST_BUCKETS], double q)
{
	double total = 0, below = 0, rank;

	for (int i = 0; i < MR_HIST_BUCKETS; i++)
		total += (double)sum[i];
	if (total == 0)
		return 0;
	rank = q * total;
	for (unsigned i = 0; i < MR_HIST_BUCKETS; i++) {
		double n = (double)sum[i];

		if (n > 0 && below + n >= rank)
			return middle(i);
		below += n;
	}
	return lower_bound(MR_HIST_BUCKETS);
}
