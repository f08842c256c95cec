/* SPDX-License-Identifier: Apache-2.0 */
/* to_chw: H W C becomes C H W. */
#include "kernel/pixels.h"
#include "op/image.h"

static const struct mr_param params[] = { MR_PARAM_END };

static void turn(const int64_t *in, int64_t *out)
{
	out[0] = in[2];
	out[1] = in[0];
	out[2] = in[1];
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	if (in->ndim != 3)
		return mr_op_refuse("to_chw", in, "it wants H W C", err);
	*out = *in;
	turn(in->shape, out->shape);
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	(void)cx;
	turn(in->shape, out->shape);
	return 0;
}

#define TURN(T)                                     \
	for (size_t c = 0; c < channels; c++)       \
		for (size_t i = 0; i < pixels; i++) \
	((T *)out->data)[c * pixels + i] =          \
		((const T *)in->data)[i * channels + c]

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	size_t channels = (size_t)in->shape[2];
	size_t pixels = (size_t)in->shape[0] * (size_t)in->shape[1];

	(void)cx;
	switch (mr_dtype_size(in->dtype)) {
	case 1:
		TURN(uint8_t);
		break;
	case 2:
		TURN(uint16_t);
		break;
	case 4:
		TURN(uint32_t);
		break;
	default:
		TURN(uint64_t);
		break;
	}
	return 0;
}

static bool takes(const void *self, const struct mr_spec *in)
{
	(void)self;
	return mr_image_fits(in);
}

static void put(const void *self, const uint8_t *row, int channels, size_t n,
		bool mirror, int64_t y, struct mr_tensor *out)
{
	size_t plane = (size_t)out->shape[1] * n, k = (size_t)channels;
	uint8_t *to = (uint8_t *)out->data + (size_t)y * n;

	(void)self;
	if (channels == 3) {
		mr_pixels_planes(row, n, mirror, to, plane);
		return;
	}
	for (size_t c = 0; c < k; c++)
		for (size_t i = 0; i < n; i++)
			to[c * plane + (mirror ? n - 1 - i : i)] =
				row[i * k + c];
}

static const struct mr_image_op image = { .takes = takes, .put = put };

const struct mr_op mr_op_to_chw = {
	.name = "to_chw",
	.help = "turn H W C into C H W",
	.params = params,
	.flags = MR_OP_ELEMENTS,
	.infer = infer,
	.shape = shape,
	.run = run,
	.image = &image,
};
