/* SPDX-License-Identifier: Apache-2.0 */
/* Reading ahead gives the same bytes as reading directly, through io_uring
 * and through threads, whatever the files are like. */
#include "scratch.h"

#include <sys/stat.h>

#include "core/mem.h"

static struct mr_options options(int threads, int fetch)
{
	struct mr_options opt;

	mr_options_init(&opt);
	opt.threads = threads;
	opt.fetch = fetch;
	opt.memory = 16 << 20;
	opt.epochs = 2;
	return opt;
}

/* What a run delivered: the digest of it all, and how it was read. */
struct result {
	uint64_t digest, samples, bad;
	char way[16];
};

static struct result run(const char *text, const struct mr_options *opt)
{
	struct mr_loader *l = must_open(text, opt);
	struct result r = { 0 };
	struct mr_stats st;
	struct mr_batch *b;

	for (uint64_t epoch = 0; epoch < opt->epochs; epoch++) {
		while ((b = must_next(l))) {
			r.digest = mr_batch_digest(b, r.digest);
			r.samples += mr_batch_count(b);
			mr_batch_release(b);
		}
	}
	mr_loader_stats(l, &st);
	r.bad = st.bad_samples;
	snprintf(r.way, sizeof(r.way), "%s", st.fetch);
	mr_loader_close(l);
	return r;
}

static void compare(const char *text, struct mr_options opt)
{
	static const int threads[] = { 1, 4, 8 };
	struct result direct, ahead;

	opt.fetch = MR_FETCH_DIRECT;
	direct = run(text, &opt);
	assert_string_equal(direct.way, "direct");
	opt.fetch = MR_FETCH_AHEAD;
	for (size_t i = 0; i < MR_COUNT(threads); i++) {
		opt.threads = threads[i];
		ahead = run(text, &opt);
		assert_string_not_equal(ahead.way, "direct");
		if (getenv("MILLRACE_NO_URING"))
			assert_string_equal(ahead.way, "threads");
		if (ahead.digest != direct.digest ||
		    ahead.samples != direct.samples || ahead.bad != direct.bad)
			fail_msg("%s: %s with %d threads differs: %llu "
				 "samples, %llu bad; direct %llu, %llu",
				 text, ahead.way, threads[i],
				 (unsigned long long)ahead.samples,
				 (unsigned long long)ahead.bad,
				 (unsigned long long)direct.samples,
				 (unsigned long long)direct.bad);
	}
}

/* By io_uring where there is one, then by threads. */
static void compare_both(const char *text, struct mr_options opt)
{
	compare(text, opt);
	setenv("MILLRACE_NO_URING", "1", 1);
	compare(text, opt);
	unsetenv("MILLRACE_NO_URING");
}

/* ---- data ---- */

enum { FILES = 300, ROWS = 9000, WIDTH = 24 };

static void put_bytes(const char *name, size_t n)
{
	uint8_t *bytes = malloc(n + 8);

	for (size_t i = 0; i < n; i += 8)
		memcpy(bytes + i, &(uint64_t){ mr_mix64(n + i) }, 8);
	put(name, bytes, n);
	free(bytes);
}

static int make_data(void **state)
{
	static uint64_t rows[ROWS * WIDTH / 8];
	static char list[FILES * 40];
	int64_t shape[] = { ROWS, WIDTH };
	size_t at = 0;

	if (make_top(state) || mkdir(textf("%s/small", top), 0755) ||
	    mkdir(textf("%s/mixed", top), 0755) ||
	    mkdir(textf("%s/many", top), 0755))
		return -1;
	for (size_t i = 0; i < MR_COUNT(rows); i++)
		rows[i] = mr_mix64(i);
	put_npy("rows.npy", "|u1", 2, shape, rows, sizeof(rows));
	for (int i = 0; i < FILES; i++) {
		put_bytes(textf("small/%03d", i), mr_mix64((uint64_t)i) % 9000);
		at += (size_t)snprintf(list + at, sizeof(list) - at,
				       "small/%s%03d\t%d\n",
				       i % 7 == 3 ? "no" : "", i, i);
	}
	put("list.tsv", list, at);
	put_bytes("mixed/a", 0);
	put_bytes("mixed/b", 1);
	put_bytes("mixed/c", 128 << 10); /* just the first guess */
	put_bytes("mixed/d", (128 << 10) - 1);
	put_bytes("mixed/e", (128 << 10) + 1);
	put_bytes("mixed/f", 700 << 10);
	put_bytes("mixed/g", 3 << 20); /* over a quarter of fetch's budget */
	put_bytes("mixed/h", 0);
	for (int i = 0; i < 20; i++)
		put_bytes(textf("mixed/i%d", i), (size_t)i * 1000);
	for (int i = 0; i < 3000; i++)
		put_bytes(textf("many/%04d", i), i ? 1 + i % 5 : 120 << 10);
	return 0;
}

/* ---- equality ---- */

static void test_small_files_read_ahead_are_the_same(void **state)
{
	struct mr_options opt = options(1, 0);

	(void)state;
	compare_both(textf("files %s/small | batch 16", top), opt);
	compare_both(textf("files %s/small | cast i16 | batch 5 pad=0", top),
		     opt);
	compare_both(textf("files %s/small", top), opt);
}

static void test_files_of_any_size_read_ahead_are_the_same(void **state)
{
	struct mr_options opt = options(1, 0);

	(void)state;
	compare_both(textf("files %s/mixed | batch 4", top), opt);
	opt.order = MR_ORDER_SEQUENTIAL;
	compare_both(textf("files %s/mixed | batch 2", top), opt);
	opt.memory = 64 << 20;
	compare_both(textf("files %s/mixed | cast i16 | batch 28", top), opt);
}

static void test_missing_files_read_ahead_are_as_bad(void **state)
{
	struct mr_options opt = options(1, 0);

	(void)state;
	opt.on_error = MR_ON_ERROR_SKIP;
	compare_both(textf("list %s/list.tsv | batch 16", top), opt);
	opt.on_error = MR_ON_ERROR_REPLACE;
	compare_both(textf("list %s/list.tsv | batch 16", top), opt);
}

static void test_a_missing_file_read_ahead_is_named(void **state)
{
	(void)state;
	for (int uring = 0; uring < 2; uring++) {
		struct mr_options opt = options(2, MR_FETCH_AHEAD);
		struct mr_loader *l;
		struct mr_batch *b;
		struct mr_err err;
		int e;

		if (!uring)
			setenv("MILLRACE_NO_URING", "1", 1);
		l = must_open(textf("list %s/list.tsv | batch 16", top), &opt);
		while ((e = mr_loader_next(l, &b, &err)) == 0)
			mr_batch_release(b);
		assert_int_equal(e, MR_EIO);
		assert_non_null(strstr(err.text, "small/no"));
		assert_non_null(strstr(err.text, "No such file"));
		mr_loader_close(l);
		unsetenv("MILLRACE_NO_URING");
	}
}

static void test_arrays_read_ahead_are_the_same(void **state)
{
	struct mr_options opt = options(1, 0);

	(void)state;
	compare_both(textf("npy %s/rows.npy | batch 64", top), opt);
	compare_both(textf("npy %s/rows.npy | cast f32 | batch 7", top), opt);
	opt.memory = 1 << 20;
	compare_both(textf("npy %s/rows.npy | batch 100", top), opt);
}

/* One sample takes long while others go on for more than the places that
 * fetch has: each must still get its own bytes. */
static void test_a_slow_sample_does_not_mix_up_the_others(void **state)
{
	static const char casts[] = "cast f64 | cast f32 | cast f64 | "
				    "cast f32 | cast f64 | cast f32 | "
				    "cast f64 | cast f32 | cast f64 | "
				    "cast f32 | cast f64 | cast u8";
	struct mr_options opt = options(1, 0);

	(void)state;
	opt.epochs = 1;
	opt.order = MR_ORDER_SEQUENTIAL;
	for (int i = 0; i < 2; i++)
		compare_both(
			textf("files %s/many | %s | batch 3000", top, casts),
			opt);
}

/* ---- life ---- */

static void test_a_loader_that_reads_ahead_closes_at_any_time(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		struct mr_options opt = options(1 + i % 4, MR_FETCH_AHEAD);
		struct mr_loader *l;

		if (i % 2)
			setenv("MILLRACE_NO_URING", "1", 1);
		l = must_open(textf(i % 3 ? "files %s/mixed | batch 3" :
					    "npy %s/rows.npy | batch 30",
				    top),
			      &opt);
		for (int k = 0; k < i % 5; k++)
			mr_batch_release(must_next(l));
		mr_loader_close(l);
		unsetenv("MILLRACE_NO_URING");
	}
}

static void test_seeking_while_reading_ahead_is_exact(void **state)
{
	struct mr_options opt = options(2, MR_FETCH_AHEAD);
	struct mr_loader *l;
	struct mr_state st[20];
	uint64_t d[20];

	(void)state;
	l = must_open(textf("files %s/small | batch 15", top), &opt);
	for (int i = 0; i < 20; i++) {
		struct mr_batch *b;

		mr_loader_state(l, &st[i]);
		b = must_next(l);
		d[i] = mr_batch_digest(b, 0);
		mr_batch_release(b);
	}
	for (int i = 19; i >= 0; i--) {
		struct mr_batch *b;

		assert_int_equal(mr_loader_seek(l, &st[i], NULL), 0);
		b = must_next(l);
		assert_true(mr_batch_digest(b, 0) == d[i]);
		mr_batch_release(b);
	}
	mr_loader_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_files_read_ahead_are_the_same),
		cmocka_unit_test(
			test_files_of_any_size_read_ahead_are_the_same),
		cmocka_unit_test(test_missing_files_read_ahead_are_as_bad),
		cmocka_unit_test(test_a_missing_file_read_ahead_is_named),
		cmocka_unit_test(test_arrays_read_ahead_are_the_same),
		cmocka_unit_test(test_a_slow_sample_does_not_mix_up_the_others),
		cmocka_unit_test(
			test_a_loader_that_reads_ahead_closes_at_any_time),
		cmocka_unit_test(test_seeking_while_reading_ahead_is_exact),
	};

	return cmocka_run_group_tests(tests, make_data, remove_top);
}
