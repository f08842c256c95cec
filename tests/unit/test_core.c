/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers in src/core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/counter.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/param.h"
#include "core/queue.h"
#include "core/rng.h"
#include "core/tensor.h"

/* ---- err ---- */

static void test_err_prefix_goes_before_the_text(void **state)
{
	struct mr_err err;

	(void)state;
	assert_int_equal(mr_err_set(&err, MR_EIO, "no %s", "luck"), MR_EIO);
	assert_int_equal(mr_err_prefix(&err, "line %d: ", 7), MR_EIO);
	assert_string_equal(err.text, "line 7: no luck");
	assert_int_equal(err.code, MR_EIO);
}

static void test_err_texts_are_cut_not_overrun(void **state)
{
	struct mr_err err;
	char many[3000];

	(void)state;
	memset(many, 'x', sizeof(many));
	many[sizeof(many) - 1] = 0;
	mr_err_set(&err, MR_EIO, "%s", many);
	assert_int_equal(strlen(err.text), MR_ERR_TEXT - 1);
	mr_err_prefix(&err, "y: ");
	assert_int_equal(strlen(err.text), MR_ERR_TEXT - 1);
	assert_memory_equal(err.text, "y: xx", 5);
	mr_err_prefix(&err, "%s", many);
	assert_int_equal(strlen(err.text), MR_ERR_TEXT - 1);
}

static void test_err_may_be_null(void **state)
{
	(void)state;
	assert_int_equal(mr_err_set(NULL, MR_EDATA, "x"), MR_EDATA);
	assert_true(mr_err_prefix(NULL, "x") < 0);
	assert_int_equal(mr_err_nomem(NULL, 1), MR_ENOMEM);
}

static void test_err_sys_names_path_action_and_reason(void **state)
{
	struct mr_err err;

	(void)state;
	assert_int_equal(mr_err_sys(&err, ENOENT, "a/b", "cannot open"),
			 MR_EIO);
	assert_string_equal(err.text,
			    "a/b: cannot open: No such file or directory");
	assert_int_equal(mr_err_sys(&err, ENOMEM, "a", "b"), MR_ENOMEM);
}

/* ---- mem ---- */

static void test_grow_keeps_contents_and_respects_the_limit(void **state)
{
	struct mr_err err;
	uint64_t *a = NULL;
	size_t cap = 0;

	(void)state;
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(
			mr_grow(&a, &cap, i + 1, sizeof(*a), 1000, &err), 0);
		a[i] = i;
	}
	assert_int_equal(cap, 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(a[i], i);
	assert_int_equal(mr_grow(&a, &cap, 1001, sizeof(*a), 1000, &err),
			 MR_ELIMIT);
	assert_int_equal(cap, 1000);
	assert_int_equal(
		mr_grow(&a, &cap, SIZE_MAX / 8, sizeof(*a), SIZE_MAX, &err),
		MR_ELIMIT);
	free(a);
}

static void test_alloc_refuses_sizes_that_overflow(void **state)
{
	struct mr_err err;
	volatile size_t many = SIZE_MAX / 2;

	(void)state;
	assert_null(mr_alloc(many, 16, &err));
	assert_int_equal(err.code, MR_ENOMEM);
}

static void test_alloc_of_nothing_is_a_valid_pointer(void **state)
{
	void *p = mr_alloc(0, 8, NULL);

	(void)state;
	assert_non_null(p);
	free(p);
}

/* ---- param ---- */

struct all {
	int64_t i;
	double real;
	bool b;
	uint64_t size;
	double time;
	const char *text;
	int word;
	enum mr_dtype dtype;
	struct mr_ints ints;
	struct mr_reals reals;
};

static const char *const words[] = { "red", "green", NULL };

static const struct mr_param table[] = {
	MR_INT(struct all, i, "5", -10, 10, "an integer"),
	MR_REAL(struct all, real, "0.5", 0, 1, "a number"),
	MR_BOOL(struct all, b, "yes", "a choice"),
	MR_SIZE(struct all, size, "64K", 1, 1e15, "a size"),
	MR_TIME(struct all, time, "10ms", 0, 100, "a time"),
	MR_TEXT(struct all, text, "hello", "a text"),
	MR_ENUM(struct all, word, "green", words, "a word"),
	MR_DTYPE(struct all, dtype, "f32", "a type"),
	MR_INTS(struct all, ints, "224,224,3", 1, 1000, "integers"),
	MR_REALS(struct all, reals, "0.5,0.25", -1, 1, "numbers"),
	MR_PARAM_END
};

static int set(struct all *a, const char *name, const char *value,
	       struct mr_err *err)
{
	return mr_param_set(mr_param_find(table, name), a, value, NULL, err);
}

static void test_param_defaults_set_every_type(void **state)
{
	struct all a = { 0 };

	(void)state;
	mr_param_defaults(table, &a);
	assert_int_equal(a.i, 5);
	assert_true(a.real == 0.5);
	assert_true(a.b);
	assert_int_equal(a.size, 65536);
	assert_true(fabs(a.time - 0.01) < 1e-12);
	assert_string_equal(a.text, "hello");
	assert_int_equal(a.word, 1);
	assert_int_equal(a.dtype, MR_F32);
	assert_int_equal(a.ints.n, 3);
	assert_int_equal(a.ints.v[2], 3);
	assert_int_equal(a.reals.n, 2);
	assert_true(a.reals.v[1] == 0.25);
}

static void test_param_text_gives_back_what_was_set(void **state)
{
	static const char *const want[] = {
		"5",	 "0.5",	  "yes", "65536",     "0.01",
		"hello", "green", "f32", "224,224,3", "0.5,0.25",
	};
	struct all a = { 0 };

	(void)state;
	assert_int_equal(mr_param_count(table), MR_COUNT(want));
	mr_param_defaults(table, &a);
	for (size_t i = 0; i < MR_COUNT(want); i++) {
		struct mr_str s = { 0 };

		mr_param_text(&table[i], &a, &s);
		assert_string_equal(s.text, want[i]);
		mr_str_fini(&s);
	}
}

static void test_param_out_of_range_or_malformed_is_refused(void **state)
{
	static const char *const bad[][2] = {
		{ "i", "11" },
		{ "i", "-11" },
		{ "i", "" },
		{ "i", "1.5" },
		{ "i", "5x" },
		{ "i", "99999999999999999999" },
		{ "real", "1.01" },
		{ "real", "nan" },
		{ "real", "inf" },
		{ "real", "0.5 " },
		{ "real", "" },
		{ "b", "maybe" },
		{ "b", "" },
		{ "size", "0" },
		{ "size", "64Q" },
		{ "size", "64KX" },
		{ "size", "-1" },
		{ "size", "K" },
		{ "time", "5 days" },
		{ "time", "101" },
		{ "time", "-1ms" },
		{ "word", "blue" },
		{ "word", "" },
		{ "dtype", "u16" },
		{ "dtype", "none" },
		{ "ints", "1,,2" },
		{ "ints", "0" },
		{ "ints", "1,2," },
		{ "ints", "1;2" },
		{ "ints", "1,2,3,4,5,6,7,8,9" },
		{ "reals", "2" },
		{ "reals", "0.5,x" },
		{ "reals", "0.5," },
		{ "reals", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0" },
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(bad); i++) {
		struct all a = { 0 }, before = { 0 };
		struct mr_err err;

		if (set(&a, bad[i][0], bad[i][1], &err) != MR_EINVAL)
			fail_msg("%s=%s was taken", bad[i][0], bad[i][1]);
		assert_non_null(strstr(err.text, bad[i][0]));
		assert_non_null(strstr(err.text, bad[i][1]));
		assert_memory_equal(&a, &before, sizeof(a));
	}
}

static void test_param_message_names_the_range(void **state)
{
	struct all a = { 0 };
	struct mr_err err;

	(void)state;
	set(&a, "i", "11", &err);
	assert_non_null(strstr(err.text, "-10 to 10"));
	set(&a, "word", "blue", &err);
	assert_non_null(strstr(err.text, "red|green"));
	set(&a, "dtype", "blue", &err);
	assert_non_null(strstr(err.text, "u8|i16|"));
}

static void test_param_units_of_size_and_time(void **state)
{
	static const struct {
		const char *name, *value;
		double want;
	} t[] = {
		{ "size", "1", 1 },	     { "size", "1k", 1024 },
		{ "size", "1.5M", 1572864 }, { "size", "2GiB", 2147483648.0 },
		{ "size", "3KB", 3072 },     { "size", "1T", 1099511627776.0 },
		{ "time", "2", 2 },	     { "time", "7us", 7e-6 },
		{ "time", "10ms", 0.01 },    { "time", "1.5s", 1.5 },
		{ "time", "1m", 60 },	     { "time", "0.01h", 36 },
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(t); i++) {
		struct all a = { 0 };
		struct mr_err err;

		if (set(&a, t[i].name, t[i].value, &err))
			fail_msg("%s", err.text);
		if (*t[i].name == 's')
			assert_true((double)a.size == t[i].want);
		else
			assert_true(fabs(a.time / t[i].want - 1) < 1e-12);
	}
}

static void test_param_words_and_lists_have_several_spellings(void **state)
{
	struct all a = { 0 };

	(void)state;
	assert_int_equal(set(&a, "b", "on", NULL), 0);
	assert_true(a.b);
	assert_int_equal(set(&a, "b", "false", NULL), 0);
	assert_false(a.b);
	assert_int_equal(set(&a, "ints", "32x16", NULL), 0);
	assert_int_equal(a.ints.n, 2);
	assert_int_equal(a.ints.v[1], 16);
	assert_int_equal(set(&a, "ints", "", NULL), 0);
	assert_int_equal(a.ints.n, 0);
}

static void test_param_texts_are_copied(void **state)
{
	char value[] = "abc";
	struct all a = { 0 };
	struct mr_arena strings;

	(void)state;
	mr_arena_init(&strings, 1 << 20);
	assert_int_equal(mr_param_set(mr_param_find(table, "text"), &a, value,
				      &strings, NULL),
			 0);
	value[0] = 'x';
	assert_string_equal(a.text, "abc");
	mr_arena_fini(&strings);
}

static void test_param_nearest_finds_misspelt_names(void **state)
{
	(void)state;
	assert_string_equal(mr_param_nearest(table, "dtpye"), "dtype");
	assert_string_equal(mr_param_nearest(table, "sise"), "size");
	assert_null(mr_param_nearest(table, "elephant"));
	assert_null(mr_param_find(table, "siz"));
}

/* ---- arena ---- */

static void test_arena_gives_aligned_separate_memory(void **state)
{
	struct mr_arena a;
	unsigned char *p[300];

	(void)state;
	mr_arena_init(&a, 1 << 20);
	for (int i = 0; i < 300; i++) {
		p[i] = mr_arena_take(&a, (size_t)i * 7 % 500);
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % 64, 0);
		memset(p[i], i & 255, (size_t)i * 7 % 500);
	}
	for (int i = 0; i < 300; i++)
		for (int k = 0; k < i * 7 % 500; k++)
			assert_int_equal(p[i][k], i & 255);
	mr_arena_fini(&a);
}

static void test_arena_stops_at_its_limit(void **state)
{
	struct mr_arena a;
	size_t got = 0;

	(void)state;
	mr_arena_init(&a, 1 << 20);
	assert_null(mr_arena_take(&a, (1 << 20) + 1));
	assert_null(mr_arena_take(&a, SIZE_MAX));
	assert_null(mr_arena_take(&a, SIZE_MAX - 63));
	while (mr_arena_take(&a, 10000))
		got += 10000;
	assert_true(got <= 1 << 20 && got > (1 << 20) * 3 / 4);
	assert_true(a.total <= 2 << 20);
	mr_arena_fini(&a);
}

static void test_arena_limit_does_not_depend_on_earlier_rounds(void **state)
{
	const size_t max = 4 << 20;
	struct mr_arena a;

	(void)state;
	mr_arena_init(&a, max);
	for (size_t n = 1 << 16; n <= max; n += 100032) {
		mr_arena_reset(&a);
		assert_true(a.whole <= max);
		assert_non_null(mr_arena_take(&a, n));
		assert_null(mr_arena_take(&a, max - n + 1));
		assert_true(n == max || mr_arena_take(&a, max - n));
		assert_null(mr_arena_take(&a, 1));
		assert_true(a.total <= 2 * max + (1 << 16));
		assert_int_equal(a.total % 64, 0); /* for aligned_alloc() */
	}
	mr_arena_fini(&a);
}

static void test_arena_reset_reuses_its_memory(void **state)
{
	struct mr_arena a;
	void *first;
	size_t total;

	(void)state;
	mr_arena_init(&a, 1 << 20);
	mr_arena_take(&a, 100);
	mr_arena_take(&a, 200000);
	mr_arena_take(&a, 100);
	mr_arena_reset(&a); /* several blocks become one */
	first = mr_arena_take(&a, 100);
	total = a.total;
	for (int i = 0; i < 100; i++) {
		mr_arena_reset(&a);
		assert_ptr_equal(mr_arena_take(&a, 100), first);
		assert_non_null(mr_arena_take(&a, 200000));
		assert_non_null(mr_arena_take(&a, 100));
	}
	assert_true(a.total <= total);
	assert_string_equal(mr_arena_text(&a, "abcdef", 3), "abc");
	mr_arena_fini(&a);
}

/* ---- buf ---- */

static void test_pool_hands_out_the_buffer_used_last(void **state)
{
	struct mr_budget budget;
	struct mr_pool pool;
	struct mr_buf *a, *b, *c;
	struct mr_err err;

	(void)state;
	mr_budget_init(&budget, 1 << 20, false);
	mr_pool_init(&pool, &budget, 2);
	assert_int_equal(mr_pool_get(&pool, 1000, &a, &err), 0);
	assert_int_equal(mr_pool_get(&pool, 1000, &b, &err), 0);
	assert_int_equal((uintptr_t)a->data % 64, 0);
	assert_true(a->cap >= 1000);
	mr_buf_unref(a);
	mr_buf_unref(b);
	assert_int_equal(mr_pool_get(&pool, 500, &c, &err), 0);
	assert_ptr_equal(c, b);
	mr_buf_unref(c);
	mr_buf_unref(NULL);
	mr_pool_fini(&pool);
	assert_int_equal(atomic_load(&budget.used), 0);
}

static void test_pool_keeps_no_more_than_asked(void **state)
{
	struct mr_budget budget;
	struct mr_pool pool;
	struct mr_buf *b[4];
	struct mr_err err;

	(void)state;
	mr_budget_init(&budget, 1 << 20, false);
	mr_pool_init(&pool, &budget, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(mr_pool_get(&pool, 4096, &b[i], &err), 0);
	assert_int_equal(atomic_load(&budget.used), 4 * 4096);
	for (int i = 0; i < 4; i++)
		mr_buf_unref(b[i]);
	assert_int_equal(atomic_load(&budget.used), 4096);
	assert_int_equal(atomic_load(&budget.peak), 4 * 4096);
	mr_pool_fini(&pool);
}

static void test_pool_refuses_what_is_over_budget(void **state)
{
	struct mr_budget budget;
	struct mr_pool pool;
	struct mr_buf *a, *b = NULL;
	struct mr_err err;

	(void)state;
	mr_budget_init(&budget, 64 << 10, false);
	mr_pool_init(&pool, &budget, 4);
	assert_int_equal(mr_pool_get(&pool, 40 << 10, &a, &err), 0);
	assert_int_equal(mr_pool_get(&pool, 40 << 10, &b, &err), MR_ELIMIT);
	assert_null(b);
	assert_non_null(strstr(err.text, "64.0 KB"));
	assert_int_equal(mr_pool_get(&pool, SIZE_MAX, &b, &err), MR_ELIMIT);
	mr_buf_unref(a);
	mr_pool_fini(&pool);
	assert_int_equal(atomic_load(&budget.used), 0);
}

static void test_pool_gives_up_small_buffers_for_a_large_one(void **state)
{
	struct mr_budget budget;
	struct mr_pool pool;
	struct mr_buf *b[4], *big;
	struct mr_err err;

	(void)state;
	mr_budget_init(&budget, 64 << 10, false);
	mr_pool_init(&pool, &budget, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(mr_pool_get(&pool, 16 << 10, &b[i], &err), 0);
	for (int i = 0; i < 4; i++)
		mr_buf_unref(b[i]);
	assert_int_equal(mr_pool_get(&pool, 60 << 10, &big, &err), 0);
	mr_buf_unref(big);
	mr_pool_fini(&pool);
}

static void test_buf_grow_keeps_the_used_bytes(void **state)
{
	struct mr_budget budget;
	struct mr_pool pool;
	struct mr_buf *b;
	struct mr_err err;

	(void)state;
	mr_budget_init(&budget, 1 << 24, false);
	mr_pool_init(&pool, &budget, 4);
	assert_int_equal(mr_pool_get(&pool, 100, &b, &err), 0);
	memset(b->data, 7, 100);
	assert_int_equal(mr_buf_grow(b, 5 << 20, 100, &err), 0);
	assert_true(b->cap >= 5 << 20);
	for (int i = 0; i < 100; i++)
		assert_int_equal(((unsigned char *)b->data)[i], 7);
	assert_int_equal(atomic_load(&budget.used), b->cap);
	assert_int_equal(mr_buf_grow(b, 1 << 25, 100, &err), MR_ELIMIT);
	assert_int_equal(atomic_load(&budget.used), b->cap);
	mr_buf_unref(b);
	mr_pool_fini(&pool);
	assert_int_equal(atomic_load(&budget.used), 0);
}

static void test_budget_that_is_soft_only_counts(void **state)
{
	struct mr_budget b;

	(void)state;
	mr_budget_init(&b, 100, true);
	assert_true(mr_budget_take(&b, 150));
	assert_int_equal(atomic_load(&b.used), 150);
	mr_budget_give(&b, 100);
	assert_int_equal(atomic_load(&b.used), 50);
	assert_int_equal(atomic_load(&b.peak), 150);
}

static void test_buf_lent_does_not_count_until_it_is_back(void **state)
{
	struct mr_budget budget;
	struct mr_pool pool;
	struct mr_buf *b;
	struct mr_err err;

	(void)state;
	mr_budget_init(&budget, 64 << 10, false);
	mr_pool_init(&pool, &budget, 4);
	assert_int_equal(mr_pool_get(&pool, 4096, &b, &err), 0);
	mr_buf_lend(b);
	assert_int_equal(atomic_load(&budget.used), 0);
	mr_buf_reclaim(b);
	assert_int_equal(atomic_load(&budget.used), 4096);
	mr_buf_reclaim(NULL);
	mr_buf_unref(b);
	mr_pool_fini(&pool);
	assert_int_equal(atomic_load(&budget.used), 0);
}

/* ---- queue ---- */

enum { PUTS = 20000, THREADS = 3 };

struct side {
	struct mr_queue *q;
	uint64_t sum, count;
};

static void *put_many(void *arg)
{
	struct side *s = arg;

	for (uint64_t i = 1; i <= PUTS; i++)
		s->count += mr_queue_put(s->q, i);
	return NULL;
}

static void *get_all(void *arg)
{
	struct side *s = arg;
	uint64_t v;

	while (mr_queue_get(s->q, &v)) {
		s->sum += v;
		s->count++;
	}
	return NULL;
}

static void test_queue_get_drains_then_reports_closed(void **state)
{
	struct side in[THREADS], out[THREADS];
	pthread_t ti[THREADS], to[THREADS];
	uint64_t sum = 0, count = 0;
	struct mr_queue q;
	struct mr_err err;

	(void)state;
	assert_int_equal(mr_queue_init(&q, 7, &err), 0);
	for (int i = 0; i < THREADS; i++) {
		in[i] = out[i] = (struct side){ .q = &q };
		pthread_create(&ti[i], NULL, put_many, &in[i]);
		pthread_create(&to[i], NULL, get_all, &out[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(ti[i], NULL);
	mr_queue_close(&q);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(to[i], NULL);
		sum += out[i].sum;
		count += out[i].count;
		assert_int_equal(in[i].count, PUTS);
	}
	assert_int_equal(count, THREADS * PUTS);
	assert_int_equal(sum, (uint64_t)THREADS * PUTS * (PUTS + 1) / 2);
	mr_queue_fini(&q);
}

static void test_queue_is_first_in_first_out(void **state)
{
	struct mr_queue q;
	uint64_t v;

	(void)state;
	assert_int_equal(mr_queue_init(&q, 3, NULL), 0);
	for (uint64_t i = 0; i < 10; i++) {
		assert_true(mr_queue_put(&q, i));
		assert_true(mr_queue_put(&q, i + 100));
		assert_true(mr_queue_get(&q, &v));
		assert_int_equal(v, i);
		assert_true(mr_queue_get(&q, &v));
		assert_int_equal(v, i + 100);
	}
	mr_queue_put(&q, 5);
	mr_queue_close(&q);
	assert_false(mr_queue_put(&q, 6));
	assert_true(mr_queue_get(&q, &v));
	assert_int_equal(v, 5);
	assert_false(mr_queue_get(&q, &v));
	mr_queue_fini(&q);
}

static bool is_full(struct mr_queue *q)
{
	bool full;

	pthread_mutex_lock(&q->lock);
	full = q->count == q->cap;
	pthread_mutex_unlock(&q->lock);
	return full;
}

static void test_queue_close_wakes_a_put_that_waits(void **state)
{
	struct mr_queue q;
	struct side s = { .q = &q };
	pthread_t t;

	(void)state;
	assert_int_equal(mr_queue_init(&q, 2, NULL), 0);
	pthread_create(&t, NULL, put_many, &s);
	while (!is_full(&q))
		usleep(100);
	mr_queue_close(&q);
	pthread_join(t, NULL);
	assert_int_equal(s.count, 2);
	mr_queue_fini(&q);
}

/* ---- counter ---- */

static void near(double have, double want)
{
	if (fabs(have - want) > 0.06 * want)
		fail_msg("%g is not within 6 %% of %g", have, want);
}

static void test_hist_quantile_of_one_value_is_within_6_percent(void **state)
{
	(void)state;
	for (double v = 1; v < 1e12; v *= 1.0371) {
		uint64_t sum[MR_HIST_BUCKETS] = { 0 };
		uint64_t n = (uint64_t)v;

		sum[mr_hist_bucket(n)] = 1000;
		near(mr_hist_quantile(sum, 0.01), (double)n);
		near(mr_hist_quantile(sum, 0.5), (double)n);
		near(mr_hist_quantile(sum, 0.99), (double)n);
	}
}

static void test_hist_quantiles_of_a_range_are_within_6_percent(void **state)
{
	static struct mr_hist h;
	uint64_t sum[MR_HIST_BUCKETS] = { 0 };

	(void)state;
	assert_true(mr_hist_quantile(sum, 0.5) == 0);
	for (uint64_t v = 1; v <= 100000; v++)
		mr_hist_add(&h, v);
	mr_hist_sum(sum, &h);
	for (double q = 0.01; q < 1; q += 0.01)
		near(mr_hist_quantile(sum, q), q * 100000);
}

static void test_hist_takes_the_largest_values(void **state)
{
	uint64_t sum[MR_HIST_BUCKETS] = { 0 };

	(void)state;
	assert_int_equal(mr_hist_bucket(0), 0);
	assert_int_equal(mr_hist_bucket(UINT64_MAX), MR_HIST_BUCKETS - 1);
	for (uint64_t v = 1; v < 1 << 20; v++)
		assert_true(mr_hist_bucket(v) >= mr_hist_bucket(v - 1));
	sum[MR_HIST_BUCKETS - 1] = 1;
	assert_true(mr_hist_quantile(sum, 1) > 1e12);
}

/* ---- rng ---- */

static void test_rng_is_philox(void **state)
{
	/* From the known answers of Random123. */
	struct mr_rng r = { .key = { 0, 0 } };

	(void)state;
	assert_true(mr_rng_u64(&r) == 0xca00a0459843d731ULL);
	assert_true(mr_rng_u64(&r) == 0x66c24222c9a845b5ULL);
}

static void test_rng_is_a_function_of_its_four_numbers(void **state)
{
	static const uint64_t id[][4] = { { 1, 2, 3, 4 },
					  { 0, 2, 3, 4 },
					  { 1, 0, 3, 4 },
					  { 1, 2, 0, 4 },
					  { 1, 2, 3, 0 } };
	uint64_t first[MR_COUNT(id)];

	(void)state;
	for (size_t i = 0; i < MR_COUNT(id); i++) {
		struct mr_rng a =
			mr_rng_for(id[i][0], id[i][1], id[i][2], id[i][3]);
		struct mr_rng b = a;

		first[i] = mr_rng_u64(&a);
		assert_true(first[i] == mr_rng_u64(&b));
		for (size_t k = 0; k < i; k++)
			assert_true(first[k] != first[i]);
	}
}

static double chi_square(struct mr_rng *r, uint64_t n, uint64_t per)
{
	uint64_t count[100] = { 0 };
	double chi = 0;

	for (uint64_t i = 0; i < n * per; i++) {
		uint64_t v = mr_rng_below(r, n);

		assert_true(v < n);
		count[v]++;
	}
	for (uint64_t i = 0; i < n; i++) {
		double d = (double)count[i] - (double)per;

		chi += d * d / (double)per;
	}
	return chi;
}

static void test_rng_below_is_uniform(void **state)
{
	struct mr_rng r = mr_rng_for(1, 2, 3, 4);

	(void)state;
	for (uint64_t n = 2; n <= 100; n += 7) {
		double chi = chi_square(&r, n, 2000), df = (double)n - 1;

		/* Mean df, variance 2 df: four deviations off is no chance. */
		assert_true(chi < df + 4 * sqrt(2 * df) + 4);
		assert_true(chi > df - 4 * sqrt(2 * df));
	}
	assert_int_equal(mr_rng_below(&r, 1), 0);
	assert_int_equal(mr_rng_below(&r, 0), 0);
}

static void test_rng_below_is_unbiased_near_the_top(void **state)
{
	struct mr_rng r = mr_rng_for(5, 6, 7, 8);
	uint64_t n = 3ULL << 62, low = 0;

	(void)state;
	/* A plain remainder would give the lowest third twice as often. */
	for (int i = 0; i < 30000; i++)
		low += mr_rng_below(&r, n) < n / 3;
	assert_true(low > 9600 && low < 10400);
}

static void test_rng_real_is_in_0_to_1(void **state)
{
	struct mr_rng r = mr_rng_for(1, 1, 1, 1);
	double sum = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		double v = mr_rng_real(&r);

		assert_true(v >= 0 && v < 1);
		sum += v;
	}
	assert_true(fabs(sum / 10000 - 0.5) < 0.012);
}

/* ---- json ---- */

static void test_json_escapes_and_commas(void **state)
{
	struct mr_json j = { 0 };
	char *text;

	(void)state;
	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "a\"b", "x\\y\n\t\x01z\xc3\xa9");
	mr_json_open(&j, "list", '[');
	mr_json_int(&j, NULL, INT64_MIN);
	mr_json_uint(&j, NULL, UINT64_MAX);
	mr_json_open(&j, NULL, '{');
	mr_json_close(&j, '}');
	mr_json_close(&j, ']');
	mr_json_real(&j, "r", 1.0 / 3, 4);
	mr_json_real(&j, "nan", NAN, 4);
	mr_json_real(&j, "inf", -INFINITY, 4);
	mr_json_bool(&j, "t", true);
	mr_json_raw(&j, "raw", "[1]");
	mr_json_close(&j, '}');
	text = mr_str_take(&j.out);
	assert_string_equal(
		text,
		"{\"a\\\"b\": \"x\\\\y\\n\\u0009\\u0001z\xc3\xa9\", "
		"\"list\": [-9223372036854775808, 18446744073709551615, {}], "
		"\"r\": 0.3333, \"nan\": null, \"inf\": null, \"t\": true, "
		"\"raw\": [1]}");
	free(text);
}

/* ---- str ---- */

static void test_str_grows_and_is_taken(void **state)
{
	struct mr_str s = { 0 };
	char *text;

	(void)state;
	for (int i = 0; i < 1000; i++)
		mr_str_addf(&s, "%d,", i % 10);
	mr_str_addn(&s, "abc", 2);
	assert_int_equal(s.len, 2002);
	text = mr_str_take(&s);
	assert_int_equal(strlen(text), 2002);
	assert_string_equal(text + 1996, "8,9,ab");
	assert_null(s.text);
	free(text);
	text = mr_str_take(&s);
	assert_string_equal(text, "");
	free(text);
}

static void test_str_distance_counts_edits(void **state)
{
	(void)state;
	assert_int_equal(mr_str_distance("resize", "resize"), 0);
	assert_int_equal(mr_str_distance("resize", "reszie"), 1);
	assert_int_equal(mr_str_distance("resize", "resie"), 1);
	assert_int_equal(mr_str_distance("resize", "ressize"), 1);
	assert_int_equal(mr_str_distance("kitten", "sitting"), 3);
	assert_int_equal(mr_str_distance("", "abc"), 3);
}

static void test_str_counts_and_sizes_are_readable(void **state)
{
	char buf[32];

	(void)state;
	assert_string_equal(mr_str_count(buf, 0), "0");
	assert_string_equal(mr_str_count(buf, 999), "999");
	assert_string_equal(mr_str_count(buf, 1000), "1,000");
	assert_string_equal(mr_str_count(buf, 1234567), "1,234,567");
	assert_string_equal(mr_str_count(buf, UINT64_MAX),
			    "18,446,744,073,709,551,615");
	assert_string_equal(mr_str_size(buf, 0), "0 B");
	assert_string_equal(mr_str_size(buf, 1023), "1023 B");
	assert_string_equal(mr_str_size(buf, 1536), "1.5 KB");
	assert_string_equal(mr_str_size(buf, 300.0 * (1 << 20)), "300 MB");
	assert_string_equal(mr_str_size(buf, 0x1p60), "1024 PB");
}

/* ---- file ---- */

static char top[64];

static int make_top(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/mr-core-XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int remove_top(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", top);
	return system(cmd);
}

static size_t entries(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void test_file_write_replaces_and_leaves_nothing_behind(void **state)
{
	char path[128], *data;
	struct mr_err err;
	size_t n;

	(void)state;
	snprintf(path, sizeof(path), "%s/f", top);
	assert_int_equal(mr_file_write(path, "long first text", 15, &err), 0);
	assert_int_equal(mr_file_write(path, "a\0b", 3, &err), 0);
	assert_int_equal(mr_file_read(path, 100, &data, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_memory_equal(data, "a\0b\0", 4);
	free(data);
	assert_int_equal(entries(top), 1);
}

static void test_file_write_that_fails_keeps_the_old_one(void **state)
{
	char path[128], *data;
	struct mr_err err;
	struct stat before, after;

	(void)state;
	/* The new text cannot take the name of a directory. */
	snprintf(path, sizeof(path), "%s/d", top);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(mr_file_write(path, "x", 1, &err), MR_EIO);
	assert_non_null(strstr(err.text, path));
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_ino == after.st_ino);
	assert_int_equal(entries(top), 1);
	snprintf(path, sizeof(path), "%s/no/f", top);
	assert_int_equal(mr_file_write(path, "x", 1, &err), MR_EIO);
	assert_int_equal(mr_file_read(path, 9, &data, &(size_t){ 0 }, &err),
			 MR_EIO);
	assert_non_null(strstr(err.text, "No such file"));
}

static void test_file_read_stops_at_its_limit(void **state)
{
	char path[128], *data = NULL, text[100000];
	struct mr_err err;
	size_t n = 0;

	(void)state;
	memset(text, 'x', sizeof(text));
	snprintf(path, sizeof(path), "%s/f", top);
	assert_int_equal(mr_file_write(path, text, sizeof(text), &err), 0);
	assert_int_equal(mr_file_read(path, sizeof(text) - 1, &data, &n, &err),
			 MR_ELIMIT);
	assert_null(data);
	assert_int_equal(mr_file_read(path, sizeof(text), &data, &n, &err), 0);
	assert_int_equal(n, sizeof(text));
	assert_int_equal(data[n], 0);
	free(data);
}

static void test_machine_limits_are_plausible(void **state)
{
	(void)state;
	assert_true(mr_machine_cores() >= 1);
	assert_true(mr_machine_memory() > 1 << 24);
}

/* ---- tensor ---- */

static void test_tensor_shape_overflow_is_refused(void **state)
{
	int64_t n = -5;

	(void)state;
	assert_true(mr_shape_elements((int64_t[]){ 2, 3, 4 }, 3, MR_F32, &n));
	assert_int_equal(n, 24);
	assert_true(mr_shape_elements(NULL, 0, MR_F32, &n));
	assert_int_equal(n, 1);
	assert_true(mr_shape_elements((int64_t[]){ 0, 9 }, 2, MR_F32, &n));
	assert_int_equal(n, 0);
	n = -5;
	assert_false(mr_shape_elements((int64_t[]){ 1LL << 32, 1LL << 32 }, 2,
				       MR_U8, &n));
	assert_false(
		mr_shape_elements((int64_t[]){ 1LL << 61 }, 1, MR_F64, &n));
	assert_false(mr_shape_elements((int64_t[]){ -1 }, 1, MR_U8, &n));
	assert_false(mr_shape_elements((int64_t[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1 },
				       9, MR_U8, &n));
	assert_int_equal(n, -5);
	assert_true(mr_shape_elements((int64_t[]){ 1LL << 59 }, 1, MR_F64, &n));
}

static void test_tensor_names_parse_back(void **state)
{
	(void)state;
	for (int t = MR_U8; t < MR_DTYPES; t++)
		assert_int_equal(
			mr_dtype_parse(mr_dtype_name((enum mr_dtype)t)), t);
	assert_int_equal(mr_dtype_parse("none"), MR_NONE);
	assert_int_equal(mr_dtype_size((enum mr_dtype)99), 0);
}

static void test_spec_text_is_cut_like_snprintf(void **state)
{
	struct mr_spec s = { .dtype = MR_F32, .ndim = 2, .shape = { 3, -1 } };
	struct mr_tensor t = mr_tensor_of(&s);
	char buf[32];

	(void)state;
	assert_int_equal(mr_spec_text(&s, buf, sizeof(buf)), 8);
	assert_string_equal(buf, "f32[3 ?]");
	assert_int_equal(mr_spec_text(&s, buf, 6), 8);
	assert_string_equal(buf, "f32[3");
	assert_false(mr_spec_fixed(&s));
	assert_int_equal(t.shape[1], 0);
	t.shape[1] = 5;
	assert_int_equal(mr_tensor_bytes(&t), 60);
}

/* ---- clock ---- */

static void test_clock_ticks_are_nanoseconds_when_scaled(void **state)
{
	struct mr_clock c;
	uint64_t tick, ns;
	double have;

	(void)state;
	mr_clock_init(&c);
	tick = mr_clock_tick(&c);
	ns = mr_clock_ns();
	usleep(20000);
	have = (double)(mr_clock_tick(&c) - tick);
	ns = mr_clock_ns() - ns;
	have *= mr_clock_ns_per_tick(&c);
	assert_true(fabs(have / (double)ns - 1) < 0.02);
}

#define T(name) cmocka_unit_test(name)
#define F(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_err_prefix_goes_before_the_text),
		T(test_err_texts_are_cut_not_overrun),
		T(test_err_may_be_null),
		T(test_err_sys_names_path_action_and_reason),
		T(test_grow_keeps_contents_and_respects_the_limit),
		T(test_alloc_refuses_sizes_that_overflow),
		T(test_alloc_of_nothing_is_a_valid_pointer),
		T(test_param_defaults_set_every_type),
		T(test_param_text_gives_back_what_was_set),
		T(test_param_out_of_range_or_malformed_is_refused),
		T(test_param_message_names_the_range),
		T(test_param_units_of_size_and_time),
		T(test_param_words_and_lists_have_several_spellings),
		T(test_param_texts_are_copied),
		T(test_param_nearest_finds_misspelt_names),
		T(test_arena_gives_aligned_separate_memory),
		T(test_arena_stops_at_its_limit),
		T(test_arena_limit_does_not_depend_on_earlier_rounds),
		T(test_arena_reset_reuses_its_memory),
		T(test_pool_hands_out_the_buffer_used_last),
		T(test_pool_keeps_no_more_than_asked),
		T(test_pool_refuses_what_is_over_budget),
		T(test_pool_gives_up_small_buffers_for_a_large_one),
		T(test_buf_grow_keeps_the_used_bytes),
		T(test_budget_that_is_soft_only_counts),
		T(test_buf_lent_does_not_count_until_it_is_back),
		T(test_queue_get_drains_then_reports_closed),
		T(test_queue_is_first_in_first_out),
		T(test_queue_close_wakes_a_put_that_waits),
		T(test_hist_quantile_of_one_value_is_within_6_percent),
		T(test_hist_quantiles_of_a_range_are_within_6_percent),
		T(test_hist_takes_the_largest_values),
		T(test_rng_is_philox),
		T(test_rng_is_a_function_of_its_four_numbers),
		T(test_rng_below_is_uniform),
		T(test_rng_below_is_unbiased_near_the_top),
		T(test_rng_real_is_in_0_to_1),
		T(test_json_escapes_and_commas),
		T(test_str_grows_and_is_taken),
		T(test_str_distance_counts_edits),
		T(test_str_counts_and_sizes_are_readable),
		F(test_file_write_replaces_and_leaves_nothing_behind),
		F(test_file_write_that_fails_keeps_the_old_one),
		F(test_file_read_stops_at_its_limit),
		T(test_machine_limits_are_plausible),
		T(test_tensor_shape_overflow_is_refused),
		T(test_tensor_names_parse_back),
		T(test_spec_text_is_cut_like_snprintf),
		T(test_clock_ticks_are_nanoseconds_when_scaled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
