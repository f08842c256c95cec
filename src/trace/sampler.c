/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/sampler.h"

#include <dirent.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/le.h"
#include "core/mem.h"
#include "trace/events.h"

enum {
	PAGES = 32,	    /* of a ring; a power of two */
	RINGS = 4096,	    /* at most */
	STACK = 64,	    /* addresses of a sample at most */
	RECORD = 65536,	    /* bytes of one of the kernel's records */
	BUFFER = 256 << 10, /* of samples before a chunk is written */
	MAPS_MAX = 8 << 20,
	HEAD = 24,		     /* of a sample in the file */
	LOOK_NS = 200 * 1000 * 1000, /* between two looks at the rings */
};

struct ring {
	int fd;
	struct perf_event_mmap_page *page;
};

struct mr_sampler {
	struct mr_recorder *recorder;
	struct mr_tap tap;
	pid_t pid; /* 0: this one */
	int hz;
	size_t page_size;
	struct perf_event_attr attr;
	bool works;
	char reason[160], remedy[160];

	pthread_mutex_t lock; /* of the list of rings */
	struct ring ring[RINGS];
	int rings;
	int *more; /* events that write to other events' rings */
	size_t mores, more_cap;

	/* the recorder thread's */
	struct mr_str out;
	uint64_t samples, lost;
	bool mapped; /* this process' maps were told */
	uint8_t *record;
};

/* ---- what the kernel wrote ---- */

static void flush(struct mr_sampler *s)
{
	if (s->out.len && !s->out.failed)
		mr_recorder_chunk(s->recorder, "SMPL", 0, s->out.text,
				  s->out.len);
	s->out.len = 0;
}

/* The lines of /proc/PID/maps, or of the like. */
static void tell_maps(struct mr_sampler *s, uint32_t pid, const char *text,
		      size_t n)
{
	struct mr_str out = { 0 };
	uint8_t head[4];

	flush(s); /* the order of the file is that of events */
	mr_le32_put(head, pid);
	mr_str_addn(&out, (char *)head, sizeof(head));
	mr_str_addn(&out, text, n);
	if (!out.failed)
		mr_recorder_chunk(s->recorder, "MAPS", 0, out.text, out.len);
	mr_str_fini(&out);
}

/* Only what can be run: the rest is no place for a program counter. */
static void read_maps(struct mr_sampler *s, pid_t pid)
{
	struct mr_str out = { 0 };
	char path[64], line[8192];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f) && out.len < MAPS_MAX) {
		const char *mode = strchr(line, ' ');

		if (mode && strnlen(mode, 5) > 3 && mode[3] == 'x')
			mr_str_add(&out, line);
	}
	fclose(f);
	if (!out.failed && out.len)
		tell_maps(s, (uint32_t)pid, out.text, out.len);
	mr_str_fini(&out);
}

/* u32 pid, tid, u64 time, number of addresses, addresses with marks. */
static void on_sample(struct mr_sampler *s, const uint8_t *p, size_t size)
{
	uint64_t address[STACK], n, user = 0, kernel = 0;
	uint8_t head[HEAD] = { 0 };
	bool in_kernel = false;

	if (size < 24)
		return;
	n = mr_le64(p + 16);
	if (n > (size - 24) / 8)
		return;
	/* the kernel's come first */
	for (uint64_t i = 0; i < n && user + kernel < STACK; i++) {
		uint64_t a = mr_le64(p + 24 + 8 * i);

		if (a == (uint64_t)PERF_CONTEXT_KERNEL)
			in_kernel = true;
		else if (a >= (uint64_t)PERF_CONTEXT_MAX)
			in_kernel = false;
		else {
			address[user + kernel] = a;
			kernel += in_kernel;
			user += !in_kernel;
		}
	}
	mr_le64_put(head, mr_le64(p + 8));
	mr_le32_put(head + 8, mr_le32(p));
	mr_le32_put(head + 12, mr_le32(p + 4));
	mr_le32_put(head + 16,
		    (uint32_t)(user + kernel) | (uint32_t)kernel << 16);
	mr_str_addn(&s->out, (char *)head, sizeof(head));
	for (uint64_t i = 0; i < user + kernel; i++) {
		mr_le64_put(head, address[i]);
		mr_str_addn(&s->out, (char *)head, 8);
	}
	s->samples++;
	if (s->out.len > BUFFER)
		flush(s);
}

/* As PERF_RECORD_MMAP2 has it: pid, tid, address, length, offset, major,
 * minor, inode, generation, protection, flags, name. */
static void on_map(struct mr_sampler *s, const uint8_t *p, size_t size)
{
	char line[4352];
	uint64_t at;
	int n;

	if (size < 65 || !memchr(p + 64, 0, size - 64))
		return;
	at = mr_le64(p + 8);
	n = snprintf(line, sizeof(line),
		     "%llx-%llx r-xp %08llx %02x:%02x %llu %.4095s\n",
		     (unsigned long long)at,
		     (unsigned long long)(at + mr_le64(p + 16)),
		     (unsigned long long)mr_le64(p + 24), mr_le32(p + 32),
		     mr_le32(p + 36), (unsigned long long)mr_le64(p + 40),
		     (const char *)p + 64);
	tell_maps(s, mr_le32(p), line, (size_t)n);
}

/* pid, parent's pid: a new process begins with its parent's maps. */
static void on_fork(struct mr_sampler *s, const uint8_t *p, size_t size)
{
	char line[32];
	int n;

	if (size < 8 || mr_le32(p) == mr_le32(p + 4))
		return;
	n = snprintf(line, sizeof(line), "fork %u\n", mr_le32(p + 4));
	tell_maps(s, mr_le32(p), line, (size_t)n);
}

static void on_record(struct mr_sampler *s, const uint8_t *p, size_t size)
{
	switch (mr_le32(p)) {
	case PERF_RECORD_SAMPLE:
		on_sample(s, p + 8, size - 8);
		break;
	case PERF_RECORD_MMAP2:
		on_map(s, p + 8, size - 8);
		break;
	case PERF_RECORD_FORK:
		on_fork(s, p + 8, size - 8);
		break;
	case PERF_RECORD_LOST:
		if (size >= 24)
			s->lost += mr_le64(p + 16);
		break;
	default:
		break;
	}
}

/* Bytes [at, at + n) of a ring, which may go over its end. */
static void copy_out(const struct mr_sampler *s, const struct ring *g,
		     uint64_t at, uint8_t *to, size_t n)
{
	const uint8_t *data = (uint8_t *)g->page + s->page_size;
	size_t size = PAGES * s->page_size, from = at % size;
	size_t first = size - from < n ? size - from : n;

	memcpy(to, data + from, first);
	memcpy(to + first, data, n - first);
}

static void drain(struct mr_sampler *s, const struct ring *g)
{
	uint64_t head = __atomic_load_n(&g->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = g->page->data_tail;

	while (tail < head) {
		size_t size;

		copy_out(s, g, tail, s->record, 8);
		size = s->record[6] | (size_t)s->record[7] << 8;
		if (size < 8 || size > head - tail)
			break;
		copy_out(s, g, tail, s->record, size);
		on_record(s, s->record, size);
		tail += size;
	}
	__atomic_store_n(&g->page->data_tail, head, __ATOMIC_RELEASE);
}

/* ---- META ---- */

static void tell(struct mr_sampler *s, bool end)
{
	struct mr_json j = { 0 };
	bool cycles = s->attr.type == PERF_TYPE_HARDWARE;

	mr_json_open(&j, NULL, '{');
	mr_json_open(&j, "sampling", '{');
	mr_json_text(&j, "event", cycles ? "cycles" : "cpu-clock");
	mr_json_int(&j, "hz", s->hz);
	mr_json_text(&j, "source",
		     !s->works ? "unavailable" :
		     cycles    ? "hw-sampled" :
				 "time-sampled");
	if (s->works && s->attr.exclude_kernel)
		mr_json_bool(&j, "user_only", true);
	if (*s->reason) {
		mr_json_text(&j, "reason", s->reason);
		mr_json_text(&j, "remedy", s->remedy);
	}
	if (end) {
		mr_json_uint(&j, "samples", s->samples);
		mr_json_uint(&j, "lost", s->lost);
	}
	mr_json_close(&j, '}');
	mr_json_close(&j, '}');
	if (!j.out.failed)
		mr_recorder_chunk(s->recorder, "META", 0, j.out.text,
				  j.out.len);
	mr_str_fini(&j.out);
}

static void look(struct mr_tap *t, bool last)
{
	struct mr_sampler *s = t->self;
	int n;

	pthread_mutex_lock(&s->lock);
	n = s->rings;
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < n; i++)
		drain(s, &s->ring[i]);
	flush(s);
	/* At the end all libraries are there; at the beginning in case there
	 * is no end. */
	if (!s->pid && (last || (s->samples && !s->mapped))) {
		read_maps(s, getpid());
		s->mapped = true;
	}
	if (last)
		tell(s, true);
}

/* ---- opening ---- */

/* ns until samples fill half of a ring; but what processes map and start is in
 * it, too. */
static uint64_t look_every(const struct mr_sampler *s)
{
	size_t sample = (STACK + 8) * sizeof(uint64_t);
	size_t fit = PAGES * s->page_size / 2 / sample;
	uint64_t ns = fit * 1000000000 / (uint64_t)s->hz;

	return ns < LOOK_NS ? ns : LOOK_NS;
}

static void set_attr(struct mr_sampler *s, bool cycles)
{
	s->attr = (struct perf_event_attr){
		.type = cycles ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
		.config = cycles ? PERF_COUNT_HW_CPU_CYCLES :
				   PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = (uint64_t)s->hz,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CALLCHAIN,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.exclude_hv = 1,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(PAGES * s->page_size / 2),
		.inherit = s->pid != 0,
		.mmap = s->pid != 0,
		.mmap2 = s->pid != 0,
		.task = s->pid != 0,
	};
}

/* One event with these attributes: a file, or an errno below 0. */
static int try_attr(struct mr_sampler *s, pid_t pid, int cpu)
{
	int fd = mr_perf_open(&s->attr, pid, cpu, -1);

	return fd < 0 ? -errno : fd;
}

/* Finds what the machine allows: exactly, with the kernel, by cycles, or less
 * of it each. */
static int find_attr(struct mr_sampler *s, pid_t pid, int cpu)
{
	int fd = -ENOENT;

	for (int kind = 0; kind < 2; kind++) {
		for (int exact = kind ? 0 : 2; exact >= 0; exact--) {
			set_attr(s, kind == 0);
			s->attr.precise_ip = (unsigned)exact & 3;
			fd = try_attr(s, pid, cpu);
			if (fd == -EACCES || fd == -EPERM) {
				s->attr.exclude_kernel = 1;
				fd = try_attr(s, pid, cpu);
			}
			if (fd >= 0)
				return fd;
		}
	}
	return fd;
}

static void refuse(struct mr_sampler *s, int errnum)
{
	if (!*s->reason)
		mr_perf_reason(errnum, s->reason, s->remedy);
}

/* A ring of its own for an event, which is closed if there is none: NULL. */
static struct perf_event_mmap_page *add_ring(struct mr_sampler *s, int fd)
{
	void *p = MAP_FAILED;

	pthread_mutex_lock(&s->lock);
	if (s->rings < RINGS)
		p = mmap(NULL, (PAGES + 1) * s->page_size,
			 PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		s->ring[s->rings++] = (struct ring){ fd, p };
	else if (!*s->reason) {
		snprintf(s->reason, sizeof(s->reason),
			 "some threads are not sampled: no memory for a ring: "
			 "%s",
			 strerror(errno));
		snprintf(s->remedy, sizeof(s->remedy),
			 "raise `ulimit -l`, or sysctl "
			 "kernel.perf_event_mlock_kb");
	}
	pthread_mutex_unlock(&s->lock);
	if (p != MAP_FAILED)
		return p;
	close(fd);
	return NULL;
}

const struct perf_event_mmap_page *mr_sampler_attach(struct mr_sampler *s)
{
	struct perf_event_attr a;
	int fd;

	if (!s || !s->works || s->pid)
		return NULL;
	a = s->attr;
	fd = mr_perf_open(&a, 0, -1, -1);
	return fd >= 0 ? add_ring(s, fd) : NULL;
}

/* A thread of the other process on one CPU: the first has the CPU's ring,
 * the others write to it as well. */
static int follow_on(struct mr_sampler *s, pid_t tid, int cpu, int *first,
		     struct mr_err *err)
{
	int fd = s->works ? try_attr(s, tid, cpu) : find_attr(s, tid, cpu);

	if (fd == -ENODEV)
		return 0; /* this CPU is off */
	if (fd < 0) {
		refuse(s, -fd);
		return 0;
	}
	s->works = true;
	if (*first < 0) {
		if (add_ring(s, fd))
			*first = fd;
		return 0;
	}
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, *first) < 0) {
		refuse(s, errno);
		close(fd);
		return 0;
	}
	if (mr_grow(&s->more, &s->more_cap, s->mores + 1, sizeof(*s->more),
		    1 << 20, err)) {
		close(fd);
		return MR_ENOMEM;
	}
	s->more[s->mores++] = fd;
	return 0;
}

static int follow(struct mr_sampler *s, struct mr_err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char path[64];
	int e = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
	for (int cpu = 0; cpu < cpus && !e; cpu++) {
		DIR *d = opendir(path);
		struct dirent *of;
		int first = -1;

		if (!d)
			return mr_err_sys(err, errno, path, "cannot open");
		while (!e && (of = readdir(d)))
			if (of->d_name[0] != '.')
				e = follow_on(s, (pid_t)atoi(of->d_name), cpu,
					      &first, err);
		closedir(d);
	}
	if (s->works)
		read_maps(s, s->pid);
	return e;
}

/* Can this process look at itself? */
static void try_self(struct mr_sampler *s)
{
	int fd = find_attr(s, 0, -1);

	s->works = fd >= 0;
	if (fd < 0)
		refuse(s, -fd);
	else
		close(fd);
}

int mr_sampler_open(struct mr_sampler **out, pid_t pid, int hz,
		    struct mr_recorder *r, struct mr_err *err)
{
	struct mr_sampler *s = mr_alloc(1, sizeof(*s), err);
	int e = 0;

	*out = NULL;
	if (!s)
		return MR_ENOMEM;
	s->recorder = r;
	s->pid = pid;
	s->hz = hz;
	s->page_size = (size_t)sysconf(_SC_PAGESIZE);
	pthread_mutex_init(&s->lock, NULL);
	s->record = mr_alloc(1, RECORD, err);
	if (!s->record)
		e = MR_ENOMEM;
	else if (pid)
		e = follow(s, err);
	else
		try_self(s);
	if (e) {
		mr_sampler_free(s);
		return e;
	}
	tell(s, false);
	if (s->works) {
		s->tap = (struct mr_tap){ .look = look,
					  .self = s,
					  .every = look_every(s) };
		mr_recorder_tap(r, &s->tap);
	}
	*out = s;
	return 0;
}

void mr_sampler_free(struct mr_sampler *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->rings; i++) {
		munmap(s->ring[i].page, (PAGES + 1) * s->page_size);
		close(s->ring[i].fd);
	}
	for (size_t i = 0; i < s->mores; i++)
		close(s->more[i]);
	pthread_mutex_destroy(&s->lock);
	mr_str_fini(&s->out);
	free(s->more);
	free(s->record);
	free(s);
}
