/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace says of itself, its threads, its steps and its counters: the
 * first pass of attribute.c. */
#ifndef MR_ANALYZE_TRACED_H
#define MR_ANALYZE_TRACED_H

#include "analyze/attribute.h"
#include "trace/mrt.h"

/* Threads of the file: their number to the system's process and thread id,
 * which are both in one number. */
struct mr_threads {
	uint64_t *system; /* 0: unknown */
	size_t n, cap;
};

bool mr_threads_system(const struct mr_threads *t, uint32_t number,
		       uint64_t *out);
void mr_threads_fini(struct mr_threads *t);

int mr_traced(struct mr_attribution *a, struct mr_mrt *m, struct mr_threads *t,
	      struct mr_err *err);

#endif
