/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/crc32c.h"

#include <string.h>

#include "core/le.h"
#include "kernel/cpu.h"

/* ---- the plain twin ---- */

/*
 * Entry b of table k is the remainder of byte b with k bytes of zero after
 * it. Remainders add, so each follows from those of the eight single bits.
 */
#define BIT(b, i, c) ((b) >> (i)&1 ? (c) : 0u)
#define ENTRY(b, c0, c1, c2, c3, c4, c5, c6, c7)                         \
	(BIT(b, 0, c0) ^ BIT(b, 1, c1) ^ BIT(b, 2, c2) ^ BIT(b, 3, c3) ^ \
	 BIT(b, 4, c4) ^ BIT(b, 5, c5) ^ BIT(b, 6, c6) ^ BIT(b, 7, c7))
#define BY_4(b, ...)                                        \
	ENTRY(b, __VA_ARGS__), ENTRY((b) + 1, __VA_ARGS__), \
		ENTRY((b) + 2, __VA_ARGS__), ENTRY((b) + 3, __VA_ARGS__)
#define BY_16(b, ...)                                     \
	BY_4(b, __VA_ARGS__), BY_4((b) + 4, __VA_ARGS__), \
		BY_4((b) + 8, __VA_ARGS__), BY_4((b) + 12, __VA_ARGS__)
#define BY_64(b, ...)                                        \
	BY_16(b, __VA_ARGS__), BY_16((b) + 16, __VA_ARGS__), \
		BY_16((b) + 32, __VA_ARGS__), BY_16((b) + 48, __VA_ARGS__)
#define TABLE(...)                                                       \
	{                                                                \
		BY_64(0, __VA_ARGS__), BY_64(64, __VA_ARGS__),           \
			BY_64(128, __VA_ARGS__), BY_64(192, __VA_ARGS__) \
	}

/* clang-format off */
static const uint32_t table[8][256] = {
	TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf,
	      0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
	TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8,
	      0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
	TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5,
	      0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
	TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6,
	      0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
	TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91,
	      0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
	TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f,
	      0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
	TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53,
	      0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
	TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da,
	      0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664),
};
/* clang-format on */

uint32_t mr_crc32c_plain(const void *p, size_t n)
{
	const uint8_t *b = p;
	uint32_t c = ~0u;

	for (; n >= 8; n -= 8, b += 8) {
		uint32_t lo = mr_le32(b) ^ c, hi = mr_le32(b + 4);

		c = table[7][lo & 255] ^ table[6][lo >> 8 & 255] ^
		    table[5][lo >> 16 & 255] ^ table[4][lo >> 24] ^
		    table[3][hi & 255] ^ table[2][hi >> 8 & 255] ^
		    table[1][hi >> 16 & 255] ^ table[0][hi >> 24];
	}
	for (; n; n--, b++)
		c = c >> 8 ^ table[0][(c ^ *b) & 255];
	return ~c;
}

#if defined(__x86_64__)

/* ---- by instructions ---- */

#include <immintrin.h>

#define SSE42	     __attribute__((target("sse4.2,pclmul")))
#define SSE42_INLINE SSE42 __attribute__((always_inline)) inline

static SSE42_INLINE uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* c with the zero bytes after it for which `power` stands. */
static SSE42_INLINE uint64_t shifted(uint64_t c, uint32_t power)
{
	__m128i a = _mm_cvtsi64_si128((long long)c);
	__m128i b = _mm_cvtsi32_si128((int)power);

	return _mm_crc32_u64(
		0, (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(a, b, 0)));
}

/*
 * The instruction takes three cycles but starts in each: three runs of
 * `part` bytes side by side, then put together. once, twice: x to the number
 * of bits in one and two parts, less 33, which is what the instruction that
 * reduces and the reversed order of the bits bring with them.
 */
static SSE42_INLINE uint64_t three(uint64_t c, const uint8_t *p, size_t part,
				   uint32_t once, uint32_t twice)
{
	uint64_t d = 0, e = 0;

	for (size_t i = 0; i < part; i += 8) {
		c = _mm_crc32_u64(c, word(p + i));
		d = _mm_crc32_u64(d, word(p + part + i));
		e = _mm_crc32_u64(e, word(p + 2 * part + i));
	}
	return shifted(c, twice) ^ shifted(d, once) ^ e;
}

enum { LARGE = 1024, SMALL = 128 };

SSE42 static uint32_t by_instruction(const uint8_t *p, size_t n)
{
	uint64_t c = ~0u;

	for (; n >= 3 * LARGE; n -= 3 * LARGE, p += 3 * LARGE)
		c = three(c, p, LARGE, 0x170076fa, 0xa51b6135);
	for (; n >= 3 * SMALL; n -= 3 * SMALL, p += 3 * SMALL)
		c = three(c, p, SMALL, 0x0d3b6092, 0xb9e02b86);
	for (; n >= 8; n -= 8, p += 8)
		c = _mm_crc32_u64(c, word(p));
	for (; n; n--, p++)
		c = _mm_crc32_u8((uint32_t)c, *p);
	return ~(uint32_t)c;
}

uint32_t mr_crc32c(const void *p, size_t n)
{
	return mr_cpu_crc32c() ? by_instruction(p, n) : mr_crc32c_plain(p, n);
}

#else

uint32_t mr_crc32c(const void *p, size_t n)
{
	return mr_crc32c_plain(p, n);
}

#endif
