/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a shuffling loader must do over one file of equal samples:
 * N threads copy them in random order into batch buffers that they use again
 * and again. `pread` reads them, `memcpy` copies them from a mapping.
 *
 * usage: bare_read pread|memcpy FILE OFFSET SAMPLE BATCH THREADS EPOCHS [RING]
 * OFFSET is where the first sample begins, RING the batch buffers per thread.
 */
#include "bare.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reader {
	struct bare_deck *deck;
	int fd;
	const char *map; /* NULL: pread */
	size_t offset, sample, ring;
	char *bufs;
	size_t done;
};

static void fetch(const struct reader *r, size_t i, char *to)
{
	size_t at = r->offset + i * r->sample;

	if (r->map) {
		memcpy(to, r->map + at, r->sample);
		return;
	}
	for (size_t got = 0; got < r->sample;) {
		ssize_t n = pread(r->fd, to + got, r->sample - got,
				  (off_t)(at + got));
		if (n <= 0)
			err(1, "sample %zu: short read", i);
		got += (size_t)n;
	}
}

static void *work(void *arg)
{
	struct reader *r = arg;
	const uint32_t *at;
	size_t n;

	for (size_t b = 0; (n = bare_deal(r->deck, &at)); b++) {
		char *buf = r->bufs + b % r->ring * r->deck->batch * r->sample;

		for (size_t i = 0; i < n; i++)
			fetch(r, at[i], buf + i * r->sample);
		r->done += n;
	}
	return NULL;
}

static const char *map_file(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

int main(int argc, char **argv)
{
	struct bare_deck deck = { 0 };
	struct reader *r, one = { .deck = &deck, .ring = 4 };
	struct stat st;
	int threads;
	double seconds;
	size_t done = 0;

	if (argc < 8 || argc > 9 ||
	    (strcmp(argv[1], "pread") != 0 && strcmp(argv[1], "memcpy") != 0))
		errx(2, "usage: bare_read pread|memcpy FILE OFFSET SAMPLE "
			"BATCH THREADS EPOCHS [RING]");
	one.fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (one.fd < 0 || fstat(one.fd, &st) < 0)
		err(1, "%s", argv[2]);
	one.offset = bare_number(argv[3]);
	one.sample = bare_number(argv[4]);
	deck.batch = bare_number(argv[5]);
	threads = bare_threads(argv[6]);
	deck.epochs = bare_number(argv[7]);
	if (argc > 8)
		one.ring = bare_number(argv[8]);
	if ((size_t)st.st_size < one.offset + one.sample)
		errx(1, "%s: no whole sample in it", argv[2]);
	deck.samples = ((size_t)st.st_size - one.offset) / one.sample;
	deck.order = bare_order(deck.samples);
	if (strcmp(argv[1], "memcpy") == 0)
		one.map = map_file(one.fd, (size_t)st.st_size);

	r = bare_alloc((size_t)threads, sizeof(*r));
	for (int i = 0; i < threads; i++) {
		r[i] = one;
		r[i].bufs = bare_buffer(one.ring * deck.batch * one.sample);
	}
	seconds = bare_run(threads, work, r, sizeof(*r));
	for (int i = 0; i < threads; i++)
		done += r[i].done;
	bare_report(done, done * one.sample, threads, seconds);
	return 0;
}
