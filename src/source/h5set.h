/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset of an HDF5 file as we read it: where its bytes lie and what has
 * been done to them. libhdf5 fills it in when a file is opened (h5file.h);
 * from then on rows are read without that library, which lets only one thread
 * in at a time (h5read.h).
 */
#ifndef MR_SOURCE_H5SET_H
#define MR_SOURCE_H5SET_H

#include "source/source.h"

#define MR_H5_NOWHERE UINT64_MAX /* no bytes were ever written */

enum { MR_H5_FILTERS = 8 };

enum mr_h5_layout {
	MR_H5_CONTIGUOUS,
	MR_H5_CHUNKED,
	MR_H5_LIBRARY, /* of a kind that only libhdf5 reads */
};

enum mr_h5_filter { MR_H5_DEFLATE, MR_H5_SHUFFLE, MR_H5_FLETCHER };

/* The numbers as they are stored; `dtype` is what becomes of them. */
struct mr_h5_type {
	enum mr_dtype dtype;
	size_t size;	/* bytes of one */
	bool big;	/* the highest byte comes first */
	bool is_signed; /* of those that become wider */
};

struct mr_h5_chunk {
	uint64_t id; /* its place in the grid of chunks, row by row */
	uint64_t at; /* in the file */
	uint32_t size, mask;
};

struct mr_h5_set {
	const char *name; /* the caller's */
	struct mr_h5_type type;
	enum mr_h5_layout layout;
	int ndim;
	uint64_t dims[MR_MAX_DIMS];
	size_t row_bytes; /* as stored */
	uint8_t fill[8];  /* an element that was never written */
	uint64_t at;	  /* of a contiguous one, or MR_H5_NOWHERE */
	/* Of a chunked one: */
	uint64_t chunk[MR_MAX_DIMS], grid[MR_MAX_DIMS];
	size_t chunk_bytes;
	struct mr_h5_chunk *chunks; /* those that exist, sorted by id */
	size_t n_chunks, cap_chunks;
	int filters; /* in the order of writing */
	enum mr_h5_filter filter[MR_H5_FILTERS];
	int64_t handle; /* libhdf5's, of MR_H5_LIBRARY */
};

/* Frees what the set holds, apart from the handle. */
void mr_h5_set_fini(struct mr_h5_set *s);

/* The chunk's first element, as text: "[0, 128]". */
void mr_h5_chunk_text(const struct mr_h5_set *s, uint64_t id, char *buf,
		      size_t cap);

#endif
