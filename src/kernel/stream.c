/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/stream.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

#include <emmintrin.h> /* each x86-64 has it */

enum { LINE = 64 };

void mr_stream_copy(void *to, const void *from, size_t n)
{
	uint8_t *d = to;
	const uint8_t *s = from;
	size_t head = -(uintptr_t)d % LINE;

	if (n < head + LINE) {
		memcpy(d, s, n);
		return;
	}
	memcpy(d, s, head);
	for (d += head, s += head, n -= head; n >= LINE;
	     d += LINE, s += LINE, n -= LINE) {
		__m128i x[4];

		for (int i = 0; i < 4; i++)
			x[i] = _mm_loadu_si128((const __m128i *)s + i);
		for (int i = 0; i < 4; i++)
			_mm_stream_si128((__m128i *)d + i, x[i]);
	}
	memcpy(d, s, n);
}

void mr_stream_end(void)
{
	_mm_sfence();
}

#else

void mr_stream_copy(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
}

void mr_stream_end(void)
{
}

#endif
