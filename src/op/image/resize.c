/* SPDX-License-Identifier: Apache-2.0 */
/* resize: scale an image, as Pillow does it. */
#include "op/image.h"

struct resize {
	struct mr_ints size;
	bool shorter; /* else exactly h x w */
	int short_side;
	int filter;
	bool antialias;
	int64_t h, w;
};

enum { AUTO, YES, NO };
static const char *const sides[] = { "auto", "yes", "no", NULL };

static const struct mr_param params[] = {
	MR_INTS(struct resize, size, NULL, 1, MR_IMAGE_SIDE,
		"N: the shorter side; or height x width"),
	{ "short", MR_P_ENUM, offsetof(struct resize, short_side), "auto", 0, 0,
	  sides, "no: N is both sides; auto: the shorter side for one number" },
	MR_ENUM(struct resize, filter, "bilinear", mr_filter_names,
		MR_FILTER_HELP),
	MR_BOOL(struct resize, antialias, "yes",
		"a wider filter when the image shrinks"),
	MR_PARAM_END
};

static int open(void *self, struct mr_err *err)
{
	struct resize *r = self;

	r->shorter = r->short_side == YES ||
		     (r->short_side == AUTO && r->size.n == 1);
	if (r->shorter && r->size.n == 2)
		return mr_err_set(err, MR_EINVAL,
				  "resize: short=yes wants one number, not "
				  "height and width");
	return mr_image_size("resize", &r->size, &r->h, &r->w, err);
}

/* The size that an image gets; the long side rounds down, as torchvision's. */
static void target(const struct resize *r, int64_t h, int64_t w, int64_t *th,
		   int64_t *tw)
{
	double n = (double)r->h;

	*th = r->h;
	*tw = r->w;
	if (!r->shorter)
		return;
	if (w <= h)
		*th = (int64_t)(n * (double)h / (double)w);
	else
		*tw = (int64_t)(n * (double)w / (double)h);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct resize *r = self;
	int64_t h = MR_ANY, w = MR_ANY;

	if (!r->shorter || (in->shape[0] > 0 && in->shape[1] > 0))
		target(r, in->shape[0], in->shape[1], &h, &w);
	return mr_image_infer("resize", in, h, w, out, err);
}

static int view(const struct mr_opctx *cx, struct mr_view *v)
{
	const struct resize *r = cx->self;
	int64_t h, w;

	target(r, v->window.h, v->window.w, &h, &w);
	if (h > MR_IMAGE_SIDE || w > MR_IMAGE_SIDE)
		return mr_err_set(cx->err, MR_EDATA,
				  "an image of %lld x %lld (w x h) would "
				  "become %lld x %lld; no side may be over %d",
				  (long long)v->window.w,
				  (long long)v->window.h, (long long)w,
				  (long long)h, MR_IMAGE_SIDE);
	mr_view_scale(v, h, w, (enum mr_filter)r->filter, r->antialias);
	return 0;
}

static const struct mr_image_op image = {
	.flags = MR_VIEW_SCALES,
	.view = view,
};

const struct mr_op mr_op_resize = {
	.name = "resize",
	.help = "scale an image: the shorter side to N, or to height x width",
	.size = sizeof(struct resize),
	.params = params,
	.open = open,
	.infer = infer,
	.image = &image,
};
