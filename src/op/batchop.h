/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps after `batch`: they work on a whole batch once it is collated, and
 * may give a field another number of rows than the batch has samples. The
 * worker that did the batch's last sample runs them.
 */
#ifndef MR_OP_BATCHOP_H
#define MR_OP_BATCHOP_H

#include "op/op.h"

enum { MR_BATCH_MORE = 3 }; /* fields at most that such a step adds */

/* What it is given for one batch. */
struct mr_batch_work {
	const struct mr_opctx *cx;
	uint64_t count;		   /* samples of the batch, >= 1 */
	const struct mr_field *in; /* its field; dense, padded or ragged */
	/* The field as it comes out, then those that it adds. Names and types
	 * are set, dimensions and data are the step's to give. */
	struct mr_field *out;
	/* Memory of the batch for out[i]; NULL: *cx->err says why. */
	void *(*room)(const struct mr_batch_work *w, int i, size_t bytes);
};

/* Its infer() takes the type of a sample and says that of a row. */
struct mr_batch_op {
	/* Fields that it adds, by the types of their rows. */
	struct mr_field_spec more[MR_BATCH_MORE];
	/* Types that depend on parameters. */
	void (*types)(const void *self, struct mr_field_spec *more);
	int (*run)(const struct mr_batch_work *w);
};

#endif
