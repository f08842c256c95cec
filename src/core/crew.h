/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that do not need one another, done by several threads. */
#ifndef MR_CORE_CREW_H
#define MR_CORE_CREW_H

#include "core/err.h"

enum { MR_CREW_MAX = 64 };

/*
 * Call job(arg, i) for each i below n, on up to `threads` threads, of which
 * this one is one; those that do not start are not missed. After a failure no
 * other job begins; the error is that of the first one that failed, by its
 * number.
 */
int mr_crew_run(int threads, size_t n,
		int (*job)(void *arg, size_t i, struct mr_err *err), void *arg,
		struct mr_err *err);

#endif
