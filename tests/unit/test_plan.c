/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: which field a step takes, types and shapes, who writes where. */
#include "scratch.h"

#include "pipe/plan.h"

struct planned {
	struct mr_pipeline *p;
	struct mr_plan plan;
	struct mr_err err;
	int code;
};

static struct planned plan(const char *text)
{
	struct planned d = { 0 };

	if (mr_pipeline_parse(&d.p, text, NULL, &d.err))
		fail_msg("%s", d.err.text);
	d.code = mr_plan_make(&d.plan, d.p, 1, &d.err);
	return d;
}

static struct planned must_plan(const char *text)
{
	struct planned d = plan(text);

	if (d.code)
		fail_msg("%s", d.err.text);
	return d;
}

static void refuse(const char *text, int code, const char *words)
{
	struct planned d = plan(text);

	assert_int_equal(d.code, code);
	assert_int_equal(d.err.code, code);
	if (!strstr(d.err.text, words))
		fail_msg("'%s' is not in '%s'", words, d.err.text);
	mr_pipeline_free(d.p);
}

static void expect_out(const struct planned *d, int i, const char *name,
		       const char *spec)
{
	char text[128];

	assert_true(i < d->plan.outs);
	mr_spec_text(&d->plan.out[i].spec, text, sizeof(text));
	assert_string_equal(d->plan.out[i].name, name);
	assert_string_equal(text, spec);
}

/* ---- fields ---- */

static void test_without_steps_the_fields_are_the_sources(void **state)
{
	struct planned d = must_plan("synthetic 4,3 i16 count=9");

	(void)state;
	assert_int_equal(d.plan.outs, 2);
	assert_int_equal(d.plan.samples, 9);
	expect_out(&d, 0, "data", "i16[4 3]");
	expect_out(&d, 1, "label", "i64[]");
	assert_false(d.plan.batched);
	assert_int_equal(d.plan.batch.count, 1);
	assert_int_equal(d.plan.out[0].row_bytes, 24);
	assert_int_equal(d.plan.out[1].row_bytes, 8);
	mr_pipeline_free(d.p);
}

static void test_a_step_takes_the_first_field_that_fits(void **state)
{
	/* Three values fit `data`, whose last dimension is 3, alone. */
	struct planned d = must_plan("synthetic 4,3 | select label,data | "
				     "normalize mean=1,2,3");

	(void)state;
	assert_int_equal(d.plan.steps, 1);
	assert_int_equal(d.plan.step[0].field, 0);
	expect_out(&d, 0, "label", "i64[]");
	expect_out(&d, 1, "data", "f32[4 3]");
	mr_pipeline_free(d.p);
	/* One value fits any. */
	d = must_plan("synthetic 4,3 | select label,data | normalize mean=1");
	expect_out(&d, 0, "label", "f32[]");
	expect_out(&d, 1, "data", "u8[4 3]");
	mr_pipeline_free(d.p);
}

static void test_a_step_takes_the_field_that_is_named(void **state)
{
	struct planned d = must_plan("synthetic 5 | cast f32 field=label");

	(void)state;
	expect_out(&d, 0, "data", "u8[5]");
	expect_out(&d, 1, "label", "f32[]");
	assert_int_equal(d.plan.step[0].field, 1);
	assert_int_equal(d.plan.step[0].out_field, 1);
	mr_pipeline_free(d.p);
	refuse("synthetic 5 | cast f32 field=lable", MR_ETYPE,
	       "cast: there is no field 'lable' here");
	refuse("synthetic 5 | select label | cast f32 field=data", MR_ETYPE,
	       "there is no field 'data' here");
}

static void test_a_step_that_fits_no_field_is_pointed_at(void **state)
{
	(void)state;
	refuse("synthetic 5 | normalize mean=1,2,3", MR_ETYPE,
	       "normalize cannot take u8[5]");
	refuse("synthetic 5 | normalize mean=1,2,3", MR_ETYPE,
	       "\n                ^~~~~~~~~");
	refuse("synthetic 5 | normalize mean=1,2,3 std=1,2", MR_EINVAL,
	       "3 values of mean and 2 of std");
	refuse("synthetic 5 | normalize layout=chw", MR_ETYPE, "H W C");
}

static void test_select_reorders_and_drops(void **state)
{
	struct planned d = must_plan("synthetic 5 | select label,data");

	(void)state;
	expect_out(&d, 0, "label", "i64[]");
	expect_out(&d, 1, "data", "u8[5]");
	assert_int_equal(d.plan.out[0].id, 1);
	assert_int_equal(d.plan.in_out[0], 1);
	assert_int_equal(d.plan.in_out[1], 0);
	mr_pipeline_free(d.p);
	d = must_plan("synthetic 5 | select label");
	assert_int_equal(d.plan.outs, 1);
	assert_int_equal(d.plan.in_out[0], -1);
	assert_int_equal(d.plan.batch_bytes, 8);
	mr_pipeline_free(d.p);
	refuse("synthetic 5 | select lable", MR_ETYPE,
	       "no field 'lable' here; there are: data label");
	refuse("synthetic 5 | select data,data", MR_EINVAL, "named twice");
	refuse("synthetic 5 | select data,", MR_ETYPE, "no field ''");
}

/* ---- types and shapes ---- */

static void test_types_follow_the_steps(void **state)
{
	struct planned d = must_plan("synthetic 8,6,3 | normalize imagenet | "
				     "cast f16 | batch 4");
	char text[128];

	(void)state;
	mr_spec_text(&d.plan.step[0].in, text, sizeof(text));
	assert_string_equal(text, "u8[8 6 3]");
	mr_spec_text(&d.plan.step[0].out, text, sizeof(text));
	assert_string_equal(text, "f32[3 8 6]");
	expect_out(&d, 0, "data", "f16[3 8 6]");
	assert_int_equal(d.plan.step[0].bytes, 4 * 144);
	assert_int_equal(d.plan.step[1].bytes, 2 * 144);
	mr_pipeline_free(d.p);
}

static void test_only_the_last_step_of_a_field_writes_the_batch(void **state)
{
	struct planned d = must_plan("synthetic 8 | cast f32 | cast f16 | "
				     "cast i32 field=label | batch 4");

	(void)state;
	assert_int_equal(d.plan.step[0].out_field, -1);
	assert_int_equal(d.plan.step[1].out_field, 0);
	assert_int_equal(d.plan.step[2].out_field, 1);
	assert_int_equal(d.plan.in_out[0], -1);
	assert_int_equal(d.plan.batch_bytes, 4 * (16 + 4));
	mr_pipeline_free(d.p);
}

/* ---- batches ---- */

static void test_fields_of_one_shape_are_dense(void **state)
{
	struct planned d = must_plan("synthetic 8 | batch 4 pad=1");

	(void)state;
	assert_true(d.plan.out[0].dense && d.plan.out[1].dense);
	assert_int_equal(d.plan.ragged, 0);
	assert_int_equal(d.plan.out[0].ragged, -1);
	mr_pipeline_free(d.p);
}

static void test_fields_of_many_shapes_are_ragged(void **state)
{
	struct planned d;

	(void)state;
	put("f", "x", 1);
	d = must_plan(textf("files %s | cast f32 | batch 4", top));
	expect_out(&d, 0, "data", "f32[?]");
	assert_false(d.plan.out[0].dense);
	assert_true(d.plan.out[1].dense);
	assert_int_equal(d.plan.ragged, 1);
	assert_int_equal(d.plan.out[0].ragged, 0);
	assert_false(d.plan.pad);
	assert_int_equal(d.plan.batch_bytes, 4 * 8);
	mr_pipeline_free(d.p);
	d = must_plan(textf("files %s | batch 4 pad=-1.5", top));
	assert_true(d.plan.pad);
	assert_true(d.plan.pad_value == -1.5);
	assert_int_equal(d.plan.ragged, 1);
	mr_pipeline_free(d.p);
}

static void test_batch_comes_last_and_once(void **state)
{
	(void)state;
	refuse("synthetic 8 | batch 4 | cast f32", MR_EPARSE,
	       "'cast' comes after batch");
	refuse("synthetic 8 | batch 4 | batch 4", MR_EPARSE,
	       "'batch' comes after batch");
	refuse("synthetic 8 | batch 4 pad=zero", MR_EINVAL,
	       "pad=zero: want a number");
}

static void test_batches_that_cannot_exist_are_refused(void **state)
{
	(void)state;
	refuse("synthetic 1000000000,1000000000 | batch 1000000", MR_ELIMIT,
	       "too large");
	refuse("synthetic 1000000000,1000000000 | cast f64 | batch 2",
	       MR_ELIMIT, "too large");
	refuse("synthetic 1,1,1,1,1,1,1,1", MR_EINVAL, "at most 7");
}

static void test_wrong_parameters_come_before_a_missing_source(void **state)
{
	(void)state;
	refuse("files /nowhere | normalize mean=1,2,3 std=1,2", MR_EINVAL,
	       "3 values of mean");
	refuse("files /nowhere | batch 2", MR_EIO, "/nowhere");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_steps_the_fields_are_the_sources),
		cmocka_unit_test(test_a_step_takes_the_first_field_that_fits),
		cmocka_unit_test(test_a_step_takes_the_field_that_is_named),
		cmocka_unit_test(test_a_step_that_fits_no_field_is_pointed_at),
		cmocka_unit_test(test_select_reorders_and_drops),
		cmocka_unit_test(test_types_follow_the_steps),
		cmocka_unit_test(
			test_only_the_last_step_of_a_field_writes_the_batch),
		cmocka_unit_test(test_fields_of_one_shape_are_dense),
		cmocka_unit_test(test_fields_of_many_shapes_are_ragged),
		cmocka_unit_test(test_batch_comes_last_and_once),
		cmocka_unit_test(test_batches_that_cannot_exist_are_refused),
		cmocka_unit_test(
			test_wrong_parameters_come_before_a_missing_source),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
