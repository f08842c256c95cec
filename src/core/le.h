/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian numbers in bytes of any alignment, on any machine. */
#ifndef MR_CORE_LE_H
#define MR_CORE_LE_H

#include <stdint.h>
#include <string.h>

static inline uint16_t mr_le16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t mr_le32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)mr_le16(b) | (uint32_t)mr_le16(b + 2) << 16;
}

static inline uint64_t mr_le64(const void *p)
{
	const uint8_t *b = p;

	return (uint64_t)mr_le32(b) | (uint64_t)mr_le32(b + 4) << 32;
}

static inline void mr_le32_put(void *p, uint32_t v)
{
	uint8_t *b = p;

	for (int i = 0; i < 4; i++)
		b[i] = (uint8_t)(v >> 8 * i);
}

/* As IEEE 754 has it in 64 bits. */
static inline double mr_lef64(const void *p)
{
	uint64_t v = mr_le64(p);
	double d;

	memcpy(&d, &v, sizeof(d));
	return d;
}

static inline void mr_le64_put(void *p, uint64_t v)
{
	mr_le32_put(p, (uint32_t)v);
	mr_le32_put((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
