/* SPDX-License-Identifier: Apache-2.0 */
/* Evicting files from the page cache, and a look at what stayed. */
#ifndef MR_IO_EVICT_H
#define MR_IO_EVICT_H

#include <stdint.h>

/* What became of some files; add up those of several threads. */
struct mr_evicted {
	uint64_t files, bytes; /* that could be opened */
	uint64_t stayed;       /* bytes that are still in memory */
	uint64_t unknown;      /* files of others: no telling what stayed */
};

/*
 * Evict one file, written out first where that is needed, and add it to
 * *sum. One that cannot be opened is passed over: whoever reads it will say
 * why. Names and attributes stay cached.
 */
void mr_evict_file(const char *path, struct mr_evicted *sum);

/*
 * Adds the bytes of a part of a file, and those of them in memory, counted by
 * pages. length: UINT64_MAX is up to the end. Returns 0, or -1 when the
 * kernel does not tell.
 */
int mr_resident_extent(const char *path, uint64_t offset, uint64_t length,
		       uint64_t *bytes, uint64_t *resident);

#endif
