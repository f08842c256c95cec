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

/* Sources that this build lacks, and what they need; ends with NULL. */
struct mr_missing {
	const char *name, *needs;
};
extern const struct mr_missing mr_missing_sources[];

/* Append a field to fs. shape: ndim numbers, or NULL for a scalar. */
void mr_fields_add(struct mr_fields *fs, const char *name, enum mr_dtype dtype,
		   int ndim, const int64_t *shape);

/* Field i is a number. */
int mr_load_i64(const struct mr_load *ld, int i, int64_t value,
		struct mr_tensor *f);

/* For a parameter of sources whose files can be mapped: map=yes. */
#define MR_MAP_HELP                                                    \
	"read from a mapping: faster for samples below 100 KB; takes " \
	"SIGBUS, and the mapped part counts as memory in use"

#endif
