/* SPDX-License-Identifier: Apache-2.0 */
/* stored: the first samples come from a prepared set; done by the loader,
 * declared here. */
#include "op/op.h"

static const struct mr_param params[] = {
	MR_TEXT(struct mr_stored_params, dir, NULL,
		"a directory that prepare --first N wrote, of the steps before "
		"this one"),
	MR_PARAM_END
};

const struct mr_op mr_op_stored = {
	.name = "stored",
	.help = "take the first samples as they are here from a prepared set, "
		"and only the others through the steps before; before random "
		"steps",
	.size = sizeof(struct mr_stored_params),
	.params = params,
};
