/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HDF5 files, by libhdf5: which datasets there are, of what type and where.
 * The library is entered by one thread at a time, and says nothing on stderr.
 */
#ifndef MR_SOURCE_H5FILE_H
#define MR_SOURCE_H5FILE_H

#include "io/input.h"
#include "source/h5set.h"

/* What to look for in a file. */
struct mr_h5_want {
	char **dataset; /* paths in the file */
	char **attribute;
	int datasets, attributes;
};

struct mr_h5_file {
	char *path;	       /* the caller's */
	struct mr_input *in;   /* for the reads; the caller may close it and
				* open it again */
	struct mr_h5_set *set; /* one for each dataset wanted */
	int sets;
	/* Values of the attributes of each dataset in turn. */
	double *attribute;
	uint64_t rows;	/* that each dataset has */
	uint64_t first; /* sample, for the caller */
	char *lost;	/* NULL, or why it cannot be read; the caller's */
	int64_t handle; /* libhdf5's, when it must read datasets; or -1 */
};

/*
 * Open f->path. Errors name file, dataset and what libhdf5 says; datasets
 * that are missing are told with those that are there. mr_h5_close() also
 * after failure.
 */
int mr_h5_open(struct mr_h5_file *f, const struct mr_h5_want *want,
	       struct mr_err *err);
void mr_h5_close(struct mr_h5_file *f);

/* Rows of a set of MR_H5_LIBRARY, by libhdf5, converted. */
int mr_h5_library_read(const struct mr_h5_file *f, const struct mr_h5_set *s,
		       uint64_t first, uint64_t n, void *to,
		       struct mr_err *err);

#endif
