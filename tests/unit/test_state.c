/* SPDX-License-Identifier: Apache-2.0 */
/* Where a loader stands and what it tells: epochs and their ends, seeking,
 * waiting, and figures that add up. */
#include "scratch.h"

#include <math.h>

#include "core/mem.h"

enum { N = 103 };

static struct mr_options options(int threads)
{
	struct mr_options opt;

	mr_options_init(&opt);
	opt.threads = threads;
	opt.memory = 64 << 20;
	return opt;
}

static const char *const text = "synthetic 5 i32 count=103 | batch 10";

/* Takes batches until the epoch ends; how many samples there were. */
static uint64_t drain(struct mr_loader *l)
{
	struct mr_batch *b;
	uint64_t n = 0;

	while ((b = must_next(l))) {
		n += mr_batch_count(b);
		mr_batch_release(b);
	}
	return n;
}

/* ---- epochs ---- */

static void test_each_epoch_ends_once(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l = must_open(text, &opt);

	(void)state;
	assert_int_equal(mr_loader_epoch_samples(l), N);
	assert_int_equal(mr_loader_epoch_batches(l), 11);
	assert_int_equal(mr_loader_dataset_samples(l), N);
	for (uint64_t epoch = 0; epoch < 50; epoch++) {
		struct mr_batch *b = must_next(l);

		assert_int_equal(mr_batch_epoch(b), epoch);
		assert_int_equal(mr_batch_number(b), 0);
		mr_batch_release(b);
		assert_int_equal(drain(l), N - 10);
	}
	mr_loader_close(l);
}

static void test_after_the_last_epoch_the_end_stays(void **state)
{
	struct mr_options opt = options(3);
	struct mr_loader *l;

	(void)state;
	opt.epochs = 3;
	l = must_open(text, &opt);
	for (int i = 0; i < 3; i++)
		assert_int_equal(drain(l), N);
	for (int i = 0; i < 5; i++)
		assert_null(must_next(l));
	mr_loader_close(l);
}

static void test_samples_end_a_run_with_the_batch_of_the_last(void **state)
{
	static const struct {
		uint64_t asked, given;
	} run[] = { { 1, 10 },	       { 9, 10 },	    { 10, 10 },
		    { 11, 20 },	       { 102, N },	    { N, N },
		    { N + 1, N + 10 }, { 250, 2 * N + 50 }, { 3 * N, 3 * N } };

	(void)state;
	for (size_t i = 0; i < MR_COUNT(run); i++) {
		struct mr_options opt = options(2);
		struct mr_loader *l;

		opt.samples = run[i].asked;
		l = must_open(text, &opt);
		for (uint64_t left = run[i].given; left;) {
			uint64_t want = left < N ? left : N;

			assert_int_equal(drain(l), want);
			left -= want;
		}
		for (int k = 0; k < 3; k++)
			assert_null(must_next(l));
		mr_loader_close(l);
	}
}

static void test_epochs_and_samples_end_at_the_first_of_both(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l;

	(void)state;
	opt.epochs = 2;
	opt.samples = 1000;
	l = must_open(text, &opt);
	assert_int_equal(drain(l) + drain(l) + drain(l), 2 * N);
	mr_loader_close(l);
	opt.samples = 150; /* and the rest of its batch */
	l = must_open(text, &opt);
	assert_int_equal(drain(l) + drain(l) + drain(l), 153);
	mr_loader_close(l);
}

static void test_drop_last_gives_full_batches_alone(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l;
	struct mr_batch *b;

	(void)state;
	opt.epochs = 2;
	l = must_open("synthetic 5 count=103 | batch 10 drop_last=yes", &opt);
	assert_int_equal(mr_loader_epoch_samples(l), 100);
	for (int epoch = 0; epoch < 2; epoch++) {
		while ((b = must_next(l))) {
			assert_int_equal(mr_batch_count(b), 10);
			mr_batch_release(b);
		}
	}
	mr_loader_close(l);
}

/* ---- waiting ---- */

static void test_waiting_no_time_gives_again_or_a_batch(void **state)
{
	struct mr_options opt = options(1);
	struct mr_loader *l;
	uint64_t n = 0, again = 0;
	struct mr_err err;
	int e;

	(void)state;
	opt.epochs = 1;
	l = must_open("synthetic 5 count=103 cost=200us | batch 10", &opt);
	do {
		struct mr_batch *b = NULL;

		e = mr_loader_wait(l, &b, n ? 0 : 1, &err);
		if (e == MR_OK) {
			n += mr_batch_count(b);
			mr_batch_release(b);
		} else if (e == MR_AGAIN) {
			assert_null(b);
			again++;
		}
	} while (e == MR_OK || e == MR_AGAIN);
	assert_int_equal(e, MR_END);
	assert_int_equal(n, N);
	/* A batch takes two milliseconds of work: it was too early often. */
	assert_true(again > 0);
	mr_loader_close(l);
}

static void test_waiting_gives_up_in_time(void **state)
{
	struct mr_options opt = options(1);
	struct mr_loader *l;
	struct mr_batch *b;
	struct mr_err err;
	struct mr_stats st;

	(void)state;
	l = must_open("synthetic 5 count=103 cost=30ms | batch 100", &opt);
	assert_int_equal(mr_loader_wait(l, &b, 50, &err), MR_AGAIN);
	mr_loader_stats(l, &st);
	assert_true(st.consumer_wait >= 0.049 && st.consumer_wait < 2);
	assert_int_equal(st.batches, 0);
	mr_loader_close(l);
}

/* ---- seeking ---- */

/* The digests of all batches of two epochs, each of which ends once. */
static void digests(struct mr_loader *l, uint64_t *d, uint64_t from)
{
	for (uint64_t i = from; i < 22; i++) {
		struct mr_batch *b;

		if (i == 11 && from < 11)
			assert_null(must_next(l));
		b = must_next(l);
		assert_non_null(b);
		d[i] = mr_batch_digest(b, 0);
		mr_batch_release(b);
	}
	assert_null(must_next(l));
}

static void test_seeking_continues_exactly_at_any_batch(void **state)
{
	(void)state;
	for (int order = 0; order < 3; order++) {
		struct mr_options opt = options(2);
		uint64_t want[22], got[22];
		struct mr_loader *l, *m;
		struct mr_state st[22];

		opt.seed = 5;
		opt.order = order;
		l = must_open(text, &opt);
		for (uint64_t i = 0; i < 22;) {
			struct mr_batch *b;

			mr_loader_state(l, &st[i]);
			b = must_next(l);
			if (!b)
				continue;
			want[i++] = mr_batch_digest(b, 0);
			mr_batch_release(b);
		}
		mr_loader_close(l);
		opt.threads = 3;
		opt.seed = 99; /* the state's seed counts */
		m = must_open(text, &opt);
		for (uint64_t k = 22; k-- > 0;) {
			assert_int_equal(st[k].epoch * 11 + st[k].batch, k);
			assert_int_equal(mr_loader_seek(m, &st[k], NULL), 0);
			digests(m, got, k);
			assert_memory_equal(want + k, got + k, (22 - k) * 8);
		}
		mr_loader_close(m);
	}
}

static void test_a_loader_that_has_ended_can_go_back(void **state)
{
	struct mr_options opt = options(2);
	struct mr_state start, end;
	struct mr_loader *l;

	(void)state;
	opt.epochs = 2;
	l = must_open(text, &opt);
	mr_loader_state(l, &start);
	assert_int_equal(drain(l) + drain(l), 2 * N);
	mr_loader_state(l, &end);
	assert_int_equal(mr_loader_seek(l, &start, NULL), 0);
	assert_int_equal(drain(l) + drain(l), 2 * N);
	assert_int_equal(mr_loader_seek(l, &end, NULL), 0);
	assert_null(must_next(l));
	mr_loader_close(l);
}

static void test_batches_held_survive_a_seek(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l = must_open(text, &opt);
	struct mr_state st;
	struct mr_batch *b = must_next(l);
	uint64_t d = mr_batch_digest(b, 0);

	(void)state;
	mr_loader_state(l, &st);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(mr_loader_seek(l, &st, NULL), 0);
		mr_batch_release(must_next(l));
	}
	assert_true(mr_batch_digest(b, 0) == d);
	mr_loader_close(l);
	mr_batch_release(b);
}

static void refuse(struct mr_loader *l, struct mr_state st, const char *words)
{
	struct mr_err err = { 0 };

	assert_int_equal(mr_loader_seek(l, &st, &err), MR_EINVAL);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in '%s'", words, err.text);
}

static void test_a_state_of_something_else_is_refused(void **state)
{
	struct mr_options opt = options(1);
	struct mr_loader *l = must_open(text, &opt), *m;
	struct mr_state good, st;

	(void)state;
	mr_loader_state(l, &good);
	m = must_open("synthetic 5 i32 count=103 | batch 9", &opt);
	mr_loader_state(m, &st);
	refuse(l, st, "another pipeline");
	mr_loader_close(m);
	opt.order = MR_ORDER_SEQUENTIAL;
	m = must_open(text, &opt);
	mr_loader_state(m, &st);
	refuse(l, st, "another pipeline or order");
	mr_loader_close(m);
	st = good;
	st.samples = 104;
	refuse(l, st, "had 104 samples");
	st = good;
	st.ranks = 2;
	refuse(l, st, "rank 0/2");
	st = good;
	st.batch = 12;
	refuse(l, st, "batch 12");
	st = good;
	st.epoch = UINT64_MAX;
	refuse(l, st, "checkpoint");
	/* And the loader goes on. */
	assert_int_equal(drain(l), N);
	mr_loader_close(l);
}

/* ---- figures ---- */

static double budget(const struct mr_stats *st)
{
	return st->budget.steps + st->budget.fetch + st->budget.wait_in +
	       st->budget.wait_out + st->budget.engine +
	       st->budget.unattributed;
}

/* How far the parts of the workers' time are from all of it. */
static double budget_error(const char *pipeline, int threads)
{
	struct mr_options opt = options(threads);
	struct mr_loader *l;
	struct mr_stats st;
	double all;

	opt.epochs = 2;
	l = must_open(pipeline, &opt);
	drain(l);
	drain(l);
	mr_loader_stats(l, &st);
	mr_loader_close(l);
	all = st.threads * st.seconds;
	assert_true(st.budget.steps >= 0 && st.budget.fetch >= 0 &&
		    st.budget.engine >= 0 && st.budget.wait_out >= 0 &&
		    st.budget.wait_in >= 0 && st.budget.unattributed >= 0);
	assert_true(st.budget.unattributed < all / 2);
	return fabs(budget(&st) - all) / all;
}

/* The machine may stop a worker between its last sample and its last look at
 * the clock; not three times in a row. */
static void check_budget(const char *pipeline, int threads)
{
	double error = 1;

	for (int i = 0; i < 3 && error > 0.01; i++)
		error = budget_error(pipeline, threads);
	if (error > 0.01)
		fail_msg("%s: the budget is off by %.1f %%", pipeline,
			 error * 100);
}

static void test_the_budget_closes_within_a_percent(void **state)
{
	(void)state;
	check_budget("synthetic 5 count=3000 cost=20us | batch 10", 1);
	check_budget("synthetic 5 count=3000 cost=20us | batch 10", 2);
	check_budget("synthetic 30000 count=2000 | cast f32 | cast f64 | "
		     "batch 8",
		     2);
	check_budget("synthetic 30000 count=2000 | cast f32 | batch 8", 4);
}

static void test_calls_and_bytes_are_counted_exactly(void **state)
{
	struct mr_options opt = options(3);
	struct mr_loader *l;
	struct mr_stats st;

	(void)state;
	opt.epochs = 2;
	l = must_open("synthetic 10 count=103 | cast f32 | "
		      "cast i16 field=label | batch 10",
		      &opt);
	drain(l);
	drain(l);
	mr_loader_stats(l, &st);
	assert_int_equal(st.samples, 2 * N);
	assert_int_equal(st.batches, 22);
	assert_int_equal(st.epochs, 2);
	assert_int_equal(st.bad_samples, 0);
	assert_int_equal(st.threads, 3);
	assert_int_equal(st.bytes_out, 2 * N * (40 + 2));
	assert_int_equal(st.steps, 3);
	assert_string_equal(st.step[0].name, "read");
	assert_string_equal(st.step[1].name, "cast");
	for (int i = 0; i < 3; i++)
		assert_int_equal(st.step[i].calls, 2 * N);
	assert_int_equal(st.step[1].bytes_in, 2 * N * 10);
	assert_int_equal(st.step[1].bytes_out, 2 * N * 40);
	assert_int_equal(st.step[2].bytes_in, 2 * N * 8);
	assert_int_equal(st.step[2].bytes_out, 2 * N * 2);
	assert_string_equal(st.fetch, "direct");
	mr_loader_close(l);
}

static void test_times_of_a_step_are_those_of_the_step(void **state)
{
	struct mr_options opt = options(1);
	struct mr_loader *l;
	struct mr_stats st;

	(void)state;
	opt.epochs = 1;
	l = must_open("synthetic 5 count=200 cost=1ms | cast f32 | batch 10",
		      &opt);
	drain(l);
	mr_loader_stats(l, &st);
	mr_loader_close(l);
	/* The clock of the processor was spent; the wall's is no less. */
	assert_true(st.step[0].total_ms >= 199);
	assert_true(st.step[0].mean_us >= 990);
	/* A quantile is right within six percent. */
	assert_true(st.step[0].p50_us >= 930);
	assert_true(st.step[0].p99_us >= st.step[0].p50_us);
	assert_true(st.step[0].p50_us <= st.seconds * 1e6);
	assert_true(st.step[1].p50_us < 500);
	assert_true(st.step[0].share > 0.8);
	assert_true(st.first_batch_ms >= 9.9);
	assert_true(st.first_batch_ms <= st.seconds * 1e3 + 100);
	assert_string_equal(st.verdict.bottleneck, "cpu");
	assert_true(st.verdict.evidence[0] && st.verdict.advice[0]);
}

static void test_a_slow_consumer_is_found_out(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l;
	struct mr_batch *b;
	struct mr_stats st;

	(void)state;
	opt.epochs = 1;
	opt.memory = 1 << 20;
	l = must_open("synthetic 1000 count=4000 | batch 100", &opt);
	while ((b = must_next(l))) {
		usleep(5000);
		mr_batch_release(b);
	}
	mr_loader_stats(l, &st);
	mr_loader_close(l);
	assert_string_equal(st.verdict.bottleneck, "consumer");
}

static void test_figures_may_be_taken_at_any_time(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l = must_open(text, &opt);
	struct mr_stats st;
	char *json;

	(void)state;
	for (int i = 0; i < 30; i++) {
		mr_loader_stats(l, &st);
		assert_true(st.seconds >= 0 && st.seconds < 100);
		assert_int_equal(st.batches, i);
		assert_true(st.samples_per_s >= 0);
		mr_batch_release(must_next(l));
		if (i % 11 == 10)
			assert_null(must_next(l));
	}
	json = mr_stats_json(&st);
	assert_non_null(json);
	assert_true(json[0] == '{' && strstr(json, "\"bottleneck\""));
	assert_non_null(strstr(json, "\"batches\": 29"));
	free(json);
	mr_loader_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_epoch_ends_once),
		cmocka_unit_test(test_after_the_last_epoch_the_end_stays),
		cmocka_unit_test(
			test_samples_end_a_run_with_the_batch_of_the_last),
		cmocka_unit_test(
			test_epochs_and_samples_end_at_the_first_of_both),
		cmocka_unit_test(test_drop_last_gives_full_batches_alone),
		cmocka_unit_test(test_waiting_no_time_gives_again_or_a_batch),
		cmocka_unit_test(test_waiting_gives_up_in_time),
		cmocka_unit_test(test_seeking_continues_exactly_at_any_batch),
		cmocka_unit_test(test_a_loader_that_has_ended_can_go_back),
		cmocka_unit_test(test_batches_held_survive_a_seek),
		cmocka_unit_test(test_a_state_of_something_else_is_refused),
		cmocka_unit_test(test_the_budget_closes_within_a_percent),
		cmocka_unit_test(test_calls_and_bytes_are_counted_exactly),
		cmocka_unit_test(test_times_of_a_step_are_those_of_the_step),
		cmocka_unit_test(test_a_slow_consumer_is_found_out),
		cmocka_unit_test(test_figures_may_be_taken_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
