/* SPDX-License-Identifier: Apache-2.0 */
/* The model of storage, in times that the test makes up; profiles as texts;
 * what is held back; eviction; and loaders on storage that is very slow. */
#include "scratch.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "core/clock.h"
#include "core/mem.h"
#include "io/evict.h"
#include "io/shape.h"
#include "pipe/depth.h"
#include "pipe/held.h"

#define MS 1000000ull
#define S  1000000000ull

/* Any time: the model must not depend on when it began. */
#define T0 (123456789ull * S + 7)

static struct mr_shape shape_of(const char *text)
{
	struct mr_profile p;
	struct mr_shape s;
	struct mr_err err;

	if (mr_profile_parse(&p, text, &err))
		fail_msg("%s", err.text);
	mr_shape_init(&s, &p, T0);
	return s;
}

/* When a request is done, from T0 on. */
static uint64_t due(struct mr_shape *s, uint64_t at, uint64_t bytes)
{
	return mr_shape_due(s, T0 + at, bytes) - T0;
}

/* ---- the model ---- */

static void test_without_limits_nothing_waits(void **state)
{
	struct mr_shape s = shape_of("bw=0");

	(void)state;
	for (uint64_t t = 0; t < 100; t++)
		assert_int_equal(due(&s, t, 1 << 30), t);
	mr_shape_fini(&s);
}

static void test_latency_is_waited_for_by_all_at_once(void **state)
{
	struct mr_shape s = shape_of("latency=5ms");

	(void)state;
	assert_int_equal(due(&s, 0, 1000), 5 * MS);
	assert_int_equal(due(&s, 0, 1000), 5 * MS);
	assert_int_equal(due(&s, 3 * MS, 1 << 30), 8 * MS);
	mr_shape_fini(&s);
}

static void test_turns_come_at_the_rate_of_iops(void **state)
{
	struct mr_shape s = shape_of("iops=200,latency=1ms");

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(due(&s, 0, 0), i * 5 * MS + MS);
	mr_shape_fini(&s);
}

static void test_one_request_is_as_slow_as_a_stream(void **state)
{
	struct mr_shape s = shape_of("bw=1000K,stream=100K");

	(void)state;
	/* Ten at once fill the line; each takes a second. */
	for (int i = 0; i < 10; i++)
		assert_int_equal(due(&s, 0, 100 << 10), S);
	/* The eleventh waits for the line. */
	assert_int_equal(due(&s, 0, 100 << 10), S + 100 * MS);
	mr_shape_fini(&s);
}

static void test_all_requests_together_get_the_bandwidth(void **state)
{
	struct mr_shape s = shape_of("bw=1M,latency=10ms");
	uint64_t n = 1000;

	(void)state;
	for (uint64_t i = 1; i <= n; i++) {
		uint64_t want = 10 * MS + (uint64_t)((double)i * 1e9 / 1024);

		assert_in_range(due(&s, 0, 1 << 10), want - 2, want + 2);
	}
	mr_shape_fini(&s);
}

static void test_idle_time_gives_no_credit(void **state)
{
	struct mr_shape s = shape_of("iops=100,bw=1M");

	(void)state;
	assert_int_equal(due(&s, 0, 0), 0);
	assert_int_equal(due(&s, 10 * S, 0), 10 * S);
	assert_int_equal(due(&s, 10 * S, 0), 10 * S + 10 * MS);
	assert_int_equal(due(&s, 20 * S, 1 << 20), 21 * S);
	assert_int_equal(due(&s, 20 * S, 1 << 20), 22 * S);
	mr_shape_fini(&s);
}

static void test_a_pause_has_no_limits_and_counts_nothing(void **state)
{
	struct mr_shape s = shape_of("iops=100,latency=1ms");
	uint64_t n, bytes;

	(void)state;
	mr_shape_pause(&s, true);
	for (int i = 0; i < 50; i++)
		assert_int_equal(due(&s, 0, 1000), 0);
	mr_shape_count(&s, &n, &bytes);
	assert_true(n == 0 && bytes == 0);
	mr_shape_pause(&s, false);
	assert_int_equal(due(&s, 0, 1000), MS);
	assert_int_equal(due(&s, 0, 1000), 11 * MS);
	mr_shape_count(&s, &n, &bytes);
	assert_true(n == 2 && bytes == 2000);
	mr_shape_fini(&s);
}

/* As one thread would read: the next when the last is there. */
static uint64_t one_by_one(const char *profile, int n, uint64_t bytes)
{
	struct mr_shape s = shape_of(profile);
	uint64_t t = 0;

	for (int i = 0; i < n; i++)
		t = due(&s, t, bytes);
	mr_shape_fini(&s);
	return t;
}

/* ---- the page cache ---- */

static void test_a_page_cache_answers_what_was_read_of_late(void **state)
{
	struct mr_shape s = shape_of("hdd,cache=1000");
	uint64_t n, bytes;

	(void)state;
	assert_int_equal(s.p.bw, 200000000);
	assert_false(mr_shape_cached(&s, 1, 400));
	assert_false(mr_shape_cached(&s, 2, 400));
	assert_true(mr_shape_cached(&s, 1, 400));
	assert_false(mr_shape_cached(&s, 3, 400)); /* 2 gives way to it */
	assert_true(mr_shape_cached(&s, 1, 400));
	assert_false(mr_shape_cached(&s, 2, 400)); /* and 3 to 2 */
	assert_false(mr_shape_cached(&s, 3, 400));
	/* more of it than was read, less of it, and more than there is room */
	assert_false(mr_shape_cached(&s, 3, 500));
	assert_true(mr_shape_cached(&s, 3, 300));
	assert_false(mr_shape_cached(&s, 4, 1001));
	assert_false(mr_shape_cached(&s, 4, 1001));
	assert_true(mr_shape_cached(&s, 3, 500));
	/* nothing is what could not be read */
	assert_false(mr_shape_cached(&s, 5, 0));
	assert_false(mr_shape_cached(&s, 5, 0));
	mr_shape_hits(&s, &n, &bytes);
	assert_int_equal(n, 4);
	assert_int_equal(bytes, 1600);
	mr_shape_count(&s, &n, &bytes);
	assert_int_equal(n, 0);
	mr_shape_fini(&s);
}

static void test_without_a_page_cache_nothing_is_held(void **state)
{
	struct mr_shape s = shape_of("hdd");

	(void)state;
	assert_false(mr_shape_cached(&s, 1, 1));
	assert_false(mr_shape_cached(&s, 1, 1));
	mr_shape_fini(&s);
}

static void test_extents_are_told_apart_by_file_and_offset(void **state)
{
	struct mr_extent a = { .fd = 3, .offset = 10 }, b = a, c = a, d = a;

	(void)state;
	b.offset = 11;
	c.fd = 4;
	d.fd = -1;
	assert_true(mr_shape_key(&a, "x") == mr_shape_key(&a, "y"));
	assert_true(mr_shape_key(&a, "x") != mr_shape_key(&b, "x"));
	assert_true(mr_shape_key(&a, "x") != mr_shape_key(&c, "x"));
	assert_true(mr_shape_key(&d, "x") != mr_shape_key(&d, "y"));
	assert_true(mr_shape_key(&d, "x") == mr_shape_key(&d, "x"));
}

static void test_neighbours_are_held_one_by_one(void **state)
{
	struct mr_shape s = shape_of("cache=1000");
	struct mr_extent x = { .fd = 3, .offset = 100, .length = 310 };
	const struct mr_piece a[] = { { 100, 100 },
				      { 200, 100 },
				      { 310, 100 } };
	const struct mr_piece b[] = { { 200, 100 },
				      { 310, 100 },
				      { 410, 100 } };
	uint64_t n, bytes;

	(void)state;
	assert_int_equal(mr_shape_missing(&s, &x, a, 3), 310);
	/* the same ones, with the gap between them */
	assert_int_equal(mr_shape_missing(&s, &x, a, 3), 0);
	/* another run: one of three is new */
	x.offset = 200;
	assert_int_equal(mr_shape_missing(&s, &x, b, 3), 110);
	/* and alone */
	x.offset = 410;
	assert_true(mr_shape_cached(&s, mr_shape_key(&x, ""), 100));
	mr_shape_hits(&s, &n, &bytes);
	assert_int_equal(n, 2);
	assert_int_equal(bytes, 300 + 200 + 100);
	mr_shape_fini(&s);
}

enum { FILES = 5000, WARM = 2, EPOCHS = 6 };

/* The share of hits when each epoch reads all files once, in a new order,
 * through a page cache that has room for `held` of them. */
static double shuffled_hits(uint64_t held)
{
	struct mr_shape s = shape_of(
		textf("cache=%llu", (unsigned long long)(held * 1000)));
	static uint64_t file[FILES];
	uint64_t seed = 5, hits = 0;

	for (uint64_t i = 0; i < FILES; i++)
		file[i] = i;
	for (int epoch = 0; epoch < WARM + EPOCHS; epoch++) {
		for (uint64_t i = FILES - 1; i > 0; i--) {
			uint64_t k = draw(&seed) % (i + 1), was = file[i];

			file[i] = file[k];
			file[k] = was;
		}
		for (uint64_t i = 0; i < FILES; i++)
			if (mr_shape_cached(&s, file[i], 1000) && epoch >= WARM)
				hits++;
	}
	assert_true(s.cache.bytes <= held * 1000);
	mr_shape_fini(&s);
	return (double)hits / (FILES * EPOCHS);
}

static void test_shuffled_reads_thrash_a_page_cache(void **state)
{
	(void)state;
	/* c + (1 - c) ln(1 - c) for room for a share of c: far less than c */
	for (int percent = 10; percent < 100; percent += 20) {
		double c = percent / 100.0;
		double want = c + (1 - c) * log(1 - c);
		double got = shuffled_hits(FILES * (uint64_t)percent / 100);

		assert_true(fabs(got - want) < 0.02);
	}
	assert_true(shuffled_hits(FILES) > 0.9999);
}

static void test_presets_are_what_the_table_says(void **state)
{
	(void)state;
	/* One at a time: 10 ms and 100 KB at 219 MB/s. */
	assert_in_range(one_by_one("ceph-hdd", 100, 100000), 1045 * MS,
			1046 * MS);
	assert_in_range(one_by_one("hdd", 100, 0), 1200 * MS, 1200 * MS + 1);
	assert_in_range(one_by_one("ssd", 10000, 0), 999 * MS, 1001 * MS);
	assert_in_range(one_by_one("nvme,latency=0", 65, 100000000),
			1000 * MS - 100, 1000 * MS + 100);
	assert_in_range(one_by_one("s3", 10, 90000000), 10300 * MS - 100,
			10300 * MS + 100);
	for (size_t i = 0; mr_profile_name(i); i++) {
		struct mr_shape s = shape_of(mr_profile_name(i));

		assert_true(s.p.bw && s.p.iops > 0 && s.p.latency > 0);
		mr_shape_fini(&s);
	}
}

static void test_what_is_allowed_is_the_lower_limit(void **state)
{
	struct mr_shape s = shape_of("ceph-hdd"), none = shape_of("bw=0");
	uint64_t n, bytes;

	(void)state;
	assert_in_range((uint64_t)mr_profile_allows(&s.p, 10, 1000000),
			159999999, 160000001);
	assert_in_range((uint64_t)mr_profile_allows(&s.p, 1, 10000000),
			909999999, 910000001);
	assert_true(mr_profile_allows(&none.p, 1, 10000000) == 0);
	assert_true(mr_profile_allows(&s.p, 0, 0) == 0);
	due(&s, 0, 5);
	due(&s, 0, 7);
	mr_shape_count(&s, &n, &bytes);
	assert_int_equal(n, 2);
	assert_int_equal(bytes, 12);
	mr_shape_fini(&s);
	mr_shape_fini(&none);
}

/* ---- texts ---- */

static void test_profiles_are_read_as_written(void **state)
{
	struct mr_profile p;

	(void)state;
	assert_int_equal(mr_profile_parse(&p,
					  "bw=200M,latency=5ms,iops=150,"
					  "stream=100M",
					  NULL),
			 0);
	assert_int_equal(p.bw, 200 << 20);
	assert_int_equal(p.stream, 100 << 20);
	assert_true(p.latency == 0.005 && p.iops == 150);
	assert_int_equal(mr_profile_parse(&p, "ceph-hdd,latency=20ms", NULL),
			 0);
	assert_true(p.bw == 910000000 && p.latency == 0.02);
	assert_int_equal(mr_profile_parse(&p, "s3,iops=0", NULL), 0);
	assert_true(p.iops == 0 && p.stream == 90000000);
}

static void test_nonsense_profiles_are_refused_with_the_nearest(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "hhd", "did you mean 'hdd'" },
		{ "ceph", "want hdd, ssd" },
		{ "hdd,latancy=5ms", "did you mean 'latency'" },
		{ "hdd,ssd", "a preset comes first" },
		{ "bw=200M,hdd", "a preset comes first" },
		{ "bw=fast", "bw=fast: want a size" },
		{ "bw=-1", "bw=-1: want" },
		{ "bw=nan", "bw=nan: want" },
		{ "iops=1e400", "iops=1e400: want" },
		{ "latency=5", NULL }, /* seconds */
		{ "latency=2h", "latency=2h: want a time" },
		{ "latency=", "latency=: want a time" },
		{ "", "unknown ''" },
		{ ",", "unknown ''" },
		{ "hdd,", "'' is no limit" },
		{ "hdd,,iops=3", "'' is no limit" },
		{ "=5", "unknown ''" },
		{ "latency=000000000000000000000000000000000000000000000000000"
		  "00000000000000000000000000000000000000000000000000000ms",
		  "too long" },
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(bad); i++) {
		struct mr_profile p = { .bw = 77 };
		struct mr_err err = { 0 };
		int e = mr_profile_parse(&p, bad[i].text, &err);

		if (!bad[i].says) {
			assert_int_equal(e, 0);
			continue;
		}
		assert_int_equal(e, MR_EINVAL);
		assert_int_equal(p.bw, 77);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s: %s", bad[i].text, err.text);
	}
}

/* ---- waiting ---- */

/* Never faster than the model, also when each sleep comes too late. */
static void test_a_thread_that_waits_is_not_early(void **state)
{
	static const struct {
		const char *profile;
		int n;
		uint64_t bytes, ns;
	} run[] = {
		{ "bw=10M", 2000, 1 << 10, 195 * MS },
		{ "bw=100M", 2, 10 << 20, 200 * MS },
		{ "latency=100us", 2000, 1 << 10, 200 * MS },
		{ "iops=1000", 101, 1 << 10, 100 * MS },
	};
	atomic_bool stop = false;

	(void)state;
	for (size_t i = 0; i < MR_COUNT(run); i++) {
		struct mr_shape s = shape_of(run[i].profile);
		uint64_t t0 = s.born = mr_clock_ns(), late = 0, took;

		for (int k = 0; k < run[i].n; k++)
			mr_shape_wait(&s, mr_clock_ns(), run[i].bytes, &late,
				      &stop);
		took = mr_clock_ns() - t0;
		if (took < run[i].ns)
			fail_msg("%s: %.1f ms, want %.1f", run[i].profile,
				 (double)took / 1e6, (double)run[i].ns / 1e6);
		mr_shape_fini(&s);
	}
}

static void test_held_requests_come_out_in_the_order_of_time(void **state)
{
	static struct mr_held h;
	uint64_t last = 0, due[MR_HELD_MAX];
	unsigned who;

	(void)state;
	assert_false(mr_held_take(&h, UINT64_MAX - 1, &who));
	assert_true(mr_held_next(&h) == UINT64_MAX);
	for (int round = 0; round < 20; round++) {
		unsigned n = round ? (unsigned)round * 25 : MR_HELD_MAX;

		for (unsigned i = 0; i < n; i++) {
			due[i] = 1 + mr_mix64(i + (uint64_t)round * 997) % 300;
			mr_held_put(&h, due[i], i);
		}
		last = 0;
		for (unsigned i = 0; i < n; i++) {
			uint64_t next = mr_held_next(&h);

			assert_false(mr_held_take(&h, next - 1, &who));
			assert_true(mr_held_take(&h, next, &who));
			assert_true(due[who] == next && next >= last);
			due[who] = 0;
			last = next;
		}
		assert_int_equal(h.n, 0);
	}
}

/* ---- how many in flight ---- */

struct simulated {
	double share;	  /* of what the profile allows, over the whole run */
	unsigned depth;	  /* in the end */
	unsigned changes; /* of the depth in the second half */
};

/* Reading ahead in made-up time: workers always want more. A request that is
 * due is noticed up to `late` ns later. */
static struct simulated simulate(const char *profile, uint64_t bytes,
				 uint64_t ns, uint64_t late)
{
	static struct mr_held h;
	struct mr_shape s = shape_of(profile);
	struct mr_depth d;
	struct simulated r = { 0 };
	uint64_t t = 0, done = 0, n = 0;
	unsigned who, before;

	h.n = 0;
	mr_depth_init(&d, t);
	while (t < ns) {
		while (h.n < atomic_load(&d.now))
			mr_held_put(&h, due(&s, t, bytes), (unsigned)n++);
		mr_depth_filled(&d, h.n);
		t = mr_held_next(&h) + mr_mix64(n) % (late + 1);
		while (mr_held_take(&h, t, &who)) {
			d.completions++;
			done++;
		}
		before = atomic_load(&d.now);
		mr_depth_adapt(&d, t, h.n, MR_HELD_MAX, done);
		r.depth = atomic_load(&d.now);
		r.changes += t > ns / 2 && r.depth != before;
	}
	r.share = (double)(done * bytes) / ((double)t / 1e9) /
		  mr_profile_allows(&s.p, 1, bytes);
	mr_shape_fini(&s);
	return r;
}

static void test_the_depth_grows_until_storage_is_used(void **state)
{
	static const char *const profiles[] = { "hdd", "ssd", "ceph-hdd",
						"s3" };
	static const uint64_t sizes[] = { 10000, 100000, 5000000 };

	(void)state;
	for (size_t i = 0; i < MR_COUNT(profiles); i++) {
		for (size_t k = 0; k < 2 * MR_COUNT(sizes); k++) {
			uint64_t bytes = sizes[k / 2], late = k % 2 * 200000;
			struct simulated r =
				simulate(profiles[i], bytes, 10 * S, late);

			if (r.share < 0.95)
				fail_msg("%s, %llu bytes: %.1f %% at depth %u",
					 profiles[i], (unsigned long long)bytes,
					 100 * r.share, r.depth);
		}
	}
}

static void test_the_depth_comes_to_rest(void **state)
{
	(void)state;
	/* A try and the way back, each 64 rounds and more. */
	assert_in_range(simulate("ceph-hdd", 100000, 60 * S, 0).changes, 0, 60);
	assert_in_range(simulate("hdd", 100000, 60 * S, 0).changes, 0, 8);
}

static void test_a_depth_that_is_not_the_limit_is_left_alone(void **state)
{
	struct mr_depth d;

	(void)state;
	mr_depth_init(&d, 0);
	for (uint64_t t = 1; t < 1000; t++) {
		mr_depth_filled(&d, 3); /* no more positions */
		d.completions += 50;
		mr_depth_adapt(&d, t * 10 * MS, 3, MR_HELD_MAX, t);
		assert_int_equal(atomic_load(&d.now), 16);
	}
	for (uint64_t t = 1000; t < 2000; t++) {
		mr_depth_filled(&d, 16);
		d.completions += 50; /* nobody waits */
		mr_depth_adapt(&d, t * 10 * MS, 16, MR_HELD_MAX, 999);
		assert_int_equal(atomic_load(&d.now), 16);
	}
}

/* ---- eviction ---- */

static bool in_memory_only(void)
{
	struct statfs fs;

	return statfs(top, &fs) || fs.f_type == 0x01021994; /* tmpfs */
}

static void test_files_are_evicted_also_when_just_written(void **state)
{
	static char bytes[300000];
	struct mr_evicted sum = { 0 };

	(void)state;
	if (in_memory_only())
		skip();
	put("fresh", bytes, sizeof(bytes));
	mr_evict_file(textf("%s/fresh", top), &sum);
	mr_evict_file(textf("%s/missing", top), &sum);
	mr_evict_file(top, &sum);
	assert_int_equal(sum.files, 1);
	assert_int_equal(sum.bytes, sizeof(bytes));
	assert_int_equal(sum.stayed, 0);
	assert_int_equal(sum.unknown, 0);
}

static void test_residency_is_told_of_a_part_of_a_file(void **state)
{
	static char bytes[300000];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), all = 0, in = 0;
	struct mr_evicted sum = { 0 };
	const char *path = textf("%s/part", top);

	(void)state;
	put("part", bytes, sizeof(bytes));
	if (mr_resident_extent(path, page + 5, page, &all, &in))
		skip();
	/* the page where it begins, and the one where it ends */
	assert_int_equal(all, 2 * page);
	assert_int_equal(in, 2 * page);
	/* adds up; no further than the end, and nothing beyond it */
	assert_int_equal(mr_resident_extent(path, 0, UINT64_MAX, &all, &in), 0);
	assert_int_equal(mr_resident_extent(path, 1 << 20, page, &all, &in), 0);
	assert_int_equal(all, (2 + (sizeof(bytes) + page - 1) / page) * page);
	assert_int_equal(in, all);
	assert_int_equal(mr_resident_extent(top, 0, 1, &all, &in), -1);
	if (in_memory_only())
		return;
	mr_evict_file(path, &sum);
	in = 0;
	assert_int_equal(mr_resident_extent(path, 0, UINT64_MAX, &all, &in), 0);
	assert_int_equal(in, 0);
}

static void test_a_cold_loader_counts_each_file_once(void **state)
{
	struct mr_options opt;
	struct mr_stats st;
	struct mr_loader *l;

	(void)state;
	mr_options_init(&opt);
	opt.cold = true;
	l = must_open(textf("list %s/twice.tsv | batch 4", top), &opt);
	mr_loader_stats(l, &st);
	assert_int_equal(st.cold.files, 2);
	assert_int_equal(st.cold.bytes, 2 * 5000);
	mr_loader_close(l);
}

/* ---- loaders ---- */

static uint64_t digest(const char *text, struct mr_options opt, int fetch)
{
	struct mr_loader *l;
	struct mr_batch *b;
	uint64_t d = 0;

	opt.fetch = fetch;
	opt.epochs = 1;
	l = must_open(text, &opt);
	while ((b = must_next(l))) {
		d = mr_batch_digest(b, d);
		mr_batch_release(b);
	}
	mr_loader_close(l);
	return d;
}

static void test_a_shaped_loader_gives_the_same_bytes(void **state)
{
	static const char *const pipes[] = {
		"files %s/files | batch 7",
		"npy %s/rows.npy | batch 10",
		"npy %s/rows.npy map=yes | cast f32 | batch 10",
		"npy %s/rows.npy map=yes | batch 10",
	};
	struct mr_options opt;

	(void)state;
	for (size_t i = 0; i < MR_COUNT(pipes); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		const char *text = textf(pipes[i], top);
#pragma GCC diagnostic pop
		uint64_t want;

		mr_options_init(&opt);
		opt.memory = 16 << 20;
		want = digest(text, opt, MR_FETCH_DIRECT);
		opt.storage = "latency=300us,iops=5000,bw=200M,stream=20M";
		for (int way = 0; way < 4; way++) {
			if (way == 3)
				setenv("MILLRACE_NO_URING", "1", 1);
			assert_true(digest(text, opt,
					   way < 3 ? way : MR_FETCH_AHEAD) ==
				    want);
			unsetenv("MILLRACE_NO_URING");
		}
	}
}

/* Runs begin elsewhere in each epoch of block order; what they have read is
 * held all the same. At the turn of an epoch some are read twice. */
static void test_a_page_cache_holds_what_other_runs_have_read(void **state)
{
	(void)state;
	for (int way = 0; way < 2; way++) {
		struct mr_options opt;
		struct mr_loader *l;
		struct mr_batch *b;
		struct mr_stats st;
		uint64_t epochs = 0;

		mr_options_init(&opt);
		opt.order = MR_ORDER_BLOCK;
		opt.fetch = MR_FETCH_AHEAD;
		opt.epochs = 5;
		opt.storage = "latency=10us,cache=1M";
		if (way)
			setenv("MILLRACE_NO_URING", "1", 1);
		l = must_open(textf("npy %s/rows.npy | batch 10", top), &opt);
		while (epochs < opt.epochs) {
			b = must_next(l);
			if (b)
				mr_batch_release(b);
			epochs += !b;
		}
		mr_loader_stats(l, &st);
		mr_loader_close(l);
		unsetenv("MILLRACE_NO_URING");
		assert_int_equal(st.bytes_read, 5 * 300000);
		assert_true(st.storage.cache_bytes > 3 * 300000);
	}
}

/* Nobody waits an hour for the end. */
static void test_a_loader_on_endlessly_slow_storage_closes(void **state)
{
	(void)state;
	for (int way = 0; way < 4; way++) {
		struct mr_options opt;
		struct mr_loader *l;
		struct mr_batch *b;
		uint64_t t0;

		mr_options_init(&opt);
		opt.storage = "latency=1h";
		opt.fetch = way < 3 ? way : MR_FETCH_AHEAD;
		if (way == 3)
			setenv("MILLRACE_NO_URING", "1", 1);
		l = must_open(textf("files %s/files | batch 7", top), &opt);
		assert_int_equal(mr_loader_wait(l, &b, 30, NULL), MR_AGAIN);
		t0 = mr_clock_ns();
		mr_loader_close(l);
		assert_true(mr_clock_ns() - t0 < 20 * S);
		unsetenv("MILLRACE_NO_URING");
	}
}

static int make_data(void **state)
{
	static uint8_t bytes[900000];
	static const char list[] = "files/b0\t1\nfiles/b1\t2\nfiles/b0\t3\n"
				   "files/none\t4\n";
	int64_t shape[] = { 100, 3000 };

	if (make_top(state) || mkdir(textf("%s/files", top), 0755))
		return -1;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)mr_mix64(i);
	put_npy("rows.npy", "|u1", 2, shape, bytes, 300000);
	for (int i = 0; i < 60; i++)
		put(textf("files/a%d", i), bytes + i,
		    i == 9 ? 800000 : (size_t)i * 700);
	put("files/b0", bytes, 5000);
	put("files/b1", bytes, 5000);
	put("twice.tsv", list, sizeof(list) - 1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_limits_nothing_waits),
		cmocka_unit_test(test_latency_is_waited_for_by_all_at_once),
		cmocka_unit_test(test_turns_come_at_the_rate_of_iops),
		cmocka_unit_test(test_one_request_is_as_slow_as_a_stream),
		cmocka_unit_test(test_all_requests_together_get_the_bandwidth),
		cmocka_unit_test(test_idle_time_gives_no_credit),
		cmocka_unit_test(test_a_pause_has_no_limits_and_counts_nothing),
		cmocka_unit_test(
			test_a_page_cache_answers_what_was_read_of_late),
		cmocka_unit_test(test_without_a_page_cache_nothing_is_held),
		cmocka_unit_test(
			test_extents_are_told_apart_by_file_and_offset),
		cmocka_unit_test(test_neighbours_are_held_one_by_one),
		cmocka_unit_test(test_shuffled_reads_thrash_a_page_cache),
		cmocka_unit_test(test_presets_are_what_the_table_says),
		cmocka_unit_test(test_what_is_allowed_is_the_lower_limit),
		cmocka_unit_test(test_profiles_are_read_as_written),
		cmocka_unit_test(
			test_nonsense_profiles_are_refused_with_the_nearest),
		cmocka_unit_test(test_a_thread_that_waits_is_not_early),
		cmocka_unit_test(
			test_held_requests_come_out_in_the_order_of_time),
		cmocka_unit_test(test_the_depth_grows_until_storage_is_used),
		cmocka_unit_test(test_the_depth_comes_to_rest),
		cmocka_unit_test(
			test_a_depth_that_is_not_the_limit_is_left_alone),
		cmocka_unit_test(test_files_are_evicted_also_when_just_written),
		cmocka_unit_test(test_residency_is_told_of_a_part_of_a_file),
		cmocka_unit_test(test_a_cold_loader_counts_each_file_once),
		cmocka_unit_test(test_a_shaped_loader_gives_the_same_bytes),
		cmocka_unit_test(
			test_a_page_cache_holds_what_other_runs_have_read),
		cmocka_unit_test(
			test_a_loader_on_endlessly_slow_storage_closes),
	};

	return cmocka_run_group_tests(tests, make_data, remove_top);
}
