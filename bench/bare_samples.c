/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What samples of the program counter cost by themselves: a loop that does
 * nothing else, in turns without and with the kernel's timer, of which nobody
 * reads anything. In a virtual machine each may be an exit or two.
 *
 * usage: bare_samples HZ ROUNDS
 */
#include "bare.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE_MS = 100, PAGES = 33 };

static volatile uint64_t kept;

static double spin(size_t turns)
{
	double began = bare_now();
	uint64_t x = 1;

	for (size_t i = 0; i < turns; i++)
		x = x * 6364136223846793005u + 1;
	kept = x;
	return bare_now() - began;
}

static int open_timer(size_t hz, void **map)
{
	struct perf_event_attr a = {
		.size = sizeof(a),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = hz,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CALLCHAIN,
		.exclude_hv = 1,
		.watermark = 1,
		.wakeup_watermark = 1 << 16,
	};
	long fd = syscall(SYS_perf_event_open, &a, 0, -1, -1,
			  PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		err(1, "perf_event_open");
	*map = mmap(NULL, PAGES * (size_t)getpagesize(), PROT_READ | PROT_WRITE,
		    MAP_SHARED, (int)fd, 0);
	if (*map == MAP_FAILED)
		err(1, "mmap");
	return (int)fd;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	size_t hz, rounds, turns = 1 << 20;
	double *more;

	if (argc != 3)
		errx(2, "usage: bare_samples HZ ROUNDS");
	hz = bare_number(argv[1]);
	rounds = bare_number(argv[2]);
	more = bare_alloc(rounds, sizeof(*more));
	while (spin(turns) < SLICE_MS / 1000.0)
		turns *= 2;
	for (size_t i = 0; i < rounds; i++) {
		double before = spin(turns), with;
		void *map;
		int fd = open_timer(hz, &map);

		with = spin(turns);
		munmap(map, PAGES * (size_t)getpagesize());
		close(fd);
		more[i] = with / ((before + spin(turns)) / 2) - 1;
	}
	qsort(more, rounds, sizeof(*more), by_value);
	printf("{\"percent\": %.3f, \"us\": %.2f}\n", 100 * more[rounds / 2],
	       1e6 * more[rounds / 2] / (double)hz);
	return 0;
}
