/* SPDX-License-Identifier: Apache-2.0 */
/* A .npy file, its header read and checked against its size. */
#ifndef MR_SOURCE_NPYFILE_H
#define MR_SOURCE_NPYFILE_H

#include "io/input.h"
#include "source/source.h"

struct mr_npy {
	char *path;		/* the caller's */
	const char *member;	/* of a .npz file, for messages, or NULL */
	struct mr_input *input; /* NULL before it is opened */
	enum mr_dtype dtype;
	int ndim;
	int64_t shape[MR_MAX_DIMS];
	uint64_t offset; /* of the data */
	uint64_t bytes;	 /* of the file */
	uint64_t whole;	 /* rows that are there, fewer when it is truncated */

	/* of a file in a data set */
	uint64_t first, samples;
	char *lost; /* NULL, or why samples beyond `whole` are bad */
};

/*
 * Open a->path. What is no NumPy file, truncated or of a type that we do
 * not take is an error that says what to do; of one that is truncated in its
 * data, all else is known then. a->input is the caller's to close, also on
 * failure.
 */
int mr_npy_open(struct mr_npy *a, struct mr_err *err);

/*
 * The header of an array of a->bytes bytes, of which n are at hand: type,
 * shape and where the data begins. Errors are without the file's name;
 * MR_ELIMIT when its header is longer than n.
 */
int mr_npy_parse(struct mr_npy *a, const void *bytes, size_t n,
		 struct mr_err *err);

#endif
