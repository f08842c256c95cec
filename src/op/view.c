/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "kernel/pixels.h"
#include "op/image.h"

const char *const mr_filter_names[] = { "bilinear", "bicubic", "area", NULL };

void mr_view_init(struct mr_view *v, int64_t h, int64_t w)
{
	*v = (struct mr_view){
		.box = { 0, 0, w, h }, .w = w, .h = h, .window = { 0, 0, w, h }
	};
}

void mr_view_crop(struct mr_view *v, const struct mr_rect *r)
{
	struct mr_rect *o = &v->window;

	o->x += v->mirror ? o->w - r->x - r->w : r->x;
	o->y += r->y;
	o->w = r->w;
	o->h = r->h;
}

void mr_view_scale(struct mr_view *v, int64_t h, int64_t w,
		   enum mr_filter filter, bool antialias)
{
	assert(!v->scaled && !v->mirror);
	v->box = v->window;
	v->scaled = h != v->box.h || w != v->box.w;
	v->w = w;
	v->h = h;
	v->filter = filter;
	v->antialias = antialias;
	v->window = (struct mr_rect){ 0, 0, w, h };
}

void mr_view_mirror(struct mr_view *v)
{
	v->mirror = !v->mirror;
}

bool mr_image_fits(const struct mr_spec *in)
{
	return in->dtype == MR_U8 && in->ndim == 3 && in->shape[2] >= 1 &&
	       in->shape[2] <= 4;
}

bool mr_planes_fit(const struct mr_spec *in)
{
	return (in->dtype == MR_F32 || in->dtype == MR_F16 ||
		in->dtype == MR_F64) &&
	       in->ndim == 3 && in->shape[0] >= 1 && in->shape[0] <= 4;
}

int mr_image_infer(const char *name, const struct mr_spec *in, int64_t h,
		   int64_t w, struct mr_spec *out, struct mr_err *err)
{
	if (!mr_image_fits(in))
		return mr_op_refuse(name, in,
				    in->ndim == 1 && in->dtype == MR_U8 ?
					    "it wants an image: put "
					    "decode_image before it" :
					    "it wants an image, u8 H W C with "
					    "1 to 4 channels",
				    err);
	*out = *in;
	out->shape[0] = h;
	out->shape[1] = w;
	return 0;
}

int mr_image_size(const char *name, const struct mr_ints *size, int64_t *h,
		  int64_t *w, struct mr_err *err)
{
	if (size->n != 1 && size->n != 2)
		return mr_err_set(err, MR_EINVAL,
				  "%s: %d numbers; want one (224), or height "
				  "and width (224x320)",
				  name, size->n);
	*h = size->v[0];
	*w = size->v[size->n - 1];
	return 0;
}

/* Pixels of as many bytes as channels. */
static void put_bytes(const uint8_t *row, size_t channels, size_t n,
		      bool mirror, uint8_t *to)
{
	if (!mirror) {
		memcpy(to, row, n * channels);
		return;
	}
	for (size_t i = 0; i < n; i++)
		memcpy(to + i * channels, row + (n - 1 - i) * channels,
		       channels);
}

void mr_image_put(const void *self, const uint8_t *row, int channels, size_t n,
		  bool mirror, int64_t y, struct mr_tensor *out)
{
	uint8_t *to = (uint8_t *)out->data + (size_t)y * n * (size_t)channels;

	(void)self;
	if (channels == 3)
		mr_pixels_pack(row, n, mirror, to);
	else
		put_bytes(row, (size_t)channels, n, mirror, to);
}
