/* SPDX-License-Identifier: Apache-2.0 */
/* greyscale: colours into grey, as Pillow's convert("L"). */
#include "kernel/colour.h"
#include "op/op.h"

enum channels { ONE, THREE };
static const char *const channels[] = { "1", "3", NULL };

struct greyscale {
	int channels;
};

static const struct mr_param params[] = {
	MR_ENUM(struct greyscale, channels, "1", channels,
		"of the result; 3: the grey value three times"),
	MR_PARAM_END
};

static int count(const struct greyscale *g)
{
	return g->channels == THREE ? 3 : 1;
}

static bool is_planes(enum mr_dtype t, int ndim, const int64_t *shape)
{
	return t == MR_F32 && ndim == 3 && shape[0] == 3;
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	int64_t c = in->ndim == 3 ? in->shape[2] : 0;

	*out = *in;
	if (is_planes(in->dtype, in->ndim, in->shape)) {
		out->shape[0] = count(self);
		return 0;
	}
	if (in->dtype != MR_U8 || (c != 1 && c != 3))
		return mr_op_refuse("greyscale", in,
				    "it wants an image, u8 H W C with 1 or 3 "
				    "channels, or f32 C H W with 3",
				    err);
	out->shape[2] = count(self);
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	bool planes = is_planes(in->dtype, in->ndim, in->shape);

	memcpy(out->shape, in->shape, sizeof(out->shape));
	out->shape[planes ? 0 : 2] = count(cx->self);
	return 0;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	if (is_planes(in->dtype, in->ndim, in->shape)) {
		mr_colour_grey_planes(in->data, out->data, count(cx->self),
				      (size_t)(in->shape[1] * in->shape[2]));
		return 0;
	}
	mr_colour_grey(in->data, (int)in->shape[2], out->data, count(cx->self),
		       (size_t)(in->shape[0] * in->shape[1]));
	return 0;
}

const struct mr_op mr_op_greyscale = {
	.name = "greyscale",
	.help = "colours into grey, equal to Pillow's convert(\"L\"); planes "
		"of f32 by the same weights, unrounded",
	.size = sizeof(struct greyscale),
	.params = params,
	.infer = infer,
	.shape = shape,
	.run = run,
};
