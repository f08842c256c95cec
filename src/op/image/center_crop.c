/* SPDX-License-Identifier: Apache-2.0 */
/* center_crop: the middle of an image, as torchvision's CenterCrop. */
#include <math.h>

#include "op/image.h"

struct center_crop {
	struct mr_ints size;
	int64_t h, w;
};

static const struct mr_param params[] = { MR_INTS(struct center_crop, size,
						  NULL, 1, MR_IMAGE_SIDE,
						  "N, or height x width"),
					  MR_PARAM_END };

static int open(void *self, struct mr_err *err)
{
	struct center_crop *c = self;

	return mr_image_size("center_crop", &c->size, &c->h, &c->w, err);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct center_crop *c = self;

	return mr_image_infer("center_crop", in, c->h, c->w, out, err);
}

/* Where `want` begins in `have`. A smaller image gets a border, the odd line
 * of which is at the end; of a larger one, halves round to even. */
static int64_t begin(int64_t have, int64_t want)
{
	if (want > have)
		return -((want - have) / 2);
	return (int64_t)rint((double)(have - want) / 2);
}

static int view(const struct mr_opctx *cx, struct mr_view *v)
{
	const struct center_crop *c = cx->self;
	struct mr_rect r = { begin(v->window.w, c->w), begin(v->window.h, c->h),
			     c->w, c->h };

	mr_view_crop(v, &r);
	return 0;
}

static const struct mr_image_op image = {
	.flags = MR_VIEW_PADS,
	.view = view,
};

const struct mr_op mr_op_center_crop = {
	.name = "center_crop",
	.help = "the middle of an image; a smaller one gets a black border",
	.size = sizeof(struct center_crop),
	.params = params,
	.open = open,
	.infer = infer,
	.image = &image,
};
