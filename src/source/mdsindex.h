/* SPDX-License-Identifier: Apache-2.0 */
/* index.json of a data set in MosaicML's shards, read and checked. */
#ifndef MR_SOURCE_MDSINDEX_H
#define MR_SOURCE_MDSINDEX_H

#include "io/input.h"
#include "source/unpacked.h"

struct mr_mds_column {
	char *name, *encoding;
	uint64_t size; /* 0: each sample says it */
};

struct mr_mds_shard {
	char *raw, *zip; /* relative paths; zip may be NULL */
	enum mr_packing packing;
	uint64_t samples;
};

struct mr_mds_index {
	struct mr_mds_column *column;
	struct mr_mds_shard *shard;
	size_t columns, shards;
};

/* All shards must have the same columns. Frees with fini, also what a
 * failure left. */
int mr_mds_index_read(struct mr_mds_index *x, const char *path,
		      struct mr_err *err);
void mr_mds_index_fini(struct mr_mds_index *x);

#endif
