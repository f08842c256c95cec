/* SPDX-License-Identifier: Apache-2.0 */
/* cast: change the element type. */
#include "kernel/convert.h"
#include "op/op.h"

struct cast {
	enum mr_dtype dtype;
};

static const struct mr_param params[] = {
	MR_DTYPE(struct cast, dtype, NULL, "the new element type"), MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct cast *c = self;

	(void)err;
	*out = *in;
	out->dtype = c->dtype;
	return 0;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	(void)cx;
	mr_convert(in->data, in->dtype, out->data, out->dtype,
		   (size_t)mr_tensor_elements(in));
	return 0;
}

const struct mr_op mr_op_cast = {
	.name = "cast",
	.help = "change the element type; reals to integers truncate and "
		"saturate, integers keep their low bits",
	.flags = MR_OP_SHAPE_KEEP | MR_OP_ELEMENTS,
	.size = sizeof(struct cast),
	.params = params,
	.infer = infer,
	.run = run,
};
