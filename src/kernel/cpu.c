/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu.h"

#if defined(__x86_64__)

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN, NO, YES };

static bool wanted(void)
{
	const char *simd = getenv("MILLRACE_SIMD");

	if (simd && !strcmp(simd, "none"))
		return false;
	__builtin_cpu_init();
	return true;
}

static bool has_avx2(void)
{
	return wanted() && __builtin_cpu_supports("avx2") &&
	       __builtin_cpu_supports("bmi2");
}

static bool has_crc32c(void)
{
	return wanted() && __builtin_cpu_supports("sse4.2") &&
	       __builtin_cpu_supports("pclmul");
}

/* Threads that come first together all find the same. */
static bool remembered(atomic_int *known, bool (*look)(void))
{
	int k = atomic_load_explicit(known, memory_order_relaxed);

	if (k == UNKNOWN) {
		k = look() ? YES : NO;
		atomic_store_explicit(known, k, memory_order_relaxed);
	}
	return k == YES;
}

bool mr_cpu_avx2(void)
{
	static atomic_int known;

	return remembered(&known, has_avx2);
}

bool mr_cpu_crc32c(void)
{
	static atomic_int known;

	return remembered(&known, has_crc32c);
}

#else

bool mr_cpu_avx2(void)
{
	return false;
}

bool mr_cpu_crc32c(void)
{
	return false;
}

#endif
