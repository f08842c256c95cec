/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page shows of a trace, gathered in two passes: how long things took,
 * what each thread did in each part of the time, how the consumer waited, and
 * all that happened in a few windows of time. As much as a page can hold,
 * however long the trace is.
 */
#ifndef MR_REPORT_GATHER_H
#define MR_REPORT_GATHER_H

#include "trace/sink/roll.h"

enum {
	MR_PAGE_COLUMNS = 400, /* parts of the time */
	MR_PAGE_LANES = 64,    /* threads that are drawn */
	MR_PAGE_WORST = 12,    /* batches and samples that are listed */
	MR_PAGE_WINDOWS = 7,
	MR_PAGE_SPANS = 4000, /* of a window */
	MR_PAGE_BUCKETS = 320,
};

/* Durations of one kind, or step. */
struct mr_tally {
	uint64_t n, total, most, bytes;
	uint64_t bucket[MR_PAGE_BUCKETS]; /* as of core/counter.h */
};

/* What a thread is doing; the sums of a part of the time, in ns. */
enum mr_doing {
	MR_DOING_READ,
	MR_DOING_STEPS,
	MR_DOING_COLLATE,
	MR_DOING_WAIT_IN,
	MR_DOING_WAIT_OUT,
	MR_DOING_WORK, /* with all of the above */
	MR_DOING_NEXT,
	MR_DOING_CONSUME,
	MR_DOING_OTHER,
	MR_DOINGS
};

struct mr_column {
	uint64_t samples;
	uint64_t waits, wait, wait_most;
	uint64_t delays, delay, delay_most;
};

/* A batch that the consumer waited for. */
struct mr_worst {
	uint64_t batch, begun, ready, asked, taken;
};

struct mr_slow {
	uint64_t sample, batch, start, ns;
	uint32_t thread;
	uint32_t lane; /* or MR_PAGE_LANES: not drawn */
	bool failed;
};

struct mr_drawn {
	uint64_t start, duration, sample, batch;
	uint8_t kind, step, flags, lane;
};

struct mr_window {
	char title[64];
	uint64_t from, to;
	uint64_t least; /* ns: shorter ones were left out */
	uint64_t seen;
	struct mr_drawn *s;
	size_t count;
};

struct mr_page {
	const struct mr_roll *r;
	struct mr_tally *step[256], *kind[64]; /* NULL: none */
	const struct mr_roll_thread *lane[MR_PAGE_LANES];
	size_t lanes, all_lanes;
	uint8_t *lane_of; /* by the thread's number - 1 */
	uint64_t (*doing)[MR_PAGE_COLUMNS][MR_DOINGS]; /* by lane */
	struct mr_column column[MR_PAGE_COLUMNS];
	struct mr_worst worst[MR_PAGE_WORST]; /* the longest wait first */
	size_t worsts;
	struct mr_slow slow[MR_PAGE_WORST]; /* the slowest first */
	size_t slows;
	uint64_t early; /* when a few batches had been taken; 0: none were */
	uint64_t taken;
	struct mr_window window[MR_PAGE_WINDOWS];
	size_t windows;
	struct meeting *meeting; /* batches of which one side is known */
	struct mr_err failed;
};

int mr_page_gather(struct mr_page *p, struct mr_roll *r, struct mr_mrt *m,
		   struct mr_err *err);
void mr_page_fini(struct mr_page *p);

/* The second pass: chooses the windows, and fills them. */
int mr_page_windows(struct mr_page *p, struct mr_roll *r, struct mr_mrt *m,
		    struct mr_err *err);

#endif
