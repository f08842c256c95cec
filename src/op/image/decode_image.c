/* SPDX-License-Identifier: Apache-2.0 */
/* decode_image: JPEG and PNG bytes become R G B pixels. */
#include "op/exif.h"
#include "op/image.h"
#include "op/jpeg.h"
#include "op/png.h"

struct decode_image {
	bool fast, exif, lenient;
	int64_t max_pixels;
};

/* What a thread keeps. */
struct local {
	struct mr_jpeg *jpeg;
	struct mr_png *png;
	bool is_png;
	/* the image that is being decoded, as it is stored */
	int64_t h, w;
	int orientation;
	bool started;
	/* when it must be turned upright: all of the wanted part */
	uint8_t *upright;
	size_t stride;
	struct mr_rect want;
	int64_t row;
};

enum { SIDE_MAX = 1 << 24, STRIP = 16 };

static const struct mr_param params[] = {
	MR_BOOL(struct decode_image, fast, "no",
		"JPEG: decode at 1/2, 1/4 or 1/8 of the size where a smaller "
		"image is wanted, quick inverse DCT and upsampling; visibly "
		"the same"),
	MR_BOOL(struct decode_image, exif, "yes",
		"turn pictures upright as EXIF says (torchvision does not)"),
	MR_BOOL(struct decode_image, lenient, "no",
		"take JPEGs with damaged data as far as they go, as Pillow; "
		"truncated ones are bad samples all the same"),
	MR_INT(struct decode_image, max_pixels, "268435456", 1, 1e12,
	       "images with more are refused before memory is taken"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	(void)self;
	if (in->dtype != MR_U8 || in->ndim != 1)
		return mr_op_refuse("decode_image", in,
				    "it wants the bytes of a file, u8[?]", err);
	*out = (struct mr_spec){ MR_U8, 3, { MR_ANY, MR_ANY, 3 } };
	return 0;
}

static void drop(void *local)
{
	struct local *l = local;

	mr_jpeg_free(l->jpeg);
	mr_png_free(l->png);
}

/* ---- one picture ---- */

static int unknown(const uint8_t *b, size_t n, struct mr_err *err)
{
	if (!n)
		return mr_err_set(err, MR_EDATA, "the file is empty");
	if (n >= 12 && !memcmp(b, "RIFF", 4) && !memcmp(b + 8, "WEBP", 4))
		return mr_err_set(err, MR_EDATA,
				  "WebP is not supported; convert it to JPEG "
				  "or PNG");
	if (n >= 6 && !memcmp(b, "GIF8", 4))
		return mr_err_set(err, MR_EDATA,
				  "GIF is not supported; convert it to PNG");
	return mr_err_set(err, MR_EDATA,
			  "neither JPEG nor PNG: it begins with %02x %02x %02x "
			  "%02x",
			  b[0], n > 1 ? b[1] : 0, n > 2 ? b[2] : 0,
			  n > 3 ? b[3] : 0);
}

static int start_jpeg(const struct mr_opctx *cx, const struct mr_tensor *in)
{
	const struct decode_image *d = cx->self;
	struct local *l = cx->local;
	struct mr_jpeg_options opt = { .fast = d->fast,
				       .lenient = d->lenient,
				       .exif = d->exif,
				       .max_pixels = d->max_pixels,
				       .max_bytes = cx->limit };
	int e = l->jpeg ? 0 : mr_jpeg_new(&l->jpeg, cx->err);

	l->started = !e;
	return e ? e :
		   mr_jpeg_start(l->jpeg, in->data, mr_tensor_bytes(in), &opt,
				 &l->h, &l->w, &l->orientation, cx->err);
}

static int start_png(const struct mr_opctx *cx, const struct mr_tensor *in)
{
	const struct decode_image *d = cx->self;
	struct local *l = cx->local;
	int e = l->png ? 0 : mr_png_new(&l->png, cx->err);

	l->started = !e;
	if (!e)
		e = mr_png_start(l->png, in->data, mr_tensor_bytes(in),
				 d->max_pixels, cx->limit, &l->h, &l->w,
				 cx->err);
	if (!e && d->exif)
		l->orientation = mr_png_orientation(l->png);
	return e;
}

static void upright_size(const struct local *l, int64_t *h, int64_t *w)
{
	bool swap = mr_exif_swaps(l->orientation);

	*h = swap ? l->w : l->h;
	*w = swap ? l->h : l->w;
}

static int start(const struct mr_opctx *cx, const struct mr_tensor *in,
		 int64_t *h, int64_t *w)
{
	struct local *l = cx->local;
	const uint8_t *b = in->data;
	size_t n = mr_tensor_bytes(in);
	int e;

	l->started = false;
	l->upright = NULL;
	l->orientation = 1;
	l->is_png = mr_png_is(b, n);
	if (!l->is_png && !mr_jpeg_is(b, n))
		return unknown(b, n, cx->err);
	e = l->is_png ? start_png(cx, in) : start_jpeg(cx, in);
	if (e)
		return e;
	if (l->h > SIDE_MAX || l->w > SIDE_MAX)
		return mr_err_set(cx->err, MR_EDATA,
				  "%lld x %lld pixels; no side may be over %d",
				  (long long)l->w, (long long)l->h, SIDE_MAX);
	upright_size(l, h, w);
	return 0;
}

static int reduce(const struct mr_opctx *cx, double most, int64_t *h,
		  int64_t *w)
{
	const struct decode_image *d = cx->self;
	struct local *l = cx->local;

	if (!d->fast || l->is_png)
		return 0;
	mr_jpeg_reduce(l->jpeg, most, &l->h, &l->w);
	upright_size(l, h, w);
	return 0;
}

static int want_stored(const struct mr_opctx *cx, const struct mr_rect *r)
{
	struct local *l = cx->local;

	return l->is_png ? mr_png_want(l->png, r, cx->scratch, cx->err) :
			   mr_jpeg_want(l->jpeg, r, cx->err);
}

static int rows_stored(const struct mr_opctx *cx, struct mr_rows *out)
{
	struct local *l = cx->local;

	return l->is_png ? mr_png_rows(l->png, out, cx->err) :
			   mr_jpeg_rows(l->jpeg, out, cx->err);
}

/* All of the rectangle, as stored, then turned. */
static int decode_upright(const struct mr_opctx *cx, const struct mr_rect *r)
{
	struct local *l = cx->local;
	struct mr_rect s;
	uint8_t *stored;
	size_t stride, bytes;
	int64_t h, w;
	int e;

	upright_size(l, &h, &w);
	mr_exif_stored(l->orientation, r, h, w, &s);
	stride = (size_t)s.w * 4;
	bytes = stride * (size_t)s.h + MR_ROW_SLACK;
	stored = mr_arena_take(cx->scratch, bytes);
	l->upright = mr_arena_take(cx->scratch, bytes);
	if (!stored || !l->upright)
		return mr_err_set(cx->err, MR_ELIMIT,
				  "%lld x %lld pixels to be turned upright "
				  "need %zu bytes; raise --memory",
				  (long long)s.w, (long long)s.h, 2 * bytes);
	e = want_stored(cx, &s);
	for (int64_t y = 0; !e && y < s.h;) {
		struct mr_rows got;

		e = rows_stored(cx, &got);
		for (int i = 0; !e && i < got.n; i++, y++)
			memcpy(stored + (size_t)y * stride,
			       got.data + (size_t)i * got.stride, stride);
	}
	l->stride = (size_t)r->w * 4;
	l->row = 0;
	l->want = *r;
	if (!e)
		mr_exif_turn(l->orientation, stored, stride, r, l->upright,
			     l->stride);
	return e;
}

static int want(const struct mr_opctx *cx, const struct mr_rect *r)
{
	struct local *l = cx->local;

	return l->orientation == 1 ? want_stored(cx, r) : decode_upright(cx, r);
}

static int rows(const struct mr_opctx *cx, struct mr_rows *out)
{
	struct local *l = cx->local;
	int64_t left = l->want.h - l->row;

	if (l->orientation == 1)
		return rows_stored(cx, out);
	*out = (struct mr_rows){ l->upright + (size_t)l->row * l->stride,
				 l->stride, left < STRIP ? (int)left : STRIP };
	l->row += out->n;
	return 0;
}

static int stop(const struct mr_opctx *cx, bool whole)
{
	struct local *l = cx->local;

	if (!l->started)
		return 0;
	return l->is_png ? mr_png_stop(l->png, whole, cx->err) :
			   mr_jpeg_stop(l->jpeg, whole, cx->err);
}

static const struct mr_image_op image = {
	.start = start,
	.reduce = reduce,
	.want = want,
	.rows = rows,
	.stop = stop,
};

const struct mr_op mr_op_decode_image = {
	.name = "decode_image",
	.help = "JPEG or PNG bytes to pixels, u8 R G B",
	.size = sizeof(struct decode_image),
	.params = params,
	.infer = infer,
	.local = sizeof(struct local),
	.drop = drop,
	.gives = "image",
	.image = &image,
};
