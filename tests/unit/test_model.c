/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a job, and what is concluded from a diagnosis. */
#include "scratch.h"

#include <math.h>

#include "analyze/model.h"
#include "core/rng.h"

#define assert_near(a, b, e) assert_true(fabs((a) - (b)) <= (e))

static struct mr_figure about(double mean)
{
	return (struct mr_figure){ mean, mean * 0.98, mean * 1.02, 10 };
}

/* A job of 100,000 samples of 100 KB, on 2 of 8 cores. */
static struct mr_diagnosis job(double g, double p, double s)
{
	struct mr_diagnosis d = {
		.samples = 100000,
		.batch = 64,
		.threads = 2,
		.cores = 8,
		.sample_bytes = 1e5,
		.sample_requests = 1,
		.depth = 64,
		.g = about(g),
		.p = about(p),
		.as_g = about(g),
		.as_p = about(p < g ? p : g),
	};
	double f = p < g ? p : g;

	if (s > 0) {
		d.s = about(s);
		if (s < f)
			f = s;
	}
	d.as_f = about(f);
	d.points = 2;
	d.curve[0] = (struct mr_diag_point){ 1, about(p / 1.9) };
	d.curve[1] = (struct mr_diag_point){ 2, about(p) };
	return d;
}

static void test_a_figure_has_a_mean_and_an_interval(void **state)
{
	const double v[] = { 9, 10, 11 };
	struct mr_figure f = mr_figure_of(v, 3);

	(void)state;
	assert_near(f.mean, 10, 1e-12);
	/* t(2) = 4.303, s = 1, n = 3 */
	assert_near(f.high - f.mean, 4.303 / sqrt(3), 1e-3);
	assert_int_equal(mr_figure_of(v, 0).n, 0);
	assert_near(mr_figure_of(v, 1).high, 9, 0);
}

/* An LRU of c of n items, fresh permutations: hits of the fourth epoch. */
static double lru_hits(unsigned n, double c)
{
	unsigned *item = malloc(n * sizeof(*item)), size = (unsigned)(c * n);
	unsigned *used = calloc(n, sizeof(*used)), now = 0, hits = 0;
	struct mr_rng r = mr_rng_for(1, 2, 3, 4);

	for (unsigned i = 0; i < n; i++)
		item[i] = i;
	for (int epoch = 0; epoch < 4; epoch++) {
		for (unsigned i = n - 1; i > 0; i--) {
			unsigned k = (unsigned)mr_rng_below(&r, i + 1);
			unsigned t = item[i];

			item[i] = item[k];
			item[k] = t;
		}
		hits = 0;
		for (unsigned i = 0; i < n; i++) {
			unsigned newer = 0;

			for (unsigned k = 0; k < n; k++)
				newer += used[k] > used[item[i]];
			hits += used[item[i]] && newer < size;
			used[item[i]] = ++now;
		}
	}
	free(item);
	free(used);
	return (double)hits / n;
}

static void test_a_page_cache_forgets_as_the_formula_says(void **state)
{
	(void)state;
	for (double c = 0.1; c < 1; c += 0.2)
		assert_near(mr_model_lru(c), lru_hits(1500, c), 0.03);
	assert_near(mr_model_lru(0), 0, 0);
	assert_near(mr_model_lru(1), 1, 0);
}

static void test_who_is_slowest_is_named_and_equals_are_balanced(void **state)
{
	(void)state;
	assert_string_equal(mr_model_limit(100, 200, 300), "accelerator");
	assert_string_equal(mr_model_limit(200, 100, 300), "cpu");
	assert_string_equal(mr_model_limit(300, 200, 100), "storage");
	assert_string_equal(mr_model_limit(300, 105, 100), "balanced");
	assert_string_equal(mr_model_limit(100, 105, 0), "balanced");
	assert_string_equal(mr_model_limit(100, 0, 0), "accelerator");
	assert_string_equal(mr_model_limit(0, 0, 0), "accelerator");
}

static void test_stalls_are_shares_of_the_epoch(void **state)
{
	double prep, fetch;

	(void)state;
	mr_model_stalls(1000, 500, 250, &prep, &fetch);
	assert_near(prep, 0.25, 1e-9);
	assert_near(fetch, 0.5, 1e-9);
	/* no negative waits of noise */
	mr_model_stalls(1000, 1010, 1020, &prep, &fetch);
	assert_near(prep + fetch, 0, 1e-9);
	mr_model_stalls(0, 0, 0, &prep, &fetch);
	assert_near(prep + fetch, 0, 0);
}

static void test_small_files_are_bound_by_latency(void **state)
{
	struct mr_storage_limits l = { .bw = 1e9, .latency = 10e-3 };

	(void)state;
	assert_near(mr_model_storage(&l, 1e5, 1, 2), 200, 1e-9);
	assert_near(mr_model_storage(&l, 1e5, 1, 512), 1e4, 1e-9);
	l.iops = 150;
	assert_near(mr_model_storage(&l, 1e5, 2, 512), 75, 1e-9);
	l = (struct mr_storage_limits){ 0 };
	assert_near(mr_model_storage(&l, 1e5, 1, 64), 0, 0);
}

static void test_a_cache_takes_its_share_from_the_storage(void **state)
{
	struct mr_diagnosis d = job(1000, 2000, 250);
	struct mr_setting s;
	struct mr_outcome o;

	(void)state;
	mr_setting_of(&d, &s);
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 250, 1);
	assert_near(o.fetch_stall, 0.75, 0.01);
	s.cache = 0.5;
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 500, 2);
	s.lru = true; /* 0.5 + 0.5 ln 0.5 = 0.153 hits */
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 250 / (1 - 0.1534), 2);
	s.lru = false;
	s.cache = 0.9;
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 1000, 10);
	assert_string_equal(o.bottleneck, "accelerator");
	s.cache = 0.2;
	s.nodes = 2; /* twice the cache, half the storage each */
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 250 / 0.6, 2);
}

static void test_threads_beyond_the_curve_lose_as_the_curve_does(void **state)
{
	struct mr_diagnosis d = job(1e6, 1900, 0);

	(void)state;
	assert_near(mr_model_prep(&d, 1), 1000, 1e-6);
	assert_near(mr_model_prep(&d, 1.5), 1450, 1e-6);
	assert_near(mr_model_prep(&d, 2), 1900, 1e-6);
	/* 2 threads lose 1/19: 4 / (1 + 3/19) */
	assert_near(mr_model_prep(&d, 4), 4000 / (1 + 3 / 19.0), 1);
}

static void test_workers_that_read_by_themselves_wait_for_it(void **state)
{
	struct mr_diagnosis d = job(1e6, 1000, 500);
	struct mr_setting s;
	struct mr_outcome o;

	(void)state;
	d.direct = true;
	d.c = about(1e9);
	mr_setting_of(&d, &s);
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 1 / (1 / 1000.0 + 1 / 500.0), 2);
}

/* ---- conclusions ---- */

static void conclude(double g, double p, double s, struct mr_diagnosis *d)
{
	*d = job(g, p, s);
	d->pipeline = strdup("files photos | decode_image | batch 64");
	mr_diagnosis_conclude(d);
}

static void test_verdicts_of_all_orders(void **state)
{
	const double r[][3] = { { 1, 2, 4 }, { 1, 4, 2 }, { 2, 1, 4 },
				{ 4, 1, 2 }, { 2, 4, 1 }, { 4, 2, 1 } };
	const char *const want[] = { "accelerator", "accelerator", "cpu",
				     "cpu",	    "storage",	   "storage" };
	struct mr_diagnosis d;

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		conclude(500 * r[i][0], 500 * r[i][1], 500 * r[i][2], &d);
		assert_string_equal(d.bottleneck, want[i]);
		assert_near(d.prep_stall + d.fetch_stall,
			    1 - 500 / (500 * r[i][0]), 1e-6);
		mr_diagnosis_fini(&d);
	}
	conclude(1000, 510, 500, &d);
	assert_string_equal(d.bottleneck, "balanced");
	mr_diagnosis_fini(&d);
}

/* As conclude(), but 12 % of the time is waiting that no rate explains. */
static void conclude_uneven(unsigned windows, uint64_t samples,
			    struct mr_diagnosis *d)
{
	*d = job(1000, 4000, 3000);
	d->pipeline = strdup("files photos | batch 64");
	d->samples = samples;
	d->as_f = about(880);
	d->as_f.n = windows;
	mr_diagnosis_conclude(d);
	assert_string_equal(d->bottleneck, "accelerator");
}

static void test_an_accelerator_that_waits_is_not_said_to_be_fed(void **state)
{
	struct mr_diagnosis d;

	(void)state;
	conclude(1000, 4000, 3000, &d);
	assert_non_null(
		strstr(d.verdict, "1,000 samples/s and gets them; 0 %"));
	mr_diagnosis_fini(&d);
	conclude_uneven(20, 100000, &d);
	assert_null(strstr(d.verdict, "gets them"));
	assert_non_null(strstr(d.verdict, "accelerator-bound: "));
	assert_non_null(strstr(d.verdict, " 12 % of an epoch is waiting: "
					  "batches come unevenly"));
	mr_diagnosis_fini(&d);
	conclude_uneven(3, 100000, &d);
	assert_non_null(strstr(d.verdict, "too few batches were seen"));
	mr_diagnosis_fini(&d);
	conclude_uneven(20, 7 * 64 + 63, &d);
	assert_non_null(strstr(d.verdict, "so few batches that its start "
					  "counts"));
	mr_diagnosis_fini(&d);
}

/* An epoch so short that its cold start is most of it. */
static void conclude_short(double g, double p, double s, double f,
			   struct mr_diagnosis *d)
{
	*d = job(g, p, s);
	d->pipeline = strdup("files photos | batch 64");
	d->samples = 3;
	d->as_f = about(f);
	mr_diagnosis_conclude(d);
}

static void
test_who_waits_for_most_of_the_time_does_not_set_the_pace(void **state)
{
	/* By G, P and S in balance, accelerator-bound, fetch-bound but less. */
	static const double rate[][4] = { { 500, 8000, 549, 113 },
					  { 540, 8000, 500, 113 },
					  { 1785, 12000, 3453, 816 },
					  { 1786, 9000, 1491, 605 } };
	struct mr_diagnosis d;

	(void)state;
	for (size_t i = 0; i < sizeof(rate) / sizeof(rate[0]); i++) {
		conclude_short(rate[i][0], rate[i][1], rate[i][2], rate[i][3],
			       &d);
		assert_string_equal(d.bottleneck, "storage");
		assert_non_null(strstr(d.verdict, "so few batches"));
		mr_diagnosis_fini(&d);
	}
	/* Two others may well be in balance. */
	conclude_short(2000, 300, 300, 280, &d);
	assert_string_equal(d.bottleneck, "balanced");
	mr_diagnosis_fini(&d);
}

static void test_storage_is_mended_by_a_cache_of_the_right_size(void **state)
{
	const struct mr_remedy *cache;
	struct mr_diagnosis d;
	bool found = false;

	(void)state;
	conclude(1000, 4000, 250, &d);
	assert_true(strstr(d.verdict, "fetch-bound: the storage gives 250 of "
				      "the 1,000") != NULL);
	cache = &d.remedy[0];
	for (int i = 0; i < d.remedies && !found; i++) {
		cache = &d.remedy[i];
		found = strstr(cache->how, "cache ram=");
	}
	assert_true(found);
	assert_true(strstr(cache->how, "files photos | cache ram=") ==
		    cache->how);
	assert_true(strstr(cache->how, "M | decode_image | batch 64") != NULL);
	assert_near(cache->rate, 1000, 30);
	assert_near(cache->gain, 4, 0.1);
	mr_diagnosis_fini(&d);
}

static void test_preparation_is_mended_by_threads(void **state)
{
	struct mr_diagnosis d;

	(void)state;
	conclude(1500, 1000, 9000, &d);
	assert_string_equal(d.bottleneck, "cpu");
	assert_true(d.remedies > 0);
	assert_true(strstr(d.remedy[0].what, "threads instead of 2") != NULL);
	assert_true(d.remedy[0].rate <= 1500);
	mr_diagnosis_fini(&d);
}

/* A script without workers: each takes its turn. */
static void conclude_in_turn(double g, double p, double s, int ranks,
			     struct mr_diagnosis *d)
{
	*d = job(g, p, s);
	d->pipeline = NULL;
	d->command = strdup("python3 train.py");
	d->points = d->threads = 0;
	d->ranks = ranks;
	d->as_p = about(1 / (1 / g + 1 / p));
	d->as_f = about(1 / (1 / g + 1 / p + (s > 0 ? 1 / s : 0)));
	mr_diagnosis_conclude(d);
}

static void test_a_loop_without_workers_is_told_how_many_it_needs(void **state)
{
	const double s[] = { 0, 2000 };
	struct mr_diagnosis d;

	(void)state;
	for (int i = 0; i < 2; i++) {
		conclude_in_turn(400, 250, s[i], 0, &d);
		assert_true(d.remedies > 0);
		assert_string_equal(d.remedy[0].what,
				    "num_workers=2: workers prepare while the "
				    "loop computes");
		/* 1 / max(step, prep / 2) */
		assert_near(d.remedy[0].rate, 400, 4);
		assert_near(d.remedy[0].gain, 400 / d.as_f.mean, 0.04);
		mr_diagnosis_fini(&d);
	}
	/* of two ranks one each will do; more than there are cores */
	conclude_in_turn(400, 600, 0, 2, &d);
	assert_non_null(strstr(d.remedy[0].what, "num_workers=1: "));
	assert_near(d.remedy[0].rate, 400, 4);
	mr_diagnosis_fini(&d);
	conclude_in_turn(10000, 250, 0, 0, &d);
	assert_non_null(strstr(d.remedy[1].what, "num_workers=8: "));
	assert_near(d.remedy[1].rate, 2000, 100);
	assert_non_null(strstr(d.remedy[0].cost, "this one has 8"));
	mr_diagnosis_fini(&d);
	/* workers gain nothing beyond what the storage gives */
	conclude_in_turn(400, 250, 100, 0, &d);
	for (int i = 0; i < d.remedies; i++)
		if (strstr(d.remedy[i].what, "num_workers="))
			assert_true(d.remedy[i].rate <= 100);
	mr_diagnosis_fini(&d);
}

static void test_a_job_without_workers_is_modelled_in_turn(void **state)
{
	struct mr_diagnosis d;
	struct mr_setting s;
	struct mr_outcome o;

	(void)state;
	conclude_in_turn(400, 250, 100, 0, &d);
	mr_setting_of(&d, &s);
	mr_predict(&d, &s, &o);
	assert_near(o.rate, d.as_f.mean, 1e-6);
	assert_near(o.prep_stall, d.prep_stall, 1e-6);
	s.cache = 1;
	mr_predict(&d, &s, &o);
	assert_near(o.rate, d.as_p.mean, 1e-6);
	mr_diagnosis_fini(&d);
}

static void test_an_accelerator_that_is_fed_needs_nothing(void **state)
{
	struct mr_diagnosis d;

	(void)state;
	conclude(100, 1000, 1000, &d);
	assert_int_equal(d.remedies, 0);
	assert_near(d.au, 1, 1e-9);
	mr_diagnosis_fini(&d);
}

static void test_nothing_measured_is_no_division_by_zero(void **state)
{
	struct mr_diagnosis d = { .pipeline = strdup("x") };
	char *json;

	(void)state;
	mr_diagnosis_conclude(&d);
	json = mr_diagnosis_json(&d);
	assert_null(strstr(json, "nan"));
	assert_null(strstr(json, "inf"));
	free(json);
	free(mr_diagnosis_text(&d));
	mr_diagnosis_fini(&d);
}

/* ---- there and back ---- */

static void test_a_diagnosis_is_read_as_it_was_written(void **state)
{
	struct mr_diagnosis d, back;
	struct mr_err err;
	char *json, *again;

	(void)state;
	d = job(1000, 600, 250);
	d.pipeline = strdup("files 'a b' | batch 64");
	d.steps = 1;
	d.step[0] = (struct mr_diag_step){ "read", 12.5, 1e5, true };
	d.codecs = 1;
	d.codec[0] = (struct mr_diag_codec){ "zstd", 1.25, 1e9 };
	mr_str_add(&d.notes, "one\ntwo\n");
	mr_diagnosis_conclude(&d);
	json = mr_diagnosis_json(&d);
	assert_int_equal(mr_diagnosis_parse(&back, json, "d.json", &err), 0);
	assert_string_equal(back.verdict, d.verdict);
	assert_int_equal(back.remedies, d.remedies);
	mr_str_fini(&back.notes);
	back.notes = d.notes; /* are not read */
	again = mr_diagnosis_json(&back);
	assert_string_equal(json, again);
	back.notes = (struct mr_str){ 0 };
	free(json);
	free(again);
	mr_diagnosis_fini(&d);
	mr_diagnosis_fini(&back);
}

static void test_what_is_no_diagnosis_is_refused_by_name(void **state)
{
	static const char *const bad[][2] = {
		{ "", "not JSON" },
		{ "[1]", "not JSON" },
		{ "{}", "'samples'" },
		{ "{\"samples\": -5}", "'samples'" },
		{ "{\"samples\": 1, \"batch\": \"x\"}", "'batch'" },
		{ "{\"samples\": 1, \"batch\": 1, \"threads\": 1e99}",
		  "'threads'" },
		{ "{\"samples\": 1, \"batch\": 1, \"threads\": 1}", "'as_g'" },
		{ "{\"samples\": 1, \"batch\": 1, \"threads\": 1, \"as_g\": "
		  "{\"mean\": 1, \"low\": 1, \"high\": 1, \"n\": 1}}",
		  "'pipeline'" },
	};
	struct mr_diagnosis d;
	struct mr_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(
			mr_diagnosis_parse(&d, bad[i][0], "d.json", &err),
			MR_EDATA);
		assert_true(strstr(err.text, "d.json") != NULL);
		assert_true(strstr(err.text, bad[i][1]) != NULL);
	}
}

static void test_reading_ahead_takes_from_the_preparation(void **state)
{
	struct mr_diagnosis d = job(1e6, 1000, 1e5);
	struct mr_setting s;
	struct mr_outcome o;

	(void)state;
	d.pa = about(800);
	mr_setting_of(&d, &s);
	mr_predict(&d, &s, &o);
	assert_near(o.p, 1000, 1);
	assert_near(o.rate, 800, 1);
	s.cache = 0.5; /* half of it is not read */
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 1 / (0.5 / 1000 + 0.5 / 800), 1);
	s.cache = 1;
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 1000, 1);
	/* One that seems to be faster is as fast. */
	d.pa = about(1100);
	s.cache = 0;
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 1000, 1);
}

/* The job is a tenth slower than its preparation alone, for whatever reason
 * that is not the storage. */
static void test_what_the_cpu_lacks_is_lacking_with_any_storage(void **state)
{
	const struct mr_storage_limits fast = { .bw = 1e12 },
				       slow = { .bw = 1e7 };
	struct mr_diagnosis d = job(10000, 1000, 5000);
	struct mr_setting s;
	struct mr_outcome o;

	(void)state;
	d.as_f = about(900);
	mr_diagnosis_conclude(&d);
	assert_string_equal(d.bottleneck, "cpu");
	mr_setting_of(&d, &s);
	mr_setting_fit(&d, &s);
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 900, 1);
	mr_setting_store(&s, &fast, 64);
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 900, 5);
	mr_setting_store(&s, &slow, 64);
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 100, 1);
	/* It goes with the reads, where these are made ahead. */
	d.pa = about(1000);
	mr_setting_of(&d, &s);
	mr_setting_fit(&d, &s);
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 900, 1);
	s.cache = 1;
	mr_predict(&d, &s, &o);
	assert_near(o.rate, 1000, 5);
	mr_diagnosis_fini(&d);
}

/* ---- a cache that holds all ---- */

static void test_hits_save_no_more_than_what_they_skip(void **state)
{
	(void)state;
	/* 1 ms a sample, of which a hit saves 0.1 */
	assert_near(mr_model_all_hits(1000, 1050, 1e-4), 1050, 1e-6);
	assert_near(mr_model_all_hits(1000, 1500, 1e-4), 1 / 9e-4, 1e-6);
	assert_near(mr_model_all_hits(1000, 1000, 0), 1000, 1e-6);
	/* and take no longer than what they stand for */
	assert_near(mr_model_all_hits(1000, 900, 1e-4), 1000, 1e-6);
	/* a cache behind all the work: as fast as it was measured */
	assert_near(mr_model_all_hits(1000, 5e6, 1e-3), 5e6, 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reading_ahead_takes_from_the_preparation),
		cmocka_unit_test(test_a_figure_has_a_mean_and_an_interval),
		cmocka_unit_test(test_a_page_cache_forgets_as_the_formula_says),
		cmocka_unit_test(
			test_who_is_slowest_is_named_and_equals_are_balanced),
		cmocka_unit_test(test_stalls_are_shares_of_the_epoch),
		cmocka_unit_test(test_small_files_are_bound_by_latency),
		cmocka_unit_test(test_a_cache_takes_its_share_from_the_storage),
		cmocka_unit_test(
			test_threads_beyond_the_curve_lose_as_the_curve_does),
		cmocka_unit_test(
			test_workers_that_read_by_themselves_wait_for_it),
		cmocka_unit_test(test_verdicts_of_all_orders),
		cmocka_unit_test(
			test_an_accelerator_that_waits_is_not_said_to_be_fed),
		cmocka_unit_test(
			test_who_waits_for_most_of_the_time_does_not_set_the_pace),
		cmocka_unit_test(
			test_storage_is_mended_by_a_cache_of_the_right_size),
		cmocka_unit_test(test_preparation_is_mended_by_threads),
		cmocka_unit_test(
			test_a_loop_without_workers_is_told_how_many_it_needs),
		cmocka_unit_test(
			test_a_job_without_workers_is_modelled_in_turn),
		cmocka_unit_test(test_an_accelerator_that_is_fed_needs_nothing),
		cmocka_unit_test(test_nothing_measured_is_no_division_by_zero),
		cmocka_unit_test(test_a_diagnosis_is_read_as_it_was_written),
		cmocka_unit_test(test_what_is_no_diagnosis_is_refused_by_name),
		cmocka_unit_test(
			test_what_the_cpu_lacks_is_lacking_with_any_storage),
		cmocka_unit_test(test_hits_save_no_more_than_what_they_skip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
