/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox2x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC'11): passes BigCrush, two 64-bit numbers per ten multiplications.
 */
#include "core/rng.h"

__extension__ typedef unsigned __int128 u128;

static void philox(uint64_t c[2], uint64_t key)
{
	for (int i = 0; i < 10; i++) {
		u128 p = (u128)c[0] * 0xd2b74407b1ce6e93ULL;

		c[0] = (uint64_t)(p >> 64) ^ key ^ c[1];
		c[1] = (uint64_t)p;
		key += 0x9e3779b97f4a7c15ULL;
	}
}

struct mr_rng mr_rng_for(uint64_t seed, uint64_t epoch, uint64_t sample,
			 uint64_t step)
{
	/* 128 bits of key space: (seed, epoch) hashed to the cipher's key;
	 * sample and step are kept apart in the counter's upper half. */
	return (struct mr_rng){
		.key = { mr_mix64(seed + 0x9e3779b97f4a7c15ULL) +
				 mr_mix64(epoch ^ 0x5851f42d4c957f2dULL) *
					 0x2545f4914f6cdd1dULL,
			 mr_mix64(sample) ^ (step << 56 | step) },
	};
}

uint64_t mr_rng_u64(struct mr_rng *r)
{
	uint64_t c[2] = { r->counter >> 1, r->key[1] };
	unsigned half = r->counter & 1;

	philox(c, r->key[0]);
	r->counter++;
	return c[half];
}

uint64_t mr_rng_below(struct mr_rng *r, uint64_t n)
{
	u128 m;

	if (n == 0)
		return 0;
	/* Lemire's multiplication; the rare biased low part is drawn again. */
	do {
		m = (u128)mr_rng_u64(r) * n;
	} while ((uint64_t)m < -n % n);
	return (uint64_t)(m >> 64);
}

double mr_rng_real(struct mr_rng *r)
{
	return (double)(mr_rng_u64(r) >> 11) * 0x1p-53;
}
