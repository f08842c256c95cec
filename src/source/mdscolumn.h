/* SPDX-License-Identifier: Apache-2.0 */
/* A column of MDS shards: how its values are stored, and the field that it
 * becomes. */
#ifndef MR_SOURCE_MDSCOLUMN_H
#define MR_SOURCE_MDSCOLUMN_H

#include "source/mdsindex.h"
#include "source/number.h"
#include "source/source.h"

enum mr_mds_kind {
	MR_MDS_BYTES,  /* text, pictures, and all that we do not know */
	MR_MDS_NUMBER, /* one */
	MR_MDS_FIXED,  /* an array of the shape that the column says */
	MR_MDS_SHAPED, /* an array whose samples say their shapes */
	MR_MDS_TYPED,  /* ...and their types */
};

struct mr_mds_field {
	const struct mr_mds_column *column;
	size_t at; /* which column */
	enum mr_mds_kind kind;
	const struct mr_number *number; /* NULL of bytes, or not yet known */
	struct mr_spec spec;
	bool picture;
};

/* What the column's encoding says. */
int mr_mds_field_init(struct mr_mds_field *f, const struct mr_mds_column *c,
		      struct mr_err *err);

/* Arrays that say their types and shapes take them from one value. */
int mr_mds_field_learn(struct mr_mds_field *f, const uint8_t *value, size_t n,
		       struct mr_err *err);

/* Field i from its n bytes. */
int mr_mds_field_load(const struct mr_mds_field *f, int i,
		      const struct mr_load *ld, const uint8_t *value, size_t n,
		      struct mr_tensor *t);

#endif
