/* SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

#include "kernel/convert.h"

int mr_op_refuse(const char *name, const struct mr_spec *in, const char *why,
		 struct mr_err *err)
{
	char spec[128];

	mr_spec_text(in, spec, sizeof(spec));
	return mr_err_set(err, MR_ETYPE, "%s cannot take %s: %s", name, spec,
			  why);
}

bool mr_op_holds(enum mr_dtype t, double value)
{
	double again;
	uint64_t v;

	if (t >= MR_F16)
		return true;
	mr_convert(&value, MR_F64, &v, t, 1);
	mr_convert(&v, t, &again, MR_F64, 1);
	return again == value;
}
