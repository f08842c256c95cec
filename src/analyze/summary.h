/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace says: the steps' times, the batches' ways, who held up whom,
 * the slowest samples, and a budget of the workers' time that adds up. Works
 * on traces alone, wherever they were recorded.
 */
#ifndef MR_ANALYZE_SUMMARY_H
#define MR_ANALYZE_SUMMARY_H

#include "analyze/map.h"
#include "trace/told.h"

/* Durations: how many, how long, how they are spread. 64 buckets for each
 * power of two: a quantile is right within 1 %. */
enum { MR_TIMES_BUCKETS = 64 * 42 };

struct mr_times {
	uint64_t n, total, most; /* ns */
	uint64_t below_100us, below_10ms;
	uint32_t *bucket; /* MR_TIMES_BUCKETS, made with the first */
};

/* False when there is no memory. */
bool mr_times_add(struct mr_times *t, uint64_t ns);
/* ns below which the share q of them lies; 0 when there are none. */
double mr_times_quantile(const struct mr_times *t, double q);
void mr_times_fini(struct mr_times *t);

/* A thread of the trace, or a process's. */
struct mr_trace_thread {
	struct mr_told_thread is;
	uint64_t spans, lost;
	uint64_t first, last; /* of its spans: start and end */
	/* ns by kind of span; of the steps, of reads and of others without a
	 * sample's number; requests that overlap are counted each */
	uint64_t sum[MR_SPAN_KINDS], read, after;
	/* the batch that it made last, + 1; ns of `next` in which it made the
	 * batch itself, as there are no workers */
	uint64_t made, own;
	/* the dearest step so far of the sample at hand */
	uint64_t sample, batch, step_ns;
	uint8_t step;
};

/* A batch's way; times in ns, 0 when the trace does not say. */
struct mr_trace_batch {
	uint64_t number;
	uint64_t begun, ready; /* prepared */
	uint64_t asked, taken; /* by the consumer, */
	uint64_t consumed;     /* until it asked for another */
	uint64_t blocked;      /* ns of waiting while a later one lay ready */
	uint32_t thread;       /* that finished it, */
	uint32_t consumer;     /* and that took it; 0: nobody did */
	uint64_t line;	       /* which of its iterators gave it; 0: unknown */
	bool late;	       /* ready after a later one */
};

struct mr_trace_sample {
	uint64_t sample, batch, start, ns;
	uint32_t thread;
	uint8_t step; /* that took most of it, */
	uint64_t step_ns;
	char *key; /* or NULL */
};

enum { MR_TRACE_SLOWEST = 10 };

struct mr_trace {
	struct mr_mrt_header header;
	char *meta;			/* JSON, or NULL */
	char *step[256];		/* names; NULL: none */
	struct mr_trace_thread *thread; /* by number; [0] is none */
	size_t threads, thread_cap;
	struct mr_trace_batch *batch; /* those that it names, by number */
	size_t batches, batch_cap;
	struct mr_map64 batch_at; /* their places, while it is read */

	uint64_t spans, lost, failed; /* failed: samples */
	uint64_t samples, bytes;
	uint64_t start, end; /* of all spans */
	bool whole;	     /* it was ended, not cut off: */
	const char *cut;     /* why not, or NULL */

	struct mr_times of_step[256];
	uint64_t step_bytes[256];
	struct mr_times of_sample, of_collate, of_fetch;
	/* of batches: made, waited for, lain ready until taken, used */
	struct mr_times prepare, wait, delay, consume;
	uint64_t late, blocked; /* batches; ns of head-of-line blocking */

	struct mr_trace_sample slowest[MR_TRACE_SLOWEST]; /* slowest first */
	size_t slow;

	/*
	 * Thread-seconds of the workers, which the parts of the budget add up
	 * to: workers x seconds; of processes that are not Millrace's, which
	 * come and go, from each one's first span to its last.
	 */
	bool foreign;
	int workers;	    /* at the same time, */
	int worker_threads; /* and all of them, one after another */
	double seconds, thread_seconds;
	struct {
		double steps, fetch, samples, collate, wait_in, wait_out,
			engine, consumer, unattributed;
	} budget;
	double busy_consumer, waiting_consumer; /* seconds */
};

/* Reads the whole file. What is cut off is left out, and said. */
int mr_trace_read(struct mr_trace *t, const char *path, struct mr_err *err);
void mr_trace_fini(struct mr_trace *t);

/* What follows from the batches and threads once all spans are read. */
int mr_trace_conclude(struct mr_trace *t, struct mr_err *err);

const char *mr_trace_step_name(const struct mr_trace *t, uint8_t step);

#endif
