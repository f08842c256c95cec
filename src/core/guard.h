/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from mappings of files that somebody may shorten meanwhile, which
 * kills a process that is not prepared for SIGBUS.
 */
#ifndef MR_CORE_GUARD_H
#define MR_CORE_GUARD_H

#include <setjmp.h>
#include <stdint.h>

#include "core/err.h"

/*
 * Takes SIGBUS, for as long as the process lives. Signals that have nothing
 * to do with a guarded copy go to whoever had it before.
 */
int mr_guard_take(struct mr_err *err);

/* memcpy(), but false when src is no longer backed by its file. The thread
 * must not block SIGBUS. */
bool mr_guard_copy(void *dst, const void *src, size_t n);

/*
 * Or for more than a copy: `if (mr_guard_set()) lost...;` marks the place to
 * come back to, in a function that is still at work then; from arm() until
 * disarm(), a fault in those bytes makes it return once more, with true.
 */
#define mr_guard_set() (sigsetjmp(*mr_guard_point(), 0) != 0)
sigjmp_buf *mr_guard_point(void);

/* What the thread's caller has set and armed, while somebody within it does so
 * for himself. */
struct mr_guard {
	volatile uintptr_t from, to;
	sigjmp_buf back;
};
void mr_guard_save(struct mr_guard *outer);
void mr_guard_restore(const struct mr_guard *outer);

void mr_guard_arm(const void *from, size_t n);
void mr_guard_disarm(void);

#endif
