/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from all spans together: the batches' order, who held up
 * whom, the budget. */
#include "analyze/summary.h"

#include <stdlib.h>

#include "core/mem.h"

/* ---- batches ---- */

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * A batch's place: batches of one iterator stand in a line, in the order in
 * which they left it. Other iterators, also those of the same thread, and
 * other ranks have lines of their own, which hold nobody up in this one.
 */
struct place {
	struct mr_trace_batch *b;
	uint64_t consumer, line, left;
};

static bool same_line(const struct place *a, const struct place *b)
{
	return a->consumer == b->consumer && a->line == b->line;
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->consumer != y->consumer)
		return x->consumer < y->consumer ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return (x->b > y->b) - (x->b < y->b);
}

/* p NULL: only how many there will be. One that nobody took stands after the
 * one before it, if there is but one line; else its line is not known. */
static size_t line_up(struct mr_trace *t, struct place *p)
{
	struct place at = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < t->batches; i++) {
		struct mr_trace_batch *b = &t->batch[i];

		if (b->taken)
			at = (struct place){ NULL, b->consumer, b->line,
					     b->taken };
		else if (!b->ready || at.line)
			continue;
		at.b = b;
		if (p)
			p[n] = at;
		n++;
	}
	return n;
}

static bool in_order(const struct place *p, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (by_place(&p[i - 1], &p[i]) > 0)
			return false;
	return true;
}

/*
 * Head-of-line blocking: the consumer waits for a batch while a later one
 * lies ready. From the last batch to the first, with the earliest moment at
 * which one of those behind was ready.
 */
static void find_blocked(struct mr_trace *t, const struct place *p, size_t n)
{
	uint64_t earliest = UINT64_MAX;

	for (size_t i = n; i-- > 0;) {
		struct mr_trace_batch *b = p[i].b;
		uint64_t from;

		if (i + 1 < n && !same_line(&p[i], &p[i + 1]))
			earliest = UINT64_MAX;
		if (!b->ready)
			continue;
		b->late = b->ready > earliest;
		t->late += b->late;
		from = later(b->asked, earliest);
		if (b->asked && from < b->ready) {
			b->blocked = b->ready - from;
			t->blocked += b->blocked;
		}
		earliest = b->ready < earliest ? b->ready : earliest;
	}
}

static int find_order(struct mr_trace *t, struct mr_err *err)
{
	size_t n = line_up(t, NULL);
	struct place *p;

	if (!n)
		return 0;
	p = mr_alloc(n, sizeof(*p), err);
	if (!p)
		return MR_ENOMEM;
	line_up(t, p);
	if (!in_order(p, n))
		qsort(p, n, sizeof(*p), by_place);
	find_blocked(t, p, n);
	free(p);
	return 0;
}

static bool batch_times(struct mr_trace *t)
{
	bool ok = true;

	for (size_t i = 0; i < t->batches && ok; i++) {
		const struct mr_trace_batch *b = &t->batch[i];

		if (b->ready)
			ok = mr_times_add(&t->prepare, b->ready - b->begun);
		if (ok && b->taken)
			ok = mr_times_add(&t->wait, b->taken - b->asked);
		if (ok && b->taken && b->ready)
			ok = mr_times_add(
				&t->delay,
				b->taken > b->ready ? b->taken - b->ready : 0);
		if (ok && b->consumed && b->consumed >= b->taken && b->taken)
			ok = mr_times_add(&t->consume, b->consumed - b->taken);
	}
	return ok;
}

/* ---- the budget ---- */

static double seconds(uint64_t ns)
{
	return (double)ns * 1e-9;
}

static bool is_worker(const struct mr_trace_thread *h)
{
	return strcmp(h->is.role, "worker") == 0 || h->sum[MR_SPAN_SAMPLE] > 0;
}

static double at_least_0(double v)
{
	return v > 0 ? v : 0;
}

/* Steps without a sample: ours work on whole batches. In a process that is
 * not Millrace's their samples have no numbers, and hold them. */
static uint64_t after_batch(const struct mr_trace *t,
			    const struct mr_trace_thread *h)
{
	return t->foreign ? 0 : h->after;
}

/* What the loader took in all: it began epochs, and made batches, within
 * `next` where there are no workers. */
static double loading(const struct mr_trace_thread *h)
{
	uint64_t batches = h->sum[MR_SPAN_BATCH];

	return seconds(h->sum[MR_SPAN_START] +
		       (h->own > batches ? h->own : batches));
}

/*
 * Nested spans: work (in a process that is not Millrace's: batch) holds
 * samples, collating and waits; samples hold steps, of which step 0 is the
 * read. Whoever makes batches itself does all the rest with them.
 */
static void add_worker(struct mr_trace *t, const struct mr_trace_thread *h)
{
	const uint64_t *sum = h->sum, after = after_batch(t, h);
	double waits = seconds(sum[MR_SPAN_WAIT_IN] + sum[MR_SPAN_WAIT_OUT]);
	double inside =
		seconds(sum[MR_SPAN_SAMPLE] + sum[MR_SPAN_COLLATE] + after);
	double work = seconds(sum[MR_SPAN_WORK]), engine, life;

	if (work > 0) {
		engine = at_least_0(work - inside - waits);
	} else {
		engine = at_least_0(loading(h) - inside);
		work = inside + engine + waits;
	}
	life = t->foreign ? seconds(h->last - h->first) : t->seconds;
	t->workers++;
	t->thread_seconds += life;
	t->budget.steps += seconds(sum[MR_SPAN_STEP] - h->read);
	t->budget.fetch += seconds(h->read);
	t->budget.samples += at_least_0(seconds(sum[MR_SPAN_SAMPLE]) -
					seconds(sum[MR_SPAN_STEP] - after));
	t->budget.collate += seconds(sum[MR_SPAN_COLLATE]);
	t->budget.wait_in += seconds(sum[MR_SPAN_WAIT_IN]);
	t->budget.wait_out += seconds(sum[MR_SPAN_WAIT_OUT]);
	t->budget.engine += engine;
	if (h->own)
		t->budget.consumer += at_least_0(life - work);
	else
		t->budget.unattributed += at_least_0(life - work);
}

static int by_time(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* How many of these stretches overlap at most. */
static int most_at_once(uint64_t *from, uint64_t *to, size_t n)
{
	size_t ended = 0;
	int most = 0;

	qsort(from, n, sizeof(*from), by_time);
	qsort(to, n, sizeof(*to), by_time);
	for (size_t i = 0; i < n; i++) {
		while (to[ended] <= from[i])
			ended++;
		if ((int)(i + 1 - ended) > most)
			most = (int)(i + 1 - ended);
	}
	return most;
}

/* Each epoch may have processes of its own: workers are those that were there
 * at the same time. */
static int count_workers(struct mr_trace *t, struct mr_err *err)
{
	uint64_t *from, *to;
	size_t n = 0;

	t->worker_threads = t->workers;
	if (!t->foreign || t->workers < 2)
		return 0;
	from = mr_alloc(2 * (size_t)t->workers, sizeof(*from), err);
	if (!from)
		return MR_ENOMEM;
	to = from + t->workers;
	for (size_t i = 0; i < t->threads; i++) {
		const struct mr_trace_thread *h = &t->thread[i];

		if (!is_worker(h) || h->last <= h->first)
			continue;
		from[n] = h->first;
		to[n++] = h->last;
	}
	if (n)
		t->workers = most_at_once(from, to, n);
	free(from);
	return 0;
}

int mr_trace_conclude(struct mr_trace *t, struct mr_err *err)
{
	t->seconds = seconds(t->end - t->start);
	if (find_order(t, err))
		return MR_ENOMEM;
	if (!batch_times(t))
		return mr_err_set(err, MR_ENOMEM, "out of memory");
	for (size_t i = 0; i < t->threads; i++) {
		const struct mr_trace_thread *h = &t->thread[i];

		t->waiting_consumer += seconds(h->sum[MR_SPAN_NEXT]);
		t->busy_consumer += seconds(h->sum[MR_SPAN_CONSUME]);
		if (is_worker(h))
			add_worker(t, h);
	}
	return count_workers(t, err);
}
