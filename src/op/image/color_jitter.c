/* SPDX-License-Identifier: Apache-2.0 */
/* color_jitter: torchvision's ColorJitter on Pillow's images. */
#include "op/image/color_jitter.h"

#include "op/op.h"

struct color_jitter {
	struct mr_reals brightness, contrast, saturation, hue;
	struct mr_jitter jitter;
};

enum { MOST = 1000000 }; /* of a value; nobody wants that much */
_Static_assert(1 + MOST <= MR_ADJUST_MAX, "the kernel takes all factors");

/* open() checks the ranges, since it can say why. */
static const struct mr_param params[] = {
	MR_REALS(struct color_jitter, brightness, "0", -MOST, MOST,
		 "factor: V for 1-V (at least 0) to 1+V, or LO,HI; 0: leave"),
	MR_REALS(struct color_jitter, contrast, "0", -MOST, MOST,
		 "as brightness, around the mean of the image"),
	MR_REALS(struct color_jitter, saturation, "0", -MOST, MOST,
		 "as brightness, between grey and colour"),
	MR_REALS(struct color_jitter, hue, "0", -MOST, MOST,
		 "part of a turn of the colour circle: V for -V to V, or "
		 "LO,HI; up to 0.5"),
	MR_PARAM_END
};

static int check(const char *name, const struct mr_reals *v, double least,
		 double most, struct mr_err *err)
{
	double lo = v->v[0], hi = v->v[v->n == 2];

	if (v->n != 1 && v->n != 2)
		return mr_err_set(err, MR_EINVAL,
				  "color_jitter: %s has %d values; want one, "
				  "or LO,HI",
				  name, v->n);
	if (v->n == 1 && lo < 0)
		return mr_err_set(err, MR_EINVAL,
				  "color_jitter: %s=%g is negative; one value "
				  "is how far to go both ways",
				  name, lo);
	if (lo > hi)
		return mr_err_set(err, MR_EINVAL,
				  "color_jitter: %s=%g,%g: the first is larger "
				  "than the second",
				  name, lo, hi);
	if (lo < least || hi > most)
		return mr_err_set(err, MR_EINVAL,
				  "color_jitter: %s reaches from %g to %g; "
				  "want %g to %g",
				  name, v->n == 1 ? -hi : lo, hi, least, most);
	return 0;
}

/* At `center` the image stays as it is. */
static int set(struct mr_jitter *j, enum mr_adjust_kind kind, const char *name,
	       const struct mr_reals *v, struct mr_err *err)
{
	bool hue = kind == MR_ADJUST_HUE;
	double least = hue ? -0.5 : 0, most = hue ? 0.5 : MOST;
	double center = hue ? 0 : 1, lo = v->v[0], hi = v->v[v->n == 2];
	int e = check(name, v, least, most, err);

	if (e)
		return e;
	if (v->n == 1) {
		lo = center - hi > least ? center - hi : least;
		hi = center + hi;
	}
	j->range[kind].on = lo != center || hi != center;
	j->range[kind].lo = lo;
	j->range[kind].hi = hi;
	return 0;
}

static int open(void *self, struct mr_err *err)
{
	struct color_jitter *c = self;
	struct mr_jitter *j = &c->jitter;
	int e = set(j, MR_ADJUST_BRIGHTNESS, "brightness", &c->brightness, err);

	if (!e)
		e = set(j, MR_ADJUST_CONTRAST, "contrast", &c->contrast, err);
	if (!e)
		e = set(j, MR_ADJUST_SATURATION, "saturation", &c->saturation,
			err);
	return e ? e : set(j, MR_ADJUST_HUE, "hue", &c->hue, err);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	int64_t c = in->ndim == 3 ? in->shape[2] : 0;

	(void)self;
	if (in->dtype != MR_U8 || (c != 1 && c != 3))
		return mr_op_refuse("color_jitter", in,
				    "it wants an image, u8 H W C with 1 or 3 "
				    "channels",
				    err);
	*out = *in;
	return 0;
}

int mr_jitter_draw(const struct mr_jitter *j, struct mr_rng *rng,
		   struct mr_adjust a[MR_ADJUSTS])
{
	int n = 0;

	for (int i = 0; i < MR_ADJUSTS; i++) {
		double lo = j->range[i].lo, hi = j->range[i].hi;

		a[i].kind = (enum mr_adjust_kind)i;
		a[i].factor = lo + (hi - lo) * mr_rng_real(rng);
	}
	for (int i = MR_ADJUSTS - 1; i > 0; i--) {
		uint64_t k = mr_rng_below(rng, (uint64_t)i + 1);
		struct mr_adjust t = a[i];

		a[i] = a[k];
		a[k] = t;
	}
	for (int i = 0; i < MR_ADJUSTS; i++)
		if (j->range[a[i].kind].on)
			a[n++] = a[i];
	return n;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct color_jitter *c = cx->self;
	struct mr_adjust a[MR_ADJUSTS];
	int n = mr_jitter_draw(&c->jitter, cx->rng, a);

	mr_colour_adjust(a, n, in->data, out->data,
			 (size_t)(in->shape[0] * in->shape[1]),
			 (int)in->shape[2]);
	return 0;
}

const struct mr_op mr_op_color_jitter = {
	.name = "color_jitter",
	.help = "change brightness, contrast, saturation and hue at random, "
		"in random order; with the same factors equal to "
		"torchvision's ColorJitter on Pillow's images",
	.flags = MR_OP_RANDOM | MR_OP_SHAPE_KEEP,
	.size = sizeof(struct color_jitter),
	.params = params,
	.open = open,
	.infer = infer,
	.run = run,
};
