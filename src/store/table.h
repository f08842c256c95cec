/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that a step reads besides its samples, as a vocabulary or a table of
 * embeddings: what was prepared with it depends on its contents.
 */
#ifndef MR_STORE_TABLE_H
#define MR_STORE_TABLE_H

#include "core/err.h"

struct mr_table {
	char *path; /* absolute */
	uint64_t size, hash;
};

/* Looks at the file at t->path, all of it. */
int mr_table_read(struct mr_table *t, struct mr_err *err);

/* MR_EDATA, naming it, when its contents are others than then. A file that is
 * gone is no offence: what was made stands alone. */
int mr_table_check(const struct mr_table *then, struct mr_err *err);

#endif
