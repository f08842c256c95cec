/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast two streams of numbers can be read at all: N threads go through
 * samples of a file in memory, each a row of v and a row of i, f64, and add
 * up both rows. What computes anything of them cannot be faster.
 *
 * usage: bare_sum FILE OFFSET SAMPLE BATCH THREADS EPOCHS
 * OFFSET is where the first sample begins, SAMPLE its bytes, both rows.
 */
#include "bare.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef double four __attribute__((vector_size(32)));

struct reader {
	struct bare_deck *deck;
	const char *map;
	size_t offset, sample, done;
	double sum; /* so that nothing is optimised away */
};

/* Four chains of additions, so that memory is what it waits for. */
static inline __attribute__((always_inline)) double
two_rows(const double *v, const double *i, size_t n)
{
	four s[4] = { 0 }, t;

	for (size_t k = 0; k + 8 <= n; k += 8) {
		four a[4];

		memcpy(&a[0], v + k, sizeof(four));
		memcpy(&a[1], v + k + 4, sizeof(four));
		memcpy(&a[2], i + k, sizeof(four));
		memcpy(&a[3], i + k + 4, sizeof(four));
		for (int j = 0; j < 4; j++)
			s[j] += a[j];
	}
	t = s[0] + s[1] + s[2] + s[3];
	return t[0] + t[1] + t[2] + t[3];
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static double
two_rows_avx2(const double *v, const double *i, size_t n)
{
	return two_rows(v, i, n);
}
#endif

static double add_up(const char *at, size_t bytes)
{
	size_t n = bytes / 2 / sizeof(double);
	const double *v = (const double *)(const void *)at;

#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		return two_rows_avx2(v, v + n, n);
#endif
	return two_rows(v, v + n, n);
}

static void *work(void *arg)
{
	struct reader *r = arg;
	const uint32_t *at;
	size_t n;

	while ((n = bare_deal(r->deck, &at))) {
		for (size_t i = 0; i < n; i++)
			r->sum += add_up(r->map + r->offset + at[i] * r->sample,
					 r->sample);
		r->done += n;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct bare_deck deck = { 0 };
	struct reader *r, one = { .deck = &deck };
	struct stat st;
	size_t done = 0;
	double seconds, sum = 0;
	int fd, threads;

	if (argc != 7)
		errx(2, "usage: bare_sum FILE OFFSET SAMPLE BATCH THREADS "
			"EPOCHS");
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", argv[1]);
	one.offset = bare_number(argv[2]);
	one.sample = bare_number(argv[3]);
	deck.batch = bare_number(argv[4]);
	threads = bare_threads(argv[5]);
	deck.epochs = bare_number(argv[6]);
	if (one.offset % 64 || one.sample % 64 ||
	    (size_t)st.st_size < one.offset + one.sample)
		errx(1, "%s: no whole sample in it", argv[1]);
	deck.samples = ((size_t)st.st_size - one.offset) / one.sample;
	deck.order = bare_order(deck.samples);
	/* Its pages are mapped as they are come to, as they are by whoever
	 * reads the file. */
	one.map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (one.map == MAP_FAILED)
		err(1, "mmap");

	r = bare_alloc((size_t)threads, sizeof(*r));
	for (int i = 0; i < threads; i++)
		r[i] = one;
	seconds = bare_run(threads, work, r, sizeof(*r));
	for (int i = 0; i < threads; i++) {
		done += r[i].done;
		sum += r[i].sum;
	}
	fprintf(stderr, "sum %g\n", sum);
	bare_report(done, done * one.sample, threads, seconds);
	return 0;
}
