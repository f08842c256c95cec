/* SPDX-License-Identifier: Apache-2.0 */
/* What this CPU can do. */
#ifndef MR_KERNEL_CPU_H
#define MR_KERNEL_CPU_H

#include <stdbool.h>

/* AVX2 and BMI2, which come together. Cheap enough to ask at each call; any
 * thread. Environment MILLRACE_SIMD=none says no, so that the plain twins can
 * be tested and measured anywhere. */
bool mr_cpu_avx2(void);
/* SSE4.2's crc32 and the multiplication without carry; likewise. */
bool mr_cpu_crc32c(void);

#endif
