/* SPDX-License-Identifier: Apache-2.0 */
/* An accelerator that is imitated: what counts of a run, and what does not. */
#include "scratch.h"

#include "diagnose/pace.h"
#include "io/shape.h"
#include "pipe/loader.h"

/* Five batches of 4, read from a storage whose first byte takes 300 ms. */
static void pace_slow_start(const struct mr_pace *p, struct mr_paced *got)
{
	struct mr_options opt;
	struct mr_loader *l;
	struct mr_err err;

	mr_options_init(&opt);
	opt.threads = 2;
	opt.fetch = MR_FETCH_AHEAD;
	opt.storage = "latency=300ms";
	opt.epochs = 1;
	assert_int_equal(mr_loader_open_with(&l,
					     "synthetic shape=10 count=20 | "
					     "batch 4",
					     &opt, &err),
			 0);
	assert_int_equal(mr_pace(l, p, got, &err), 0);
	mr_loader_close(l);
}

static void test_an_epoch_shorter_than_a_window_has_no_start(void **state)
{
	const struct mr_pace p = { .step = 0.05,
				   .batch = 4,
				   .seconds = 10,
				   .warm = 10,
				   .to_end = true };
	struct mr_paced got = { 0 };

	(void)state;
	pace_slow_start(&p, &got);
	assert_int_equal(got.n, 1);
	assert_int_equal(got.samples, 16);
	/* 4 per 50 ms, but for the 300 ms of the first */
	assert_true(mr_paced_figure(&got).mean > 60);
	assert_true(got.waited > 0.29 && got.waited < got.short_runs);
}

/* Without an accelerator all may lie ready when the first one comes. */
static void test_a_few_that_come_at_once_are_no_rate(void **state)
{
	const struct mr_pace p = {
		.batch = 4, .seconds = 10, .warm = 10, .to_end = true
	};
	struct mr_paced got = { 0 };

	(void)state;
	pace_slow_start(&p, &got);
	assert_int_equal(got.n, 1);
	assert_int_equal(got.samples, 20);
	assert_true(mr_paced_figure(&got).mean < 20 / 0.29);
}

/* Short epochs from a storage of 100 requests a second, of which many were
 * read while it had no limit. */
static void test_what_lies_ready_at_first_is_no_rate(void **state)
{
	const struct mr_pace p = {
		.batch = 4, .seconds = 2, .warm = 0.1, .whole = true
	};
	struct mr_paced got = { 0 };
	struct mr_options opt;
	struct mr_loader *l;
	struct mr_batch *b;
	struct mr_err err;

	(void)state;
	mr_options_init(&opt);
	opt.threads = 2;
	opt.fetch = MR_FETCH_AHEAD;
	opt.storage = "iops=100";
	assert_int_equal(mr_loader_open_with(&l,
					     "synthetic shape=10 count=20 | "
					     "batch 4",
					     &opt, &err),
			 0);
	mr_shape_pause(l->shape, true);
	assert_int_equal(mr_loader_next(l, &b, &err), MR_OK);
	mr_batch_release(b);
	usleep(200000);
	mr_shape_pause(l->shape, false);
	assert_int_equal(mr_pace(l, &p, &got, &err), 0);
	mr_loader_close(l);
	assert_true(mr_paced_figure(&got).mean < 400);
	assert_true(mr_paced_figure(&got).mean > 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_an_epoch_shorter_than_a_window_has_no_start),
		cmocka_unit_test(test_a_few_that_come_at_once_are_no_rate),
		cmocka_unit_test(test_what_lies_ready_at_first_is_no_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
