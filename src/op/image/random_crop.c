/* SPDX-License-Identifier: Apache-2.0 */
/* random_crop: a part of an image anywhere in it, as torchvision's. */
#include "op/image.h"

struct random_crop {
	struct mr_ints size, padding;
	int64_t h, w;
	int64_t left, top, right, bottom;
};

static const struct mr_param params[] = {
	MR_INTS(struct random_crop, size, NULL, 1, MR_IMAGE_SIDE,
		"N, or height x width"),
	MR_INTS(struct random_crop, padding, "0", 0, MR_IMAGE_SIDE,
		"first add a black border: one width, or left/right and "
		"top/bottom, or left, top, right, bottom"),
	MR_PARAM_END
};

static int open(void *self, struct mr_err *err)
{
	struct random_crop *c = self;
	const int64_t *p = c->padding.v;
	int n = c->padding.n;

	if (n != 1 && n != 2 && n != 4)
		return mr_err_set(err, MR_EINVAL,
				  "random_crop: %d values of padding; want 1, "
				  "2 or 4",
				  n);
	c->left = p[0];
	c->top = p[n > 1];
	c->right = n == 4 ? p[2] : c->left;
	c->bottom = n == 4 ? p[3] : c->top;
	return mr_image_size("random_crop", &c->size, &c->h, &c->w, err);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct random_crop *c = self;

	return mr_image_infer("random_crop", in, c->h, c->w, out, err);
}

static int view(const struct mr_opctx *cx, struct mr_view *v)
{
	const struct random_crop *c = cx->self;
	int64_t h = v->window.h + c->top + c->bottom;
	int64_t w = v->window.w + c->left + c->right;
	struct mr_rect r = { 0, 0, c->w, c->h };

	if (h < c->h || w < c->w)
		return mr_err_set(cx->err, MR_EDATA,
				  "an image of %lld x %lld (w x h) is smaller "
				  "than the crop of %lld x %lld; resize it "
				  "before, or say padding=",
				  (long long)w, (long long)h, (long long)c->w,
				  (long long)c->h);
	r.y = (int64_t)mr_rng_below(cx->rng, (uint64_t)(h - c->h + 1)) - c->top;
	r.x = (int64_t)mr_rng_below(cx->rng, (uint64_t)(w - c->w + 1)) -
	      c->left;
	mr_view_crop(v, &r);
	return 0;
}

static const struct mr_image_op image = {
	.flags = MR_VIEW_PADS,
	.view = view,
};

const struct mr_op mr_op_random_crop = {
	.name = "random_crop",
	.help = "a part of an image, anywhere in it",
	.flags = MR_OP_RANDOM,
	.size = sizeof(struct random_crop),
	.params = params,
	.open = open,
	.infer = infer,
	.image = &image,
};
