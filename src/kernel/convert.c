/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/convert.h"

#include <math.h>
#include <string.h>

float mr_half_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t exp = h >> 10 & 0x1f, man = h & 0x3ff, bits;
	float f;

	if (exp == 0) {
		f = ldexpf((float)man, -24);
		return sign ? -f : f;
	}
	bits = exp == 31 ? sign | 0x7f800000 | man << 13 :
			   sign | (exp + 112) << 23 | man << 13;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

uint16_t mr_float_to_half(float f)
{
	uint32_t bits, sign, man, half, rest;
	int exp, shift;

	memcpy(&bits, &f, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	exp = (int)(bits >> 23 & 0xff) - 112;
	man = bits & 0x7fffff;
	if (exp >= 143) /* infinity stays, NaN keeps a bit */
		return (uint16_t)(sign | 0x7c00 |
				  (man ? 0x200 | man >> 13 : 0));
	if (exp >= 31)
		return (uint16_t)(sign | 0x7c00);
	shift = 13;
	if (exp <= 0) { /* subnormal, or too small */
		if (exp < -10)
			return (uint16_t)sign;
		man |= 0x800000;
		shift += 1 - exp;
		exp = 0;
	}
	half = (uint32_t)exp << 10 | man >> shift;
	if (shift > 13)
		half = man >> shift;
	rest = man & ((1u << shift) - 1);
	/* To nearest, ties to even; a carry into the exponent is right. */
	if (rest > 1u << (shift - 1) ||
	    (rest == 1u << (shift - 1) && (half & 1)))
		half++;
	return (uint16_t)(sign | half);
}

static double clamp(double v, double lo, double hi)
{
	if (isnan(v))
		return 0;
	return v < lo ? lo : v > hi ? hi : v;
}

/* INT64_MAX is no double: the cast would be undefined at 2^63. */
static int64_t to_i64(double v)
{
	if (v >= 0x1p63)
		return INT64_MAX;
	return (int64_t)clamp(v, (double)INT64_MIN, 0x1p63);
}

/* Through f32, but rounded to odd there, so that the one rounding that
 * counts is the half's. */
static uint16_t double_to_half(double v)
{
	float f = (float)v;
	uint32_t bits;

	if ((double)f == v || isnan(v))
		return mr_float_to_half(f);
	memcpy(&bits, &f, sizeof(bits));
	if (fabs((double)f) > fabs(v))
		bits--;
	bits |= 1;
	memcpy(&f, &bits, sizeof(f));
	return mr_float_to_half(f);
}

#define LOOP(S, D, expr)                         \
	do {                                     \
		const S *s = src;                \
		D *d = dst;                      \
		for (size_t i = 0; i < n; i++) { \
			S v = s[i];              \
			d[i] = expr;             \
		}                                \
	} while (0)

/* From one type S to all; f16 goes through half(). */
#define FROM_INT(S)                                            \
	switch (to) {                                          \
	case MR_U8:                                            \
		LOOP(S, uint8_t, (uint8_t)v);                  \
		break;                                         \
	case MR_I16:                                           \
		LOOP(S, int16_t, (int16_t)v);                  \
		break;                                         \
	case MR_I32:                                           \
		LOOP(S, int32_t, (int32_t)v);                  \
		break;                                         \
	case MR_I64:                                           \
		LOOP(S, int64_t, (int64_t)v);                  \
		break;                                         \
	case MR_F16:                                           \
		LOOP(S, uint16_t, mr_float_to_half((float)v)); \
		break;                                         \
	case MR_F32:                                           \
		LOOP(S, float, (float)v);                      \
		break;                                         \
	case MR_F64:                                           \
		LOOP(S, double, (double)v);                    \
		break;                                         \
	default:                                               \
		break;                                         \
	}

#define FROM_REAL(S, value)                                                    \
	switch (to) {                                                          \
	case MR_U8:                                                            \
		LOOP(S, uint8_t, (uint8_t)clamp(value, 0, 255));               \
		break;                                                         \
	case MR_I16:                                                           \
		LOOP(S, int16_t, (int16_t)clamp(value, -32768, 32767));        \
		break;                                                         \
	case MR_I32:                                                           \
		LOOP(S, int32_t, (int32_t)clamp(value, INT32_MIN, INT32_MAX)); \
		break;                                                         \
	case MR_I64:                                                           \
		LOOP(S, int64_t, to_i64(value));                               \
		break;                                                         \
	case MR_F16:                                                           \
		LOOP(S, uint16_t, double_to_half(value));                      \
		break;                                                         \
	case MR_F32:                                                           \
		LOOP(S, float, (float)(value));                                \
		break;                                                         \
	case MR_F64:                                                           \
		LOOP(S, double, (double)(value));                              \
		break;                                                         \
	default:                                                               \
		break;                                                         \
	}

void mr_convert(const void *src, enum mr_dtype from, void *dst,
		enum mr_dtype to, size_t n)
{
	if (from == to) {
		memcpy(dst, src, n * mr_dtype_size(to));
		return;
	}
	switch (from) {
	case MR_U8:
		FROM_INT(uint8_t);
		break;
	case MR_I16:
		FROM_INT(int16_t);
		break;
	case MR_I32:
		FROM_INT(int32_t);
		break;
	case MR_I64:
		FROM_INT(int64_t);
		break;
	case MR_F16:
		FROM_REAL(uint16_t, (double)mr_half_to_float(v));
		break;
	case MR_F32:
		FROM_REAL(float, (double)v);
		break;
	case MR_F64:
		FROM_REAL(double, v);
		break;
	default:
		break;
	}
}
