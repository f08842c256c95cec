/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/memory.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "kernel/cpu.h"

enum {
	LEAST = 256 << 20, /* bytes of the buffer */
	SLICE = 64 << 20,  /* of each thread, at least */
	PIECE = 1 << 20,   /* between two looks at the clock */
};

typedef uint64_t four __attribute__((vector_size(32)));

/* Four chains of additions, so that memory is what it waits for. */
static inline __attribute__((always_inline)) uint64_t add_up(const char *p,
							     size_t n)
{
	const four *v = (const four *)(const void *)p;
	four s[4] = { 0 }, t;

	for (size_t i = 0; i + 4 <= n / sizeof(four); i += 4)
		for (size_t k = 0; k < 4; k++)
			s[k] += v[i + k];
	t = s[0] + s[1] + s[2] + s[3];
	return t[0] + t[1] + t[2] + t[3];
}

static uint64_t sum_plain(const char *p, size_t n)
{
	return add_up(p, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t sum_avx2(const char *p,
							 size_t n)
{
	return add_up(p, n);
}
#else
#define sum_avx2 sum_plain
#endif

struct job {
	struct mr_watch *w;
	char *buf;
	size_t slice; /* of each thread: reads all of it, copies a half */
	bool copy;
	double seconds;
	struct worker {
		_Alignas(MR_ALIGN) uint64_t bytes;
		uint64_t begin, end, sum;
	} worker[MR_WATCH_THREADS];
};

static void touch(void *arg, int i)
{
	struct job *j = arg;

	for (size_t at = 0; at < j->slice && !atomic_load(&j->w->stop);
	     at += PIECE)
		memset(j->buf + (size_t)i * j->slice + at, i + 1, PIECE);
}

static void go_over(void *arg, int i)
{
	struct job *j = arg;
	struct worker *me = &j->worker[i];
	char *p = j->buf + (size_t)i * j->slice;
	size_t half = j->slice / 2 / PIECE * PIECE;
	size_t range = j->copy ? half : j->slice, at = 0;
	uint64_t (*sum)(const char *, size_t) =
		mr_cpu_avx2() ? sum_avx2 : sum_plain;
	uint64_t until = mr_clock_ns() + (uint64_t)(j->seconds * 1e9);

	me->begin = mr_clock_ns();
	me->bytes = 0;
	do {
		if (j->copy)
			memcpy(p + half + at, p + at, PIECE);
		else
			me->sum += sum(p + at, PIECE);
		me->bytes += j->copy ? 2 * PIECE : PIECE;
		at = at + PIECE < range ? at + PIECE : 0;
		me->end = mr_clock_ns();
	} while (me->end < until && !atomic_load(&j->w->stop));
}

static double rate(const struct job *j, int threads)
{
	uint64_t begin = UINT64_MAX, end = 0;
	double bytes = 0;

	for (int i = 0; i < threads; i++) {
		const struct worker *one = &j->worker[i];

		bytes += (double)one->bytes;
		begin = one->begin < begin ? one->begin : begin;
		end = one->end > end ? one->end : end;
	}
	return end > begin ? bytes / (double)(end - begin) * 1e9 : NAN;
}

/* The calling thread looks at the clock; one thread has all the memory. */
static int measure(struct mr_membw *m, struct job *j, int several,
		   struct mr_err *err)
{
	int threads = several ? m->threads : 1, e;

	j->slice = m->bytes / (size_t)threads / PIECE * PIECE;
	j->copy = false;
	e = mr_watch_run(j->w, threads, go_over, j, err);
	if (!e)
		m->read[several] = rate(j, threads);
	j->copy = true;
	if (!e)
		e = mr_watch_run(j->w, threads, go_over, j, err);
	if (!e)
		m->copy[several] = rate(j, threads);
	return e;
}

/* Far more than the caches hold, but not what the machine has left. */
static uint64_t buffer_size(int threads, uint64_t cache)
{
	uint64_t want = LEAST, most = mr_machine_memory() / 8;
	long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (cache * 4 > want)
		want = cache * 4;
	if ((uint64_t)threads * SLICE > want)
		want = (uint64_t)threads * SLICE;
	if (pages > 0 && (uint64_t)pages * (uint64_t)page / 4 < most)
		most = (uint64_t)pages * (uint64_t)page / 4;
	if (want > most)
		want = most;
	return want / PIECE * PIECE;
}

void mr_membw_none(struct mr_membw *m, const char *reason)
{
	*m = (struct mr_membw){ .read = { NAN, NAN }, .copy = { NAN, NAN } };
	snprintf(m->reason, sizeof(m->reason), "%s", reason);
}

static int measure_all(struct mr_membw *m, double seconds, struct mr_watch *w,
		       struct mr_err *err)
{
	struct job *j = mr_alloc_aligned(sizeof(*j), err);
	int e = j ? 0 : MR_ENOMEM;

	if (e)
		return e;
	*j = (struct job){ .w = w, .seconds = seconds };
	j->buf = mr_map(m->bytes, err);
	j->slice = m->bytes / (size_t)m->threads / PIECE * PIECE;
	if (!j->buf)
		e = MR_ENOMEM;
	else
		madvise(j->buf, m->bytes, MADV_HUGEPAGE);
	if (!e)
		e = mr_watch_run(w, m->threads, touch, j, err);
	for (int several = 0; several < 2 && !e; several++)
		e = measure(m, j, several, err);
	mr_unmap(j->buf, m->bytes);
	free(j);
	return e;
}

int mr_membw_measure(struct mr_membw *m, int threads, uint64_t cache,
		     double seconds, struct mr_watch *w, struct mr_err *err)
{
	int e;

	mr_membw_none(m, "");
	m->threads = threads;
	m->bytes = buffer_size(threads, cache);
	w->what = "memory";
	if (m->bytes < (uint64_t)threads * 4 * PIECE) {
		m->bytes = 0;
		snprintf(m->reason, sizeof(m->reason),
			 "too little memory is free");
		return 0;
	}
	e = measure_all(m, seconds, w, err);
	if (mr_watch_stopped(w, err))
		return MR_ESTATE;
	if (e) {
		mr_membw_none(m, "");
		snprintf(m->reason, sizeof(m->reason), "%.150s", err->text);
	}
	return 0;
}
