/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/pcm.h"

#include <math.h>
#include <string.h>

#include "core/le.h"

/* ---- one number ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
	int64_t q = a / b;

	return q - (a % b < 0);
}

/* sum of `channels` samples */
static int16_t to_i16(int64_t sum, int channels, int bits)
{
	if (bits <= 16)
		return (int16_t)floor_div(sum * ((int64_t)1 << (16 - bits)),
					  channels);
	return (int16_t)(floor_div(sum, channels) >> (bits - 16));
}

static float to_f32(int64_t sum, int channels, int bits)
{
	return (float)((double)sum /
		       ((double)channels * (double)((int64_t)1 << (bits - 1))));
}

static void put(int64_t sum, int channels, int bits, bool f32, void *dst,
		size_t at)
{
	if (f32)
		((float *)dst)[at] = to_f32(sum, channels, bits);
	else
		((int16_t *)dst)[at] = to_i16(sum, channels, bits);
}

void mr_pcm_ints_plain(const int32_t *const *plane, size_t stride, int channels,
		       int bits, size_t n, struct mr_pcm_as as, void *dst)
{
	for (size_t i = 0; i < n; i++) {
		int64_t sum = 0;

		for (int c = 0; c < channels; c++) {
			int32_t x = plane[c][i * stride];

			sum += x;
			if (!as.mono)
				put(x, 1, bits, as.f32, dst,
				    i * (size_t)channels + (size_t)c);
		}
		if (as.mono)
			put(sum, channels, bits, as.f32, dst, i);
	}
}

/* ---- loops that a compiler turns into vectors ---- */

static void ints_to_i16(const int32_t *src, int bits, size_t n, int16_t *dst)
{
	int up = bits < 16 ? 16 - bits : 0, down = bits > 16 ? bits - 16 : 0;

	if (bits == 16) /* what most files have needs no shifts */
		for (size_t i = 0; i < n; i++)
			dst[i] = (int16_t)src[i];
	else
		for (size_t i = 0; i < n; i++)
			dst[i] = (int16_t)((int32_t)((uint32_t)src[i] << up) >>
					   down);
}

static void ints_to_f32(const int32_t *src, int bits, size_t n, float *dst)
{
	float scale = 1 / (float)((int64_t)1 << (bits - 1)); /* exact */

	for (size_t i = 0; i < n; i++)
		dst[i] = (float)src[i] * scale;
}

void mr_pcm_ints(const int32_t *const *plane, size_t stride, int channels,
		 int bits, size_t n, struct mr_pcm_as as, void *dst)
{
	/* Each number by itself, in the order in which it leaves. */
	bool flat = channels == 1 ? stride == 1 :
				    !as.mono && stride == (size_t)channels;

	if (!flat)
		mr_pcm_ints_plain(plane, stride, channels, bits, n, as, dst);
	else if (as.f32)
		ints_to_f32(plane[0], bits, n * (size_t)channels, dst);
	else
		ints_to_i16(plane[0], bits, n * (size_t)channels, dst);
}

/* ---- reals ---- */

static int16_t real_to_i16(double x)
{
	x *= 32768;
	if (isnan(x))
		return 0;
	return (int16_t)lrint(x < -32768 ? -32768 : x > 32767 ? 32767 : x);
}

static void put_real(double x, bool f32, void *dst, size_t at)
{
	if (f32)
		((float *)dst)[at] = (float)x;
	else
		((int16_t *)dst)[at] = real_to_i16(x);
}

void mr_pcm_reals(const double *src, int channels, size_t n,
		  struct mr_pcm_as as, void *dst)
{
	size_t k = (size_t)channels;

	if (!as.mono || k == 1) {
		for (size_t i = 0; i < n * k; i++)
			put_real(src[i], as.f32, dst, i);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		double sum = 0;

		for (size_t c = 0; c < k; c++)
			sum += src[i * k + c];
		put_real(sum / channels, as.f32, dst, i);
	}
}

/* ---- from bytes ---- */

void mr_pcm_unpack(const uint8_t *src, int bytes, size_t n, int32_t *dst)
{
	size_t i;

	switch (bytes) {
	case 1:
		for (i = 0; i < n; i++)
			dst[i] = src[i] - 128;
		break;
	case 2:
		for (i = 0; i < n; i++)
			dst[i] = (int16_t)mr_le16(src + 2 * i);
		break;
	case 3:
		for (i = 0; i < n; i++, src += 3)
			dst[i] = (int32_t)((uint32_t)src[0] << 8 |
					   (uint32_t)src[1] << 16 |
					   (uint32_t)src[2] << 24) >>
				 8;
		break;
	default:
		for (i = 0; i < n; i++)
			dst[i] = (int32_t)mr_le32(src + 4 * i);
	}
}

void mr_pcm_unpack_i16(const uint8_t *src, size_t n, int16_t *dst)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = (int16_t)mr_le16(src + 2 * i);
}

void mr_pcm_unpack_reals(const uint8_t *src, int bytes, size_t n, double *dst)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t wide = bytes == 8 ? mr_le64(src + 8 * i) : 0;
		uint32_t word = bytes == 4 ? mr_le32(src + 4 * i) : 0;
		float f;

		memcpy(&dst[i], &wide, 8);
		memcpy(&f, &word, 4);
		if (bytes == 4)
			dst[i] = (double)f;
	}
}
