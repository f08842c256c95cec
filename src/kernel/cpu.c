/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu.h"

bool mr_cpu_has_avx2, mr_cpu_has_crc32c;

#if defined(__x86_64__)

#include <stdlib.h>
#include <string.h>

/* Before any thread can ask. */
__attribute__((constructor)) static void look(void)
{
	const char *simd = getenv("MILLRACE_SIMD");

	if (simd && !strcmp(simd, "none"))
		return;
	__builtin_cpu_init();
	mr_cpu_has_avx2 = __builtin_cpu_supports("avx2") &&
			  __builtin_cpu_supports("bmi2");
	mr_cpu_has_crc32c = __builtin_cpu_supports("sse4.2") &&
			    __builtin_cpu_supports("pclmul");
}

#endif
