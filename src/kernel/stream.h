/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies past the CPU's caches. An ordinary store first reads the line that
 * it writes to; where as much is written as no cache holds, that is a third
 * of the memory's traffic for nothing.
 */
#ifndef MR_KERNEL_STREAM_H
#define MR_KERNEL_STREAM_H

#include <stddef.h>

/* Bytes from which on it pays: less is still in a cache when somebody reads
 * it. */
enum { MR_STREAM_LEAST = 1 << 20 };

/* memcpy(). Others see the bytes in order after mr_stream_end(). */
void mr_stream_copy(void *to, const void *from, size_t n);
void mr_stream_end(void);

#endif
