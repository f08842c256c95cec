/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels against plain loops over exact numbers; normalize and cast, which
 * are made of them, through a loader. */
#include "scratch.h"

#include <math.h>

#include "core/mem.h"
#include "kernel/affine.h"
#include "kernel/convert.h"
#include "kernel/stream.h"

/* Every element type fits a long double exactly. */
static long double value_of(const void *p, enum mr_dtype t)
{
	union {
		uint8_t u8;
		int16_t i16;
		int32_t i32;
		int64_t i64;
		uint16_t f16;
		float f32;
		double f64;
	} v;

	memcpy(&v, p, mr_dtype_size(t));
	switch (t) {
	case MR_U8:
		return v.u8;
	case MR_I16:
		return v.i16;
	case MR_I32:
		return v.i32;
	case MR_I64:
		return v.i64;
	case MR_F32:
		return v.f32;
	case MR_F64:
		return v.f64;
	default: { /* IEEE 754 binary16, from its definition */
		int exp = v.f16 >> 10 & 31, man = v.f16 & 1023;
		long double x = exp == 31 ? man ? NAN : INFINITY :
				exp	  ? ldexpl(1024 + man, exp - 25) :
					    ldexpl(man, -24);

		return v.f16 & 0x8000 ? -x : x;
	}
	}
}

/* The nearest half, ties to even, by looking for it. */
static uint16_t half_of(long double v)
{
	uint16_t sign = signbit(v) ? 0x8000 : 0, lo = 0, hi = 0x7c00;
	long double a = fabsl(v), below, above;

	if (isnan(v))
		return 0x7e00;
	while (hi - lo > 1) { /* value(lo) <= a < value(hi) */
		uint16_t mid = (uint16_t)((lo + hi) / 2);

		if (value_of(&mid, MR_F16) <= a)
			lo = mid;
		else
			hi = mid;
	}
	below = value_of(&lo, MR_F16);
	above = hi == 0x7c00 ? 65536 : value_of(&hi, MR_F16);
	if (a > (below + above) / 2 || (a == (below + above) / 2 && lo & 1))
		lo = hi;
	return sign | lo;
}

static bool is_nan_half(uint16_t h)
{
	return (h & 0x7c00) == 0x7c00 && h & 0x3ff;
}

static int64_t saturated(long double v, long double lo, long double hi)
{
	if (isnan(v))
		return 0;
	v = truncl(v);
	return v <= lo ? (int64_t)lo : v >= hi ? (int64_t)hi : (int64_t)v;
}

/* What converting should give, in the bytes of type `to`. */
static void reference(const void *src, enum mr_dtype from, void *dst,
		      enum mr_dtype to)
{
	static const long double low[] = { [MR_U8] = 0,
					   [MR_I16] = INT16_MIN,
					   [MR_I32] = INT32_MIN,
					   [MR_I64] = (long double)INT64_MIN };
	static const long double high[] = { [MR_U8] = 255,
					    [MR_I16] = INT16_MAX,
					    [MR_I32] = INT32_MAX,
					    [MR_I64] = (long double)INT64_MAX };
	long double v = value_of(src, from);
	uint16_t half;
	int64_t n;
	double d = (double)v;
	float f = (float)v;

	switch (to) {
	case MR_F16:
		half = half_of(v);
		memcpy(dst, &half, 2);
		break;
	case MR_F32:
		memcpy(dst, &f, 4);
		break;
	case MR_F64:
		memcpy(dst, &d, 8);
		break;
	default:
		n = from < MR_F16 ? (int64_t)v :
				    saturated(v, low[to], high[to]);
		memcpy(dst, &n, mr_dtype_size(to)); /* its low bytes */
		break;
	}
}

/* ---- halves ---- */

static void test_all_65536_halves_come_back(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t h = (uint16_t)i, back;
		float f = mr_half_to_float(h);
		long double want = value_of(&h, MR_F16);

		back = mr_float_to_half(f);
		if (is_nan_half(h)) {
			assert_true(isnan(f) && is_nan_half(back));
			continue;
		}
		assert_true((long double)f == want);
		assert_true(!!signbit(f) == !!(h & 0x8000));
		assert_int_equal(back, h);
	}
}

static void check_half(float f)
{
	uint16_t got = mr_float_to_half(f), want = half_of(f);

	if (isnan(f) ? !is_nan_half(got) : got != want)
		fail_msg("%a: %04x, want %04x", (double)f, got, want);
}

static void test_floats_become_the_nearest_half(void **state)
{
	(void)state;
	/* Each half, the middle to the next, and the floats around both. */
	for (uint32_t i = 0; i < 0x7c00; i++) {
		uint16_t h = (uint16_t)i, next = (uint16_t)(i + 1);
		float a = (float)value_of(&h, MR_F16);
		float b =
			i == 0x7bff ? 65536.0f : (float)value_of(&next, MR_F16);
		float mid = a / 2 + b / 2;

		for (int sign = -1; sign <= 1; sign += 2) {
			float s = (float)sign;

			check_half(s * a);
			check_half(s * mid);
			check_half(s * nextafterf(mid, 0));
			check_half(s * nextafterf(mid, INFINITY));
			check_half(s * nextafterf(a, INFINITY));
		}
	}
}

static void test_random_bits_become_the_nearest_half(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < 1000000; i++) {
		uint32_t bits = (uint32_t)draw(&seed);
		float f;

		if (i % 2) /* in the range of halves */
			bits = (bits & 0x80ffffff) | (98u + bits % 48) << 23;
		memcpy(&f, &bits, 4);
		check_half(f);
	}
	check_half(INFINITY);
	check_half(-INFINITY);
	check_half(NAN);
	check_half(0x1p-149f);
	check_half(-0.0f);
}

/* ---- conversions ---- */

enum { MANY = 5000 };

/* A mix of what is typical and what is hard for the type. */
static void random_value(uint64_t *seed, enum mr_dtype t, void *to)
{
	static const double hard[] = {
		0,
		-0.0,
		0.5,
		-0.5,
		0.99,
		-1,
		127.5,
		255,
		255.99,
		256,
		-32768.9,
		32767.5,
		65504,
		65519.99,
		65520,
		2147483647,
		2147483648.,
		-2147483649.,
		0x1p63,
		-0x1p63,
		0x1p63 - 1024,
		1e300,
		-1e300,
		INFINITY,
		-INFINITY,
		NAN,
		0x1p-1074,
		0x1p-25,
		0x1.8p-25,
		16777217,
		1 + 0x1p-11,
		1 + 0x1p-11 + 0x1p-40,
		1 + 0x1.8p-10 - 0x1p-45,
		0x1.000001p-25,
		1 + 0x1p-24,
	};
	uint64_t r = draw(seed);
	double d = hard[r % MR_COUNT(hard)];
	float f = (float)d;
	uint16_t h;

	if (r >> 32 & 1) {
		d = ldexp((double)(int64_t)draw(seed),
			  (int)(r >> 40 % 60) % 90 - 75);
		f = (float)d;
	}
	h = r >> 33 & 1 ? (uint16_t)(r >> 8) : half_of(d);
	if (t == MR_F16)
		memcpy(to, &h, 2);
	else if (t == MR_F32)
		memcpy(to, &f, 4);
	else if (t == MR_F64)
		memcpy(to, &d, 8);
	else
		memcpy(to, &(uint64_t){ draw(seed) >> r % 64 },
		       mr_dtype_size(t));
}

static bool same(const void *a, const void *b, enum mr_dtype t)
{
	if (t >= MR_F16 && isnan(value_of(a, t)) && isnan(value_of(b, t)))
		return true;
	return !memcmp(a, b, mr_dtype_size(t));
}

static void check_pair(enum mr_dtype from, enum mr_dtype to, uint64_t seed)
{
	size_t in = mr_dtype_size(from), out = mr_dtype_size(to);
	char *src = malloc(MANY * in), *dst = malloc(MANY * out + 1);

	for (size_t i = 0; i < MANY; i++)
		random_value(&seed, from, src + i * in);
	dst[MANY * out] = 0x55;
	mr_convert(src, from, dst, to, MANY);
	for (size_t i = 0; i < MANY; i++) {
		char want[8];

		reference(src + i * in, from, want, to);
		if (!same(dst + i * out, want, to))
			fail_msg("%s -> %s: %La gives %La, want %La",
				 mr_dtype_name(from), mr_dtype_name(to),
				 value_of(src + i * in, from),
				 value_of(dst + i * out, to),
				 value_of(want, to));
	}
	assert_int_equal(dst[MANY * out], 0x55);
	free(src);
	free(dst);
}

static void test_every_type_converts_into_every_other(void **state)
{
	(void)state;
	for (int from = MR_U8; from < MR_DTYPES; from++)
		for (int to = MR_U8; to < MR_DTYPES; to++)
			check_pair((enum mr_dtype)from, (enum mr_dtype)to,
				   (uint64_t)(from * 8 + to));
}

static void test_a_double_is_rounded_to_a_half_once(void **state)
{
	/* Through f32 these would first become a tie. */
	const double v[] = { 1 + 0x1p-11 + 0x1p-40, -(1 + 0x1p-11 + 0x1p-40),
			     1 + 0x1.8p-10 - 0x1p-45, 65520 - 0x1p-30,
			     0x1p-25 + 0x1p-70 };
	uint16_t got[5], want[5];

	(void)state;
	mr_convert(v, MR_F64, got, MR_F16, 5);
	for (int i = 0; i < 5; i++)
		want[i] = half_of(v[i]);
	assert_memory_equal(got, want, sizeof(got));
	assert_int_equal(want[0], 0x3c01);
}

/* ---- y = x * scale + bias ---- */

typedef void affine(const void *src, enum mr_dtype from, float *dst,
		    size_t pixels, size_t channels, const float *scale,
		    const float *bias);

/* Where pixel i of channel c is in the source and in the result. */
static void check_affine(affine *run, bool in_first, bool out_first,
			 enum mr_dtype t, size_t pixels, size_t channels,
			 uint64_t seed)
{
	size_t n = pixels * channels, size = mr_dtype_size(t);
	char *src = malloc(n * size + 1);
	float *dst = malloc((n + 1) * sizeof(float)), scale[16], bias[16];

	for (size_t i = 0; i < n; i++) {
		double v = (double)(int64_t)(draw(&seed) % 201) - 100;

		mr_convert(&v, MR_F64, src + i * size, t, 1);
	}
	for (size_t c = 0; c < channels; c++) {
		scale[c] = (float)(draw(&seed) % 1000) / 77;
		bias[c] = (float)(draw(&seed) % 1000) / 33 - 15;
	}
	dst[n] = 1234;
	run(src, t, dst, pixels, channels, scale, bias);
	for (size_t c = 0; c < channels; c++) {
		for (size_t i = 0; i < pixels; i++) {
			size_t from =
				in_first ? c * pixels + i : i * channels + c;
			size_t to =
				out_first ? c * pixels + i : i * channels + c;
			double x = (double)value_of(src + from * size, t);
			double want = x * (double)scale[c] + (double)bias[c];
			double error = fabs(x * (double)scale[c]) +
				       fabs((double)bias[c]);

			assert_true(fabs((double)dst[to] - want) <=
				    error * 2e-7 + 1e-30);
		}
	}
	assert_true(dst[n] == 1234);
	free(src);
	free(dst);
}

static void test_affine_kernels_agree_with_a_plain_loop(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int i = 0; i < 400; i++) {
		enum mr_dtype t =
			(enum mr_dtype)(MR_U8 + draw(&seed) % (MR_DTYPES - 1));
		size_t channels = 1 + draw(&seed) % 16;
		size_t pixels = draw(&seed) % (i % 4 ? 100 : 3000);

		check_affine(mr_affine_first, true, true, t, pixels, channels,
			     seed);
		check_affine(mr_affine_last, false, false, t, pixels, channels,
			     seed);
		check_affine(mr_affine_to_first, false, true, t, pixels,
			     channels, seed);
	}
}

/* ---- the steps, through a loader ---- */

enum { H = 7, W = 5, N = 9 };

static uint8_t pixel(uint64_t sample, int64_t at)
{
	return (uint8_t)mr_mix64(sample * 1000 + (uint64_t)at);
}

static void put_images(int channels)
{
	static uint8_t data[N * H * W * 4];
	int64_t shape[] = { N, H, W, channels }, n = H * W * channels;

	for (int64_t i = 0; i < N * n; i++)
		data[i] = pixel((uint64_t)(i / n), i % n);
	put_npy("u8.npy", "|u1", 4, shape, data, (size_t)(N * n));
}

/* Runs `normalize WITH` over the images and checks each number. */
static void check_normalize(const char *with, int channels, bool chw,
			    const double *mean, const double *std, double scale)
{
	struct mr_loader *l = must_open(
		textf("npy %s/u8.npy | normalize %s | batch 4", top, with),
		NULL);
	struct mr_batch *b;
	int seen = 0;

	while ((b = must_next(l))) {
		const struct mr_field *f = mr_batch_find(b, "data");
		const float *x = f->tensor.data;

		assert_int_equal(f->tensor.dtype, MR_F32);
		assert_int_equal(f->tensor.shape[1], chw ? channels : H);
		assert_int_equal(f->tensor.shape[3], chw ? W : channels);
		for (uint64_t i = 0; i < mr_batch_count(b); i++, seen++) {
			for (int k = 0; k < H * W * channels; k++) {
				int c = k % channels, p = k / channels;
				int at = chw ? c * H * W + p : k;
				double v = pixel(mr_batch_indices(b)[i], k) *
					   scale;
				double got = (double)
					x[(int)i * H * W * channels + at];

				v = (v - mean[c]) / std[c];
				assert_true(fabs(got - v) <= 1e-6);
			}
		}
		mr_batch_release(b);
	}
	assert_int_equal(seen, N);
	mr_loader_close(l);
}

static void test_normalize_agrees_with_doubles(void **state)
{
	const double imagenet_mean[] = { 0.485, 0.456, 0.406 };
	const double imagenet_std[] = { 0.229, 0.224, 0.225 };
	const double mean[] = { 0.1, 0.2, 0.3, 0.4 }, std[] = { 1, 2, 3, 4 };
	const double zero[4] = { 0 }, one[] = { 1, 1, 1, 1 };
	const double half[] = { 127.5, 127.5, 127.5, 127.5 };

	(void)state;
	put_images(3);
	check_normalize("imagenet", 3, true, imagenet_mean, imagenet_std,
			1 / 255.0);
	check_normalize("imagenet layout=keep", 3, false, imagenet_mean,
			imagenet_std, 1 / 255.0);
	check_normalize("", 3, true, zero, one, 1 / 255.0);
	check_normalize("center", 3, true, half, half, 1);
	put_images(4);
	check_normalize("mean=0.1,0.2,0.3,0.4 std=1,2,3,4", 4, true, mean, std,
			1 / 255.0);
	put_images(2);
	check_normalize("scale=0.01", 2, false, zero, one, 0.01);
	check_normalize("scale=0.01 layout=chw", 2, true, zero, one, 0.01);
	check_normalize("mean=0.1,0.2 std=1,2", 2, false, mean, std, 1 / 255.0);
}

static void test_normalize_finds_the_channel_in_front(void **state)
{
	float data[6 * 3 * 4];
	int64_t shape[] = { 6, 3, 4 };
	struct mr_loader *l;
	struct mr_batch *b;

	(void)state;
	for (int i = 0; i < 72; i++)
		data[i] = (float)i;
	put_npy("chw.npy", "<f4", 3, shape, data, sizeof(data));
	l = must_open(
		textf("npy %s/chw.npy | normalize mean=1,2,3 std=0.5,1,2", top),
		NULL);
	while ((b = must_next(l))) {
		const float *x = mr_batch_find(b, "data")->tensor.data;
		uint64_t at = mr_batch_indices(b)[0];

		for (int k = 0; k < 12; k++) {
			int c = k / 4;
			double std = c == 0 ? 0.5 : c;
			double v = ((double)data[at * 12 + (uint64_t)k] -
				    (c + 1)) /
				   std;

			assert_true(fabs((double)x[k] - v) <= 1e-5);
		}
		mr_batch_release(b);
	}
	mr_loader_close(l);
}

static void test_streamed_copies_are_copies(void **state)
{
	enum { MOST = 1024 };
	uint8_t from[MOST], to[MOST];

	(void)state;
	for (size_t i = 0; i < MOST; i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t n = 0; n < 300; n++) {
		size_t at = n * 13 % 97, off = n * 29 % 83;

		memset(to, 0xa5, sizeof(to));
		mr_stream_copy(to + at, from + off, n);
		mr_stream_end();
		assert_memory_equal(to + at, from + off, n);
		for (size_t i = 0; i < MOST; i++)
			assert_true(to[i] == 0xa5 || (i >= at && i < at + n));
	}
}

static void test_cast_goes_through_a_loader(void **state)
{
	struct mr_loader *l;
	struct mr_batch *b;
	uint64_t seen = 0;

	(void)state;
	put_images(3);
	l = must_open(
		textf("npy %s/u8.npy | cast f16 | cast i64 | batch 2", top),
		NULL);
	while ((b = must_next(l))) {
		const struct mr_field *f = mr_batch_find(b, "data");
		const int64_t *x = f->tensor.data;

		assert_int_equal(f->tensor.dtype, MR_I64);
		for (uint64_t i = 0; i < mr_batch_count(b); i++, seen++)
			for (int k = 0; k < H * W * 3; k++)
				assert_int_equal(
					x[(int)i * H * W * 3 + k],
					pixel(mr_batch_indices(b)[i], k));
		mr_batch_release(b);
	}
	assert_int_equal(seen, N);
	mr_loader_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_65536_halves_come_back),
		cmocka_unit_test(test_floats_become_the_nearest_half),
		cmocka_unit_test(test_random_bits_become_the_nearest_half),
		cmocka_unit_test(test_every_type_converts_into_every_other),
		cmocka_unit_test(test_a_double_is_rounded_to_a_half_once),
		cmocka_unit_test(test_affine_kernels_agree_with_a_plain_loop),
		cmocka_unit_test(test_normalize_agrees_with_doubles),
		cmocka_unit_test(test_normalize_finds_the_channel_in_front),
		cmocka_unit_test(test_streamed_copies_are_copies),
		cmocka_unit_test(test_cast_goes_through_a_loader),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
