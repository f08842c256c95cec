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

	if (!mr_planes_fit(in))
		return mr_image_infer("random_crop", in, c->h, c->w, out, err);
	if (c->left || c->top || c->right || c->bottom)
		return mr_op_refuse("random_crop", in,
				    "padding= is black, of images in u8; put "
				    "normalize after it",
				    err);
	*out = *in;
	out->shape[1] = c->h;
	out->shape[2] = c->w;
	return 0;
}

/* Where in an image of that size. */
static int draw(const struct mr_opctx *cx, int64_t h, int64_t w,
		struct mr_rect *r)
{
	const struct random_crop *c = cx->self;

	h += c->top + c->bottom;
	w += c->left + c->right;
	if (h < c->h || w < c->w)
		return mr_err_set(cx->err, MR_EDATA,
				  "an image of %lld x %lld (w x h) is smaller "
				  "than the crop of %lld x %lld; resize it "
				  "before, or say padding=",
				  (long long)w, (long long)h, (long long)c->w,
				  (long long)c->h);
	r->y = (int64_t)mr_rng_below(cx->rng, (uint64_t)(h - c->h + 1)) -
	       c->top;
	r->x = (int64_t)mr_rng_below(cx->rng, (uint64_t)(w - c->w + 1)) -
	       c->left;
	r->w = c->w;
	r->h = c->h;
	return 0;
}

static int view(const struct mr_opctx *cx, struct mr_view *v)
{
	struct mr_rect r = { 0 };
	int e = draw(cx, v->window.h, v->window.w, &r);

	if (!e)
		mr_view_crop(v, &r);
	return e;
}

/* Of planes; images of u8 go by the view. */
static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	size_t h = (size_t)in->shape[1], w = (size_t)in->shape[2];
	size_t width = mr_dtype_size(in->dtype), row;
	const char *from = in->data;
	char *to = out->data;
	struct mr_rect r = { 0 };
	int e = draw(cx, in->shape[1], in->shape[2], &r);

	if (e)
		return e;
	row = (size_t)r.w * width;
	from += ((size_t)r.y * w + (size_t)r.x) * width;
	for (int64_t c = 0; c < in->shape[0]; c++, from += h * w * width)
		for (int64_t y = 0; y < r.h; y++, to += row)
			memcpy(to, from + (size_t)y * w * width, row);
	return 0;
}

static const struct mr_image_op image = {
	.flags = MR_VIEW_PADS,
	.view = view,
};

const struct mr_op mr_op_random_crop = {
	.name = "random_crop",
	.help = "a part of an image, anywhere in it; also of f32 C H W",
	.flags = MR_OP_RANDOM,
	.size = sizeof(struct random_crop),
	.params = params,
	.open = open,
	.infer = infer,
	.run = run,
	.image = &image,
};
