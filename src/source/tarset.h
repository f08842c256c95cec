/* SPDX-License-Identifier: Apache-2.0 */
/* Several tars as one sequence of samples, opened by several threads. */
#ifndef MR_SOURCE_TARSET_H
#define MR_SOURCE_TARSET_H

#include "source/tarcache.h"

struct mr_tar {
	char *path;
	/* What its bytes are read from; NULL: it was closed, since too many
	 * would be open, and is opened for each sample. */
	struct mr_input *in;
	struct mr_tar_index index;
	uint64_t first; /* sample in it, of all tars */
};

struct mr_tar_set {
	struct mr_tar *tar;
	size_t n;
	uint64_t samples;
};

struct mr_tar_options {
	int threads;
	enum mr_tar_keep keep;
	uint64_t unpacked; /* bytes that compressed ones may take */
	bool map;
};

/* Also on failure, fini() frees what there is. The error is that of the first
 * tar, by its place, of those that were tried. */
int mr_tar_set_open(struct mr_tar_set *s, const char *pattern,
		    const struct mr_tar_options *opt, struct mr_err *err);
void mr_tar_set_fini(struct mr_tar_set *s);

/* The tar of a sample; *i becomes its number within that. */
const struct mr_tar *mr_tar_set_find(const struct mr_tar_set *s, uint64_t *i);

#endif
