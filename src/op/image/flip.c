/* SPDX-License-Identifier: Apache-2.0 */
/* flip: mirror an image left-right with probability p. */
#include "op/image.h"

struct flip {
	double p;
};

static const struct mr_param params[] = { MR_REAL(struct flip, p, "0.5", 0, 1,
						  "probability of mirroring"),
					  MR_PARAM_END };

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	return mr_image_infer("flip", in, in->shape[0], in->shape[1], out, err);
}

static int view(const struct mr_opctx *cx, struct mr_view *v)
{
	const struct flip *f = cx->self;

	if (mr_rng_real(cx->rng) < f->p)
		mr_view_mirror(v);
	return 0;
}

static const struct mr_image_op image = {
	.flags = MR_VIEW_MIRRORS,
	.view = view,
};

const struct mr_op mr_op_flip = {
	.name = "flip",
	.help = "mirror an image left-right, at random",
	.flags = MR_OP_RANDOM,
	.size = sizeof(struct flip),
	.params = params,
	.infer = infer,
	.image = &image,
};
