/* SPDX-License-Identifier: Apache-2.0 */
/* Byte shuffle in plain C, and the choice of what runs. */
#include "kernel/shuffle.h"

#include <stdbool.h>

#include "kernel/avx2.h"
#include "kernel/cpu.h"

/* Inlined for each size, so that the compiler knows the stride. */
static inline __attribute__((always_inline)) void
split(uint8_t *restrict to, const uint8_t *restrict from, size_t n, size_t size)
{
	for (size_t b = 0; b < size; b++)
		for (size_t i = 0; i < n; i++)
			to[b * n + i] = from[i * size + b];
}

static inline __attribute__((always_inline)) void
merge(uint8_t *restrict to, const uint8_t *restrict from, size_t n, size_t size)
{
	for (size_t i = 0; i < n; i++)
		for (size_t b = 0; b < size; b++)
			to[i * size + b] = from[b * n + i];
}

void mr_shuffle_plain(void *to, const void *from, size_t elements, size_t size)
{
	if (size == 2)
		split(to, from, elements, 2);
	else if (size == 4)
		split(to, from, elements, 4);
	else if (size == 8)
		split(to, from, elements, 8);
	else
		split(to, from, elements, size);
}

void mr_unshuffle_plain(void *to, const void *from, size_t elements,
			size_t size)
{
	if (size == 2)
		merge(to, from, elements, 2);
	else if (size == 4)
		merge(to, from, elements, 4);
	else if (size == 8)
		merge(to, from, elements, 8);
	else
		merge(to, from, elements, size);
}

#if defined(__x86_64__)
static bool fast(size_t elements, size_t size)
{
	return elements >= 32 && (size == 2 || size == 4 || size == 8) &&
	       mr_cpu_avx2();
}
#endif

void mr_shuffle(void *to, const void *from, size_t elements, size_t size)
{
#if defined(__x86_64__)
	if (fast(elements, size)) {
		mr_shuffle_avx2(to, from, elements, size);
		return;
	}
#endif
	mr_shuffle_plain(to, from, elements, size);
}

void mr_unshuffle(void *to, const void *from, size_t elements, size_t size)
{
#if defined(__x86_64__)
	if (fast(elements, size)) {
		mr_unshuffle_avx2(to, from, elements, size);
		return;
	}
#endif
	mr_unshuffle_plain(to, from, elements, size);
}
