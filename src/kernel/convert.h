/* SPDX-License-Identifier: Apache-2.0 */
/* Element types into one another. */
#ifndef MR_KERNEL_CONVERT_H
#define MR_KERNEL_CONVERT_H

#include "millrace/millrace.h"

/*
 * n elements of type `from` at src into type `to` at dst; no overlap.
 * Integers to narrower ones keep their low bits, as NumPy's astype(); reals
 * to integers truncate and saturate, NaN becomes 0 (where NumPy's result is
 * undefined); f16 rounds to nearest even.
 */
void mr_convert(const void *src, enum mr_dtype from, void *dst,
		enum mr_dtype to, size_t n);

float mr_half_to_float(uint16_t h);
uint16_t mr_float_to_half(float f);

#endif
