/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexes of containers, kept so that the next opening need not walk through
 * the file again: beside it as NAME.mri, or in the user's cache folder. An
 * index is good for a file of the same size and time of change only; what is
 * stale or damaged counts as missing. Nothing here is ever an error: without
 * a kept index, the caller makes one.
 */
#ifndef MR_SOURCE_INDEXCACHE_H
#define MR_SOURCE_INDEXCACHE_H

#include "io/input.h"

enum mr_index_place {
	MR_INDEX_AUTO, /* beside the file where its folder may be written to
			* and it is not small, else in the cache folder */
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

/* Keep an index, if that can be done. */
void mr_index_save(const struct mr_input *in, const char *kind, int place,
		   const void *index, size_t n);

/* A file name that such an index has, which a wildcard may have matched. */
bool mr_index_is(const char *path);

#endif
