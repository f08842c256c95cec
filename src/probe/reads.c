/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/reads.h"

#include <math.h>

#include "core/clock.h"
#include "core/counter.h"
#include "core/mem.h"
#include "core/rng.h"

const struct mr_reads_result mr_reads_none = { .seconds = NAN,
					       .iops = NAN,
					       .bytes_per_s = NAN,
					       .mean_us = NAN,
					       .p50_us = NAN,
					       .p99_us = NAN };

/* What one thread has done; on cache lines of its own. */
struct reader {
	_Alignas(MR_ALIGN) uint64_t requests;
	uint64_t bytes, ns;
	uint64_t begin, end;
	struct mr_hist hist;
};

struct run {
	const struct mr_reads *r;
	const struct mr_watch *w;
	uint64_t deadline;
	_Atomic uint64_t next;
	atomic_int failed; /* an errno */
	char *buffers;
	struct reader *reader;
};

static void read_some(void *arg, int k)
{
	struct run *run = arg;
	struct reader *me = &run->reader[k];
	void *buf = run->buffers + (size_t)k * run->r->buffer;
	uint64_t now = mr_clock_ns();

	me->begin = me->end = now;
	/* one at least: a thread may start late on a busy machine */
	while ((now < run->deadline || !me->requests) &&
	       !atomic_load(&run->failed) && !atomic_load(&run->w->stop)) {
		uint64_t i = atomic_fetch_add(&run->next, 1), was = now;
		int64_t got;

		if (i >= run->r->count)
			break;
		got = run->r->one(run->r->arg, i, buf);
		if (got < 0) {
			atomic_store(&run->failed, (int)-got);
			break;
		}
		now = mr_clock_ns();
		mr_hist_add(&me->hist, now - was);
		me->ns += now - was;
		me->bytes += (uint64_t)got;
		me->requests++;
		me->end = now;
	}
}

static void sum_up(const struct run *run, struct mr_reads_result *out)
{
	uint64_t hist[MR_HIST_BUCKETS] = { 0 }, ns = 0;
	uint64_t begin = UINT64_MAX, end = 0;

	*out = mr_reads_none;
	for (int i = 0; i < run->r->threads; i++) {
		const struct reader *one = &run->reader[i];

		if (!one->requests)
			continue;
		out->requests += one->requests;
		out->bytes += one->bytes;
		ns += one->ns;
		begin = one->begin < begin ? one->begin : begin;
		end = one->end > end ? one->end : end;
		mr_hist_sum(hist, &one->hist);
	}
	if (!out->requests || end <= begin)
		return;
	out->seconds = (double)(end - begin) / 1e9;
	out->iops = (double)out->requests / out->seconds;
	out->bytes_per_s = (double)out->bytes / out->seconds;
	out->mean_us = (double)ns / (double)out->requests / 1e3;
	out->p50_us = mr_hist_quantile(hist, 0.5) / 1e3;
	out->p99_us = mr_hist_quantile(hist, 0.99) / 1e3;
}

int mr_reads_run(struct mr_watch *w, const struct mr_reads *r,
		 struct mr_reads_result *out, struct mr_err *err)
{
	size_t n = (size_t)r->threads;
	struct run run = { .r = r, .w = w };
	int e = 0;

	run.deadline = mr_clock_ns() + (uint64_t)(r->seconds * 1e9);
	run.buffers = mr_map(n * r->buffer, err);
	run.reader = mr_alloc_aligned(n * sizeof(*run.reader), err);
	if (!run.buffers || !run.reader)
		e = MR_ENOMEM;
	if (!e)
		e = mr_watch_run(w, r->threads, read_some, &run, err);
	if (!e && run.failed)
		e = mr_err_set(err, MR_EIO, "reading: %s",
			       strerror(run.failed));
	if (!e)
		sum_up(&run, out);
	mr_unmap(run.buffers, n * r->buffer);
	free(run.reader);
	return e;
}

uint32_t *mr_reads_shuffled(uint32_t n, struct mr_err *err)
{
	uint32_t *v = mr_alloc(n, sizeof(*v), err);

	if (!v)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		v[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)(mr_mix64(i + UINT64_C(0x9e3779b9)) % i);
		uint32_t was = v[i - 1];

		v[i - 1] = v[k];
		v[k] = was;
	}
	return v;
}
