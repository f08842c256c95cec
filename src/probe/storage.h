/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the storage behind a directory can do, in fio's terms: reads of a
 * large file in sequence and at random, and of many small files, by one
 * thread and by several, cold.
 */
#ifndef MR_PROBE_STORAGE_H
#define MR_PROBE_STORAGE_H

#include "io/shape.h"
#include "probe/reads.h"

enum mr_storage_kind {
	MR_STORAGE_SEQUENTIAL, /* 1 MiB at a time */
	MR_STORAGE_RANDOM_4K,
	MR_STORAGE_RANDOM_128K,
	MR_STORAGE_FILES, /* open, read, close */
	MR_STORAGE_KINDS
};

struct mr_storage_run {
	enum mr_storage_kind kind;
	size_t block; /* bytes of a request */
	int threads;
	struct mr_reads_result r;
	double resident;  /* share in memory before; NaN: not known */
	char reason[160]; /* why there are no figures, or "" */
};

enum { MR_STORAGE_RUNS = 2 * MR_STORAGE_KINDS };

struct mr_storage {
	char dir[256];	      /* as it was given */
	char fs[32];	      /* "ext4", or "" */
	char device[128];     /* what is mounted there, or "" */
	bool memory;	      /* tmpfs: the figures are those of memory */
	double free;	      /* bytes; NaN: not known */
	char reason[400];     /* why nothing was measured, or "" */
	bool full, read_only; /* that is why */
	bool direct;	      /* past the page cache, by O_DIRECT */
	char direct_reason[120];
	uint64_t file_bytes, files, each; /* what was read */
	/* Of each kind with one thread, then with several: [2 * kind]. */
	struct mr_storage_run run[MR_STORAGE_RUNS];
};

struct mr_storage_options {
	const char *dir;
	uint64_t bytes; /* of the large file; 0: what suits, 512 MiB at most */
	double seconds; /* for all of it, about */
	int threads;	/* of the runs with several */
	bool direct;	/* O_DIRECT where the file system allows it */
};

/* "sequential", "random_4k", ... */
const char *mr_storage_kind_name(enum mr_storage_kind k);

/* Nothing measured, for this reason. */
void mr_storage_none(struct mr_storage *s, const char *reason);

/*
 * Measure. That nothing can be written there, or nothing fits, is no error:
 * s->reason says so. Errors: there is no such directory (MR_EIO), `bytes` was
 * given and does not fit (MR_ELIMIT), stopped (MR_ESTATE), no memory. Leaves
 * no files behind.
 */
int mr_storage_measure(struct mr_storage *s, const struct mr_storage_options *o,
		       struct mr_watch *w, struct mr_err *err);

/* What was measured as a model that the shaper can imitate; false when too
 * little was. */
bool mr_storage_profile(const struct mr_storage *s, struct mr_profile *p);

/* The profile as a text that mr_profile_parse() reads. */
void mr_storage_profile_text(const struct mr_profile *p, char *buf, size_t cap);

#endif
