/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs on this CPU against the plain twins, byte by byte. Sources are
 * allocated exactly as long as the headers say, so that a sanitizer sees what
 * is read past them; destinations have guards around them.
 */
#include "scratch.h"

#include <stdbool.h>

#include "kernel/cpu.h"
#include "kernel/pixels.h"
#include "kernel/resample.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

static uint64_t seed;

/* 0 to n - 1, the same in each run. */
static size_t below(size_t n)
{
	return (size_t)(mr_mix64(++seed) % n);
}

static int between(int lo, int hi)
{
	return lo + (int)below((size_t)(hi - lo) + 1);
}

/* n random bytes; black and white ones are frequent, for clipping. */
static uint8_t *noise(size_t n)
{
	uint8_t *p = malloc(n ? n : 1);

	assert_non_null(p);
	for (size_t i = 0; i < n; i++) {
		size_t k = below(512);

		p[i] = k < 256 ? (uint8_t)k : k & 1 ? 255 : 0;
	}
	return p;
}

/* ---- destinations ---- */

/* Two of n bytes, for the two that are compared, `off` bytes from where a
 * vector would like them. */
struct pair {
	uint8_t *mem[2], *got, *want;
	size_t n, off;
};

static struct pair make_pair(size_t n, size_t off)
{
	struct pair p = { .n = n, .off = off };
	size_t all = (n + 2 * GUARD + off + 63) & ~(size_t)63;

	for (int i = 0; i < 2; i++) {
		p.mem[i] = aligned_alloc(64, all);
		assert_non_null(p.mem[i]);
		memset(p.mem[i], GUARD_BYTE, all);
	}
	p.got = p.mem[0] + GUARD + off;
	p.want = p.mem[1] + GUARD + off;
	return p;
}

/* All bytes agree, and none around them has been written. */
static void check_pair(struct pair *p)
{
	assert_memory_equal(p->got, p->want, p->n);
	for (int i = 0; i < 2; i++) {
		const uint8_t *m = p->mem[i];

		for (size_t k = 0; k < GUARD; k++) {
			assert_int_equal(m[p->off + k], GUARD_BYTE);
			assert_int_equal(m[GUARD + p->off + p->n + k],
					 GUARD_BYTE);
		}
		free(p->mem[i]);
	}
}

/* ---- taps ---- */

static struct mr_taps make_taps(const struct mr_scale *s)
{
	size_t n = mr_taps_size(s);
	struct mr_taps t;
	void *mem = NULL;

	assert_true(n > 0);
	assert_int_equal(posix_memalign(&mem, 64, n), 0);
	mr_taps_make(&t, s, mem);
	assert_true((char *)(t.weight + (size_t)t.count * (size_t)t.taps) <=
		    (char *)mem + n);
	return t;
}

static void drop_taps(struct mr_taps *t)
{
	free(t->from); /* where their memory begins */
}

static struct mr_scale random_scale(int max_in, int max_out)
{
	struct mr_scale s;

	s.in = between(1, max_in);
	s.out = between(1, max_out);
	s.count = between(1, s.out);
	s.first = between(0, s.out - s.count);
	s.filter = (enum mr_filter)between(0, 2);
	s.antialias = below(4) != 0;
	return s;
}

static void check_output(const struct mr_taps *t, int i)
{
	const int16_t *w = t->weight + (ptrdiff_t)i * t->taps;
	int sum = 0;

	assert_true(t->from[i] >= t->lo);
	assert_true(t->from[i] + t->taps <= t->hi + 3);
	assert_true(i == 0 || t->from[i] >= t->from[i - 1]);
	for (int k = 0; k < t->taps; k++) {
		sum += w[k];
		assert_true(!w[k] || t->from[i] + k < t->hi);
	}
	assert_int_equal(sum, 1 << MR_TAP_BITS);
}

static void check_taps(const struct mr_scale *s)
{
	struct mr_taps t = make_taps(s);

	assert_int_equal(t.count, s->count);
	assert_true(t.taps >= 4 && t.taps % 4 == 0);
	assert_true(t.lo >= 0 && t.lo < t.hi && t.hi <= s->in);
	for (int i = 0; i < t.count; i++)
		check_output(&t, i);
	drop_taps(&t);
}

static void test_weights_of_each_output_sum_up_to_one(void **state)
{
	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct mr_scale s = random_scale(700, 300);

		check_taps(&s);
	}
}

static void test_extreme_scales_have_taps_too(void **state)
{
	(void)state;
	for (int f = 0; f < 3; f++) {
		enum mr_filter filter = (enum mr_filter)f;
		struct mr_scale s[] = {
			{ 1 << 24, 1, 0, 1, filter, true },
			{ 1 << 24, 3, 1, 2, filter, true },
			{ 1 << 24, 1, 0, 1, filter, false },
			{ 1, 1 << 24, (1 << 24) - 50, 50, filter, true },
			{ 3, 1 << 24, 0, 100, filter, true },
			{ 1 << 24, 1 << 24, (1 << 24) - 9, 9, filter, true },
			{ (1 << 24) - 1, 1 << 24, 77777, 5000, filter, true },
		};

		for (size_t i = 0; i < sizeof(s) / sizeof(*s); i++)
			check_taps(&s[i]);
	}
}

/* The inputs that an output looks at, from their definition. */
static void test_lo_and_hi_are_the_inputs_that_count(void **state)
{
	/* 100 to 50: output i covers inputs 2i - 1 to 2i + 2 */
	struct mr_scale s = { 100, 50, 10, 5, MR_FILTER_BILINEAR, true };
	struct mr_taps t = make_taps(&s);
	const int16_t half[] = { 2048, 6144, 6144, 2048 };

	(void)state;
	assert_int_equal(t.taps, 4);
	assert_int_equal(t.lo, 19);
	assert_int_equal(t.hi, 31);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(t.from[i], 19 + 2 * i);
		assert_memory_equal(t.weight + 4 * i, half, sizeof(half));
	}
	drop_taps(&t);
	s = (struct mr_scale){ 100, 50, 0, 50, MR_FILTER_AREA, true };
	t = make_taps(&s);
	assert_int_equal(t.lo, 0);
	assert_int_equal(t.hi, 100);
	drop_taps(&t);
	s = (struct mr_scale){ 100, 50, 49, 1, MR_FILTER_AREA, true };
	t = make_taps(&s);
	assert_int_equal(t.lo, 98);
	assert_int_equal(t.hi, 100);
	drop_taps(&t);
}

static void test_a_window_has_the_weights_of_the_whole(void **state)
{
	(void)state;
	for (int n = 0; n < 300; n++) {
		struct mr_scale part = random_scale(300, 200), all = part;
		struct mr_taps p, a;

		all.first = 0;
		all.count = all.out;
		p = make_taps(&part);
		a = make_taps(&all);
		for (int i = 0; i < part.count; i++) {
			int k = part.first + i;

			for (int x = 0; x < part.in; x++) {
				int ip = x - p.from[i], ia = x - a.from[k];
				int wp = 0, wa = 0;

				if (ip >= 0 && ip < p.taps)
					wp = p.weight[i * p.taps + ip];
				if (ia >= 0 && ia < a.taps)
					wa = a.weight[k * a.taps + ia];
				assert_int_equal(wp, wa);
			}
		}
		drop_taps(&p);
		drop_taps(&a);
	}
}

static void test_taps_out_of_range_are_refused(void **state)
{
	static const struct mr_scale bad[] = {
		{ 0, 5, 0, 5, MR_FILTER_BILINEAR, true },
		{ -1, 5, 0, 5, MR_FILTER_BILINEAR, true },
		{ 5, 0, 0, 1, MR_FILTER_BILINEAR, true },
		{ 5, -5, 0, 1, MR_FILTER_BILINEAR, true },
		{ (1 << 24) + 1, 5, 0, 5, MR_FILTER_BILINEAR, true },
		{ 5, (1 << 24) + 1, 0, 5, MR_FILTER_BILINEAR, true },
		{ INT32_MAX, INT32_MAX, 0, 5, MR_FILTER_BILINEAR, true },
		{ 5, 5, -1, 5, MR_FILTER_BILINEAR, true },
		{ 5, 5, 0, 0, MR_FILTER_BILINEAR, true },
		{ 5, 5, 0, -1, MR_FILTER_BILINEAR, true },
		{ 5, 5, 0, 6, MR_FILTER_BILINEAR, true },
		{ 5, 5, 1, 5, MR_FILTER_BILINEAR, true },
		{ 5, 5, INT32_MAX, INT32_MAX, MR_FILTER_BILINEAR, true },
		{ 5, 5, INT32_MIN, INT32_MAX, MR_FILTER_BILINEAR, true },
		/* 2^24 outputs of 4 taps are just allowed, of 8 not */
		{ 1 << 24, 1 << 24, 0, 1 << 24, MR_FILTER_BICUBIC, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(mr_taps_size(&bad[i]), 0);
	assert_true(mr_taps_size(&(struct mr_scale){
			    1 << 24, 1 << 24, 0, 1 << 24, MR_FILTER_BILINEAR,
			    true }) > 0);
}

/* ---- scaling ---- */

static void check_rows(const struct mr_scale *s, int channels, int rows)
{
	struct mr_taps t = make_taps(s);
	size_t c = (size_t)channels, used = (size_t)(t.hi - t.lo) * c;
	size_t src_stride = used + below(70), dst_n = (size_t)t.count * c;
	size_t dst_stride = dst_n + below(70);
	uint8_t *src =
		noise((size_t)(rows - 1) * src_stride + used + MR_ROW_SLACK);
	struct pair p =
		make_pair((size_t)(rows - 1) * dst_stride + dst_n, below(64));

	mr_resample_rows(&t, channels, rows, src, src_stride, p.got,
			 dst_stride);
	mr_resample_rows_plain(&t, channels, rows, src, src_stride, p.want,
			       dst_stride);
	check_pair(&p); /* and what lies between rows */
	free(src);
	drop_taps(&t);
}

static void test_rows_are_scaled_as_the_plain_twin_does(void **state)
{
	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct mr_scale s =
			random_scale(i % 50 ? 70 : 3000, i % 50 ? 70 : 500);

		check_rows(&s, between(1, 4), between(1, 9));
	}
}

static void test_rows_of_every_number_of_outputs_agree(void **state)
{
	(void)state;
	for (int n = 1; n <= 70; n++) {
		struct mr_scale s = { 40, n, 0, n, MR_FILTER_BICUBIC, true };

		for (int channels = 1; channels <= 4; channels++)
			check_rows(&s, channels, n % 5 + 1);
	}
}

static void test_no_row_is_no_work(void **state)
{
	struct mr_scale s = { 40, 20, 0, 20, MR_FILTER_BILINEAR, true };
	struct mr_taps t = make_taps(&s);

	(void)state;
	mr_resample_rows(&t, 4, 0, NULL, 0, NULL, 0);
	mr_resample_rows_plain(&t, 4, 0, NULL, 0, NULL, 0);
	drop_taps(&t);
}

/* Only the rows [lo, hi) exist. */
static void check_column(const struct mr_scale *s, size_t n)
{
	struct mr_taps t = make_taps(s);
	size_t rows = (size_t)(t.hi - t.lo), stride = n + below(70);
	uint8_t *src = noise((rows - 1) * stride + n);

	for (int i = 0; i < t.count; i++) {
		struct pair p = make_pair(n, below(64));

		mr_resample_column(&t, i, src, stride, p.got, n);
		mr_resample_column_plain(&t, i, src, stride, p.want, n);
		check_pair(&p);
	}
	free(src);
	drop_taps(&t);
}

static void test_columns_are_scaled_as_the_plain_twin_does(void **state)
{
	(void)state;
	for (size_t n = 1; n <= 200; n++) {
		struct mr_scale s = random_scale(60, 20);

		check_column(&s, n);
	}
	for (int i = 0; i < 40; i++) {
		struct mr_scale s = random_scale(500, 30);

		check_column(&s, (size_t)between(200, 1000));
	}
}

static void test_thousands_of_taps_do_not_overflow(void **state)
{
	(void)state;
	for (int f = 0; f < 3; f++) {
		struct mr_scale s = { 40000, 5, 0, 5, (enum mr_filter)f, true };

		for (int channels = 1; channels <= 4; channels++)
			check_rows(&s, channels, 3);
		check_column(&s, 33);
	}
}

static void test_white_stays_white_however_many_taps(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct mr_scale s = random_scale(i % 10 ? 400 : 30000, 60);
		struct mr_taps t = make_taps(&s);
		size_t used = (size_t)(t.hi - t.lo) * 4;
		uint8_t *src = malloc(used + MR_ROW_SLACK), dst[60 * 4];

		assert_non_null(src);
		memset(src, 255, used);
		memset(src + used, 0, MR_ROW_SLACK);
		mr_resample_rows(&t, 4, 1, src, used, dst, 0);
		for (int k = 0; k < t.count * 4; k++)
			assert_int_equal(dst[k], 255);
		free(src);
		drop_taps(&t);
	}
}

/* ---- layouts ---- */

static const size_t long_rows[] = { 100, 224, 255, 256, 257, 1000 };

/* Calls check for rows of 1 to 70 pixels and some longer ones. */
static void for_each_length(void (*check)(size_t n, bool mirror))
{
	for (int mirror = 0; mirror < 2; mirror++) {
		for (size_t n = 0; n <= 70; n++)
			check(n, mirror);
		for (size_t i = 0; i < sizeof(long_rows) / sizeof(size_t); i++)
			check(long_rows[i], mirror);
	}
}

static void check_pack(size_t n, bool mirror)
{
	uint8_t *src = noise(4 * n);
	struct pair p = make_pair(3 * n, below(64));

	mr_pixels_pack(src, n, mirror, p.got);
	mr_pixels_pack_plain(src, n, mirror, p.want);
	for (size_t i = 0; i < 3 * n; i++) {
		size_t px = mirror ? n - 1 - i / 3 : i / 3;

		assert_int_equal(p.want[i], src[4 * px + i % 3]);
	}
	check_pair(&p);
	free(src);
}

static void test_packed_pixels_are_the_plain_twins(void **state)
{
	(void)state;
	for_each_length(check_pack);
}

static void check_expand(size_t n, bool mirror)
{
	uint8_t *src = noise(3 * n);
	struct pair p = make_pair(4 * n, below(64));

	(void)mirror;
	mr_pixels_expand(src, n, p.got);
	mr_pixels_expand_plain(src, n, p.want);
	for (size_t i = 0; i < 4 * n; i++)
		assert_int_equal(p.want[i],
				 i % 4 == 3 ? 255 : src[i / 4 * 3 + i % 4]);
	check_pair(&p);
	free(src);
}

static void test_expanded_pixels_are_the_plain_twins(void **state)
{
	(void)state;
	for_each_length(check_expand);
}

static void check_planes(size_t n, bool mirror)
{
	uint8_t *src = noise(4 * n);
	size_t plane = n + below(70);
	struct pair p = make_pair(2 * plane + n, below(64));

	mr_pixels_planes(src, n, mirror, p.got, plane);
	mr_pixels_planes_plain(src, n, mirror, p.want, plane);
	for (size_t i = 0; i < 3 * n; i++) {
		size_t px = mirror ? n - 1 - i % n : i % n;

		assert_int_equal(p.want[i / n * plane + i % n],
				 src[4 * px + i / n]);
	}
	check_pair(&p);
	free(src);
}

static void test_planes_are_the_plain_twins(void **state)
{
	(void)state;
	for_each_length(check_planes);
}

static const float scale[] = { 0.017124753f, 1 / 255.f, -3.3e7f };
static const float bias[] = { -2.117904f, 0.1f, 1e-3f };

/* The product has a rounding of its own: volatile keeps it. */
static float twice_rounded(uint8_t x, size_t c)
{
	volatile float product = x * scale[c];

	return product + bias[c];
}

static void check_affine_of(size_t stride, size_t n, bool mirror, size_t off)
{
	uint8_t *src = noise(stride * n);
	size_t plane = n + (off ? below(70) : (8 - n % 8) % 8);
	struct pair p =
		make_pair((2 * plane + n) * sizeof(float), off * sizeof(float));
	float *got = (float *)(void *)p.got, *want = (float *)(void *)p.want;

	mr_pixels_affine(src, (int)stride, n, mirror, got, plane, scale, bias);
	mr_pixels_affine_plain(src, (int)stride, n, mirror, want, plane, scale,
			       bias);
	for (size_t i = 0; i < 3 * n; i++) {
		size_t px = mirror ? n - 1 - i % n : i % n;
		float f = twice_rounded(src[stride * px + i / n], i / n);

		assert_memory_equal(&want[i / n * plane + i % n], &f,
				    sizeof(f));
	}
	check_pair(&p);
	free(src);
}

static void check_affine(size_t n, bool mirror)
{
	for (size_t off = 0; off < 9; off += 3) {
		check_affine_of(3, n, mirror, off);
		check_affine_of(4, n, mirror, off);
	}
}

static void test_affine_rounds_twice_as_the_plain_twin_does(void **state)
{
	(void)state;
	for_each_length(check_affine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights_of_each_output_sum_up_to_one),
		cmocka_unit_test(test_extreme_scales_have_taps_too),
		cmocka_unit_test(test_lo_and_hi_are_the_inputs_that_count),
		cmocka_unit_test(test_a_window_has_the_weights_of_the_whole),
		cmocka_unit_test(test_taps_out_of_range_are_refused),
		cmocka_unit_test(test_rows_are_scaled_as_the_plain_twin_does),
		cmocka_unit_test(test_rows_of_every_number_of_outputs_agree),
		cmocka_unit_test(test_no_row_is_no_work),
		cmocka_unit_test(
			test_columns_are_scaled_as_the_plain_twin_does),
		cmocka_unit_test(test_thousands_of_taps_do_not_overflow),
		cmocka_unit_test(test_white_stays_white_however_many_taps),
		cmocka_unit_test(test_packed_pixels_are_the_plain_twins),
		cmocka_unit_test(test_expanded_pixels_are_the_plain_twins),
		cmocka_unit_test(test_planes_are_the_plain_twins),
		cmocka_unit_test(
			test_affine_rounds_twice_as_the_plain_twin_does),
	};

	if (!mr_cpu_avx2())
		print_message("no AVX2: the twins are compared with "
			      "themselves\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
