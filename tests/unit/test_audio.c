/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of sound against their plain twins and against f64. */
#include "scratch.h"

#include <math.h>

#include "kernel/pcm.h"
#include "kernel/spectrum.h"

enum { N = 300 };

static int32_t number(uint64_t *seed, int bits)
{
	int32_t x = (int32_t)(draw(seed) >> 32);

	return x >> (32 - bits);
}

static void test_samples_are_as_the_plain_twin_gives_them(void **state)
{
	static int32_t data[N * MR_PCM_CHANNELS];
	static float a[N * MR_PCM_CHANNELS], b[N * MR_PCM_CHANNELS];
	const int32_t *plane[MR_PCM_CHANNELS];
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 4000; round++) {
		int channels = 1 + (int)(draw(&seed) % MR_PCM_CHANNELS);
		int bits = 4 + (int)(draw(&seed) % 29);
		bool flat = draw(&seed) & 1;
		size_t n = draw(&seed) % N;
		struct mr_pcm_as as = { draw(&seed) & 1, draw(&seed) & 1 };

		for (int i = 0; i < N * MR_PCM_CHANNELS; i++)
			data[i] = number(&seed, bits);
		for (int c = 0; c < channels; c++)
			plane[c] = flat ? data + c : data + c * N;
		memset(a, 0, sizeof(a));
		memset(b, 0, sizeof(b));
		mr_pcm_ints(plane, flat ? (size_t)channels : 1, channels, bits,
			    n, as, a);
		mr_pcm_ints_plain(plane, flat ? (size_t)channels : 1, channels,
				  bits, n, as, b);
		assert_memory_equal(a, b, sizeof(a));
	}
}

static void test_a_mean_is_rounded_down(void **state)
{
	const int32_t left[] = { 1, -1, -32768, 32767, 5 };
	const int32_t right[] = { 2, -2, -32768, 32767, -6 };
	const int16_t want[] = { 1, -2, -32768, 32767, -1 };
	const int32_t *plane[] = { left, right };
	int16_t out[5];

	(void)state;
	mr_pcm_ints(plane, 1, 2, 16, 5, (struct mr_pcm_as){ false, true }, out);
	assert_memory_equal(out, want, sizeof(want));
}

static void test_reals_become_i16_with_saturation(void **state)
{
	const double in[] = { 0, 1, -1, 2, -INFINITY, NAN, 0.5, 1.6 / 32768 };
	const int16_t want[] = { 0, 32767, -32768, 32767, -32768, 0, 16384, 2 };
	int16_t out[8];

	(void)state;
	mr_pcm_reals(in, 1, 8, (struct mr_pcm_as){ false, true }, out);
	assert_memory_equal(out, want, sizeof(want));
}

static void test_bytes_become_numbers(void **state)
{
	const uint8_t bytes[] = { 0, 0x80, 0xff, 0xfe, 0xff, 0x7f,
				  1, 2,	   3,	 0x84, 5,    6 };
	int32_t out[12];

	(void)state;
	mr_pcm_unpack(bytes, 1, 3, out);
	assert_true(out[0] == -128 && out[1] == 0 && out[2] == 127);
	mr_pcm_unpack(bytes, 2, 3, out);
	assert_true(out[0] == -32768 && out[1] == -257 && out[2] == 32767);
	mr_pcm_unpack(bytes, 3, 3, out);
	assert_true(out[0] == -32768 && out[1] == 0x7ffffe);
	assert_true(out[2] == 0x030201);
	mr_pcm_unpack(bytes, 4, 3, out);
	assert_true(out[0] == (int32_t)0xfeff8000u && out[2] == 0x06058403);
}

static void test_the_logarithm_is_near_the_c_librarys(void **state)
{
	static float in[N], a[N], b[N];
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		float offset = round % 2 ? 1e-8f : 0;

		for (int i = 0; i < N; i++) {
			/* all exponents, then what spectra hold */
			double e = (double)(draw(&seed) % 1000) / 1000;

			e = round % 4 < 2 ? e * 250 - 125 : e * 30 - 20;
			in[i] = (float)exp2(e);
		}
		mr_log(in, offset, N, a);
		mr_log_plain(in, offset, N, b);
		for (int i = 0; i < N; i++)
			assert_true(fabsf(a[i] - b[i]) <=
				    2.4e-7f * fmaxf(fabsf(b[i]), 0.5f));
	}
}

static void test_the_logarithm_of_odd_numbers_is_the_c_librarys(void **state)
{
	const float in[] = { 0, -1, INFINITY, NAN, 1e-42f, 1, 2, -0.0f };
	float a[8], b[8];

	(void)state;
	mr_log(in, 0, 8, a);
	mr_log_plain(in, 0, 8, b);
	for (int i = 0; i < 8; i++)
		assert_true(a[i] == b[i] || (isnan(a[i]) && isnan(b[i])));
}

/* Weights as a full matrix, as TensorFlow writes them down. */
static double mel_weight(size_t inputs, size_t bins, double rate, double low,
			 double high, size_t i, size_t b)
{
	double lo = 1127 * log(1 + low / 700), hi = 1127 * log(1 + high / 700);
	double gap = (hi - lo) / (double)(bins + 1);
	double f = rate / 2 * (double)i / (double)(inputs - 1);
	double m = 1127 * log(1 + f / 700);
	double left = lo + gap * (double)b, mid = left + gap;
	double x = fmin((m - left) / gap, (mid + gap - m) / gap);

	return i && x > 0 ? x : 0;
}

static void test_sparse_mel_is_the_full_product(void **state)
{
	static const size_t sizes[][2] = { { 513, 80 },
					   { 129, 20 },
					   { 33, 64 } };
	static float weight[2 * 513], x[2 * 513], y[2 * 80];
	struct mr_band band[80];
	uint64_t seed = 5;

	(void)state;
	for (int k = 0; k < 3; k++) {
		size_t in = sizes[k][0], bins = sizes[k][1];
		size_t n =
			mr_mel_bands(in, bins, 16000, 125, 3800, band, weight);

		assert_true(n <= 2 * in);
		assert_int_equal(n, mr_mel_bands(in, bins, 16000, 125, 3800,
						 band, NULL));
		for (size_t i = 0; i < 2 * in; i++)
			x[i] = (float)(draw(&seed) % 1000) / 999;
		mr_bands_apply(band, bins, weight, x, in, 2, y);
		for (size_t b = 0; b < 2 * bins; b++) {
			double sum = 0;

			for (size_t i = 0; i < in; i++)
				sum += (double)x[b / bins * in + i] *
				       mel_weight(in, bins, 16000, 125, 3800, i,
						  b % bins);
			assert_true(fabs(sum - (double)y[b]) < 1e-5);
		}
	}
}

static void test_windows_are_products(void **state)
{
	static int16_t in[N];
	static float reals[N];
	static double w[N], out[N + 1];
	uint64_t seed = 4;

	(void)state;
	for (int i = 0; i < N; i++) {
		in[i] = (int16_t)number(&seed, 16);
		reals[i] = (float)number(&seed, 20) / 1000;
	}
	for (size_t n = 1; n < N; n++) {
		out[n] = 9;
		mr_hann(w, n, 1.0 / 32768);
		mr_window_i16(in, w, n, out);
		for (size_t i = 0; i < n; i++)
			assert_true(out[i] == (double)in[i] * w[i]);
		mr_window_f32(reals, w, n, out);
		for (size_t i = 0; i < n; i++)
			assert_true(out[i] == (double)reals[i] * w[i]);
		assert_true(out[n] == 9);
	}
	mr_hann(w, 4, 1);
	assert_true(w[0] == 0 && fabs(w[1] - 0.5) < 1e-12 && w[2] == 1);
}

static void test_bands_and_magnitudes_are_the_plain_twins(void **state)
{
	static double z[2 * N];
	static float weight[4 * N], x[20 * N], a[20 * N], b[20 * N];
	struct mr_band band[N];
	uint64_t seed = 9;

	(void)state;
	for (int round = 0; round < 400; round++) {
		size_t in = 2 + draw(&seed) % (N - 2);
		size_t bins = 1 + draw(&seed) % 90, rows = draw(&seed) % 20;
		double high = 100 + (double)(draw(&seed) % 7900);

		mr_mel_bands(in, bins, 16000, 60, high, band, weight);
		for (size_t i = 0; i < rows * in; i++)
			x[i] = (float)number(&seed, 24);
		mr_bands_apply(band, bins, weight, x, in, rows, a);
		mr_bands_apply_plain(band, bins, weight, x, in, rows, b);
		assert_memory_equal(a, b, rows * bins * sizeof(float));
		for (size_t i = 0; i < 2 * in; i++)
			z[i] = (double)number(&seed, 30) *
			       exp2(-(double)(i % 70));
		mr_magnitude(z, in, a);
		mr_magnitude_plain(z, in, b);
		assert_memory_equal(a, b, in * sizeof(float));
	}
}

static void test_a_logarithm_does_not_depend_on_its_neighbours(void **state)
{
	static float in[N], a[N], b[1];
	uint64_t seed = 6;

	(void)state;
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < N; i++)
			in[i] = draw(&seed) % 40 ?
					(float)exp2((double)(draw(&seed) % 40) -
						    20.3) :
					0;
		mr_log(in, 0, N, a);
		for (int i = 0; i < N; i++) {
			mr_log(in + i, 0, 1, b);
			assert_memory_equal(a + i, b, sizeof(*b));
		}
	}
}

static void test_magnitudes_are_those_of_f64(void **state)
{
	static double z[2 * N];
	static float out[N];
	uint64_t seed = 8;

	(void)state;
	for (int i = 0; i < 2 * N; i++)
		z[i] = (double)number(&seed, 30) * exp2(-(double)(i % 50));
	mr_magnitude(z, N, out);
	for (int i = 0; i < N; i++)
		assert_true(
			fabs((double)out[i] - hypot(z[2 * i], z[2 * i + 1])) <=
			1.3e-7 * (double)out[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples_are_as_the_plain_twin_gives_them),
		cmocka_unit_test(test_a_mean_is_rounded_down),
		cmocka_unit_test(test_reals_become_i16_with_saturation),
		cmocka_unit_test(test_bytes_become_numbers),
		cmocka_unit_test(test_the_logarithm_is_near_the_c_librarys),
		cmocka_unit_test(
			test_the_logarithm_of_odd_numbers_is_the_c_librarys),
		cmocka_unit_test(test_sparse_mel_is_the_full_product),
		cmocka_unit_test(test_windows_are_products),
		cmocka_unit_test(test_bands_and_magnitudes_are_the_plain_twins),
		cmocka_unit_test(
			test_a_logarithm_does_not_depend_on_its_neighbours),
		cmocka_unit_test(test_magnitudes_are_those_of_f64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
