/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Image steps that are joined into one pass over the pixels.
 *
 * A decoder says how large its image is before it decodes. Steps that choose
 * pixels (crops, resize, flip) do not touch any: they edit a view of the
 * image. A finisher turns rows of u8 pixels into the output. The runner
 * (pipe/join.c) puts them together: it asks the decoder for the rows and
 * columns that the view needs, scales them, and hands row by row to the
 * finisher, which writes into the batch. Each step alone gives the same bytes
 * as joined with its neighbours.
 *
 * Images are u8 H W C with 1 to 4 channels. On their way pixels of three
 * channels have four bytes (kernel/pixels.h).
 */
#ifndef MR_OP_IMAGE_H
#define MR_OP_IMAGE_H

#include "kernel/resample.h"
#include "op/op.h"

struct mr_rect {
	int64_t x, y, w, h;
};

/*
 * image -> its part `box` -> scaled to w x h -> `window` of that, which is
 * the output, mirrored left-right or not. The window may reach beyond w x h;
 * the pixels there are 0.
 */
struct mr_view {
	struct mr_rect box;
	bool scaled; /* else w and h are the box's */
	int64_t w, h;
	enum mr_filter filter;
	bool antialias;
	struct mr_rect window;
	bool mirror;
};

void mr_view_init(struct mr_view *v, int64_t h, int64_t w);
/* (x, y) is relative to the output so far. Not beyond it when that is a crop
 * already. */
void mr_view_crop(struct mr_view *v, const struct mr_rect *r);
/* Not after a window with pixels beyond, nor a mirror, nor another scale. */
void mr_view_scale(struct mr_view *v, int64_t h, int64_t w,
		   enum mr_filter filter, bool antialias);
void mr_view_mirror(struct mr_view *v);

/* Rows that a decoder has made: the first wanted column first. */
struct mr_rows {
	const uint8_t *data; /* pixels of 4 bytes, MR_ROW_SLACK after a row */
	size_t stride;
	int n;
};

enum {
	MR_VIEW_SCALES = 1,
	MR_VIEW_PADS = 2, /* may reach beyond the image */
	MR_VIEW_MIRRORS = 4,
};

struct mr_image_op {
	/* A decoder, called in this order for each sample. start() reads the
	 * header. reduce(), if not NULL, may replace the image by one that is
	 * smaller by a factor up to `most`, and then sets the size. rows()
	 * gives the next rows of the rectangle that was asked for, at least
	 * one; they are valid until the next call. stop() is called at the
	 * end, also after a failure of the others; with `whole` all rows were
	 * taken, and it tells whether the file was sound. */
	int (*start)(const struct mr_opctx *cx, const struct mr_tensor *in,
		     int64_t *h, int64_t *w);
	int (*reduce)(const struct mr_opctx *cx, double most, int64_t *h,
		      int64_t *w);
	int (*want)(const struct mr_opctx *cx, const struct mr_rect *r);
	int (*rows)(const struct mr_opctx *cx, struct mr_rows *out);
	int (*stop)(const struct mr_opctx *cx, bool whole);

	/* A view: edits v. Draws from cx->rng as it would alone. */
	unsigned flags;
	int (*view)(const struct mr_opctx *cx, struct mr_view *v);

	/* A finisher: does it take images of that type here, and one row of
	 * them: n pixels (of 4 bytes when there are 3 channels) into row y of
	 * out. */
	bool (*takes)(const void *self, const struct mr_spec *in);
	void (*put)(const void *self, const uint8_t *row, int channels,
		    size_t n, bool mirror, int64_t y, struct mr_tensor *out);
};

/* The finisher when there is none: u8 H W C. */
void mr_image_put(const void *self, const uint8_t *row, int channels, size_t n,
		  bool mirror, int64_t y, struct mr_tensor *out);

/* ---- for the steps ---- */

/* Is it an image? */
bool mr_image_fits(const struct mr_spec *in);
/* Are these its channels one after another, as normalize gives them: reals,
 * C H W with 1 to 4 of them? */
bool mr_planes_fit(const struct mr_spec *in);
/* infer() of a step whose output is an image of this size (or MR_ANY). */
int mr_image_infer(const char *name, const struct mr_spec *in, int64_t h,
		   int64_t w, struct mr_spec *out, struct mr_err *err);

/* N or HxW of a size parameter, checked. */
int mr_image_size(const char *name, const struct mr_ints *size, int64_t *h,
		  int64_t *w, struct mr_err *err);

enum { MR_IMAGE_SIDE = 1 << 16 }; /* no image that a step makes is larger */

#define MR_FILTER_HELP "bilinear, bicubic, or area (mean of what it covers)"
extern const char *const mr_filter_names[];

#endif
