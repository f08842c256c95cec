/* SPDX-License-Identifier: Apache-2.0 */
/* Advice for machines that were made up, and the loops that measure. */
#include "scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>

#include "core/mem.h"
#include "probe/advice.h"
#include "probe/place.h"
#include "probe/testfiles.h"

/* ---- machines ---- */

#define GB 1073741824.0

static void set_run(struct mr_facts *f, enum mr_storage_kind k, double one,
		    double many)
{
	f->storage.run[2 * k].r.bytes_per_s = one;
	f->storage.run[2 * k + 1].r.bytes_per_s = many;
	f->storage.run[2 * k].r.iops =
		one / (double)f->storage.run[2 * k].block;
	f->storage.run[2 * k + 1].r.iops =
		many / (double)f->storage.run[2 * k].block;
}

/* A workstation of which there is nothing to say. */
static void good(struct mr_facts *f)
{
	memset(f, 0, sizeof(*f));
	mr_storage_none(&f->storage, "");
	set_run(f, MR_STORAGE_SEQUENTIAL, 2e9, 3e9);
	set_run(f, MR_STORAGE_RANDOM_4K, 60e6, 400e6);
	set_run(f, MR_STORAGE_RANDOM_128K, 1e9, 2.5e9);
	set_run(f, MR_STORAGE_FILES, 800e6, 2e9);
	f->limits = (struct mr_limits){
		.files = 1048576,
		.files_hard = 1048576,
		.memlock = INFINITY,
		.memlock_hard = INFINITY,
		.shm = 32 * GB,
		.shm_used = 0,
		.cgroup = { .cores = INFINITY, .memory = INFINITY },
		.cpus = 16,
		.cpus_allowed = 16,
		.cores = 16,
		.memory_total = 64 * GB,
		.memory_available = 60 * GB,
		.memory = 64 * GB,
	};
	f->kernel.uring.works = f->kernel.pmu.works = true;
	f->kernel.events.works = true;
	f->kernel.paranoid = 1;
	snprintf(f->kernel.huge_pages, sizeof(f->kernel.huge_pages), "madvise");
	f->topology = (struct mr_topology){ .avx2 = true,
					    .sockets = 1,
					    .cores = 8,
					    .threads = 16,
					    .nodes = 1 };
}

static struct mr_finding found[MR_FINDINGS];
static int n_found;

static void advise(const struct mr_facts *f)
{
	n_found = mr_advise(f, found);
}

/* The finding on a topic; NULL. */
static const struct mr_finding *on(const char *topic)
{
	for (int i = 0; i < n_found; i++)
		if (!strcmp(found[i].topic, topic))
			return &found[i];
	return NULL;
}

static void expect(const char *topic, enum mr_severity s, const char *remedy)
{
	const struct mr_finding *x = on(topic);

	if (!x)
		fail_msg("nothing on %s", topic);
	assert_int_equal(x->severity, s);
	if (!strstr(x->remedy, remedy))
		fail_msg("%s: '%s' lacks '%s'", topic, x->remedy, remedy);
	assert_true(s == MR_FOUND_OK || (*x->why && *x->remedy));
}

static int worse_than_ok(void)
{
	int n = 0;

	for (int i = 0; i < n_found; i++)
		n += found[i].severity != MR_FOUND_OK;
	return n;
}

static void test_good_machine_has_nothing_to_be_told(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	advise(&f);
	assert_int_equal(worse_than_ok(), 0);
	expect("open files", MR_FOUND_OK, "");
	expect("small files", MR_FOUND_OK, "");
	expect("random reads", MR_FOUND_OK, "");
	expect("/dev/shm", MR_FOUND_OK, "");
	expect("NUMA", MR_FOUND_OK, "");
}

static void test_two_sockets_are_worth_a_process_each(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.limits.cpus = f.limits.cpus_allowed = f.limits.cores = 64;
	f.topology.sockets = f.topology.nodes = 2;
	f.topology.cores = f.topology.threads = 64;
	advise(&f);
	expect("NUMA", MR_FOUND_NOTE, "numactl --cpunodebind=0 --membind=0");
	expect("CPUs", MR_FOUND_OK, "");
	assert_int_equal(worse_than_ok(), 1);
}

static void test_container_with_a_quota_and_little_of_all(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.limits.container = true;
	f.limits.cgroup.cores = 2.5;
	f.limits.cores = 3;
	f.limits.cgroup.memory = f.limits.memory = 2 * GB;
	f.limits.shm = 64 << 20;
	f.limits.files = 1024;
	advise(&f);
	expect("CPU quota", MR_FOUND_WARNING, "num_workers=3");
	assert_non_null(strstr(on("CPU quota")->what, "2.5 of 16"));
	assert_null(on("CPUs"));
	expect("memory", MR_FOUND_WARNING, "--memory");
	expect("/dev/shm", MR_FOUND_WARNING, "--shm-size");
	expect("open files", MR_FOUND_WARNING, "ulimit -n 1048576");
	assert_int_equal(found[0].severity, MR_FOUND_WARNING);
	assert_int_equal(found[n_found - 1].severity, MR_FOUND_OK);
}

static void test_hard_limit_of_files_cannot_be_raised_by_ulimit(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.limits.files = f.limits.files_hard = 1024;
	advise(&f);
	expect("open files", MR_FOUND_WARNING, "nofile=65536");
	assert_null(strstr(on("open files")->remedy, "ulimit -n"));
	f.limits.files_hard = INFINITY;
	advise(&f);
	expect("open files", MR_FOUND_WARNING, "ulimit -n 1048576");
}

static void test_shared_memory_that_is_full_or_missing(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.limits.shm_used = 31 * GB;
	advise(&f);
	expect("/dev/shm", MR_FOUND_WARNING, "ls -lt /dev/shm");
	f.limits.shm = f.limits.shm_used = NAN;
	advise(&f);
	expect("/dev/shm", MR_FOUND_WARNING, "mount -t tmpfs");
}

static void test_no_pmu_and_no_permission_are_told_apart(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.kernel.pmu.works = false;
	snprintf(f.kernel.pmu.reason, 40, "no such counter");
	snprintf(f.kernel.pmu.remedy, 40, "give it a PMU");
	advise(&f);
	expect("perf events", MR_FOUND_NOTE, "give it a PMU");
	f.kernel.events.works = false;
	f.kernel.paranoid = 4;
	advise(&f);
	expect("perf events", MR_FOUND_NOTE,
	       "sysctl kernel.perf_event_paranoid=1");
	f.kernel.paranoid = 2;
	snprintf(f.kernel.events.remedy, 60, "a seccomp profile");
	advise(&f);
	expect("perf events", MR_FOUND_NOTE, "a seccomp profile");
}

static void test_hard_disk_wants_blocks_and_large_files(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	set_run(&f, MR_STORAGE_SEQUENTIAL, 180e6, 150e6);
	set_run(&f, MR_STORAGE_RANDOM_4K, 0.3e6, 0.6e6);
	set_run(&f, MR_STORAGE_RANDOM_128K, 9e6, 15e6);
	set_run(&f, MR_STORAGE_FILES, 5e6, 8e6);
	f.codecs.speed[0] = (struct mr_codec_speed){ .codec = "zstd",
						     .data = "signal_f32",
						     .ratio = 2,
						     .pack = 3e8,
						     .unpack = 1e9 };
	f.codecs.n = 1;
	advise(&f);
	expect("small files", MR_FOUND_WARNING, "millrace prepare");
	assert_non_null(strstr(on("small files")->what, "22 times"));
	expect("random reads", MR_FOUND_WARNING, "--order block");
	expect("codecs", MR_FOUND_NOTE, "--codec zstd");
	set_run(&f, MR_STORAGE_SEQUENTIAL, 20e6, 20e6);
	advise(&f);
	expect("storage", MR_FOUND_WARNING, "millrace prepare");
}

static void test_codec_slower_than_the_disk_is_not_advised(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.limits.cores = 1;
	f.codecs.speed[0] = (struct mr_codec_speed){ .codec = "zlib",
						     .data = "signal_f32",
						     .ratio = 4,
						     .pack = 3e7,
						     .unpack = 4e8 };
	f.codecs.n = 1;
	advise(&f);
	assert_null(on("codecs"));
}

static void test_storage_without_figures_gives_no_figures(void **state)
{
	struct mr_facts f;
	struct mr_profile p;

	(void)state;
	good(&f);
	mr_storage_none(&f.storage, "DIR: read-only");
	advise(&f);
	assert_null(on("small files"));
	assert_null(on("random reads"));
	expect("storage", MR_FOUND_NOTE, "millrace doctor DIR");
	assert_false(mr_storage_profile(&f.storage, &p));
	f.storage.full = true;
	advise(&f);
	expect("storage", MR_FOUND_WARNING, "df -h");
}

static void test_memory_and_warm_files_are_no_disk(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.storage.memory = true;
	advise(&f);
	expect("storage", MR_FOUND_NOTE, "the disk that holds");
	assert_null(on("small files"));
	f.storage.memory = false;
	f.storage.run[3].resident = 0.4;
	advise(&f);
	expect("storage", MR_FOUND_NOTE, "--direct");
}

static void test_bound_slow_and_old_machines(void **state)
{
	struct mr_facts f;

	(void)state;
	good(&f);
	f.limits.cpus_allowed = f.limits.cores = 4;
	f.limits.nice = 10;
	f.limits.load = 40;
	f.topology.avx2 = false;
	snprintf(f.kernel.huge_pages, sizeof(f.kernel.huge_pages), "never");
	f.kernel.uring.works = false;
	mr_facility_uring_reason(&f.kernel.uring, EPERM, 2);
	advise(&f);
	expect("CPU affinity", MR_FOUND_NOTE, "taskset -cp 0-15");
	expect("load", MR_FOUND_WARNING, "top");
	expect("priority", MR_FOUND_NOTE, "renice");
	expect("AVX2", MR_FOUND_NOTE, "prepare");
	expect("huge pages", MR_FOUND_NOTE, "echo madvise");
	expect("io_uring", MR_FOUND_NOTE, "sysctl kernel.io_uring_disabled=0");
}

static void test_each_refusal_of_io_uring_has_its_remedy(void **state)
{
	static const struct {
		int why, disabled;
		const char *remedy;
	} all[] = { { EPERM, 1, "io_uring_group" },
		    { EPERM, 0, "seccomp" },
		    { EPERM, -1, "seccomp" },
		    { ENOMEM, 0, "ulimit -l" },
		    { ENOSYS, -1, "CONFIG_IO_URING" } };

	(void)state;
	for (size_t i = 0; i < MR_COUNT(all); i++) {
		struct mr_facility u = { .works = true };

		mr_facility_uring_reason(&u, all[i].why, all[i].disabled);
		assert_false(u.works);
		assert_non_null(strstr(u.remedy, all[i].remedy));
		assert_true(*u.reason);
	}
}

/* ---- profiles ---- */

static void test_profile_is_a_text_that_storage_takes(void **state)
{
	static const struct mr_profile all[] = {
		{ 3300000000u, 2100000000u, 81.3e-6, 123456.7 },
		{ 180000000, 150000000, 12e-3, 80 },
		{ 50000, 40000, 2.5, 0.4 },
	};

	(void)state;
	for (size_t i = 0; i < MR_COUNT(all); i++) {
		struct mr_profile p;
		struct mr_err err;
		char text[120];

		mr_storage_profile_text(&all[i], text, sizeof(text));
		if (mr_profile_parse(&p, text, &err))
			fail_msg("%s", err.text);
		assert_true(fabs((double)p.bw / (double)all[i].bw - 1) < 0.02);
		assert_true(fabs((double)p.stream / (double)all[i].stream - 1) <
			    0.02);
		assert_true(fabs(p.latency / all[i].latency - 1) < 0.02);
		assert_true(fabs(p.iops - all[i].iops) < 0.51);
	}
}

/* ---- reads ---- */

static atomic_int calls[64];

static int64_t pretend(const void *arg, uint64_t i, void *buf)
{
	struct timespec nap = { 0, 2000000 };

	memset(buf, 1, 4096);
	atomic_fetch_add(&calls[i], 1);
	nanosleep(&nap, NULL);
	return arg && i == *(const uint64_t *)arg ? -EIO : 1000;
}

static void test_each_request_is_made_once_and_timed(void **state)
{
	struct mr_reads r = { .one = pretend,
			      .count = 64,
			      .buffer = 4096,
			      .threads = 4,
			      .seconds = 60 };
	struct mr_reads_result got;
	struct mr_watch w;
	struct mr_err err;

	(void)state;
	mr_watch_init(&w, 1);
	memset(calls, 0, sizeof(calls));
	assert_int_equal(mr_reads_run(&w, &r, &got, &err), 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(calls[i], 1);
	assert_int_equal(got.requests, 64);
	assert_int_equal(got.bytes, 64000);
	assert_true(got.mean_us >= 2000);
	assert_true(got.p50_us >= 1800 && got.p99_us >= got.p50_us);
	/* four at a time: 32 ms at least, and far from 128 ms' rate */
	assert_true(got.seconds >= 0.030);
	assert_true(fabs(got.iops * got.seconds - 64) < 0.01);
	assert_true(fabs(got.bytes_per_s - got.iops * 1000) < 1);
}

static void test_read_that_fails_is_told_with_its_reason(void **state)
{
	uint64_t bad = 7;
	struct mr_reads r = { .one = pretend,
			      .arg = &bad,
			      .count = 64,
			      .buffer = 4096,
			      .threads = 2,
			      .seconds = 60 };
	struct mr_reads_result got;
	struct mr_watch w;
	struct mr_err err;

	(void)state;
	mr_watch_init(&w, 1);
	assert_int_equal(mr_reads_run(&w, &r, &got, &err), MR_EIO);
	assert_non_null(strstr(err.text, strerror(EIO)));
}

static bool at_once(void *data, const char *what, double done)
{
	(void)data;
	(void)what;
	assert_true(done >= 0 && done <= 1);
	return true;
}

static void test_run_without_time_makes_one_request_a_thread(void **state)
{
	struct mr_reads r = { .one = pretend,
			      .count = 64,
			      .buffer = 4096,
			      .threads = 2,
			      .seconds = 0 };
	struct mr_reads_result got;
	struct mr_watch w;
	struct mr_err err;

	(void)state;
	mr_watch_init(&w, 1);
	assert_int_equal(mr_reads_run(&w, &r, &got, &err), 0);
	assert_int_equal(got.requests, 2);
	assert_true(got.iops > 0);
	w.progress = at_once;
	r.seconds = 60;
	assert_int_equal(mr_reads_run(&w, &r, &got, &err), 0);
	assert_true(got.requests < 64);
	assert_int_equal(mr_watch_stopped(&w, &err), MR_ESTATE);
	/* nobody has begun: no figures, which is not 0 */
	assert_int_equal(mr_reads_run(&w, &r, &got, &err), 0);
	assert_int_equal(got.requests, 0);
	assert_true(isnan(got.iops) && isnan(got.p99_us));
}

static void test_shuffled_numbers_are_all_there(void **state)
{
	struct mr_err err;
	uint32_t *v = mr_reads_shuffled(1000, &err);
	char seen[1000] = { 0 };
	int fixed = 0;

	(void)state;
	assert_non_null(v);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_true(v[i] < 1000 && !seen[v[i]]);
		seen[v[i]] = 1;
		fixed += v[i] == i;
	}
	assert_true(fixed < 20);
	free(v);
}

/* ---- files ---- */

static int entries(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void test_files_are_made_and_leave_nothing_behind(void **state)
{
	struct mr_testfiles t;
	struct mr_evicted v = { 0 };
	struct mr_watch w;
	struct mr_err err;
	char a[4096], b[4096];
	int fd;

	(void)state;
	mr_watch_init(&w, 1);
	assert_int_equal(mr_testfiles_open(&t, top, &err), 0);
	assert_int_equal(
		mr_testfiles_large(&t, &w, (10 << 20) + 4096, 60, &err), 0);
	assert_int_equal(t.bytes, (10 << 20) + 4096);
	assert_int_equal(entries(t.dir), 0);
	mr_testfiles_evict_large(&t, &v);
	assert_int_equal(v.bytes, t.bytes);
	/* no block is another's twin */
	fd = mr_testfiles_reopen(&t, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, a, 4096, 0), 4096);
	assert_int_equal(pread(fd, b, 4096, 8 << 20), 4096);
	assert_memory_not_equal(a, b, 4096);
	close(fd);
	mr_testfiles_drop_large(&t);
	assert_int_equal(mr_testfiles_small(&t, &w, 30, 8192, 4, 60, &err), 0);
	assert_int_equal(t.files, 30);
	assert_int_equal(entries(t.dir), 30);
	v = (struct mr_evicted){ 0 };
	assert_int_equal(mr_testfiles_evict_small(&t, &w, 4, &v, &err), 0);
	assert_int_equal(v.files, 30);
	mr_testfiles_close(&t);
	assert_int_equal(entries(top), 0);
	mr_testfiles_close(&t);
}

static void test_writing_that_is_stopped_leaves_nothing_behind(void **state)
{
	struct mr_testfiles t;
	struct mr_watch w;
	struct mr_err err;

	(void)state;
	mr_watch_init(&w, 1);
	w.progress = at_once;
	assert_int_equal(mr_testfiles_open(&t, top, &err), 0);
	assert_int_equal(mr_testfiles_large(&t, &w, 64 << 20, 60, &err),
			 MR_ESTATE);
	assert_int_equal(mr_testfiles_small(&t, &w, 100, 8192, 2, 60, &err),
			 MR_ESTATE);
	mr_testfiles_close(&t);
	assert_int_equal(entries(top), 0);
}

static void test_mount_points_end_at_a_slash(void **state)
{
	struct mr_place p;

	(void)state;
	assert_true(mr_place_within("/a/b", "/a"));
	assert_true(mr_place_within("/a/b", "/a/b"));
	assert_true(mr_place_within("/a/b", "/"));
	assert_false(mr_place_within("/ab", "/a"));
	assert_false(mr_place_within("/a", "/a/b"));
	mr_place_find(&p, "/proc");
	assert_string_equal(p.fs, "proc");
	assert_false(p.memory);
}

/* ---- control groups ---- */

static void put_at(const char *path, const char *text)
{
	char at[300];

	snprintf(at, sizeof(at), "%s/%s", top, path);
	for (char *p = at + strlen(top) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(at, 0700);
		*p = '/';
	}
	put(path, text, strlen(text));
}

static void test_strictest_group_above_the_process_counts(void **state)
{
	struct mr_cgroup c;

	(void)state;
	put_at("proc/self/cgroup", "0::/a/b/c\n");
	put_at("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
	put_at("sys/fs/cgroup/a/memory.max", "4000000000\n");
	put_at("sys/fs/cgroup/a/memory.current", "1000\n");
	put_at("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put_at("sys/fs/cgroup/a/b/memory.max", "max\n");
	put_at("sys/fs/cgroup/a/b/c/memory.max", "9000000000\n");
	put_at("sys/fs/cgroup/a/b/c/memory.current", "2000\n");
	mr_cgroup_read(&c, top);
	assert_true(c.cores == 1.5 && c.memory == 4e9 && c.used == 1000);
	assert_int_equal(c.version, 2);
	remove_top(NULL);
	mkdir(top, 0700);
}

static void test_first_version_and_paths_of_the_host(void **state)
{
	struct mr_cgroup c;

	(void)state;
	put_at("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/docker/x\n"
				   "1:memory:/docker/x\n0::/\n");
	put_at("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
	put_at("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	put_at("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
	put_at("sys/fs/cgroup/memory/memory.usage_in_bytes", "7\n");
	mr_cgroup_read(&c, top);
	assert_true(c.cores == 3 && c.memory == GB && c.used == 7);
	assert_int_equal(c.version, 1);
	put_at("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	put_at("sys/fs/cgroup/memory/memory.limit_in_bytes",
	       "9223372036854771712\n");
	mr_cgroup_read(&c, top);
	assert_true(isinf(c.cores) && isinf(c.memory) && isnan(c.used));
	assert_int_equal(c.version, 0);
	remove_top(NULL);
	mkdir(top, 0700);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_machine_has_nothing_to_be_told),
		cmocka_unit_test(test_two_sockets_are_worth_a_process_each),
		cmocka_unit_test(test_container_with_a_quota_and_little_of_all),
		cmocka_unit_test(
			test_hard_limit_of_files_cannot_be_raised_by_ulimit),
		cmocka_unit_test(test_shared_memory_that_is_full_or_missing),
		cmocka_unit_test(test_no_pmu_and_no_permission_are_told_apart),
		cmocka_unit_test(test_hard_disk_wants_blocks_and_large_files),
		cmocka_unit_test(
			test_codec_slower_than_the_disk_is_not_advised),
		cmocka_unit_test(test_storage_without_figures_gives_no_figures),
		cmocka_unit_test(test_memory_and_warm_files_are_no_disk),
		cmocka_unit_test(test_bound_slow_and_old_machines),
		cmocka_unit_test(test_each_refusal_of_io_uring_has_its_remedy),
		cmocka_unit_test(test_profile_is_a_text_that_storage_takes),
		cmocka_unit_test(test_each_request_is_made_once_and_timed),
		cmocka_unit_test(test_read_that_fails_is_told_with_its_reason),
		cmocka_unit_test(
			test_run_without_time_makes_one_request_a_thread),
		cmocka_unit_test(test_shuffled_numbers_are_all_there),
		cmocka_unit_test(test_files_are_made_and_leave_nothing_behind),
		cmocka_unit_test(
			test_writing_that_is_stopped_leaves_nothing_behind),
		cmocka_unit_test(test_mount_points_end_at_a_slash),
		cmocka_unit_test(test_strictest_group_above_the_process_counts),
		cmocka_unit_test(test_first_version_and_paths_of_the_host),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
