/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources. How one is declared is in plugin.h; here is what all of them may
 * use, and how the pipe finds them.
 */
#ifndef MR_SOURCE_H
#define MR_SOURCE_H

#include "core/err.h"
#include "core/mem.h"
#include "core/tensor.h"
#include "millrace/plugin.h"

/* All sources built in, ends with NULL; made by tools/registry.py. */
extern const struct mr_source *const mr_sources[];

/* Append a field to fs. shape: ndim numbers, or NULL for a scalar. */
void mr_fields_add(struct mr_fields *fs, const char *name, enum mr_dtype dtype,
		   int ndim, const int64_t *shape);

/* A sorted list of paths that match a glob (or the one path, when it has no
 * wildcard); MR_EIO naming the pattern when there is none. The caller frees
 * each and the array. */
int mr_glob(const char *pattern, char ***paths, size_t *n, struct mr_err *err);

#endif
