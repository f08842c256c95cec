/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files to measure a storage with: a large one, which has no name, and many
 * small ones in a directory of their own. Their bytes do not compress, and no
 * two blocks are the same, so that no storage can save itself the work.
 */
#ifndef MR_PROBE_TESTFILES_H
#define MR_PROBE_TESTFILES_H

#include "io/evict.h"
#include "probe/watch.h"

struct mr_testfiles {
	char *dir; /* in which they are; made by open() */
	int dir_fd;
	int fd; /* of the large one; -1 as long as there is none */
	uint64_t bytes;
	uint64_t names; /* small ones that may be there */
	uint64_t files; /* small ones that are complete: 0 to files - 1 */
	size_t each;	/* bytes of each */
};

/* A directory ".millrace-doctor-XXXXXX" in `parent`. MR_EIO with the reason:
 * read-only, not allowed. */
int mr_testfiles_open(struct mr_testfiles *t, const char *parent,
		      struct mr_err *err);

/* Removes everything; takes one that was not opened, but zeroed. */
void mr_testfiles_close(struct mr_testfiles *t);

/*
 * Write them, and see that they are on the disk, for so many seconds about:
 * what is there then counts, when it is anything. A full disk ends it in the
 * same way. MR_EIO when nothing could be written, MR_ESTATE when stopped.
 */
int mr_testfiles_large(struct mr_testfiles *t, struct mr_watch *w,
		       uint64_t bytes, double seconds, struct mr_err *err);
int mr_testfiles_small(struct mr_testfiles *t, struct mr_watch *w,
		       uint64_t files, size_t each, int threads, double seconds,
		       struct mr_err *err);

/* The large one is done with; its space is free again. */
void mr_testfiles_drop_large(struct mr_testfiles *t);

/* Evict them from the page cache. */
void mr_testfiles_evict_large(const struct mr_testfiles *t,
			      struct mr_evicted *sum);
int mr_testfiles_evict_small(const struct mr_testfiles *t, struct mr_watch *w,
			     int threads, struct mr_evicted *sum,
			     struct mr_err *err);

/* Open small file i, with these flags; a descriptor, or -1 and errno. */
int mr_testfiles_at(const struct mr_testfiles *t, uint64_t i, int flags);

/* A descriptor of the large file of its own, with these flags. */
int mr_testfiles_reopen(const struct mr_testfiles *t, int flags);

#endif
