/* SPDX-License-Identifier: Apache-2.0 */
/* The loader through its public interface: every sample right, batches that
 * live as long as they are held, closing at any time, bad samples. */
#include "scratch.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/mem.h"

/* ---- data: arrays of floats, and files of any length ---- */

enum { N = 203, WIDTH = 6, SEVENS = N / 7 };

static float number_at(uint64_t sample, int k)
{
	return (float)(sample * 100 + (uint64_t)k);
}

static size_t file_bytes(uint64_t sample)
{
	return sample % 11 == 0 ? 0 : mr_mix64(sample) % 700;
}

static uint8_t byte_at(uint64_t sample, size_t k)
{
	return (uint8_t)mr_mix64(sample * 4096 + k);
}

static void put_file(uint64_t i)
{
	uint8_t bytes[700];

	for (size_t k = 0; k < file_bytes(i); k++)
		bytes[k] = byte_at(i, k);
	put(textf("files/%03d", (int)i), bytes, file_bytes(i));
}

static int make_data(void **state)
{
	static float x[N * WIDTH];
	static int64_t label[N];
	int64_t shape[] = { N, WIDTH };

	if (make_top(state) || mkdir(textf("%s/files", top), 0755))
		return -1;
	for (uint64_t i = 0; i < N; i++) {
		for (int k = 0; k < WIDTH; k++)
			x[i * WIDTH + (uint64_t)k] = number_at(i, k);
		label[i] = (int64_t)i * 7;
		put_file(i);
	}
	put_npy("x.npy", "<f4", 2, shape, x, sizeof(x));
	put_npy("y.npy", "<i8", 1, shape, label, sizeof(label));
	return 0;
}

static const char *arrays(const char *rest)
{
	return textf("npy %s/x.npy labels=%s/y.npy %s", top, top, rest);
}

static const char *files(const char *rest)
{
	return textf("files %s/files %s", top, rest);
}

static struct mr_options options(int threads)
{
	struct mr_options opt;

	mr_options_init(&opt);
	opt.threads = threads;
	opt.memory = 64 << 20;
	return opt;
}

/* ---- checking a batch, row by row ---- */

static void check_arrays(const struct mr_batch *b)
{
	const struct mr_field *x = mr_batch_find(b, "data");
	const struct mr_field *y = mr_batch_find(b, "label");
	const float *v = x->tensor.data;

	assert_int_equal(x->tensor.dtype, MR_F32);
	assert_int_equal(x->tensor.ndim, 2);
	assert_int_equal(x->tensor.shape[0], mr_batch_count(b));
	assert_int_equal(x->tensor.shape[1], WIDTH);
	assert_int_equal(y->tensor.shape[0], mr_batch_count(b));
	assert_null(x->offsets);
	assert_null(x->shapes);
	for (uint64_t i = 0; i < mr_batch_count(b); i++) {
		uint64_t at = mr_batch_indices(b)[i];

		assert_true(at < N);
		for (int k = 0; k < WIDTH; k++)
			if (v[(int)i * WIDTH + k] != number_at(at, k))
				fail_msg("sample %d: wrong data", (int)at);
		if (((const int64_t *)y->tensor.data)[i] != (int64_t)at * 7)
			fail_msg("sample %d: wrong label", (int)at);
	}
}

static void check_files(const struct mr_batch *b)
{
	const struct mr_field *x = mr_batch_find(b, "data");
	const uint8_t *v = x->tensor.data;

	for (uint64_t i = 0; i < mr_batch_count(b); i++) {
		uint64_t at = mr_batch_indices(b)[i];
		size_t n = (size_t)(x->offsets[i + 1] - x->offsets[i]);
		char key[32];

		assert_int_equal(n, file_bytes(at));
		assert_int_equal(x->shapes[i], n);
		for (size_t k = 0; k < n; k++)
			if (v[(size_t)x->offsets[i] + k] != byte_at(at, k))
				fail_msg("file %d: wrong data", (int)at);
		mr_batch_key(b, i, key, sizeof(key));
		assert_string_equal(key, textf("%03d", (int)at));
	}
}

static void check_padded(const struct mr_batch *b)
{
	const struct mr_field *x = mr_batch_find(b, "data");
	const uint8_t *v = x->tensor.data;
	size_t width = (size_t)x->tensor.shape[1], most = 0;

	assert_null(x->offsets);
	for (uint64_t i = 0; i < mr_batch_count(b); i++) {
		uint64_t at = mr_batch_indices(b)[i];
		size_t n = file_bytes(at);

		most = n > most ? n : most;
		assert_int_equal(x->shapes[i], n);
		for (size_t k = 0; k < width; k++)
			if (v[i * width + k] != (k < n ? byte_at(at, k) : 9))
				fail_msg("file %d: wrong data", (int)at);
	}
	assert_int_equal(width, most);
}

struct kind {
	const char *(*text)(const char *rest);
	const char *batch;
	void (*check)(const struct mr_batch *b);
};

static const struct kind kinds[] = {
	{ arrays, "| batch %d", check_arrays },
	{ files, "| batch %d", check_files },
	{ files, "| batch %d pad=9", check_padded },
};

static struct mr_loader *open_kind(const struct kind *k, int rows,
				   const struct mr_options *opt)
{
	char rest[64];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(rest, sizeof(rest), k->batch, rows);
#pragma GCC diagnostic pop
	return must_open(k->text(rest), opt);
}

/* One epoch: each sample once, full batches but the last, in order. */
static uint64_t check_epoch(struct mr_loader *l, const struct kind *k, int rows)
{
	uint8_t seen[N] = { 0 };
	uint64_t digest = 0, number = 0, left = N;
	struct mr_batch *b;

	while ((b = must_next(l))) {
		uint64_t want = left < (uint64_t)rows ? left : (uint64_t)rows;

		assert_int_equal(mr_batch_number(b), number++);
		assert_int_equal(mr_batch_count(b), want);
		left -= want;
		k->check(b);
		for (uint64_t i = 0; i < mr_batch_count(b); i++)
			seen[mr_batch_indices(b)[i]]++;
		digest = mr_batch_digest(b, digest);
		mr_batch_release(b);
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(seen[i], 1);
	return digest;
}

/* ---- content ---- */

static void test_every_sample_is_right_with_any_threads(void **state)
{
	static const int rows[] = { 1, 7, 64, 1000 };

	(void)state;
	for (size_t k = 0; k < MR_COUNT(kinds); k++) {
		for (size_t r = 0; r < MR_COUNT(rows); r++) {
			uint64_t first = 0;

			for (int threads = 1; threads <= 8; threads++) {
				struct mr_options opt = options(threads);
				struct mr_loader *l;
				uint64_t d;

				l = open_kind(&kinds[k], rows[r], &opt);
				d = check_epoch(l, &kinds[k], rows[r]);
				first = threads == 1 ? d : first;
				assert_true(d == first);
				d = check_epoch(l, &kinds[k], rows[r]);
				assert_true(d != first);
				mr_loader_close(l);
			}
		}
	}
}

static void test_sequential_order_delivers_in_order(void **state)
{
	struct mr_options opt = options(4);
	struct mr_loader *l;
	struct mr_batch *b;
	uint64_t at = 0;

	(void)state;
	opt.order = MR_ORDER_SEQUENTIAL;
	l = must_open(arrays("| batch 10"), &opt);
	while ((b = must_next(l))) {
		for (uint64_t i = 0; i < mr_batch_count(b); i++)
			assert_int_equal(mr_batch_indices(b)[i], at++);
		check_arrays(b);
		mr_batch_release(b);
	}
	assert_int_equal(at, N);
	mr_loader_close(l);
}

static void test_without_batch_samples_come_singly(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l = must_open(arrays(""), &opt);
	struct mr_batch *b;
	int n = 0;

	(void)state;
	for (; (b = must_next(l)); n++) {
		assert_int_equal(mr_batch_count(b), 1);
		check_arrays(b);
		mr_batch_release(b);
	}
	assert_int_equal(n, N);
	mr_loader_close(l);
}

static void test_select_changes_the_fields_of_a_batch(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l;
	struct mr_batch *b;

	(void)state;
	l = must_open(files("| cast i16 | select label,data | batch 16"), &opt);
	while ((b = must_next(l))) {
		const struct mr_field *x = mr_batch_field(b, 1);
		const int16_t *v = x->tensor.data;

		assert_int_equal(mr_batch_fields(b), 2);
		assert_null(mr_batch_field(b, 2));
		assert_string_equal(mr_batch_field(b, 0)->name, "label");
		assert_string_equal(x->name, "data");
		assert_null(mr_batch_find(b, "lable"));
		for (uint64_t i = 0; i < mr_batch_count(b); i++)
			for (int64_t k = x->offsets[i]; k < x->offsets[i + 1];
			     k++)
				assert_int_equal(
					v[k],
					byte_at(mr_batch_indices(b)[i],
						(size_t)(k - x->offsets[i])));
		mr_batch_release(b);
	}
	mr_loader_close(l);
	l = must_open(files("| select label | batch 16"), &opt);
	b = must_next(l);
	assert_int_equal(mr_batch_fields(b), 1);
	mr_batch_release(b);
	mr_loader_close(l);
}

static void test_ranks_deliver_each_sample_once_together(void **state)
{
	uint8_t seen[N] = { 0 };

	(void)state;
	for (int r = 0; r < 3; r++) {
		struct mr_options opt = options(2);
		struct mr_loader *l;
		struct mr_batch *b;

		opt.rank = r;
		opt.ranks = 3;
		l = must_open(arrays("| batch 16"), &opt);
		while ((b = must_next(l))) {
			check_arrays(b);
			for (uint64_t i = 0; i < mr_batch_count(b); i++)
				seen[mr_batch_indices(b)[i]]++;
			mr_batch_release(b);
		}
		mr_loader_close(l);
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(seen[i], 1);
}

/* ---- how long a batch lives ---- */

static void test_batches_held_stay_valid_and_distinct(void **state)
{
	(void)state;
	for (size_t k = 0; k < MR_COUNT(kinds); k++) {
		struct mr_options opt = options(3);
		struct mr_loader *l = open_kind(&kinds[k], 7, &opt);
		struct mr_batch *held[2 * SEVENS], *b;
		size_t n = 0;

		for (int epoch = 0; epoch < 2; epoch++)
			while ((b = must_next(l)))
				held[n++] = b;
		assert_int_equal(n, MR_COUNT(held));
		for (size_t i = 0; i < n; i++) {
			kinds[k].check(held[i]);
			assert_int_equal(mr_batch_number(held[i]), i % SEVENS);
			assert_int_equal(mr_batch_epoch(held[i]), i / SEVENS);
		}
		mr_loader_close(l);
		for (size_t i = 0; i < n; i++) {
			kinds[k].check(held[i]);
			mr_batch_release(held[i]);
		}
	}
}

static void test_a_batch_lives_until_its_last_reference_goes(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l = must_open(arrays("| batch 7"), &opt);
	struct mr_batch *kept = must_next(l), *b;
	uint64_t digest = mr_batch_digest(kept, 0);

	(void)state;
	mr_batch_ref(kept);
	mr_batch_release(kept);
	for (int i = 0; i < 100; i++)
		if ((b = must_next(l)))
			mr_batch_release(b);
	assert_true(mr_batch_digest(kept, 0) == digest);
	mr_loader_close(l);
	assert_true(mr_batch_digest(kept, 0) == digest);
	mr_batch_release(kept);
	mr_batch_release(NULL);
}

static void *release_all(void *arg)
{
	struct mr_batch **b = arg;

	for (; *b; b++) {
		check_arrays(*b);
		mr_batch_release(*b);
	}
	return NULL;
}

static void test_another_thread_may_release(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l = must_open(arrays("| batch 3"), &opt);

	(void)state;
	for (int round = 0; round < 50; round++) {
		struct mr_batch *b[6] = { NULL };
		pthread_t t;

		for (int i = 0; i < 5; i++)
			while (!(b[i] = must_next(l)))
				;
		assert_int_equal(pthread_create(&t, NULL, release_all, b), 0);
		for (int i = 0; i < 3; i++) {
			struct mr_batch *mine = must_next(l);

			if (mine)
				check_arrays(mine);
			mr_batch_release(mine);
		}
		pthread_join(t, NULL);
	}
	mr_loader_close(l);
}

/* ---- closing ---- */

static void test_closing_at_any_time_stops_cleanly(void **state)
{
	(void)state;
	mr_loader_close(NULL);
	for (int i = 0; i < 150; i++) {
		struct mr_options opt = options(1 + i % 8);
		struct mr_loader *l =
			open_kind(&kinds[i % 3], 1 + i % 40, &opt);

		opt.fetch = i % 3;
		for (int k = 0; k < i % 5; k++)
			mr_batch_release(must_next(l));
		mr_loader_close(l);
	}
}

static void test_a_forked_child_is_told_so(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l = must_open(arrays("| batch 7"), &opt);
	int status;
	pid_t pid;

	(void)state;
	mr_batch_release(must_next(l));
	pid = fork();
	if (pid == 0) {
		struct mr_err err = { 0 };
		struct mr_batch *b;
		int e = mr_loader_next(l, &b, &err);

		mr_loader_close(l);
		_exit(e == MR_ESTATE && strstr(err.text, "fork") ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	mr_batch_release(must_next(l));
	mr_loader_close(l);
}

/* ---- options that cannot be ---- */

static void refuse(struct mr_options opt, const char *text, int code)
{
	struct mr_loader *l = (void *)&l;
	struct mr_err err = { 0 };

	assert_int_equal(mr_loader_open_with(&l, text, &opt, &err), code);
	assert_int_equal(err.code, code);
	assert_true(err.text[0]);
	assert_null(l);
}

static void test_options_out_of_range_are_refused(void **state)
{
	struct mr_options opt = options(1);
	const char *text = arrays("| batch 4");

	(void)state;
	opt.rank = 1;
	refuse(opt, text, MR_EINVAL);
	opt.rank = -1;
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	opt.ranks = 0;
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	opt.ranks = 1000; /* no sample for the last */
	opt.rank = 999;
	refuse(opt, text, MR_EDATA);
	opt = options(1);
	opt.size = 8;
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	opt.memory = 1000;
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	refuse(opt, arrays("| batch 1000 drop_last=yes"), MR_EDATA);
	refuse(opt, "synthetic 10000000 | batch 100", MR_ELIMIT);
}

/* A program in C fills the structure itself: no table has checked it. */
static void test_options_that_no_table_checked_are_refused(void **state)
{
	struct mr_options opt = options(1);
	const char *text = arrays("| batch 4");

	(void)state;
	opt.ranks = INT64_MAX / 2 + 1; /* times 4: 0 in 64 bits */
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	opt.order = MR_ORDER_BLOCK;
	opt.block = 0;
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	opt.order = 7;
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	opt.on_error = -1;
	refuse(opt, text, MR_EINVAL);
	opt = options(1);
	opt.fetch = 3;
	refuse(opt, text, MR_EINVAL);
	opt = options(-1);
	refuse(opt, text, MR_EINVAL);
}

/* ---- memory ---- */

static void check_memory(const char *text, uint64_t memory, int threads)
{
	struct mr_options opt = options(threads);
	struct mr_loader *l;
	struct mr_stats st;
	struct mr_batch *b;

	opt.memory = memory;
	opt.epochs = 1;
	l = must_open(text, &opt);
	mr_batch_release(must_next(l));
	usleep(20000); /* the workers fill all that they may */
	while ((b = must_next(l)))
		mr_batch_release(b);
	mr_loader_stats(l, &st);
	if (st.memory_peak > memory || !st.memory_peak)
		fail_msg("%s: %llu bytes at most, of %llu", text,
			 (unsigned long long)st.memory_peak,
			 (unsigned long long)memory);
	mr_loader_close(l);
}

static void test_dense_pipelines_stay_within_their_memory(void **state)
{
	(void)state;
	check_memory("synthetic 1000 count=20000 | batch 64", 4 << 20, 3);
	check_memory("synthetic 3000 count=3000 | batch 100", 1 << 20, 2);
	check_memory("synthetic 100000 count=500 | cast f32 | batch 4", 8 << 20,
		     2);
	check_memory("synthetic 1000000 count=60 | batch 5", 32 << 20, 2);
}

static void test_small_batches_stay_within_their_memory(void **state)
{
	(void)state;
	check_memory("synthetic 4 count=20000 | batch 1", 1 << 20, 2);
	check_memory("synthetic 100 count=20000 | batch 2", 2 << 20, 4);
}

/* ---- bad samples ---- */

/* A table of the files; numbers 3, 5 and 150 of it do not exist. */
static void put_list(void)
{
	char text[N * 16] = "";
	size_t n = 0;

	for (int i = 0; i < N; i++)
		n += (size_t)snprintf(
			text + n, sizeof(text) - n, "files/%s%03d\t%d\n",
			i == 3 || i == 5 || i == 150 ? "no" : "", i, i * 2);
	put("list.tsv", text, n);
}

static void check_bad(const struct mr_loader *l, size_t i, uint64_t index,
		      uint64_t epoch)
{
	struct mr_bad bad;

	assert_true(mr_loader_bad(l, i, &bad));
	assert_int_equal(bad.index, index);
	assert_int_equal(bad.epoch, epoch);
	assert_string_equal(bad.key, textf("files/no%03d", (int)index));
	assert_string_equal(bad.step, "read");
	assert_non_null(strstr(bad.reason, "No such file"));
}

/* As check_files(), but keys and labels are the table's. */
static void check_listed(const struct mr_batch *b)
{
	const struct mr_field *x = mr_batch_find(b, "data");
	const int64_t *y = mr_batch_find(b, "label")->tensor.data;

	for (uint64_t i = 0; i < mr_batch_count(b); i++) {
		uint64_t at = mr_batch_indices(b)[i];
		const uint8_t *v =
			(const uint8_t *)x->tensor.data + x->offsets[i];

		assert_int_equal(y[i], at * 2);
		assert_int_equal(x->shapes[i], file_bytes(at));
		for (size_t k = 0; k < file_bytes(at); k++)
			assert_int_equal(v[k], byte_at(at, k));
	}
}

static void test_bad_samples_are_skipped_and_listed_in_order(void **state)
{
	(void)state;
	put_list();
	for (int threads = 1; threads <= 4; threads++) {
		struct mr_options opt = options(threads);
		struct mr_loader *l;
		struct mr_batch *b;
		struct mr_stats st;
		struct mr_bad bad;
		uint64_t n = 0;

		opt.order = MR_ORDER_SEQUENTIAL;
		opt.on_error = MR_ON_ERROR_SKIP;
		opt.epochs = 2;
		l = must_open(textf("list %s/list.tsv | batch 8", top), &opt);
		for (int epoch = 0; epoch < 2; epoch++) {
			while ((b = must_next(l))) {
				check_listed(b);
				n += mr_batch_count(b);
				mr_batch_release(b);
			}
		}
		assert_int_equal(n, 2 * (N - 3));
		check_bad(l, 0, 3, 0);
		check_bad(l, 1, 5, 0);
		check_bad(l, 2, 150, 0);
		check_bad(l, 3, 3, 1);
		assert_true(mr_loader_bad(l, 5, &bad));
		assert_false(mr_loader_bad(l, 6, &bad));
		mr_loader_stats(l, &st);
		assert_int_equal(st.bad_samples, 6);
		assert_int_equal(st.samples, n);
		mr_loader_close(l);
	}
}

static void test_a_batch_of_bad_samples_alone_is_left_out(void **state)
{
	struct mr_options opt = options(2);
	struct mr_loader *l;
	struct mr_batch *b;
	int n = 0;

	(void)state;
	put_list();
	opt.on_error = MR_ON_ERROR_SKIP;
	l = must_open(textf("list %s/list.tsv", top), &opt);
	for (; (b = must_next(l)); n++) {
		assert_int_equal(mr_batch_count(b), 1);
		mr_batch_release(b);
	}
	assert_int_equal(n, N - 3);
	mr_loader_close(l);
}

/* However many batches there are of which nothing is left. */
static void test_waiting_for_batches_of_bad_samples_has_its_limit(void **state)
{
	struct mr_options opt = options(2);
	char text[N * 16] = "";
	struct mr_loader *l;
	struct mr_batch *b;
	struct mr_err err;
	size_t n = 0;

	(void)state;
	for (int i = 0; i < N; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "no%d\n", i);
	put("none.tsv", text, n);
	opt.on_error = MR_ON_ERROR_SKIP;
	l = must_open(textf("list %s/none.tsv", top), &opt);
	for (uint64_t calls = 1;; calls++) {
		struct mr_state at;
		int e = mr_loader_wait(l, &b, 0, &err);

		if (e == MR_END)
			break;
		assert_int_equal(e, MR_AGAIN);
		mr_loader_state(l, &at);
		assert_true(at.epoch * N + at.batch <= calls);
		if (calls == 1)
			usleep(50 * 1000); /* until some are there */
	}
	mr_loader_close(l);
}

static void test_a_bad_sample_stops_the_loader_for_good(void **state)
{
	(void)state;
	put_list();
	for (int threads = 1; threads <= 4; threads++) {
		struct mr_options opt = options(threads);
		struct mr_err err = { 0 }, again = { 0 };
		struct mr_state st;
		struct mr_loader *l;
		struct mr_batch *b;
		int n = 0, e;

		opt.order = MR_ORDER_SEQUENTIAL;
		l = must_open(textf("list %s/list.tsv | batch 3", top), &opt);
		while ((e = mr_loader_next(l, &b, &err)) == 0) {
			n++;
			mr_batch_release(b);
		}
		assert_int_equal(e, MR_EIO);
		assert_int_equal(n, 1);
		assert_non_null(strstr(err.text, "files/no003"));
		assert_int_equal(mr_loader_next(l, &b, &again), e);
		assert_string_equal(err.text, again.text);
		/* It stands before the batch that was not given. */
		mr_loader_state(l, &st);
		assert_int_equal(st.batch, 1);
		mr_loader_close(l);
	}
}

static void test_replaced_samples_are_the_same_with_any_threads(void **state)
{
	uint64_t first = 0;

	(void)state;
	put_list();
	for (int threads = 1; threads <= 4; threads++) {
		struct mr_options opt = options(threads);
		struct mr_loader *l;
		struct mr_batch *b;
		struct mr_bad bad;
		uint64_t d = 0, n = 0;

		opt.on_error = MR_ON_ERROR_REPLACE;
		l = must_open(textf("list %s/list.tsv | batch 8", top), &opt);
		while ((b = must_next(l))) {
			check_listed(b);
			n += mr_batch_count(b);
			d = mr_batch_digest(b, d);
			mr_batch_release(b);
		}
		assert_int_equal(n, N);
		assert_true(mr_loader_bad(l, 2, &bad));
		assert_false(mr_loader_bad(l, 3, &bad));
		first = first ? first : d;
		assert_true(d == first);
		mr_loader_close(l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_sample_is_right_with_any_threads),
		cmocka_unit_test(test_sequential_order_delivers_in_order),
		cmocka_unit_test(test_without_batch_samples_come_singly),
		cmocka_unit_test(test_select_changes_the_fields_of_a_batch),
		cmocka_unit_test(test_ranks_deliver_each_sample_once_together),
		cmocka_unit_test(test_batches_held_stay_valid_and_distinct),
		cmocka_unit_test(
			test_a_batch_lives_until_its_last_reference_goes),
		cmocka_unit_test(test_another_thread_may_release),
		cmocka_unit_test(test_closing_at_any_time_stops_cleanly),
		cmocka_unit_test(test_a_forked_child_is_told_so),
		cmocka_unit_test(test_options_out_of_range_are_refused),
		cmocka_unit_test(
			test_options_that_no_table_checked_are_refused),
		cmocka_unit_test(test_dense_pipelines_stay_within_their_memory),
		cmocka_unit_test(test_small_batches_stay_within_their_memory),
		cmocka_unit_test(
			test_bad_samples_are_skipped_and_listed_in_order),
		cmocka_unit_test(test_a_batch_of_bad_samples_alone_is_left_out),
		cmocka_unit_test(
			test_waiting_for_batches_of_bad_samples_has_its_limit),
		cmocka_unit_test(test_a_bad_sample_stops_the_loader_for_good),
		cmocka_unit_test(
			test_replaced_samples_are_the_same_with_any_threads),
	};

	return cmocka_run_group_tests(tests, make_data, remove_top);
}
