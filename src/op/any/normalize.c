/* SPDX-License-Identifier: Apache-2.0 */
/* normalize: (x * scale - mean) / std per channel, as f32. */
#include <stdio.h>

#include "kernel/affine.h"
#include "kernel/pixels.h"
#include "op/image.h"

enum preset { OWN, IMAGENET, CENTER };
static const char *const presets[] = { "own", "imagenet", "center", NULL };

enum layout { AUTO, CHW, KEEP };
static const char *const layouts[] = { "auto", "chw", "keep", NULL };

enum { CHANNELS = 16 };

struct normalize {
	int preset;
	struct mr_reals mean, std;
	double scale;
	int layout;
	struct factors {
		float scale[CHANNELS], bias[CHANNELS];
	} image, other; /* x * scale + bias, for u8 and other types */
};

static const struct mr_param params[] = {
	MR_ENUM(struct normalize, preset, "own", presets,
		"imagenet: that set's mean and deviation; center: x/127.5-1; "
		"own: mean= and std="),
	MR_REALS(struct normalize, mean, "0", -1e30, 1e30,
		 "one value, or one per channel"),
	MR_REALS(struct normalize, std, "1", 1e-30, 1e30,
		 "one value, or one per channel"),
	MR_REAL(struct normalize, scale, "0", 0, 1e30,
		"first multiply by this; 0: 1/255 for u8, 1 for other types"),
	MR_ENUM(struct normalize, layout, "auto", layouts,
		"chw: turn H W C into C H W; auto: do so for images, which "
		"are u8 with three dimensions, the last of 1, 3 or 4"),
	MR_PARAM_END
};

static void make_factors(const struct normalize *n, double x, struct factors *f)
{
	for (int c = 0; c < CHANNELS; c++) {
		double mean = n->mean.v[n->mean.n > 1 ? c : 0];
		double std = n->std.v[n->std.n > 1 ? c : 0];

		if (c >= n->std.n && n->std.n > 1)
			std = 1; /* not used */
		f->scale[c] = (float)(x / std);
		f->bias[c] = (float)(-mean / std);
	}
}

static int open(void *self, struct mr_err *err)
{
	static const struct mr_reals mean = { 3, { 0.485, 0.456, 0.406 } };
	static const struct mr_reals std = { 3, { 0.229, 0.224, 0.225 } };
	struct normalize *n = self;

	if (n->preset == IMAGENET) {
		n->mean = mean;
		n->std = std;
	} else if (n->preset == CENTER) {
		n->mean = (struct mr_reals){ 1, { 127.5 } };
		n->std = (struct mr_reals){ 1, { 127.5 } };
		n->scale = 1;
	}
	if (n->mean.n < 1 || n->std.n < 1 ||
	    (n->mean.n != n->std.n && n->mean.n != 1 && n->std.n != 1))
		return mr_err_set(err, MR_EINVAL,
				  "normalize: %d values of mean and %d of std; "
				  "want as many of both, or one",
				  n->mean.n, n->std.n);
	make_factors(n, n->scale > 0 ? n->scale : 1 / 255.0, &n->image);
	make_factors(n, n->scale > 0 ? n->scale : 1, &n->other);
	return 0;
}

static int values(const struct normalize *n)
{
	return n->mean.n > n->std.n ? n->mean.n : n->std.n;
}

static bool to_chw(const struct normalize *n, const struct mr_spec *in)
{
	int64_t c = in->ndim == 3 ? in->shape[2] : 0;

	if (n->layout != AUTO)
		return n->layout == CHW;
	return in->dtype == MR_U8 && (c == 1 || c == 3 || c == 4);
}

/* Which dimension is the channel's, -1 when one value serves all. */
static int channel_dim(const struct normalize *n, const struct mr_spec *in)
{
	int k = values(n);

	if (k == 1)
		return -1;
	if (in->ndim && in->shape[in->ndim - 1] == k)
		return in->ndim - 1;
	if (in->ndim && in->shape[0] == k)
		return 0;
	return -2;
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct normalize *n = self;
	bool chw = to_chw(n, in);
	char why[96];

	snprintf(why, sizeof(why),
		 "neither its last nor its first dimension "
		 "is %d, the number of values",
		 values(n));
	if (channel_dim(n, in) == -2)
		return mr_op_refuse("normalize", in, why, err);
	if (n->layout == AUTO && in->dtype == MR_U8 && in->ndim == 3 &&
	    in->shape[2] == MR_ANY)
		return mr_op_refuse("normalize", in,
				    "its last dimension is open, so that it "
				    "may be an image or not; say layout=chw "
				    "or layout=keep",
				    err);
	if (chw &&
	    (in->ndim != 3 || in->shape[2] < 1 || in->shape[2] > CHANNELS))
		return mr_op_refuse("normalize", in,
				    "layout=chw wants H W C with 1 to 16 "
				    "channels",
				    err);
	if (chw && channel_dim(n, in) == 0)
		return mr_op_refuse("normalize", in,
				    "layout=chw wants one value per element "
				    "of the last dimension",
				    err);
	*out = *in;
	out->dtype = MR_F32;
	if (chw) {
		out->shape[0] = in->shape[2];
		out->shape[1] = in->shape[0];
		out->shape[2] = in->shape[1];
	}
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	struct mr_spec s = { in->dtype, in->ndim, { 0 } }, o;
	int e;

	memcpy(s.shape, in->shape, sizeof(s.shape));
	e = infer(cx->self, &s, &o, cx->err);
	if (!e)
		memcpy(out->shape, o.shape, sizeof(o.shape));
	return e;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct normalize *n = cx->self;
	const struct factors *f = in->dtype == MR_U8 ? &n->image : &n->other;
	struct mr_spec s = { in->dtype, in->ndim, { 0 } };
	size_t all = (size_t)mr_tensor_elements(in);
	size_t channels = (size_t)values(n);

	memcpy(s.shape, in->shape, sizeof(s.shape));
	if (all == 0)
		return 0;
	if (to_chw(n, &s)) {
		channels = (size_t)in->shape[2];
		if (channels == 3 && in->dtype == MR_U8)
			mr_pixels_affine(in->data, 3, all / 3, false, out->data,
					 all / 3, f->scale, f->bias);
		else
			mr_affine_to_first(in->data, in->dtype, out->data,
					   all / channels, channels, f->scale,
					   f->bias);
	} else if (channel_dim(n, &s) > 0) {
		mr_affine_last(in->data, in->dtype, out->data, all / channels,
			       channels, f->scale, f->bias);
	} else {
		mr_affine_first(in->data, in->dtype, out->data, all / channels,
				channels, f->scale, f->bias);
	}
	return 0;
}

/* ---- as the end of joined image steps ---- */

static bool takes(const void *self, const struct mr_spec *in)
{
	return mr_image_fits(in) && to_chw(self, in);
}

static void put(const void *self, const uint8_t *row, int channels, size_t n,
		bool mirror, int64_t y, struct mr_tensor *out)
{
	const struct factors *f = &((const struct normalize *)self)->image;
	size_t plane = (size_t)out->shape[1] * n, k = (size_t)channels;
	float *to = (float *)out->data + (size_t)y * n;

	if (channels == 3) {
		mr_pixels_affine(row, 4, n, mirror, to, plane, f->scale,
				 f->bias);
		return;
	}
	for (size_t c = 0; c < k; c++)
		for (size_t i = 0; i < n; i++)
			to[c * plane + (mirror ? n - 1 - i : i)] =
				(float)row[i * k + c] * f->scale[c] +
				f->bias[c];
}

static const struct mr_image_op image = { .takes = takes, .put = put };

const struct mr_op mr_op_normalize = {
	.name = "normalize",
	.help = "(x - mean) / std as f32; u8 is first scaled to 0..1, images "
		"become C H W",
	.flags = MR_OP_ELEMENTS,
	.size = sizeof(struct normalize),
	.params = params,
	.open = open,
	.infer = infer,
	.shape = shape,
	.run = run,
	.image = &image,
};
