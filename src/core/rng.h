/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers that are a function of a key and a counter: no state to
 * carry between samples, threads or runs. struct mr_rng is in plugin.h.
 */
#ifndef MR_CORE_RNG_H
#define MR_CORE_RNG_H

#include "millrace/plugin.h"

/* A stream of its own for each (seed, epoch, sample, step). */
struct mr_rng mr_rng_for(uint64_t seed, uint64_t epoch, uint64_t sample,
			 uint64_t step);

/* A well mixed 64-bit hash of one number (bijective). */
static inline uint64_t mr_mix64(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xe9846af9b1a615dULL;
	x ^= x >> 32;
	x *= 0xe9846af9b1a615dULL;
	x ^= x >> 28;
	return x;
}

#endif
