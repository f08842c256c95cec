/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta.json: what a prepared data set is. Written whole and last, so that a
 * directory with this file is complete; meta.json.part, with the plan alone,
 * marks one that is being made.
 */
#ifndef MR_STORE_META_H
#define MR_STORE_META_H

#include "store/record.h"
#include "store/table.h"

#define MR_META_NAME "meta.json"
#define MR_META_PART "meta.json.part"

/* A file that the set was made from, as it was then. */
struct mr_stamp {
	char *path; /* absolute */
	uint64_t size;
	int64_t changed; /* nanoseconds since 1970 */
};

struct mr_meta_shard {
	uint64_t bytes;
	uint64_t records; /* checksum over those of all its records */
};

struct mr_meta {
	/* the plan, known before the first sample */
	char *pipeline; /* all stages that the set stands for */
	int stages;	/* how many these are, the source included */
	char *deferred; /* those of them still to be done on load, or NULL */
	struct mr_record_plan record;
	uint64_t samples, shards;
	char **classes; /* or NULL */
	size_t class_count;
	struct mr_stamp *stamp;
	size_t stamps;
	struct mr_table *table; /* of the steps; by stage */
	size_t tables;
	uint64_t set; /* identifies all of the above */

	/* known at the end */
	struct mr_meta_shard *shard; /* NULL in a plan */
	uint64_t bad;		     /* samples that had no record */
};

void mr_meta_fini(struct mr_meta *m);

/* Sets m->set, from the plan. */
int mr_meta_identify(struct mr_meta *m, struct mr_err *err);

/* The plan alone to DIR/meta.json.part, or all to DIR/meta.json. */
int mr_meta_write(const struct mr_meta *m, const char *dir, bool part,
		  struct mr_err *err);

/* Read and check one of them. MR_EIO when it is not there. */
int mr_meta_read(struct mr_meta *m, const char *dir, bool part,
		 struct mr_err *err);

/* "" when both plans are the same, else what differs, for people. */
void mr_meta_compare(const struct mr_meta *had, const struct mr_meta *want,
		     char *why, size_t cap);

/*
 * Are the files that the set was made from still as they were, and do the
 * files that its steps read have the same contents? MR_EDATA, naming the first
 * that is not. Where none of them is there any more, the set stands alone.
 */
int mr_meta_check_source(const struct mr_meta *m, struct mr_err *err);

#endif
