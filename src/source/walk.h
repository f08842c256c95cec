/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walk: all files below a directory, listed by several threads at once.
 *
 * Links to files and directories are followed, except links to a directory
 * that leads to them. Names that begin with a dot are left out, and so is
 * all that is neither file nor directory. A link to nothing counts as a
 * file: reading it then says what is wrong with it.
 *
 * The order does not depend on threads or file system: by the folder
 * directly below the root, then by directory (whole paths compared as
 * bytes), then by file name. That is the order of torchvision's ImageFolder.
 *
 * A file costs its name and 5 bytes; a directory its path and some 50.
 */
#ifndef MR_SOURCE_WALK_H
#define MR_SOURCE_WALK_H

#include "core/err.h"

struct mr_walk_dir {
	uint32_t files;
	uint32_t label;	  /* of the folder below the root; 0 in the root */
	uint32_t path_at; /* of the path, from where the names begin */
	uint32_t name[];  /* where the sorted names begin; the names follow */
};

struct mr_walk {
	struct mr_walk_dir **dir; /* sorted. With files in them, or directly
				   * below the root */
	uint64_t *first;	  /* file of each directory, and the total */
	size_t dirs;
	uint32_t *folder; /* the directories directly below the root */
	size_t folders;
};

struct mr_walk_options {
	int threads;
	/* Which files to list, NULL for all; called from all threads. */
	bool (*keep)(const char *name, size_t len, const void *data);
	const void *data;
};

/* On failure there is nothing to fini; the message names the directory. */
int mr_walk(struct mr_walk *w, const char *root,
	    const struct mr_walk_options *opt, struct mr_err *err);
void mr_walk_fini(struct mr_walk *w);

/* The directory of file i, and the file's name. */
const struct mr_walk_dir *mr_walk_file(const struct mr_walk *w, uint64_t i,
				       const char **name);

static inline const char *mr_walk_name(const struct mr_walk_dir *d, uint32_t i)
{
	return (const char *)(d->name + d->files) + d->name[i];
}

/* Relative to the root, which itself is "". */
static inline const char *mr_walk_path(const struct mr_walk_dir *d)
{
	return (const char *)(d->name + d->files) + d->path_at;
}

#endif
