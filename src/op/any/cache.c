/* SPDX-License-Identifier: Apache-2.0 */
/* cache: keep samples in memory; done by the loader, declared here. */
#include "op/op.h"

static const struct mr_param params[] = {
	MR_SIZE(struct mr_cache_params, ram, NULL, 4096, 1e15,
		"bytes of memory for samples"),
	MR_PARAM_END
};

const struct mr_op mr_op_cache = {
	.name = "cache",
	.help = "keep what the step before yields in memory, as many samples "
		"as fit, for the next epochs; before random steps",
	.size = sizeof(struct mr_cache_params),
	.params = params,
};
