/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours: the fast kernels against their plain twins, both against digests
 * of what Pillow 9.4 makes of all 2^24 colours (test_colour_pillow.py compares
 * the bytes where Pillow is at hand), and the steps made of them.
 */
#include "scratch.h"

#include <math.h>
#include <xxhash.h>

#include "core/mem.h"
#include "kernel/colour.h"
#include "op/image/color_jitter.h"
#include "op/op.h"
#include "pipe/plan.h"

extern const struct mr_op mr_op_color_jitter, mr_op_greyscale;

/* ---- kernels ---- */

enum { COLOURS = 1 << 24 };

static uint8_t *all_colours(void)
{
	uint8_t *x = malloc(3 * (size_t)COLOURS);

	assert_non_null(x);
	for (uint32_t i = 0; i < COLOURS; i++) {
		x[3 * i] = (uint8_t)(i >> 16);
		x[3 * i + 1] = (uint8_t)(i >> 8);
		x[3 * i + 2] = (uint8_t)i;
	}
	return x;
}

static void test_all_colours_are_adjusted_as_pillow_does(void **state)
{
	static const struct {
		struct mr_adjust a;
		uint64_t digest;
	} gold[] = {
		{ { MR_ADJUST_BRIGHTNESS, 1.4 }, 0xcde965bf20cbd717 },
		{ { MR_ADJUST_CONTRAST, 0.3 }, 0xb5ada59d8785c553 },
		{ { MR_ADJUST_SATURATION, 1.7 }, 0x9d2c447870e5aafa },
		{ { MR_ADJUST_HUE, 0 }, 0x560fcf6a9c16f435 },
		{ { MR_ADJUST_HUE, 0.5 }, 0x6bec1feeb05abd2e },
		{ { MR_ADJUST_HUE, -0.07 }, 0xbf8dda43f3a6613b },
	};
	uint8_t *src = all_colours(), *dst = malloc(3 * (size_t)COLOURS);

	(void)state;
	for (size_t i = 0; i < MR_COUNT(gold); i++) {
		mr_colour_adjust(&gold[i].a, 1, src, dst, COLOURS, 3);
		assert_int_equal(XXH3_64bits(dst, 3 * (size_t)COLOURS),
				 gold[i].digest);
		mr_colour_adjust_plain(&gold[i].a, 1, src, dst, COLOURS, 3);
		assert_int_equal(XXH3_64bits(dst, 3 * (size_t)COLOURS),
				 gold[i].digest);
	}
	free(src);
	free(dst);
}

static void test_all_colours_have_the_grey_of_pillow(void **state)
{
	const uint64_t digest = 0x9f738292bf2b4b1b;
	uint8_t *src = all_colours(), *dst = malloc(COLOURS);

	(void)state;
	mr_colour_grey(src, 3, dst, 1, COLOURS);
	assert_int_equal(XXH3_64bits(dst, COLOURS), digest);
	mr_colour_grey_plain(src, 3, dst, 1, COLOURS);
	assert_int_equal(XXH3_64bits(dst, COLOURS), digest);
	free(src);
	free(dst);
}

enum { MOST = 1000 }; /* pixels of a small image: some blocks and a rest */

static double random_factor(uint64_t *seed, enum mr_adjust_kind kind)
{
	double u = (double)(draw(seed) >> 11) * 0x1p-53;

	if (kind == MR_ADJUST_HUE)
		return u - 0.5;
	return draw(seed) % 8 ? 3 * u : u * MR_ADJUST_MAX;
}

/* A copy of its own size and place, so that a sanitizer sees each byte too
 * much. */
static uint8_t *copy_of(const uint8_t *x, size_t n)
{
	uint8_t *c = malloc(n + 1);

	assert_non_null(c);
	memcpy(c, x, n);
	return c;
}

static void check_twins(uint64_t *seed, size_t pixels, int channels)
{
	static uint8_t image[3 * MOST];
	struct mr_adjust a[6];
	int n = (int)(draw(seed) % 7);
	size_t bytes = pixels * (size_t)channels;
	uint8_t *src, *got, *want = malloc(bytes + 1);

	for (size_t i = 0; i < bytes; i++)
		image[i] = (uint8_t)draw(seed);
	for (int i = 0; i < n; i++) {
		a[i].kind = (enum mr_adjust_kind)(draw(seed) % MR_ADJUSTS);
		a[i].factor = random_factor(seed, a[i].kind);
	}
	src = copy_of(image, bytes);
	got = copy_of(image, bytes);
	got[bytes] = 0x55;
	mr_colour_adjust(a, n, src, got, pixels, channels);
	mr_colour_adjust_plain(a, n, src, want, pixels, channels);
	assert_memory_equal(got, want, bytes);
	assert_int_equal(got[bytes], 0x55);
	assert_memory_equal(src, image, bytes);
	free(src);
	free(got);
	free(want);
}

static void test_fast_and_plain_adjustments_agree(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (size_t i = 0; i < 4000; i++)
		check_twins(&seed, i < 600 ? i : draw(&seed) % MOST,
			    i % 3 ? 3 : 1);
}

static void check_grey(uint64_t *seed, size_t pixels, int from, int to)
{
	size_t in = pixels * (size_t)from, out = pixels * (size_t)to;
	uint8_t *src = malloc(in + 1), *got = malloc(out + 1);
	uint8_t *want = malloc(out + 1);

	for (size_t i = 0; i < in; i++)
		src[i] = (uint8_t)draw(seed);
	got[out] = 0x55;
	mr_colour_grey(src, from, got, to, pixels);
	mr_colour_grey_plain(src, from, want, to, pixels);
	assert_memory_equal(got, want, out);
	assert_int_equal(got[out], 0x55);
	for (size_t i = 0; i < out; i++) {
		const uint8_t *p = src + i / (size_t)to * (size_t)from;
		int grey = from == 1 ? p[0] :
				       (p[0] * 19595 + p[1] * 38470 +
					p[2] * 7471 + 0x8000) >>
					       16;

		assert_int_equal(got[i], grey);
	}
	free(src);
	free(got);
	free(want);
}

static void test_grey_is_a_weighted_sum_of_one_or_three_channels(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (size_t n = 0; n < 600; n++)
		for (int i = 0; i < 4; i++)
			check_grey(&seed, n, i & 1 ? 3 : 1, i & 2 ? 3 : 1);
}

/* ---- what is drawn ---- */

enum { DRAWS = 24000 };

static struct mr_jitter ranges(void)
{
	return (struct mr_jitter){ { { true, 0.6, 1.4 },
				     { true, 0, 2 },
				     { true, 1.5, 3 },
				     { true, -0.5, 0.25 } } };
}

static struct mr_rng rng_of(uint64_t sample)
{
	return mr_rng_for(7, 0, sample, 1);
}

static int place(const struct mr_adjust *a, int kind)
{
	int i = 0;

	while ((int)a[i].kind != kind)
		i++;
	return i;
}

/* Chi-squared of counts that should all be `want`. */
static double chi2(const int *count, int n, double want)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (count[i] - want) * (count[i] - want) / want;
	return sum;
}

static void test_factors_are_uniform_over_their_ranges(void **state)
{
	struct mr_jitter j = ranges();
	int count[MR_ADJUSTS][20] = { 0 };

	(void)state;
	for (uint64_t s = 0; s < DRAWS; s++) {
		struct mr_rng rng = rng_of(s);
		struct mr_adjust a[MR_ADJUSTS];

		assert_int_equal(mr_jitter_draw(&j, &rng, a), MR_ADJUSTS);
		for (int i = 0; i < MR_ADJUSTS; i++) {
			double lo = j.range[a[i].kind].lo;
			double hi = j.range[a[i].kind].hi, f = a[i].factor;

			assert_true(lo <= f && f <= hi);
			count[a[i].kind][(int)((f - lo) / (hi - lo) * 20)]++;
		}
	}
	/* 19 degrees of freedom: beyond 50 once in 7,000 */
	for (int i = 0; i < MR_ADJUSTS; i++)
		assert_true(chi2(count[i], 20, DRAWS / 20.0) < 50);
}

static void test_factors_are_independent_of_one_another(void **state)
{
	struct mr_jitter j = ranges();
	int count[MR_ADJUSTS][16] = { 0 };

	(void)state;
	for (uint64_t s = 0; s < DRAWS; s++) {
		struct mr_rng rng = rng_of(s);
		struct mr_adjust a[MR_ADJUSTS];
		int bin[MR_ADJUSTS];

		mr_jitter_draw(&j, &rng, a);
		for (int i = 0; i < MR_ADJUSTS; i++) {
			double lo = j.range[a[i].kind].lo;
			double hi = j.range[a[i].kind].hi;

			bin[a[i].kind] =
				(int)((a[i].factor - lo) / (hi - lo) * 4);
		}
		for (int i = 0; i < MR_ADJUSTS; i++)
			count[i][bin[i] * 4 + bin[(i + 1) % MR_ADJUSTS]]++;
	}
	/* 15 degrees of freedom */
	for (int i = 0; i < MR_ADJUSTS; i++)
		assert_true(chi2(count[i], 16, DRAWS / 16.0) < 45);
}

static void test_all_orders_are_equally_likely(void **state)
{
	struct mr_jitter j = ranges();
	int count[256] = { 0 }, orders[24], n = 0;

	(void)state;
	for (uint64_t s = 0; s < DRAWS; s++) {
		struct mr_rng rng = rng_of(s);
		struct mr_adjust a[MR_ADJUSTS];
		int code = 0;

		mr_jitter_draw(&j, &rng, a);
		for (int i = 0; i < MR_ADJUSTS; i++)
			code = code * 4 + (int)a[i].kind;
		count[code]++;
	}
	for (int i = 0; i < 256; i++) {
		if (!count[i])
			continue;
		assert_true(n < 24);
		orders[n++] = count[i];
	}
	assert_int_equal(n, 24);
	/* 23 degrees of freedom: beyond 56 once in 7,000 */
	assert_true(chi2(orders, 24, DRAWS / 24.0) < 56);
}

static void test_a_range_switched_off_leaves_the_others_alone(void **state)
{
	struct mr_jitter j = ranges(), three = ranges();

	(void)state;
	three.range[MR_ADJUST_CONTRAST].on = false;
	for (uint64_t s = 0; s < 100; s++) {
		struct mr_rng r = rng_of(s), r3 = r;
		struct mr_adjust a[MR_ADJUSTS], b[MR_ADJUSTS];
		int at, k = 0;

		mr_jitter_draw(&j, &r, a);
		assert_int_equal(mr_jitter_draw(&three, &r3, b), 3);
		at = place(a, MR_ADJUST_CONTRAST);
		for (int i = 0; i < MR_ADJUSTS; i++) {
			if (i == at)
				continue;
			assert_int_equal(a[i].kind, b[k].kind);
			assert_true(a[i].factor == b[k].factor);
			k++;
		}
	}
}

/* ---- the steps ---- */

enum { N = 30, H = 17, W = 23 };

static uint8_t images[N * H * W * 3];

static void put_images(int channels)
{
	int64_t shape[] = { N, H, W, channels };
	uint64_t seed = 5;

	for (size_t i = 0; i < sizeof(images); i++)
		images[i] = (uint8_t)draw(&seed);
	put_npy("images.npy", "|u1", 4, shape, images,
		(size_t)(N * H * W * channels));
}

/* All samples in order of their index. */
static void load(const char *steps, int epoch, int threads, uint64_t seed,
		 uint8_t *to, size_t row)
{
	struct mr_options opt;
	struct mr_loader *l;
	struct mr_batch *b;
	size_t seen = 0;

	mr_options_init(&opt);
	opt.threads = threads;
	opt.seed = seed;
	opt.epochs = (uint64_t)epoch + 1;
	l = must_open(textf("npy %s/images.npy | %s | batch 4", top, steps),
		      &opt);
	for (int e = 0; e <= epoch; e++) {
		while ((b = must_next(l))) {
			const uint8_t *x =
				mr_batch_find(b, "data")->tensor.data;

			for (uint64_t i = 0; i < mr_batch_count(b); i++)
				memcpy(to + mr_batch_indices(b)[i] * row,
				       x + i * row, row);
			seen += mr_batch_count(b);
			mr_batch_release(b);
		}
	}
	assert_int_equal(seen, N * (epoch + 1));
	mr_loader_close(l);
}

static void test_the_step_draws_and_adjusts(void **state)
{
	const char *steps = "color_jitter 0.4 contrast=0,2 saturation=1.5,3 "
			    "hue=-0.5,0.25";
	struct mr_jitter j = ranges();
	static uint8_t got[sizeof(images)], want[H * W * 3];
	int found = 0;

	(void)state;
	put_images(3);
	load(steps, 0, 2, 7, got, H * W * 3);
	for (uint64_t i = 0; i < N; i++) {
		/* Which number the step has is the pipe's business. */
		for (uint64_t step = 0; step < 4; step++) {
			struct mr_rng rng = mr_rng_for(7, 0, i, step);
			struct mr_adjust a[MR_ADJUSTS];
			int n = mr_jitter_draw(&j, &rng, a);

			mr_colour_adjust_plain(a, n, images + i * H * W * 3,
					       want, H * W, 3);
			found += !memcmp(want, got + i * H * W * 3, H * W * 3);
		}
	}
	assert_int_equal(found, N);
}

static void test_the_step_repeats_itself_by_seed_and_epoch(void **state)
{
	const char *steps = "color_jitter 0.4 contrast=0.4 hue=0.1";
	static uint8_t a[sizeof(images)], b[sizeof(images)];
	const size_t row = H * W * 3;

	(void)state;
	put_images(3);
	load(steps, 1, 1, 3, a, row);
	load(steps, 1, 3, 3, b, row);
	assert_memory_equal(a, b, sizeof(a));
	load(steps, 0, 1, 3, b, row);
	assert_memory_not_equal(a, b, sizeof(a));
	load(steps, 1, 1, 4, b, row);
	assert_memory_not_equal(a, b, sizeof(a));
}

static void test_greyscale_gives_one_or_three_channels(void **state)
{
	static uint8_t got[sizeof(images)], want[sizeof(images)];

	(void)state;
	put_images(3);
	load("greyscale", 0, 1, 0, got, H * W);
	mr_colour_grey_plain(images, 3, want, 1, N * H * W);
	assert_memory_equal(got, want, N * H * W);
	load("greyscale 3", 0, 1, 0, got, H * W * 3);
	mr_colour_grey_plain(images, 3, want, 3, N * H * W);
	assert_memory_equal(got, want, sizeof(got));
	put_images(1);
	load("greyscale channels=3", 0, 1, 0, got, H * W * 3);
	mr_colour_grey_plain(images, 1, want, 3, N * H * W);
	assert_memory_equal(got, want, sizeof(got));
}

static void test_greyscale_follows_images_of_any_size(void **state)
{
	struct mr_spec in = { MR_U8, 3, { MR_ANY, MR_ANY, 3 } }, out;
	struct mr_tensor from = { .dtype = MR_U8,
				  .ndim = 3,
				  .shape = { 5, 7, 3 } };
	struct mr_tensor to = { .dtype = MR_U8, .ndim = 3 };
	int self = 0; /* struct greyscale, channels=1 */
	struct mr_opctx cx = { .self = &self };
	struct mr_err err;

	(void)state;
	assert_int_equal(mr_op_greyscale.infer(&self, &in, &out, &err), 0);
	assert_int_equal(out.shape[0], MR_ANY);
	assert_int_equal(out.shape[1], MR_ANY);
	assert_int_equal(out.shape[2], 1);
	assert_int_equal(mr_op_greyscale.shape(&cx, &from, &to), 0);
	assert_int_equal(to.shape[0], 5);
	assert_int_equal(to.shape[1], 7);
	assert_int_equal(to.shape[2], 1);
}

/* ---- what is refused ---- */

static void refuse(const char *text, int code, const char *words)
{
	struct mr_pipeline *p;
	struct mr_plan plan;
	struct mr_err err;
	int e = mr_pipeline_parse(&p, text, NULL, &err);

	if (!e) {
		e = mr_plan_make(&plan, p, 1, &err);
		mr_pipeline_free(p);
	}
	assert_int_equal(e, code);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in '%s'", words, err.text);
}

static void test_ranges_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		const char *params, *words;
	} bad[] = {
		{ "-0.1", "brightness=-0.1 is negative" },
		{ "contrast=-1", "contrast=-1 is negative" },
		{ "hue=-0.1", "hue=-0.1 is negative" },
		{ "saturation=1.5,0.5",
		  "saturation=1.5,0.5: the first is larger than the second" },
		{ "contrast=-1,2", "contrast reaches from -1 to 2; want 0" },
		{ "hue=0.6", "hue reaches from -0.6 to 0.6; want -0.5 to 0.5" },
		{ "hue=-0.6,0.1", "hue reaches from -0.6 to 0.1" },
		{ "hue=0,0.51", "hue reaches from 0 to 0.51" },
		{ "1,2,3", "brightness has 3 values; want one, or LO,HI" },
		{ "brightness=", "brightness has 0 values" },
		{ "nan", "want numbers" },
		{ "inf", "want numbers" },
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(bad); i++)
		refuse(textf("synthetic 4,4,3 | color_jitter %s",
			     bad[i].params),
		       MR_EINVAL, bad[i].words);
	refuse("synthetic 4,4,3 | greyscale 2", MR_EINVAL,
	       "channels=2: want 1|3");
}

static void test_only_images_are_taken(void **state)
{
	static const char *const steps[] = { "greyscale", "color_jitter" };
	static const char *const shapes[] = { "4,4,4",	   "4,4,2", "4,4",
					      "4,4,3 f32", "3",	    "2,4,4,3",
					      "4,4,3 i16" };

	(void)state;
	for (size_t i = 0; i < MR_COUNT(steps); i++) {
		for (size_t k = 0; k < MR_COUNT(shapes); k++)
			refuse(textf("synthetic %s | %s", shapes[k], steps[i]),
			       MR_ETYPE, "u8 H W C with 1 or 3 channels");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_colours_are_adjusted_as_pillow_does),
		cmocka_unit_test(test_all_colours_have_the_grey_of_pillow),
		cmocka_unit_test(test_fast_and_plain_adjustments_agree),
		cmocka_unit_test(
			test_grey_is_a_weighted_sum_of_one_or_three_channels),
		cmocka_unit_test(test_factors_are_uniform_over_their_ranges),
		cmocka_unit_test(test_factors_are_independent_of_one_another),
		cmocka_unit_test(test_all_orders_are_equally_likely),
		cmocka_unit_test(
			test_a_range_switched_off_leaves_the_others_alone),
		cmocka_unit_test(test_the_step_draws_and_adjusts),
		cmocka_unit_test(
			test_the_step_repeats_itself_by_seed_and_epoch),
		cmocka_unit_test(test_greyscale_gives_one_or_three_channels),
		cmocka_unit_test(test_greyscale_follows_images_of_any_size),
		cmocka_unit_test(test_ranges_that_make_no_sense_are_refused),
		cmocka_unit_test(test_only_images_are_taken),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
