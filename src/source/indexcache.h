/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexes of files, kept so that the next opening need not walk through the
 * file again: beside it as NAME.mri, or in the user's cache folder, where those
 * of files on servers are. An index is good for a file of the same size, time
 * of change and ETag only; what is stale or damaged counts as missing.
 */
#ifndef MR_SOURCE_INDEXCACHE_H
#define MR_SOURCE_INDEXCACHE_H

#include "io/input.h"

enum mr_index_place {
	MR_INDEX_AUTO, /* beside the file where its folder may be written to,
			* else in the cache folder; none for small files */
	MR_INDEX_BESIDE,
	MR_INDEX_CACHE,
	MR_INDEX_NO,
};

/* For a parameter of sources: MR_ENUM(struct s, index, "auto", ...). */
extern const char *const mr_index_words[];
#define MR_INDEX_HELP                                               \
	"where the index of a large file is kept for the next time" \
	": beside it as NAME.mri, or in the user's cache folder"

/*
 * The index of that kind ("tfrecord") for the file, to be freed by the
 * caller; NULL when there is none. Not more than max bytes.
 */
void *mr_index_load(const struct mr_input *in, const char *kind, int place,
		    size_t max, size_t *n);

/* Keep an index, unless the file may be about to change. Fails only where the
 * user has said where to. */
int mr_index_save(const struct mr_input *in, const char *kind, int place,
		  const void *index, size_t n, struct mr_err *err);

#endif
