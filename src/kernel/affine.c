/* SPDX-License-Identifier: Apache-2.0 */
/* Other types than u8 go through f32 in blocks that stay in the L1 cache. */
#include "kernel/affine.h"

#include "kernel/convert.h"

enum { BLOCK = 1024 };

static void scale_floats(float *x, size_t n, float scale, float bias)
{
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] * scale + bias;
}

static const void *element(const void *src, enum mr_dtype t, size_t i)
{
	return (const char *)src + i * mr_dtype_size(t);
}

void mr_affine_first(const void *src, enum mr_dtype from, float *dst,
		     size_t pixels, size_t channels, const float *scale,
		     const float *bias)
{
	for (size_t c = 0; c < channels; c++) {
		for (size_t i = 0; i < pixels; i += BLOCK) {
			size_t at = c * pixels + i;
			size_t n = pixels - i < BLOCK ? pixels - i : BLOCK;

			mr_convert(element(src, from, at), from, dst + at,
				   MR_F32, n);
			scale_floats(dst + at, n, scale[c], bias[c]);
		}
	}
}

void mr_affine_last(const void *src, enum mr_dtype from, float *dst,
		    size_t pixels, size_t channels, const float *scale,
		    const float *bias)
{
	size_t rows = BLOCK / channels ? BLOCK / channels : 1;

	for (size_t i = 0; i < pixels; i += rows) {
		size_t n = pixels - i < rows ? pixels - i : rows;
		float *d = dst + i * channels;

		mr_convert(element(src, from, i * channels), from, d, MR_F32,
			   n * channels);
		for (size_t k = 0; k < n; k++, d += channels)
			for (size_t c = 0; c < channels; c++)
				d[c] = d[c] * scale[c] + bias[c];
	}
}

void mr_affine_to_first(const void *src, enum mr_dtype from, float *dst,
			size_t pixels, size_t channels, const float *scale,
			const float *bias)
{
	float block[BLOCK];
	size_t rows = BLOCK / channels;

	for (size_t i = 0; i < pixels; i += rows) {
		size_t n = pixels - i < rows ? pixels - i : rows;

		mr_convert(element(src, from, i * channels), from, block,
			   MR_F32, n * channels);
		for (size_t c = 0; c < channels; c++) {
			float *d = dst + c * pixels + i;

			for (size_t k = 0; k < n; k++)
				d[k] = block[k * channels + c] * scale[c] +
				       bias[c];
		}
	}
}
