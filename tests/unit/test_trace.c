/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: what is written is read, whatever becomes of the file; and what
 * they say of batches whose ways are known. */
#include "scratch.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "analyze/summary.h"
#include "trace/merge.h"
#include "trace/recorder.h"

enum { MS = 1000000 };

#define SECOND ((uint64_t)1000 * MS)

static struct mr_clock ns_clock; /* its ticks are nanoseconds */
static uint64_t now;		 /* the zero of a test's times */
static char path[128];

static struct mr_recorder *begin(int threads)
{
	struct mr_mrt_header h;
	struct mr_recorder *r;
	struct mr_err err;

	snprintf(path, sizeof(path), "%s/t.mrt", top);
	ns_clock.ns0 = ns_clock.tick0 = mr_clock_ns();
	now = mr_clock_ns();
	mr_mrt_now(&h);
	assert_int_equal(
		mr_recorder_new(&r, path, &h, &ns_clock, threads, &err), 0);
	return r;
}

static struct mr_ring *ring(struct mr_recorder *r, const char *role,
			    const char *name)
{
	struct mr_err err;
	struct mr_ring *g = mr_recorder_ring(r, &err);

	assert_non_null(g);
	mr_recorder_thread(r, g, role, name);
	return g;
}

/* From `start` to `end` milliseconds after the beginning. */
static void span(struct mr_ring *g, unsigned kind, double start, double end,
		 uint64_t sample, uint64_t batch, uint8_t step)
{
	mr_ring_put(g, &(struct mr_span){ .start = now + (uint64_t)(start * MS),
					  .end = now + (uint64_t)(end * MS),
					  .sample = sample,
					  .batch = batch,
					  .bytes = 7,
					  .kind = (uint8_t)kind,
					  .step = step });
}

static size_t key(const void *self, uint64_t sample, char *buf, size_t cap)
{
	(void)self;
	return (size_t)snprintf(buf, cap, "photo-%llu.jpg",
				(unsigned long long)sample);
}

static struct mr_recorded end(struct mr_recorder *r)
{
	struct mr_recorded out;

	mr_recorder_close(r, key, NULL, &out);
	return out;
}

static void read_back(struct mr_trace *t)
{
	struct mr_err err;

	if (mr_trace_read(t, path, &err))
		fail_msg("%s", err.text);
}

/* ---- known answers ---- */

/*
 * Two workers and a consumer that is always there. Worker 1 makes batch 0 in
 * 100 ms; worker 2 batches 1 and 2 in 20 ms each, which lie ready from 20 and
 * 40 ms on.
 */
static void record_out_of_order(void)
{
	struct mr_recorder *r = begin(3);
	struct mr_ring *a = ring(r, "worker", "worker 1");
	struct mr_ring *b = ring(r, "worker", "worker 2");
	struct mr_ring *c = ring(r, "consumer", "consumer");

	mr_recorder_name(r, 1, "decode");
	for (int i = 0; i < 2; i++) {
		span(b, MR_SPAN_STEP, 20 * i, 20 * i + 5, i, 1 + i, 0);
		span(b, MR_SPAN_STEP, 20 * i + 5, 20 * i + 19, i, 1 + i, 1);
		span(b, MR_SPAN_SAMPLE, 20 * i, 20 * i + 19, i, 1 + i, 0);
		span(b, MR_SPAN_COLLATE, 20 * i + 19, 20 * i + 20, MR_NO_SAMPLE,
		     1 + i, 0);
		span(b, MR_SPAN_BATCH, 20 * i, 20 * i + 20, MR_NO_SAMPLE, 1 + i,
		     0);
		span(b, MR_SPAN_WORK, 20 * i, 20 * i + 20, MR_NO_SAMPLE, 1 + i,
		     0);
	}
	span(b, MR_SPAN_WAIT_OUT, 40, 90, MR_NO_SAMPLE, 3, 0);
	span(b, MR_SPAN_WORK, 40, 90, MR_NO_SAMPLE, 3, 0);
	span(a, MR_SPAN_STEP, 0, 10, 9, 0, 0);
	span(a, MR_SPAN_STEP, 10, 95, 9, 0, 1);
	span(a, MR_SPAN_SAMPLE, 0, 95, 9, 0, 0);
	span(a, MR_SPAN_BATCH, 0, 100, MR_NO_SAMPLE, 0, 0);
	span(a, MR_SPAN_WORK, 0, 100, MR_NO_SAMPLE, 0, 0);
	span(c, MR_SPAN_NEXT, 0, 100, MR_NO_SAMPLE, 0, 0);
	span(c, MR_SPAN_CONSUME, 100, 110, MR_NO_SAMPLE, 0, 0);
	span(c, MR_SPAN_NEXT, 110, 110, MR_NO_SAMPLE, 1, 0);
	span(c, MR_SPAN_CONSUME, 110, 120, MR_NO_SAMPLE, 1, 0);
	span(c, MR_SPAN_NEXT, 120, 120, MR_NO_SAMPLE, 2, 0);
	assert_int_equal(end(r).lost, 0);
}

#define NEAR(a, b) assert_true((a) > (b)-1e-6 && (a) < (b) + 1e-6)

static void test_batches_out_of_order_are_blamed_on_the_one_before(void **s)
{
	struct mr_trace t;

	(void)s;
	record_out_of_order();
	read_back(&t);
	assert_int_equal(t.batches, 3);
	assert_int_equal(t.samples, 3);
	assert_true(t.whole && !t.cut);
	assert_int_equal(t.late, 1);
	assert_true(t.batch[0].late && !t.batch[1].late && !t.batch[2].late);
	/* 100 ms of waiting, of which batch 1 lay ready for 80 */
	assert_int_equal(t.blocked, 80 * MS);
	assert_int_equal(t.batch[0].blocked, 80 * MS);
	assert_string_equal(t.thread[t.batch[0].thread].is.name, "worker 1");
	assert_int_equal(t.wait.total, 100 * MS);
	assert_int_equal(t.delay.total, (90 + 80) * MS);
	assert_int_equal(t.prepare.total, 140 * MS);
	assert_int_equal(t.consume.total, 20 * MS);
	mr_trace_fini(&t);
}

static void test_steps_and_the_budget_add_up(void **s)
{
	struct mr_trace t;

	(void)s;
	record_out_of_order();
	read_back(&t);
	assert_int_equal(t.of_step[0].n, 3);
	assert_int_equal(t.of_step[0].total, 20 * MS);
	assert_int_equal(t.of_step[1].total, (85 + 28) * MS);
	assert_int_equal(t.step_bytes[1], 21);
	assert_string_equal(mr_trace_step_name(&t, 1), "decode");
	NEAR(t.seconds, 0.120);
	assert_int_equal(t.workers, 2);
	NEAR(t.budget.fetch, 0.020);
	NEAR(t.budget.steps, 0.113);
	NEAR(t.budget.samples, 0.000);
	NEAR(t.budget.collate, 0.002);
	NEAR(t.budget.wait_out, 0.050);
	NEAR(t.budget.engine, 0.005);
	NEAR(t.budget.unattributed, 0.020 + 0.030);
	NEAR(t.waiting_consumer, 0.100);
	NEAR(t.busy_consumer, 0.020);
	mr_trace_fini(&t);
}

static void test_the_slowest_samples_have_names_and_steps(void **s)
{
	struct mr_trace t;

	(void)s;
	record_out_of_order();
	read_back(&t);
	assert_int_equal(t.slow, 3);
	assert_int_equal(t.slowest[0].sample, 9);
	assert_int_equal(t.slowest[0].ns, 95 * MS);
	assert_int_equal(t.slowest[0].step, 1);
	assert_int_equal(t.slowest[0].step_ns, 85 * MS);
	assert_string_equal(t.slowest[0].key, "photo-9.jpg");
	assert_int_equal(t.slowest[1].ns, 19 * MS);
	mr_trace_fini(&t);
}

static void say(struct mr_recorder *r, const char *meta)
{
	assert_true(mr_recorder_chunk(r, "META", 0, meta, strlen(meta)));
}

/* Of a script's stream: samples without numbers, of 10, 11 and 5 ms. */
static void record_stream(void)
{
	struct mr_recorder *r = begin(2);
	struct mr_ring *w = ring(r, "worker", "worker 0");

	say(r, "{\"foreign\": true}");
	mr_recorder_name(r, 1, "resize");
	span(w, MR_SPAN_WAIT_IN, 0, 2, MR_NO_SAMPLE, 0, 0);
	span(w, MR_SPAN_STEP, 3, 12, MR_NO_SAMPLE, 0, 1);
	span(w, MR_SPAN_SAMPLE, 2, 12, MR_NO_SAMPLE, 0, 0);
	span(w, MR_SPAN_STEP, 12, 14, MR_NO_SAMPLE, 0, 1);
	span(w, MR_SPAN_SAMPLE, 12, 23, MR_NO_SAMPLE, 0, 0);
	span(w, MR_SPAN_STEP, 23, 27, MR_NO_SAMPLE, 0, 0);
	span(w, MR_SPAN_SAMPLE, 23, 28, MR_NO_SAMPLE, 0, 0);
	span(w, MR_SPAN_COLLATE, 28, 31, MR_NO_SAMPLE, 0, 0);
	span(w, MR_SPAN_BATCH, 2, 32, MR_NO_SAMPLE, 0, 0);
	assert_int_equal(end(r).lost, 0);
}

static void test_samples_without_numbers_hold_their_steps(void **s)
{
	static const int took[] = { 11, 10, 5 }, dearest[] = { 2, 9, 4 };
	struct mr_trace t;

	(void)s;
	record_stream();
	read_back(&t);
	NEAR(t.thread_seconds, 0.032);
	NEAR(t.budget.wait_in, 0.002);
	NEAR(t.budget.steps, 0.011);
	NEAR(t.budget.fetch, 0.004);
	NEAR(t.budget.samples, 0.011);
	NEAR(t.budget.collate, 0.003);
	NEAR(t.budget.engine, 0.001);
	NEAR(t.budget.unattributed, 0);
	assert_int_equal(t.slow, 3);
	/* each its own dearest step, not its batch's */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(t.slowest[i].ns, took[i] * MS);
		assert_int_equal(t.slowest[i].step_ns, dearest[i] * MS);
	}
	mr_trace_fini(&t);
}

static void test_no_number_is_not_told_as_one(void **s)
{
	struct mr_err err;
	char *text;

	(void)s;
	record_stream();
	for (int json = 0; json < 2; json++) {
		assert_int_equal(mr_trace_summary(path, json, &text, &err), 0);
		assert_null(strstr(text, "281474976710656"));
		assert_non_null(
			strstr(text, json ? "\"slowest\"" : "batch 0\n"));
		free(text);
	}
}

/* Of a script without workers: asking for a batch is making it. */
static void test_who_makes_its_batches_itself_has_time_of_its_own(void **s)
{
	struct mr_recorder *r = begin(1);
	struct mr_ring *c = ring(r, "consumer", "main");
	struct mr_trace t;

	(void)s;
	say(r, "{\"foreign\": true}");
	span(c, MR_SPAN_START, 0, 2, MR_NO_SAMPLE, MR_NO_BATCH, 0);
	span(c, MR_SPAN_SAMPLE, 3, 15, 0, 0, 0);
	span(c, MR_SPAN_COLLATE, 15, 19, MR_NO_SAMPLE, 0, 0);
	span(c, MR_SPAN_BATCH, 3, 20, MR_NO_SAMPLE, 0, 0);
	span(c, MR_SPAN_NEXT, 2, 22, MR_NO_SAMPLE, 0, 0);
	span(c, MR_SPAN_CONSUME, 22, 50, MR_NO_SAMPLE, 0, 0);
	assert_int_equal(end(r).lost, 0);
	read_back(&t);
	NEAR(t.thread_seconds, 0.050);
	NEAR(t.budget.samples, 0.012);
	NEAR(t.budget.collate, 0.004);
	NEAR(t.budget.engine, 0.006);
	NEAR(t.budget.consumer, 0.028);
	NEAR(t.budget.unattributed, 0);
	mr_trace_fini(&t);
}

static void test_quantiles_are_right_within_one_percent(void **s)
{
	struct mr_times t = { 0 };

	(void)s;
	for (uint64_t i = 1; i <= 100000; i++)
		assert_true(mr_times_add(&t, i * 1000));
	for (int q = 1; q < 100; q++) {
		double v = mr_times_quantile(&t, q / 100.0), is = q * 1e6;

		assert_true(v > is * 0.99 && v < is * 1.01);
	}
	assert_int_equal(t.below_100us, 99);
	assert_int_equal(t.below_10ms, 9999);
	assert_int_equal(t.most, 100000000);
	assert_true(mr_times_add(&t, UINT64_MAX));
	assert_true(mr_times_quantile(&t, 1) > 1e8);
	mr_times_fini(&t);
}

/* ---- ranks of several machines ---- */

/* A rank's trace: its machine had been up for so long when it began, at this
 * time of day; a consumer asks for a batch 500 ms later, and waits 100. */
static const char *rank_of(int rank, uint64_t boot, uint64_t up, uint64_t day)
{
	static char names[3][128];
	struct mr_mrt_header h = { .pid = 7,
				   .monotonic = up,
				   .realtime = day,
				   .boot = boot,
				   .rank = rank,
				   .ranks = 3 };
	struct mr_mrt_span s = { .start = up + 500 * MS,
				 .duration = 100 * MS,
				 .sample = MR_NO_SAMPLE,
				 .kind = MR_SPAN_NEXT };
	uint8_t b[MR_MRT_HEADER + 2 * MR_MRT_CHUNK + MR_MRT_SPAN + 64];
	const char *thread = "{\"name\": \"consumer\"}";
	size_t n = MR_MRT_HEADER, said = strlen(thread);
	uint8_t span_[MR_MRT_SPAN];

	mr_mrt_put_header(b, &h);
	mr_mrt_put_chunk(b + n, "THRD", 1, thread, said);
	memcpy(b + n + MR_MRT_CHUNK, thread, said);
	n += MR_MRT_CHUNK + said;
	mr_mrt_put_span(span_, &s);
	mr_mrt_put_chunk(b + n, "SPAN", 1, span_, sizeof(span_));
	memcpy(b + n + MR_MRT_CHUNK, span_, sizeof(span_));
	put(textf("rank%d.mrt", rank), b, n + MR_MRT_CHUNK + sizeof(span_));
	snprintf(names[rank], sizeof(names[0]), "%s/rank%d.mrt", top, rank);
	return names[rank];
}

/* Merged in this order, batch by batch: the times of day at which they were
 * asked for, which the merged trace alone tells. */
static void merge_ranks(const char *const *file, struct mr_trace *t,
			uint64_t *day)
{
	struct mr_merged got;
	struct mr_err err;

	snprintf(path, sizeof(path), "%s/all.mrt", top);
	if (mr_merge_ranks(file, 3, path, &got, &err))
		fail_msg("%s", err.text);
	assert_int_equal(got.n, 1);
	assert_string_equal(got.made[0].path, path);
	mr_merged_fini(&got);
	read_back(t);
	assert_int_equal(t->batches, 3);
	for (int i = 0; i < 3; i++)
		day[i] = t->batch[i].asked - t->header.monotonic +
			 t->header.realtime;
}

/*
 * Rank 0's machine was started when rank 1's trace had begun, on one that had
 * run for a day. Rank 2 is on that one, whose time of day was set by 10 ms in
 * between, which its other clock knows nothing of.
 */
static void test_ranks_of_other_machines_are_laid_on_one_clock(void **s)
{
	const uint64_t day = 1700000000 * SECOND, up = 86400 * SECOND;
	const char *file[] = {
		rank_of(0, 1, SECOND / 5, day + 2 * SECOND),
		rank_of(1, 2, up, day),
		rank_of(2, 2, up + 3 * SECOND, day + 3 * SECOND + 10 * MS),
	};
	const char *turned[] = { file[2], file[0], file[1] };
	const uint64_t asked = day + SECOND / 2;
	struct mr_trace t;
	uint64_t at[3];

	(void)s;
	merge_ranks(file, &t, at);
	assert_int_equal(at[0], asked + 2 * SECOND);
	assert_int_equal(at[1], asked);
	assert_int_equal(at[2], asked + 3 * SECOND);
	assert_int_equal(t.end - t.start, 3 * SECOND + 100 * MS);
	assert_int_equal(t.header.monotonic, up);
	assert_int_equal(t.header.boot, 2);
	/* of no rank; its threads are */
	assert_int_equal(t.header.rank, 0);
	assert_int_equal(t.header.ranks, 1);
	for (int i = 1; i <= 3; i++) {
		assert_true(t.thread[i].is.ranked);
		assert_int_equal(t.thread[i].is.rank, i - 1);
		assert_string_equal(t.thread[i].is.name,
				    textf("rank %d consumer", i - 1));
	}
	mr_trace_fini(&t);
	merge_ranks(turned, &t, at);
	assert_int_equal(at[0] - at[2], 3 * SECOND);
	assert_int_equal(at[1] - at[2], 2 * SECOND - 10 * MS);
	mr_trace_fini(&t);
}

/* ---- files that are not whole ---- */

/* What the reader makes of the first n bytes: spans, or -1. */
static long spans_of(size_t n)
{
	struct mr_trace t;
	struct mr_err err;
	long spans;

	assert_int_equal(truncate(path, (off_t)n), 0);
	if (mr_trace_read(&t, path, &err)) {
		assert_non_null(strstr(err.text, "not a trace"));
		return -1;
	}
	assert_true(t.whole == !t.cut);
	spans = (long)t.spans;
	mr_trace_fini(&t);
	return spans;
}

static void test_what_is_cut_off_is_read_up_to_there(void **s)
{
	struct stat st;
	long before;

	(void)s;
	record_out_of_order();
	assert_int_equal(stat(path, &st), 0);
	before = spans_of((size_t)st.st_size);
	assert_int_equal(before, 24);
	for (off_t n = st.st_size - 1; n >= 0; n--) {
		long spans = spans_of((size_t)n);

		assert_true(spans <= before);
		assert_int_equal(spans < 0, n < MR_MRT_HEADER);
		before = spans;
	}
}

/* Who wrote such numbers did not count to them. */
static void test_batches_far_apart_take_the_room_of_those_there_are(void **s)
{
	const uint64_t number[] = { 1u << 31, 0, (1u << 26) - 1,
				    UINT32_MAX - 1 };
	struct mr_recorder *r = begin(1);
	struct mr_ring *c = ring(r, "consumer", "consumer");
	struct mr_trace t;

	(void)s;
	for (int i = 0; i < 4; i++)
		span(c, MR_SPAN_NEXT, i, i + 1, MR_NO_SAMPLE, number[i], 0);
	assert_int_equal(end(r).lost, 0);
	read_back(&t);
	assert_int_equal(t.batches, 4);
	assert_true(t.batch_cap < 100);
	for (int i = 1; i < 4; i++)
		assert_true(t.batch[i - 1].number < t.batch[i].number);
	assert_int_equal(t.batch[3].number, UINT32_MAX - 1);
	assert_int_equal(t.wait.total, 4 * MS);
	mr_trace_fini(&t);
}

static void test_a_flipped_bit_ends_the_trace_there(void **s)
{
	struct stat st;
	char old, bad;
	int fd;

	(void)s;
	record_out_of_order();
	assert_int_equal(stat(path, &st), 0);
	fd = open(path, O_RDWR);
	for (off_t at = MR_MRT_HEADER; at < st.st_size; at++) {
		struct mr_trace t;
		struct mr_err err;

		assert_int_equal(pread(fd, &old, 1, at), 1);
		bad = (char)(old ^ 0x10);
		assert_int_equal(pwrite(fd, &bad, 1, at), 1);
		if (!mr_trace_read(&t, path, &err))
			mr_trace_fini(&t);
		else
			assert_non_null(strstr(err.text, "thread"));
		assert_int_equal(pwrite(fd, &old, 1, at), 1);
	}
	close(fd);
	assert_int_equal(spans_of((size_t)st.st_size), 24);
}

/* ---- many spans ---- */

struct flood {
	struct mr_ring *ring;
	uint64_t n;
};

static void *flood(void *arg)
{
	struct flood *f = arg;

	for (uint64_t i = 0; i < f->n; i++)
		span(f->ring, MR_SPAN_SAMPLE, 0, 1, i, 0, 0);
	return NULL;
}

static void test_each_span_is_written_or_counted_as_lost(void **s)
{
	enum { THREADS = 3, EACH = 400000 };
	struct mr_recorder *r = begin(THREADS);
	struct flood f[THREADS];
	pthread_t thread[THREADS];
	struct mr_recorded out;
	struct mr_trace t;

	(void)s;
	for (int i = 0; i < THREADS; i++) {
		f[i] = (struct flood){ ring(r, "worker", "w"), EACH };
		pthread_create(&thread[i], NULL, flood, &f[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	out = end(r);
	assert_int_equal(out.spans + out.lost, THREADS * EACH);
	read_back(&t);
	assert_int_equal(t.spans, out.spans);
	assert_int_equal(t.lost, out.lost);
	mr_trace_fini(&t);
}

static void test_a_full_disk_ends_the_trace_alone(void **s)
{
	struct mr_mrt_header h;
	struct mr_recorder *r;
	struct mr_err err;

	(void)s;
	mr_mrt_now(&h);
	assert_int_not_equal(
		mr_recorder_new(&r, "/dev/full", &h, &ns_clock, 1, &err), 0);
	assert_non_null(strstr(err.text, "/dev/full"));
	assert_int_not_equal(mr_recorder_new(&r, "/no/such/dir/x.mrt", &h,
					     &ns_clock, 1, &err),
			     0);
	assert_non_null(strstr(err.text, "/no/such/dir/x.mrt"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_batches_out_of_order_are_blamed_on_the_one_before),
		cmocka_unit_test(test_steps_and_the_budget_add_up),
		cmocka_unit_test(test_the_slowest_samples_have_names_and_steps),
		cmocka_unit_test(test_samples_without_numbers_hold_their_steps),
		cmocka_unit_test(test_no_number_is_not_told_as_one),
		cmocka_unit_test(
			test_who_makes_its_batches_itself_has_time_of_its_own),
		cmocka_unit_test(test_quantiles_are_right_within_one_percent),
		cmocka_unit_test(
			test_ranks_of_other_machines_are_laid_on_one_clock),
		cmocka_unit_test(test_what_is_cut_off_is_read_up_to_there),
		cmocka_unit_test(
			test_batches_far_apart_take_the_room_of_those_there_are),
		cmocka_unit_test(test_a_flipped_bit_ends_the_trace_there),
		cmocka_unit_test(test_each_span_is_written_or_counted_as_lost),
		cmocka_unit_test(test_a_full_disk_ends_the_trace_alone),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
