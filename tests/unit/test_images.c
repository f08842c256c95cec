/* SPDX-License-Identifier: Apache-2.0 */
/* Images without pixels: orientation, views, and which steps are joined. */
#include "scratch.h"

#include "op/exif.h"
#include "pipe/plan.h"

/* ---- EXIF's orientation ---- */

enum { TIFF_MAX = 200 };

struct tiff {
	uint8_t at[TIFF_MAX];
	size_t n;
	bool big;
};

static void add(struct tiff *t, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		t->at[t->n++] =
			(uint8_t)(v >> 8 * (t->big ? bytes - 1 - i : i));
}

/* The directory follows `gap` bytes; the tag is entry `place` of four. */
static struct tiff make_tiff(bool big, uint32_t orientation, int gap, int place)
{
	struct tiff t = { .big = big };

	memcpy(t.at, big ? "MM\0*" : "II*\0", 4);
	t.n = 4;
	add(&t, 8 + (uint32_t)gap, 4);
	t.n += (size_t)gap;
	add(&t, 4, 2);
	for (int i = 0; i < 4; i++) {
		add(&t, i == place ? 0x112 : 0x100 + (uint32_t)i, 2);
		add(&t, 3, 2); /* a short, */
		add(&t, 1, 4); /* one of it */
		add(&t, i == place ? orientation : 6, 2);
		add(&t, 0, 2);
	}
	add(&t, 0, 4); /* no directory follows */
	return t;
}

/* Of the first n bytes, in memory that ends with them. */
static int ask(const struct tiff *t, size_t n)
{
	uint8_t *copy = malloc(n + !n);
	int o;

	memcpy(copy, t->at, n);
	o = mr_exif_orientation(copy, n);
	free(copy);
	return o;
}

static void test_exif_is_read_in_both_byte_orders(void **state)
{
	(void)state;
	for (int big = 0; big < 2; big++)
		for (int gap = 0; gap < 9; gap += 4)
			for (int place = 0; place < 4; place++)
				for (uint32_t o = 1; o <= 8; o++) {
					struct tiff t =
						make_tiff(big, o, gap, place);

					assert_int_equal(ask(&t, t.n), o);
				}
}

static void test_exif_orientations_there_are_not_mean_upright(void **state)
{
	static const uint32_t wrong[] = { 0, 9, 255, 256, 0x600, 65535 };

	(void)state;
	for (int big = 0; big < 2; big++)
		for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
			struct tiff t = make_tiff(big, wrong[i], 0, 1);

			assert_int_equal(ask(&t, t.n), 1);
		}
}

static void test_exif_that_ends_early_means_upright(void **state)
{
	(void)state;
	for (int big = 0; big < 2; big++)
		for (int place = 0; place < 4; place++) {
			struct tiff t = make_tiff(big, 6, 4, place);
			size_t entry = 8 + 4 + 2 + 12 * (size_t)place;

			for (size_t n = 0; n <= t.n; n++)
				assert_int_equal(ask(&t, n),
						 n >= entry + 12 ? 6 : 1);
		}
}

static void test_exif_with_wild_offsets_means_upright(void **state)
{
	static const uint32_t wild[] = { 0xffffffff, 0xfffffffe, 0x7fffffff,
					 0x80000000, 0xfffffff4, 63,
					 62,	     61,	 1000 };

	(void)state;
	for (int big = 0; big < 2; big++)
		for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
			struct tiff t = make_tiff(big, 6, 0, 3);
			size_t n = t.n;

			assert_int_equal(n, 62);
			t.n = 4;
			add(&t, wild[i], 4);
			assert_int_equal(ask(&t, n), 1);
		}
}

static void test_exif_that_claims_more_entries_than_bytes_ends(void **state)
{
	struct tiff t = make_tiff(false, 6, 0, 3);

	(void)state;
	t.at[8] = t.at[9] = 0xff;
	assert_int_equal(ask(&t, t.n), 6);
	t.at[10 + 3 * 12] = 0; /* no such tag any more */
	assert_int_equal(ask(&t, t.n), 1);
	memcpy(t.at, "II\0*", 4);
	assert_int_equal(ask(&t, t.n), 1);
}

/* ---- turning ---- */

enum { STORED_H = 5, STORED_W = 7 };

/* Which stored pixel is at (y, x) of the upright image, by the standard's
 * words about where row 0 and column 0 are. */
static uint32_t upright_pixel(int orientation, int64_t y, int64_t x)
{
	int64_t h = STORED_H, w = STORED_W;
	int64_t sy, sx;

	switch (orientation) {
	case 2: /* top, right */
		sy = y, sx = w - 1 - x;
		break;
	case 3: /* bottom, right */
		sy = h - 1 - y, sx = w - 1 - x;
		break;
	case 4: /* bottom, left */
		sy = h - 1 - y, sx = x;
		break;
	case 5: /* left, top */
		sy = x, sx = y;
		break;
	case 6: /* right, top: to be turned clockwise */
		sy = h - 1 - x, sx = y;
		break;
	case 7: /* right, bottom */
		sy = h - 1 - x, sx = w - 1 - y;
		break;
	case 8: /* left, bottom */
		sy = x, sx = w - 1 - y;
		break;
	default:
		sy = y, sx = x;
		break;
	}
	return (uint32_t)(sy * w + sx + 1);
}

/* Part r of the upright image, from that part of the stored one. */
static void check_turn(int o, const struct mr_rect *r, int64_t h, int64_t w)
{
	uint32_t src[STORED_H * STORED_W], dst[STORED_H * STORED_W];
	struct mr_rect s;
	size_t n = 0;

	mr_exif_stored(o, r, h, w, &s);
	assert_true(s.x >= 0 && s.y >= 0 && s.x + s.w <= STORED_W &&
		    s.y + s.h <= STORED_H);
	assert_int_equal(s.w * s.h, r->w * r->h);
	for (int64_t y = 0; y < s.h; y++)
		for (int64_t x = 0; x < s.w; x++)
			src[n++] =
				(uint32_t)((s.y + y) * STORED_W + s.x + x + 1);
	mr_exif_turn(o, (const uint8_t *)src, (size_t)s.w * 4, r,
		     (uint8_t *)dst, (size_t)r->w * 4);
	for (int64_t y = 0; y < r->h; y++)
		for (int64_t x = 0; x < r->w; x++)
			assert_int_equal(dst[y * r->w + x],
					 upright_pixel(o, r->y + y, r->x + x));
}

static void test_any_part_is_turned_as_the_whole(void **state)
{
	(void)state;
	for (int o = 1; o <= 8; o++) {
		bool swap = mr_exif_swaps(o);
		int64_t h = swap ? STORED_W : STORED_H;
		int64_t w = swap ? STORED_H : STORED_W;
		struct mr_rect r;

		assert_int_equal(swap, o >= 5);
		for (r.y = 0; r.y < h; r.y++)
			for (r.x = 0; r.x < w; r.x++)
				for (r.h = 1; r.h <= h - r.y; r.h++)
					for (r.w = 1; r.w <= w - r.x; r.w++)
						check_turn(o, &r, h, w);
	}
}

/* ---- views ---- */

enum { SIDE = 40, BORDER = -1 };

/* An image whose pixels say where they come from. */
struct model {
	int64_t h, w;
	int at[SIDE * SIDE];
};

static void model_crop(struct model *m, const struct mr_rect *r)
{
	struct model old = *m;

	m->h = r->h;
	m->w = r->w;
	for (int64_t y = 0; y < r->h; y++)
		for (int64_t x = 0; x < r->w; x++) {
			int64_t sy = r->y + y, sx = r->x + x;
			bool in =
				sy >= 0 && sy < old.h && sx >= 0 && sx < old.w;

			m->at[y * m->w + x] =
				in ? old.at[sy * old.w + sx] : BORDER;
		}
}

static void model_mirror(struct model *m)
{
	struct model old = *m;

	for (int64_t y = 0; y < m->h; y++)
		for (int64_t x = 0; x < m->w; x++)
			m->at[y * m->w + x] = old.at[y * m->w + m->w - 1 - x];
}

static void check_view(const struct mr_view *v, const struct model *m,
		       int64_t width)
{
	const struct mr_rect *o = &v->window;

	assert_int_equal(o->h, m->h);
	assert_int_equal(o->w, m->w);
	for (int64_t y = 0; y < m->h; y++)
		for (int64_t x = 0; x < m->w; x++) {
			int64_t sy = o->y + y;
			int64_t sx = o->x + (v->mirror ? o->w - 1 - x : x);
			bool in = sy >= 0 && sy < v->h && sx >= 0 && sx < v->w;
			int64_t want =
				in ? (v->box.y + sy) * width + v->box.x + sx :
				     BORDER;

			assert_int_equal(m->at[y * m->w + x], want);
		}
}

/* A part of h x w, or, with reach, one that may lie partly beside it. */
static struct mr_rect any_rect(uint64_t *seed, int64_t h, int64_t w, int reach)
{
	struct mr_rect r;

	r.h = 1 + (int64_t)(draw(seed) % (uint64_t)(h + reach));
	r.w = 1 + (int64_t)(draw(seed) % (uint64_t)(w + reach));
	r.y = (int64_t)(draw(seed) % (uint64_t)(h + 2 * reach - r.h + 1)) -
	      reach;
	r.x = (int64_t)(draw(seed) % (uint64_t)(w + 2 * reach - r.w + 1)) -
	      reach;
	return r;
}

static void test_crops_and_mirrors_in_any_order_are_one_view(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		int64_t h = 1 + (int64_t)(draw(&seed) % 20);
		int64_t w = 1 + (int64_t)(draw(&seed) % 20);
		struct model m = { .h = h, .w = w };
		struct mr_view v;
		int reach = 7; /* of the first crop only, as in a plan */

		for (int i = 0; i < h * w; i++)
			m.at[i] = i;
		mr_view_init(&v, h, w);
		for (int k = 0; k < 5; k++) {
			struct mr_rect r = any_rect(&seed, m.h, m.w, reach);

			if (draw(&seed) % 2) {
				mr_view_mirror(&v);
				model_mirror(&m);
				continue;
			}
			mr_view_crop(&v, &r);
			model_crop(&m, &r);
			reach = 0;
		}
		assert_false(v.scaled);
		check_view(&v, &m, w);
	}
}

static void test_scaling_takes_the_window_as_its_box(void **state)
{
	struct mr_rect crop = { 3, 4, 20, 10 }, part = { 1, 2, 5, 6 };
	struct mr_view v;

	(void)state;
	mr_view_init(&v, 30, 40);
	mr_view_crop(&v, &crop);
	mr_view_scale(&v, 8, 9, MR_FILTER_BICUBIC, true);
	assert_true(v.scaled && v.antialias);
	assert_int_equal(v.filter, MR_FILTER_BICUBIC);
	assert_memory_equal(&v.box, &crop, sizeof(crop));
	mr_view_mirror(&v);
	mr_view_crop(&v, &part);
	assert_memory_equal(&v.box, &crop, sizeof(crop));
	assert_int_equal(v.window.x, 9 - 1 - 5);
	assert_int_equal(v.window.y, 2);
	assert_int_equal(v.window.w, 5);
	assert_int_equal(v.window.h, 6);
	assert_int_equal(v.w, 9);
	assert_int_equal(v.h, 8);
}

static void test_scaling_to_the_same_size_scales_nothing(void **state)
{
	struct mr_view v;

	(void)state;
	mr_view_init(&v, 30, 40);
	mr_view_scale(&v, 30, 40, MR_FILTER_AREA, true);
	assert_false(v.scaled);
	mr_view_init(&v, 30, 40);
	mr_view_scale(&v, 40, 30, MR_FILTER_AREA, true);
	assert_true(v.scaled);
}

/* ---- steps ---- */

static struct mr_plan plan;

static struct mr_pipeline *must_plan(const char *text)
{
	struct mr_pipeline *p;
	struct mr_err err = { 0 };

	if (mr_pipeline_parse(&p, text, NULL, &err) ||
	    mr_plan_make(&plan, p, 1, &err))
		fail_msg("%s", err.text);
	return p;
}

/* Where the window begins on an image of `have` lines. */
static int64_t begins(int have, int want)
{
	struct mr_pipeline *p = must_plan(textf("synthetic %d,9,3 | "
						"center_crop %dx9",
						have, want));
	struct mr_opctx cx = { .self = plan.step[0].self };
	struct mr_view v;

	mr_view_init(&v, have, 9);
	assert_int_equal(plan.step[0].op->image->view(&cx, &v), 0);
	assert_int_equal(v.window.h, want);
	assert_int_equal(v.window.x, 0);
	mr_pipeline_free(p);
	return v.window.y;
}

static void test_center_crop_rounds_halves_to_even(void **state)
{
	(void)state;
	assert_int_equal(begins(10, 10), 0);
	assert_int_equal(begins(10, 8), 1);
	assert_int_equal(begins(10, 9), 0);	/* 0.5 */
	assert_int_equal(begins(10, 7), 2);	/* 1.5 */
	assert_int_equal(begins(10, 5), 2);	/* 2.5 */
	assert_int_equal(begins(10, 3), 4);	/* 3.5 */
	assert_int_equal(begins(375, 224), 76); /* 75.5 */
}

static void test_center_crop_puts_the_odd_line_of_a_border_last(void **state)
{
	(void)state;
	assert_int_equal(begins(8, 10), -1);
	assert_int_equal(begins(9, 10), 0);
	assert_int_equal(begins(7, 10), -1);
	assert_int_equal(begins(5, 10), -2);
	assert_int_equal(begins(1, 10), -4);
}

/* `groups`: how many steps run as one, 0 for a step of another kind. */
static void check_joins(const char *steps, const char *groups)
{
	struct mr_pipeline *p =
		must_plan(textf("files %s | %s | batch 2", top, steps));
	char got[64];
	size_t n = 0;

	for (int k = 0; k < plan.steps; k++) {
		int joined = plan.step[k].joined;

		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%d",
				      n ? " " : "", joined);
		k += joined ? joined - 1 : 0;
	}
	if (strcmp(got, groups) != 0)
		fail_msg("%s: %s, not %s", steps, got, groups);
	mr_pipeline_free(p);
}

static void test_steps_that_can_be_one_pass_are_joined(void **state)
{
	(void)state;
	put("a.jpg", "", 0);
	check_joins("decode_image", "1");
	check_joins("decode_image | to_chw", "2");
	check_joins("decode_image | normalize imagenet", "2");
	check_joins("decode_image | resize 9", "2");
	check_joins("decode_image | random_resized_crop 9 | flip | "
		    "normalize imagenet",
		    "4");
	check_joins("decode_image | resize 9 | center_crop 8 | flip | to_chw",
		    "5");
	check_joins("decode_image | resize 9 | random_crop 8 padding=2 | flip",
		    "4");
	check_joins("decode_image | flip | flip | center_crop 8", "4");
	check_joins("decode_image | flip | random_crop 8 | to_chw", "4");
}

static void test_steps_that_would_differ_are_not_joined(void **state)
{
	(void)state;
	/* Scaling comes after nothing that edits the view. */
	check_joins("decode_image | flip | resize 9", "2 1");
	check_joins("decode_image | center_crop 9 | resize 8 | flip", "2 2");
	check_joins("decode_image | resize 9 | resize 8 | to_chw", "2 2");
	check_joins("decode_image | random_crop 9 | random_resized_crop 8",
		    "2 1");
	/* A second crop may want what the first has cut off. */
	check_joins("decode_image | center_crop 9 | center_crop 12", "2 1");
	check_joins("decode_image | resize 20 | random_crop 9 | flip | "
		    "random_crop 8 padding=4 | to_chw",
		    "4 2");
	/* Nothing comes after a finisher; and that one keeps H W C. */
	check_joins("decode_image | to_chw | normalize mean=0.5", "2 0");
	check_joins("decode_image | normalize imagenet layout=keep", "1 0");
	check_joins("decode_image | cast f32 | to_chw", "1 0 0");
	check_joins("decode_image | flip | cast f32", "2 0");
}

static void test_steps_on_other_fields_come_between(void **state)
{
	(void)state;
	check_joins("decode_image | cast f32 field=label | flip", "1 0 1");
	check_joins("decode_image | flip | cast f32 field=label", "2 0");
}

static void test_only_the_last_of_joined_steps_writes_the_batch(void **state)
{
	struct mr_pipeline *p = must_plan(
		textf("files %s | decode_image | random_resized_crop 9 | "
		      "flip | batch 2",
		      top));

	(void)state;
	assert_int_equal(plan.step[0].out_field, -1);
	assert_int_equal(plan.step[1].out_field, -1);
	assert_int_equal(plan.step[2].out_field, 0);
	assert_string_equal(plan.out[0].name, "image");
	assert_true(plan.out[0].dense);
	mr_pipeline_free(p);
}

static void test_no_join_runs_each_step_alone(void **state)
{
	(void)state;
	setenv("MILLRACE_NO_JOIN", "1", 1);
	check_joins("decode_image | random_resized_crop 9 | flip | "
		    "normalize imagenet",
		    "1 1 1 0");
	unsetenv("MILLRACE_NO_JOIN");
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_exif_is_read_in_both_byte_orders),
		T(test_exif_orientations_there_are_not_mean_upright),
		T(test_exif_that_ends_early_means_upright),
		T(test_exif_with_wild_offsets_means_upright),
		T(test_exif_that_claims_more_entries_than_bytes_ends),
		T(test_any_part_is_turned_as_the_whole),
		T(test_crops_and_mirrors_in_any_order_are_one_view),
		T(test_scaling_takes_the_window_as_its_box),
		T(test_scaling_to_the_same_size_scales_nothing),
		T(test_center_crop_rounds_halves_to_even),
		T(test_center_crop_puts_the_odd_line_of_a_border_last),
		T(test_steps_that_can_be_one_pass_are_joined),
		T(test_steps_that_would_differ_are_not_joined),
		T(test_steps_on_other_fields_come_between),
		T(test_only_the_last_of_joined_steps_writes_the_batch),
		T(test_no_join_runs_each_step_alone),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
