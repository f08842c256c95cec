/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's lowest N x N coefficients are, but for a factor of N / 8, those
 * of the block at N x N samples.
 */
#include "kernel/jpeg.h"

typedef float row __attribute__((vector_size(16)));

static int16_t dequantised(const int16_t *coef, const uint16_t *quant, int i)
{
	return (int16_t)(coef[i] * quant[i]);
}

static uint8_t sample(float x)
{
	x += 128.5f;
	return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* out = m * in, row by row */
static void multiply(const float m[4][4], const row in[4], row out[4])
{
	for (int y = 0; y < 4; y++)
		out[y] = m[y][0] * in[0] + m[y][1] * in[1] + m[y][2] * in[2] +
			 m[y][3] * in[3];
}

static void transpose(const row in[4], row out[4])
{
	for (int y = 0; y < 4; y++)
		out[y] = (row){ in[0][y], in[1][y], in[2][y], in[3][y] };
}

void mr_jpeg_idct4(const int16_t coef[64], const uint16_t quant[64],
		   uint8_t *dst, size_t stride)
{
	/* sqrt(1/2) * a(k) * cos((2 n + 1) k pi / 8): the factor 1/2, a root
	 * of it for each direction */
	static const float m[4][4] = {
		{ 0.353553391f, 0.461939766f, 0.353553391f, 0.191341716f },
		{ 0.353553391f, 0.191341716f, -0.353553391f, -0.461939766f },
		{ 0.353553391f, -0.191341716f, -0.353553391f, 0.461939766f },
		{ 0.353553391f, -0.461939766f, 0.353553391f, -0.191341716f },
	};
	row a[4], b[4];

	for (int y = 0; y < 4; y++)
		for (int x = 0; x < 4; x++)
			a[y][x] = dequantised(coef, quant, 8 * y + x);
	multiply(m, a, b);
	transpose(b, a);
	multiply(m, a, b);
	for (int y = 0; y < 4; y++)
		for (int x = 0; x < 4; x++)
			dst[(size_t)y * stride + (size_t)x] = sample(b[x][y]);
}

void mr_jpeg_idct2(const int16_t coef[64], const uint16_t quant[64],
		   uint8_t *dst, size_t stride)
{
	int a = dequantised(coef, quant, 0), b = dequantised(coef, quant, 1);
	int c = dequantised(coef, quant, 8), d = dequantised(coef, quant, 9);

	dst[0] = mr_jpeg_dc(a + b + c + d);
	dst[1] = mr_jpeg_dc(a - b + c - d);
	dst[stride] = mr_jpeg_dc(a + b - c - d);
	dst[stride + 1] = mr_jpeg_dc(a - b - c + d);
}
