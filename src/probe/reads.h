/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, made by several threads one after another, and how long they took:
 * what fio calls a job with the engine `psync` and a number of jobs.
 */
#ifndef MR_PROBE_READS_H
#define MR_PROBE_READS_H

#include "probe/watch.h"

enum { MR_READS_ALIGN = 4096 };

struct mr_reads {
	/* Makes request i into buf: the bytes that came, or a negative errno.
	 * Several threads call it. */
	int64_t (*one)(const void *arg, uint64_t i, void *buf);
	const void *arg;
	uint64_t count; /* requests that there are; each is made at most once */
	size_t buffer;	/* of each thread, aligned to MR_READS_ALIGN */
	int threads;	/* each has one request in flight */
	double seconds; /* a thread begins none later, but for its first */
};

/* NaN: not measured. */
struct mr_reads_result {
	uint64_t requests, bytes;
	double seconds; /* from the first one's start to the last one's end */
	double iops, bytes_per_s;
	double mean_us, p50_us, p99_us; /* quantiles within 6 % */
};

/* No requests, and figures that are NaN. */
extern const struct mr_reads_result mr_reads_none;

/*
 * Make the requests until all are made, the time is up or w says stop. The
 * first read that fails ends it: MR_EIO with its errno's text. When it was
 * stopped before any request ended, *out is mr_reads_none.
 */
int mr_reads_run(struct mr_watch *w, const struct mr_reads *r,
		 struct mr_reads_result *out, struct mr_err *err);

/* The numbers below n in a random order that is always the same; freed by
 * the caller. NULL: no memory. */
uint32_t *mr_reads_shuffled(uint32_t n, struct mr_err *err);

#endif
