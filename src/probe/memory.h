/* SPDX-License-Identifier: Apache-2.0 */
/* How fast memory is: plain loops over buffers far larger than the caches. */
#ifndef MR_PROBE_MEMORY_H
#define MR_PROBE_MEMORY_H

#include "probe/watch.h"

/* Bytes per second; NaN: not measured. */
struct mr_membw {
	uint64_t bytes; /* that were gone over */
	int threads;	/* of the figures with several */
	/* [0]: one thread, [1]: several. A copy counts what it reads and what
	 * it writes, as STREAM does. */
	double read[2], copy[2];
	char reason[160]; /* why not, or "" */
};

void mr_membw_none(struct mr_membw *m, const char *reason);

/* Over far more than `cache` bytes, which all last-level caches hold; 0: not
 * known. Each of the four takes `seconds`. That there is no memory for it is
 * told in m->reason; MR_ESTATE when stopped. */
int mr_membw_measure(struct mr_membw *m, int threads, uint64_t cache,
		     double seconds, struct mr_watch *w, struct mr_err *err);

#endif
