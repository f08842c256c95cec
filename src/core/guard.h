/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from mappings of files that somebody may shorten meanwhile, which
 * kills a process that is not prepared for SIGBUS.
 */
#ifndef MR_CORE_GUARD_H
#define MR_CORE_GUARD_H

#include "core/err.h"

/*
 * Takes SIGBUS, for as long as the process lives. Signals that have nothing
 * to do with a guarded copy go to whoever had it before.
 */
int mr_guard_take(struct mr_err *err);

/* memcpy(), but false when src is no longer backed by its file. The thread
 * must not block SIGBUS. */
bool mr_guard_copy(void *dst, const void *src, size_t n);

#endif
