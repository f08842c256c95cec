/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A prepared data set that is read: meta.json, and the shards' indices in
 * memory, 32 bytes for each sample.
 */
#ifndef MR_STORE_SET_H
#define MR_STORE_SET_H

#include "io/input.h"
#include "store/meta.h"
#include "store/shard.h"

struct mr_set_shard {
	struct mr_input *input;
	uint64_t first;	  /* sample */
	uint64_t even;	  /* bytes of each of its records, or 0 when they
			   * differ: the index need not be looked at */
	uint64_t keys_at; /* in the file */
	uint64_t keys;	  /* bytes */
	uint64_t keys_checksum;
	char *lost;    /* NULL, or why all its samples are bad */
	bool doubtful; /* its index is damaged: each entry may be wrong */
};

struct mr_set {
	char *dir;
	struct mr_meta meta;
	struct mr_set_shard *shard;
	uint8_t *entries; /* of all samples, as in the files */
	bool lenient;
};

/*
 * Open the set in dir, which may be a URL. Indices are checked; records are
 * not. `threads` may help. Lenient: a damaged entry is a bad sample, and so
 * are all of a damaged shard of several; else either is an error. On failure
 * close() is still to be called.
 */
int mr_set_open(struct mr_set *s, const char *dir, int threads, bool lenient,
		struct mr_err *err);
void mr_set_close(struct mr_set *s);

/* Map the shards, so that extents have their bytes in memory (SIGBUS is taken:
 * guard.h). One that cannot be mapped is read. */
void mr_set_map(struct mr_set *s);

/* Where a sample lies: its shard, and its extent in x. */
const struct mr_set_shard *mr_set_locate(const struct mr_set *s, uint64_t index,
					 struct mr_shard_entry *e);
/* The same with all that the index says. */
const struct mr_set_shard *mr_set_find(const struct mr_set *s, uint64_t index,
				       struct mr_shard_entry *e);

/* Its key, read from the file, or its number when that fails, as snprintf(). */
size_t mr_set_key(const struct mr_set *s, uint64_t index, char *buf,
		  size_t cap);

/* "the record of sample N, shard FILE, bytes A to B": for messages. */
void mr_set_place(const struct mr_set *s, uint64_t index, char *buf,
		  size_t cap);

/* Why a sample that is marked as bad is so. */
int mr_set_bad(const struct mr_set *s, uint64_t index, struct mr_err *err);

#endif
