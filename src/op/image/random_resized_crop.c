/* SPDX-License-Identifier: Apache-2.0 */
/* random_resized_crop: a part of random area and shape, scaled to one size;
 * torchvision's RandomResizedCrop. */
#include <math.h>

#include "op/image.h"

struct random_resized_crop {
	struct mr_ints size;
	struct mr_reals scale, ratio;
	int filter;
	bool antialias;
	int64_t h, w;
};

enum { TRIES = 10 };

static const struct mr_param params[] = {
	MR_INTS(struct random_resized_crop, size, NULL, 1, MR_IMAGE_SIDE,
		"N, or height x width"),
	MR_REALS(struct random_resized_crop, scale, "0.08,1", 1e-9, 1e9,
		 "smallest and largest share of the image's area"),
	MR_REALS(struct random_resized_crop, ratio, "0.75,1.3333333333333333",
		 1e-9, 1e9, "smallest and largest width / height"),
	MR_ENUM(struct random_resized_crop, filter, "bilinear", mr_filter_names,
		MR_FILTER_HELP),
	MR_BOOL(struct random_resized_crop, antialias, "yes",
		"a wider filter when the image shrinks"),
	MR_PARAM_END
};

static int check_range(const char *name, const struct mr_reals *r,
		       struct mr_err *err)
{
	if (r->n == 2 && r->v[0] <= r->v[1])
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "random_resized_crop: %s= wants two numbers, the "
			  "smaller first",
			  name);
}

static int open(void *self, struct mr_err *err)
{
	struct random_resized_crop *c = self;
	int e = mr_image_size("random_resized_crop", &c->size, &c->h, &c->w,
			      err);

	if (!e)
		e = check_range("scale", &c->scale, err);
	return e ? e : check_range("ratio", &c->ratio, err);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct random_resized_crop *c = self;

	return mr_image_infer("random_resized_crop", in, c->h, c->w, out, err);
}

static double between(struct mr_rng *rng, double lo, double hi)
{
	return lo + mr_rng_real(rng) * (hi - lo);
}

/* One try: area uniform, shape uniform in its logarithm. */
static bool draw(const struct random_resized_crop *c, struct mr_rng *rng,
		 int64_t h, int64_t w, struct mr_rect *r)
{
	double area = (double)h * (double)w *
		      between(rng, c->scale.v[0], c->scale.v[1]);
	double shape =
		exp(between(rng, log(c->ratio.v[0]), log(c->ratio.v[1])));
	double rw = rint(sqrt(area * shape)), rh = rint(sqrt(area / shape));

	if (rw < 1 || rh < 1 || rw > (double)w || rh > (double)h)
		return false;
	r->w = (int64_t)rw;
	r->h = (int64_t)rh;
	r->y = (int64_t)mr_rng_below(rng, (uint64_t)(h - r->h + 1));
	r->x = (int64_t)mr_rng_below(rng, (uint64_t)(w - r->w + 1));
	return true;
}

/* The middle, as large as the shape allows. */
static void fall_back(const struct random_resized_crop *c, int64_t h, int64_t w,
		      struct mr_rect *r)
{
	double shape = (double)w / (double)h;

	*r = (struct mr_rect){ .w = w, .h = h };
	if (shape < c->ratio.v[0])
		r->h = (int64_t)rint((double)w / c->ratio.v[0]);
	else if (shape > c->ratio.v[1])
		r->w = (int64_t)rint((double)h * c->ratio.v[1]);
	/* Of a line of pixels, nothing would be left. */
	r->h = r->h < 1 ? 1 : r->h > h ? h : r->h;
	r->w = r->w < 1 ? 1 : r->w > w ? w : r->w;
	r->y = (h - r->h) / 2;
	r->x = (w - r->w) / 2;
}

static int view(const struct mr_opctx *cx, struct mr_view *v)
{
	const struct random_resized_crop *c = cx->self;
	int64_t h = v->window.h, w = v->window.w;
	struct mr_rect r;
	int i = 0;

	while (i < TRIES && !draw(c, cx->rng, h, w, &r))
		i++;
	if (i == TRIES)
		fall_back(c, h, w, &r);
	mr_view_crop(v, &r);
	mr_view_scale(v, c->h, c->w, (enum mr_filter)c->filter, c->antialias);
	return 0;
}

static const struct mr_image_op image = {
	.flags = MR_VIEW_SCALES,
	.view = view,
};

const struct mr_op mr_op_random_resized_crop = {
	.name = "random_resized_crop",
	.help = "a part of random area and shape, scaled to one size",
	.flags = MR_OP_RANDOM,
	.size = sizeof(struct random_resized_crop),
	.params = params,
	.open = open,
	.infer = infer,
	.image = &image,
};
