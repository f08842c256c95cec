/* SPDX-License-Identifier: Apache-2.0 */
/* What this CPU can do, found out when the library is loaded. Environment
 * MILLRACE_SIMD=none says no, so that the plain twins can be tested and
 * measured anywhere. */
#ifndef MR_KERNEL_CPU_H
#define MR_KERNEL_CPU_H

#include <stdbool.h>

extern bool mr_cpu_has_avx2, mr_cpu_has_crc32c;

/* AVX2 and BMI2, which come together. Asked at each call. */
static inline bool mr_cpu_avx2(void)
{
	return mr_cpu_has_avx2;
}

/* SSE4.2's crc32 and the multiplication without carry. */
static inline bool mr_cpu_crc32c(void)
{
	return mr_cpu_has_crc32c;
}

#endif
