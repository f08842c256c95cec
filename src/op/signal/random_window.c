/* SPDX-License-Identifier: Apache-2.0 */
/* random_window: some part of a longer signal, another one in each epoch. */
#include "op/signal.h"

static const struct mr_param params[] = {
	MR_INT(struct mr_cut, size, NULL, 1, 1e12,
	       "its samples, along the last axis"),
	MR_BOOL(struct mr_cut, pad, "no",
		"fill up signals that are shorter with 0; else they are an "
		"error"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	return mr_cut_infer("random_window", self, in, out, err);
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	return mr_cut_shape(cx->self, in, out);
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	int64_t last;
	int e = mr_cut_last(cx->self, in, &last, cx->err);

	if (e)
		return e;
	mr_cut_run(cx->self, in,
		   (int64_t)mr_rng_below(cx->rng, (uint64_t)last + 1), out);
	return 0;
}

const struct mr_op mr_op_random_window = {
	.name = "random_window",
	.help = "some part of a longer signal, along the last axis: another "
		"one in each epoch, all equally likely",
	.flags = MR_OP_RANDOM,
	.size = sizeof(struct mr_cut),
	.params = params,
	.infer = infer,
	.shape = shape,
	.run = run,
};
