/* SPDX-License-Identifier: Apache-2.0 */
/* log: the natural logarithm of each number. */
#include "op/frames.h"

struct log {
	double offset;
};

static const struct mr_param params[] = {
	MR_REAL(struct log, offset, "1e-8", 0, 1e30,
		"added first, so that silence is not minus infinity"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	if (in->dtype != MR_F32)
		return mr_op_refuse("log", in, "it wants f32; `cast f32` first",
				    err);
	*out = *in;
	return 0;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct log *l = cx->self;

	mr_log(in->data, (float)l->offset, (size_t)mr_tensor_elements(in),
	       out->data);
	return 0;
}

static int map(const struct mr_opctx *cx, const float *src, size_t inputs,
	       size_t n, float *dst)
{
	const struct log *l = cx->self;

	mr_log(src, (float)l->offset, inputs * n, dst);
	return 0;
}

static const struct mr_frames_op frames_op = { .map = map };

const struct mr_op mr_op_log = {
	.name = "log",
	.help = "ln(x + offset), f32",
	.flags = MR_OP_SHAPE_KEEP,
	.size = sizeof(struct log),
	.params = params,
	.infer = infer,
	.run = run,
	.frames = &frames_op,
};
