/* SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

int mr_op_refuse(const char *name, const struct mr_spec *in, const char *why,
		 struct mr_err *err)
{
	char spec[128];

	mr_spec_text(in, spec, sizeof(spec));
	return mr_err_set(err, MR_ETYPE, "%s cannot take %s: %s", name, spec,
			  why);
}
