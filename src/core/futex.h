/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping until a word in memory changes. */
#ifndef MR_CORE_FUTEX_H
#define MR_CORE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is `seen`, at most timeout_ns (< 0: no limit). May
 * return early: the caller looks again. */
static inline void mr_futex_wait(atomic_uint *word, unsigned seen,
				 int64_t timeout_ns)
{
	struct timespec t = { timeout_ns / 1000000000,
			      timeout_ns % 1000000000 };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen,
		timeout_ns < 0 ? NULL : &t, NULL, 0);
}

static inline void mr_futex_wake(atomic_uint *word, int waiters)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, waiters, NULL, NULL, 0);
}

#endif
