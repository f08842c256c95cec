/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured as a model that --storage imitates. */
#include <math.h>
#include <stdio.h>

#include "probe/storage.h"

static double more(double a, double b)
{
	return isnan(a) || b > a ? b : a;
}

bool mr_storage_profile(const struct mr_storage *s, struct mr_profile *p)
{
	const struct mr_storage_run *seq = &s->run[2 * MR_STORAGE_SEQUENTIAL];
	const struct mr_storage_run *small = &s->run[2 * MR_STORAGE_RANDOM_4K];
	const struct mr_storage_run *big = &s->run[2 * MR_STORAGE_RANDOM_128K];
	double bw = more(more(seq[0].r.bytes_per_s, seq[1].r.bytes_per_s),
			 more(big[0].r.bytes_per_s, big[1].r.bytes_per_s));
	double iops = more(small[0].r.iops, small[1].r.iops);

	if (isnan(bw) || isnan(iops) || isnan(seq[0].r.bytes_per_s) ||
	    isnan(small[0].r.p50_us))
		return false;
	*p = (struct mr_profile){ .bw = (uint64_t)bw,
				  .stream = (uint64_t)seq[0].r.bytes_per_s,
				  .latency = small[0].r.p50_us / 1e6,
				  .iops = iops };
	return true;
}

/* Whole units, when there are enough of them. */
static int size_text(char *buf, size_t cap, uint64_t v)
{
	if (v >= 100 << 20)
		return snprintf(buf, cap, "%lluM", (unsigned long long)v >> 20);
	if (v >= 100 << 10)
		return snprintf(buf, cap, "%lluK", (unsigned long long)v >> 10);
	return snprintf(buf, cap, "%llu", (unsigned long long)v);
}

void mr_storage_profile_text(const struct mr_profile *p, char *buf, size_t cap)
{
	char bw[32], stream[32];

	size_text(bw, sizeof(bw), p->bw);
	size_text(stream, sizeof(stream), p->stream);
	snprintf(buf, cap, "bw=%s,latency=%.*fus,iops=%.0f,stream=%s", bw,
		 p->latency < 1e-4 ? 1 : 0, p->latency * 1e6, p->iops, stream);
}
