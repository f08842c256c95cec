/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bare loops share: a clock, a shuffled order, threads, and the line
 * of JSON that they all end with. They use nothing of Millrace: they are what
 * it is measured against.
 */
#ifndef BARE_H
#define BARE_H

#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BARE_MAX_THREADS 256

static inline double bare_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A positive number of the command line, or exit. */
static inline size_t bare_number(const char *s)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || end == s || v == 0 || v > SIZE_MAX / 2)
		errx(2, "not a positive number: '%s'", s);
	return (size_t)v;
}

static inline int bare_threads(const char *s)
{
	size_t v = bare_number(s);

	if (v > BARE_MAX_THREADS)
		errx(2, "at most %d threads", BARE_MAX_THREADS);
	return (int)v;
}

static inline void *bare_alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		err(1, "%zu x %zu bytes", n, size);
	return p;
}

/* Buffers that are in memory before the clock starts. */
static inline char *bare_buffer(size_t bytes)
{
	void *p;

	if (posix_memalign(&p, 4096, bytes))
		errx(1, "no memory for %zu bytes of buffers", bytes);
	memset(p, 1, bytes);
	return p;
}

/* The numbers 0..n-1 in random order (Fisher-Yates over xorshift64*). */
static inline uint32_t *bare_order(size_t n)
{
	uint32_t *p = bare_alloc(n, sizeof(*p));
	uint64_t s = 88172645463325252ULL;

	for (size_t i = 0; i < n; i++)
		p[i] = (uint32_t)i;
	for (size_t i = n - 1; i > 0; i--) {
		uint64_t r;
		uint32_t t = p[i];

		s ^= s >> 12;
		s ^= s << 25;
		s ^= s >> 27;
		r = (s * 2685821657736338717ULL >> 32) % (i + 1);
		p[i] = p[r];
		p[r] = t;
	}
	return p;
}

/*
 * The batches of all epochs, dealt out to the threads one at a time. A thread
 * asks for its next batch with bare_deal(), which gives how many samples it
 * has and where they stand in the order; 0 when all is done.
 */
struct bare_deck {
	size_t samples, batch, epochs;
	const uint32_t *order;
	_Atomic size_t next;
};

static inline size_t bare_deal(struct bare_deck *d, const uint32_t **at)
{
	size_t per_epoch = (d->samples + d->batch - 1) / d->batch;
	size_t b = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed);
	size_t first = b % per_epoch * d->batch;

	if (b >= per_epoch * d->epochs)
		return 0;
	*at = d->order + first;
	return d->samples - first < d->batch ? d->samples - first : d->batch;
}

/* Run fn(arg[i]) on n threads, args of `size` bytes; the seconds it took. */
static inline double bare_run(int n, void *(*fn)(void *), void *args,
			      size_t size)
{
	pthread_t t[BARE_MAX_THREADS];
	double start = bare_now();

	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, fn, (char *)args + i * size))
			errx(1, "cannot start thread %d", i);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	return bare_now() - start;
}

static inline void bare_report(size_t samples, size_t bytes, int threads,
			       double seconds)
{
	printf("{\"samples\": %zu, \"bytes\": %zu, \"threads\": %d, "
	       "\"seconds\": %.6f}\n",
	       samples, bytes, threads, seconds);
}

#endif
