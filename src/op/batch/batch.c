/* SPDX-License-Identifier: Apache-2.0 */
/* batch: collate samples; done by the loader, declared here. */
#include "op/op.h"

static const struct mr_param params[] = {
	MR_INT(struct mr_batch_params, count, NULL, 1, 1 << 20,
	       "samples per batch"),
	MR_BOOL(struct mr_batch_params, drop_last, "no",
		"leave out the last batch when it is not full; over several "
		"ranks, give all the same number of batches"),
	MR_TEXT(struct mr_batch_params, pad, "",
		"fill samples of different shapes up to the largest of their "
		"batch with this number; without it they are joined end to "
		"end, with offsets"),
	MR_PARAM_END
};

const struct mr_op mr_op_batch = {
	.name = "batch",
	.help = "collate samples into contiguous arrays, one per field",
	.size = sizeof(struct mr_batch_params),
	.params = params,
};
