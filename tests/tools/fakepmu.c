/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, gives a process another machine's perf_event_open():
 * FAKE_PERF=13 makes it fail with that errno; FAKE_PERF=pmu gives a CPU with
 * two counters, whose hardware events are software ones under their names:
 * cycles the task clock, instructions and cache-references the CPU clock,
 * cache-misses and branches page faults. The others are unknown.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COUNTERS = 2, FILES = 65536 };

static unsigned char members[FILES]; /* hardware events of a leader */

static int stand_in(struct perf_event_attr *a)
{
	switch (a->config) {
	case PERF_COUNT_HW_CPU_CYCLES:
		a->config = PERF_COUNT_SW_TASK_CLOCK;
		break;
	case PERF_COUNT_HW_INSTRUCTIONS:
	case PERF_COUNT_HW_CACHE_REFERENCES:
		a->config = PERF_COUNT_SW_CPU_CLOCK;
		break;
	case PERF_COUNT_HW_CACHE_MISSES:
	case PERF_COUNT_HW_BRANCH_INSTRUCTIONS:
		a->config = PERF_COUNT_SW_PAGE_FAULTS;
		break;
	default:
		return -1;
	}
	a->type = PERF_TYPE_SOFTWARE;
	a->precise_ip = 0;
	return 0;
}

static long fake(long (*real)(long, ...), struct perf_event_attr *attr, int pid,
		 int cpu, int group, long flags)
{
	struct perf_event_attr a = *attr;
	int hw = a.type == PERF_TYPE_HARDWARE, sampling = a.sample_freq != 0;
	long fd;

	if (hw && (stand_in(&a) < 0 || a.precise_ip)) {
		errno = ENOENT;
		return -1;
	}
	if (hw && sampling) /* the task clock does not sample so */
		a.config = PERF_COUNT_SW_CPU_CLOCK;
	if (hw && group >= 0 && group < FILES && members[group] >= COUNTERS) {
		errno = EINVAL;
		return -1;
	}
	fd = real(SYS_perf_event_open, &a, pid, cpu, group, flags);
	if (fd >= 0 && fd < FILES && group < 0)
		members[fd] = (unsigned char)hw;
	else if (fd >= 0 && group < FILES && hw)
		members[group]++;
	return fd;
}

__attribute__((visibility("default"))) long syscall(long number, ...)
{
	long (*real)(long, ...) =
		(long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	const char *how = getenv("FAKE_PERF");
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number != SYS_perf_event_open || !how)
		return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (strcmp(how, "pmu") == 0)
		return fake(real, (struct perf_event_attr *)(uintptr_t)a[0],
			    (int)a[1], (int)a[2], (int)a[3], a[4]);
	errno = atoi(how);
	return -1;
}
