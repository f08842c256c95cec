/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that only grows, in large blocks and past the page cache where its
 * file system allows that: what is written once and read by later jobs would
 * push out of memory what is read now, and copying it there takes the CPU as
 * long as the disk takes.
 */
#ifndef MR_STORE_APPEND_H
#define MR_STORE_APPEND_H

#include "core/err.h"

struct mr_append {
	int fd;	      /* borrowed */
	bool direct;  /* past the page cache */
	uint8_t *buf; /* what is not written yet, */
	size_t len;
	uint64_t at; /* and where it goes: at a block's beginning */
};

/* Its buffer, for one file after another. */
int mr_append_init(struct mr_append *a, struct mr_err *err);
void mr_append_fini(struct mr_append *a);

/* All others return 0 or an errno. */

/* Goes on with a file at its end, which is at `offset`. */
int mr_append_begin(struct mr_append *a, int fd, uint64_t offset);
int mr_append(struct mr_append *a, const void *data, size_t n);
/* Everything is in the file then, but may be on the disk later. */
int mr_append_end(struct mr_append *a);

#endif
