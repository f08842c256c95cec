/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that measure, while the calling one shows how far it is and looks
 * whether it shall stop.
 */
#ifndef MR_PROBE_WATCH_H
#define MR_PROBE_WATCH_H

#include <stdatomic.h>

#include "core/err.h"

struct mr_watch {
	/* May be NULL. Called by the thread that measures or waits for those
	 * who do; true: stop. */
	bool (*progress)(void *data, const char *what, double done);
	void *data;
	const char *what; /* is being measured */
	uint64_t start;	  /* CLOCK_MONOTONIC's ns */
	double seconds;	  /* that all of it may take, about */
	atomic_bool stop; /* threads look at it between two pieces of work */
};

/* start is now. */
void mr_watch_init(struct mr_watch *w, double seconds);

/* Shows the progress; true when it is time to stop, now and from then on. */
bool mr_watch_look(struct mr_watch *w);

/* MR_ESTATE "stopped" when it was, else 0. */
int mr_watch_stopped(const struct mr_watch *w, struct mr_err *err);

enum { MR_WATCH_THREADS = 64 };

/*
 * Call work(arg, i) for each i below `threads` (MR_WATCH_THREADS at most), on
 * as many threads, which take no signals; the calling one looks meanwhile.
 * Returns when all have. MR_ELIMIT when not all could be started.
 */
int mr_watch_run(struct mr_watch *w, int threads,
		 void (*work)(void *arg, int i), void *arg, struct mr_err *err);

#endif
