/* SPDX-License-Identifier: Apache-2.0 */
/* y = x * scale + bias per channel, into f32. */
#ifndef MR_KERNEL_AFFINE_H
#define MR_KERNEL_AFFINE_H

#include "millrace/millrace.h"

/* `channels` scales and biases; the channel varies fastest (H W C). */
void mr_affine_last(const void *src, enum mr_dtype from, float *dst,
		    size_t pixels, size_t channels, const float *scale,
		    const float *bias);

/* The channel varies slowest (C H W): `pixels` elements per channel. */
void mr_affine_first(const void *src, enum mr_dtype from, float *dst,
		     size_t pixels, size_t channels, const float *scale,
		     const float *bias);

/* Reads H W C, writes C H W. */
void mr_affine_to_first(const void *src, enum mr_dtype from, float *dst,
			size_t pixels, size_t channels, const float *scale,
			const float *bias);

#endif
