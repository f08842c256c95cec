/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the files that the processes of a command have recorded, each its
 * own (PID.mrt in a folder), into one trace per rank: threads are numbered
 * anew, names of steps and numbers of batches made one. Two kinds of chunks
 * are for this alone and end here: PART (u32: the process that this one works
 * for) and LIVE (u32s: processes that still ran when this one ended, so that
 * their files end without DONE).
 */
#ifndef MR_TRACE_MERGE_H
#define MR_TRACE_MERGE_H

#include "core/err.h"

/* A trace that was made. */
struct mr_made {
	char *path;
	int rank; /* -1: there are none */
};

struct mr_merged {
	unsigned parts;	      /* files that were merged */
	struct mr_made *made; /* one, or one per rank; none without spans */
	size_t n, cap;
	uint64_t spans;
	bool complete; /* all processes ended in an orderly way */
};

/* Also after an error; { 0 } is allowed. The files stay. */
void mr_merged_fini(struct mr_merged *g);

/* "a/b.mrt" -> "a/b.rank3.mrt"; to be freed. NULL without memory. */
char *mr_merge_name(const char *out, int rank);

/*
 * Merge what is in `folder` into `out`, or into mr_merge_name(out, RANK) where
 * there are several ranks; got->made says which. `meta` is JSON, the first META
 * of each. A file that cannot be read, from where it cannot, is left out. Where
 * there are no spans nothing is made, and what is at `out` stays. The folder
 * stays as it is; a trace is there as a whole or not at all.
 */
int mr_merge(const char *folder, const char *out, const char *meta,
	     struct mr_merged *got, struct mr_err *err);

/*
 * Merge traces of several ranks, wherever they were recorded, into one on one
 * clock, that of the machine which has run longest: those of one machine share
 * it, others are aligned by the time of day. Batches of different ranks get
 * different numbers; the trace itself is of no rank.
 */
int mr_merge_ranks(const char *const *files, size_t n, const char *out,
		   struct mr_merged *got, struct mr_err *err);

#endif
