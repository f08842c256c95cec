/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of the measurements that the hooks in Python write down. */
#include "scratch.h"

#include <math.h>

#include "analyze/script.h"

#define assert_near(a, b, e) assert_true(fabs((a) - (b)) <= (e))

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void clear(void)
{
	assert_int_equal(remove_top(NULL), 0);
	assert_int_equal(make_top(NULL), 0);
}

static struct mr_diagnosis *read_top(int code, struct mr_err *err)
{
	struct mr_diagnosis *d = calloc(1, sizeof(*d));

	assert_non_null(d);
	assert_int_equal(mr_script_read(top, d, err), code);
	return d;
}

static void done(struct mr_diagnosis *d)
{
	mr_diagnosis_fini(d);
	free(d);
}

/* A rank whose step takes 10 ms for 4 samples, and that waits so long. */
static void put_rank(int rank, double wait_p, double wait_f, double all_p)
{
	put_text(textf("%d.1.rank", rank),
		 textf("{\"rank\": %d, \"ranks\": 2, \"samples\": 100, "
		       "\"batch\": 4, \"workers\": 1, \"cores\": 2, "
		       "\"sampled\": 40, \"seconds\": 9.5, "
		       "\"sample_bytes\": 300, \"cold_stayed\": 0.01, "
		       "\"warm_resident\": 1.0, \"notes\": [\"a\\nb\"], "
		       "\"phases\": {\"g\": {\"seconds_per_sample\": "
		       "[0.0025, 0.0025]}, \"as_p\": {\"wait\": %g, "
		       "\"seconds_per_sample\": [%g, %g]}, \"as_f\": "
		       "{\"wait\": %g, \"seconds_per_sample\": [0.01]}}}",
		       rank, wait_p, all_p, all_p, wait_f));
}

static void test_rates_are_of_the_times_not_of_the_rates(void **state)
{
	struct mr_err err;
	struct mr_diagnosis *d;

	(void)state;
	clear();
	put_text("0.7.rank", "{\"batch\": 2, \"phases\": {\"g\": "
			     "{\"seconds_per_sample\": [0.1, 0.3, 0.2]}}}");
	d = read_top(0, &err);
	assert_near(d->as_g.mean, 5, 1e-9);
	assert_true(d->as_g.low < 5 && d->as_g.high > 5);
	assert_int_equal(d->as_g.n, 3);
	assert_int_equal(d->as_p.n, 0);
	assert_near(d->step_seconds, 0.4, 1e-9);
	assert_true(d->warm_resident < 0); /* nobody said */
	done(d);
}

static void test_ranks_are_summed_up_and_the_straggler_is_named(void **state)
{
	struct mr_err err;
	struct mr_diagnosis *d;

	(void)state;
	clear();
	put_rank(1, 0.010, 0.030, 0.005);
	put_rank(0, 0.000, 0.030, 0.005);
	d = read_top(0, &err);
	assert_int_equal(d->ranks, 2);
	assert_int_equal(d->rank[0].rank, 0);
	assert_near(d->as_g.mean, 800, 1e-6);
	assert_near(d->as_p.mean, 400, 1e-6);
	assert_near(d->rank[0].as_p.mean, 400, 1e-6);
	assert_near(d->rank[1].as_p.mean, 200, 1e-6);
	assert_int_equal(d->batch, 8);
	assert_int_equal(d->threads, 2);
	assert_int_equal(d->samples, 100);
	assert_non_null(strstr(d->notes.text, "rank 1 is the straggler"));
	assert_null(strstr(d->notes.text, "cold"));
	assert_non_null(strstr(d->notes.text, "a b\n"));
	done(d);
}

static void test_what_makes_no_sense_is_left_out(void **state)
{
	struct mr_err err;
	struct mr_diagnosis *d;

	(void)state;
	clear();
	put_text("x.rank",
		 "{\"rank\": -3, \"batch\": -1, \"samples\": 1e300, "
		 "\"cores\": \"two\", \"notes\": [7, null, {}], "
		 "\"cold_stayed\": 17, \"phases\": {\"g\": "
		 "{\"seconds_per_sample\": [0.1, -1, 0, null, \"x\", "
		 "1e999]}, \"as_p\": 3, \"as_f\": {\"seconds_per_sample\": "
		 "{}}}}");
	d = read_top(0, &err);
	assert_int_equal(d->as_g.n, 1);
	assert_near(d->as_g.mean, 10, 1e-9);
	assert_near(d->as_g.low, 10, 1e-9);
	assert_int_equal(d->as_p.n + d->as_f.n, 0);
	assert_true(d->samples == 0 && d->batch == 0 && d->cores == 0);
	assert_near(d->cold_stayed, 0, 0);
	done(d);
}

static void test_what_was_not_measured_is_told(void **state)
{
	struct mr_err err;

	(void)state;
	clear();
	put_text("python", "");
	done(read_top(MR_EDATA, &err));
	put_text("1.rank", "{\"notes\": [\"the data set is empty\"]}");
	done(read_top(MR_EDATA, &err));
	assert_non_null(strstr(err.text, "the data set is empty"));
	put_text("1.rank", "[1, 2");
	done(read_top(MR_EDATA, &err));
	assert_non_null(strstr(err.text, "1.rank"));
	put_text("1.rank", "");
	done(read_top(MR_EDATA, &err));
}

static void test_more_ranks_than_there_is_room_for_are_counted_out(void **state)
{
	struct mr_err err;
	struct mr_diagnosis *d;

	(void)state;
	clear();
	for (int i = 0; i < MR_DIAG_RANKS + 5; i++)
		put_rank(i, 0, 0, 0.005);
	d = read_top(0, &err);
	assert_int_equal(d->ranks, MR_DIAG_RANKS);
	assert_non_null(strstr(d->notes.text, "too many"));
	done(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates_are_of_the_times_not_of_the_rates),
		cmocka_unit_test(
			test_ranks_are_summed_up_and_the_straggler_is_named),
		cmocka_unit_test(test_what_makes_no_sense_is_left_out),
		cmocka_unit_test(test_what_was_not_measured_is_told),
		cmocka_unit_test(
			test_more_ranks_than_there_is_room_for_are_counted_out),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
