/* SPDX-License-Identifier: Apache-2.0 */
/* stored: a part of the samples comes from a prepared set; done by the loader,
 * declared here. */
#include "op/op.h"

static const struct mr_param params[] = {
	MR_TEXT(struct mr_stored_params, dir, NULL,
		"a directory that prepare --first N or --subset N wrote, of "
		"the steps before this one"),
	MR_INT(struct mr_stored_params, first, "0", 0, 1e18,
	       "of its samples only so many; 0: all"),
	MR_BOOL(struct mr_stored_params, check, "yes",
		"refuse the set when other steps made it, or when the files it "
		"was made from have changed"),
	MR_PARAM_END
};

const struct mr_op mr_op_stored = {
	.name = "stored",
	.help = "take a part of the samples as they are here from a prepared "
		"set, and only the others through the steps before; before "
		"random steps",
	.size = sizeof(struct mr_stored_params),
	.params = params,
};
