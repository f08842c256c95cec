/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of pixels in plain C, and the choice of what runs. */
#include "kernel/pixels.h"

#include "kernel/avx2.h"
#include "kernel/cpu.h"

/* Where pixel i of n comes from. */
static inline size_t turned(size_t i, size_t n, bool mirror)
{
	return mirror ? n - 1 - i : i;
}

void mr_pixels_pack_plain(const uint8_t *x4, size_t n, bool mirror,
			  uint8_t *rgb)
{
	for (size_t i = 0; i < n; i++) {
		const uint8_t *p = x4 + 4 * turned(i, n, mirror);

		rgb[3 * i] = p[0];
		rgb[3 * i + 1] = p[1];
		rgb[3 * i + 2] = p[2];
	}
}

void mr_pixels_expand_plain(const uint8_t *rgb, size_t n, uint8_t *x4)
{
	for (size_t i = 0; i < n; i++) {
		x4[4 * i] = rgb[3 * i];
		x4[4 * i + 1] = rgb[3 * i + 1];
		x4[4 * i + 2] = rgb[3 * i + 2];
		x4[4 * i + 3] = 255;
	}
}

void mr_pixels_planes_plain(const uint8_t *x4, size_t n, bool mirror,
			    uint8_t *dst, size_t plane)
{
	for (size_t c = 0; c < 3; c++)
		for (size_t i = 0; i < n; i++)
			dst[c * plane + i] = x4[4 * turned(i, n, mirror) + c];
}

static inline void affine(const uint8_t *src, size_t stride, size_t n,
			  bool mirror, float *dst, float scale, float bias)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = src[stride * turned(i, n, mirror)] * scale + bias;
}

void mr_pixels_affine_plain(const uint8_t *src, int stride, size_t n,
			    bool mirror, float *dst, size_t plane,
			    const float scale[3], const float bias[3])
{
	for (size_t c = 0; c < 3; c++) {
		if (stride == 4) /* a copy of the loop for each */
			affine(src + c, 4, n, mirror, dst + c * plane, scale[c],
			       bias[c]);
		else
			affine(src + c, 3, n, mirror, dst + c * plane, scale[c],
			       bias[c]);
	}
}

void mr_pixels_pack(const uint8_t *x4, size_t n, bool mirror, uint8_t *rgb)
{
#if defined(__x86_64__)
	if (n >= 8 && mr_cpu_avx2()) {
		mr_pixels_pack_avx2(x4, n, mirror, rgb);
		return;
	}
#endif
	mr_pixels_pack_plain(x4, n, mirror, rgb);
}

void mr_pixels_expand(const uint8_t *rgb, size_t n, uint8_t *x4)
{
#if defined(__x86_64__)
	if (n >= 8 && mr_cpu_avx2()) {
		mr_pixels_expand_avx2(rgb, n, x4);
		return;
	}
#endif
	mr_pixels_expand_plain(rgb, n, x4);
}

void mr_pixels_planes(const uint8_t *x4, size_t n, bool mirror, uint8_t *dst,
		      size_t plane)
{
#if defined(__x86_64__)
	if (n >= 32 && mr_cpu_avx2()) {
		mr_pixels_planes_avx2(x4, n, mirror, dst, plane);
		return;
	}
#endif
	mr_pixels_planes_plain(x4, n, mirror, dst, plane);
}

void mr_pixels_affine(const uint8_t *src, int stride, size_t n, bool mirror,
		      float *dst, size_t plane, const float scale[3],
		      const float bias[3])
{
#if defined(__x86_64__)
	if (n >= 8 && mr_cpu_avx2()) {
		mr_pixels_affine_avx2(src, stride, n, mirror, dst, plane, scale,
				      bias);
		return;
	}
#endif
	mr_pixels_affine_plain(src, stride, n, mirror, dst, plane, scale, bias);
}
