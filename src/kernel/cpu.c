/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu.h"

#if defined(__x86_64__)

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN, NO, YES };

static int look(void)
{
	const char *simd = getenv("MILLRACE_SIMD");

	if (simd && !strcmp(simd, "none"))
		return NO;
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") &&
			       __builtin_cpu_supports("bmi2") ?
		       YES :
		       NO;
}

bool mr_cpu_avx2(void)
{
	/* Threads that come first together all find the same. */
	static atomic_int known;
	int k = atomic_load_explicit(&known, memory_order_relaxed);

	if (k == UNKNOWN) {
		k = look();
		atomic_store_explicit(&known, k, memory_order_relaxed);
	}
	return k == YES;
}

#else

bool mr_cpu_avx2(void)
{
	return false;
}

#endif
