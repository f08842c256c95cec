/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a shard file besides its records: header, index, footer.
 * docs/format.md draws them.
 */
#ifndef MR_STORE_SHARD_H
#define MR_STORE_SHARD_H

#include "core/err.h"

enum {
	MR_SHARD_VERSION = 1,
	MR_SHARD_HEADER = 64,
	MR_SHARD_ENTRY = 32,
	MR_SHARD_FOOTER = 64,
	MR_SHARD_SUFFIX = 16, /* of its name, at most */
};

struct mr_shard_header {
	uint32_t number;       /* of the shard in its set */
	uint64_t first, count; /* the samples in it */
	uint64_t set;	       /* identifies the set: hash of its plan */
};

/* Of one sample. */
struct mr_shard_entry {
	uint64_t offset, length, checksum;
	uint32_t key; /* where its key begins among the keys, */
	bool bad;     /* no record but the reason why there is none */
};

struct mr_shard_footer {
	uint64_t index; /* where the entries begin */
	uint64_t count; /* of entries */
	uint64_t keys;	/* bytes of keys, right after the entries */
	uint64_t checksum, keys_checksum; /* of both */
	uint64_t records; /* checksum of the entries' checksums */
};

void mr_shard_put_header(uint8_t *to, const struct mr_shard_header *h);
void mr_shard_put_entry(uint8_t *to, const struct mr_shard_entry *e);
void mr_shard_put_footer(uint8_t *to, const struct mr_shard_footer *f);

/* MR_EDATA with the reason, without the file's name. */
int mr_shard_get_header(const uint8_t *from, struct mr_shard_header *h,
			struct mr_err *err);
void mr_shard_get_entry(const uint8_t *from, struct mr_shard_entry *e);
/* size: of the file; all places in the footer lie inside. */
int mr_shard_get_footer(const uint8_t *from, uint64_t size,
			struct mr_shard_footer *f, struct mr_err *err);

/* "shard-00012.mrs" */
void mr_shard_name(char *to, size_t cap, uint64_t number);

/* Into how many shards a set of so many bytes is cut, unless it is said. */
uint64_t mr_shard_number(uint64_t samples, double bytes);

/* The samples of shard k of n: [first, first + count). */
void mr_shard_range(uint64_t samples, uint64_t n, uint64_t k, uint64_t *first,
		    uint64_t *count);
/* And the shard of a sample. */
uint64_t mr_shard_of(uint64_t samples, uint64_t n, uint64_t index);

#endif
