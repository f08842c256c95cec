/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian numbers in files, on any machine, at any address. */
#ifndef MR_CORE_BYTES_H
#define MR_CORE_BYTES_H

#include <stdint.h>

static inline uint16_t mr_get16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t mr_get32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
	       (uint32_t)b[3] << 24;
}

static inline uint64_t mr_get64(const void *p)
{
	return mr_get32(p) | (uint64_t)mr_get32((const uint8_t *)p + 4) << 32;
}

static inline void mr_put32(void *p, uint32_t v)
{
	uint8_t *b = p;

	for (int i = 0; i < 4; i++)
		b[i] = (uint8_t)(v >> 8 * i);
}

static inline void mr_put64(void *p, uint64_t v)
{
	mr_put32(p, (uint32_t)v);
	mr_put32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
