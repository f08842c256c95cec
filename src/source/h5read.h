/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an HDF5 dataset, read by any number of threads at once. */
#ifndef MR_SOURCE_H5READ_H
#define MR_SOURCE_H5READ_H

#include "io/input.h"
#include "source/h5set.h"

/*
 * What a thread keeps for one dataset of each file: chunks that it has
 * decoded, since neighbouring rows lie in the same ones. Start from { 0 }.
 */
struct mr_h5_cache {
	struct mr_h5_slot *slot;
	size_t n;
};

void mr_h5_cache_fini(struct mr_h5_cache *c);

struct libdeflate_decompressor;

/* Which rows, and with what. */
struct mr_h5_rows {
	const struct mr_h5_set *set;
	struct mr_input *in;
	uint64_t file;	    /* its number, to tell cached chunks apart */
	uint64_t first, n;  /* rows */
	uint64_t keep_rows; /* that later reads may ask for again */
	size_t limit;	    /* bytes that a chunk may take */
	struct mr_h5_cache *cache;
	struct libdeflate_decompressor **inflate; /* made when first needed */
	struct mr_arena *scratch;
	struct mr_err *err;
};

/*
 * Rows [first, first + n) to `to`, converted to set->type.dtype. Errors name
 * file, dataset and chunk. Not for sets of MR_H5_LIBRARY.
 */
int mr_h5_read(const struct mr_h5_rows *r, void *to);

/* Bytes that `rows` rows take once converted. */
size_t mr_h5_bytes(const struct mr_h5_set *s, uint64_t rows);

#endif
