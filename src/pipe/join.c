/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decode, crop, scale, mirror and convert in one pass. First the view: which
 * pixels are wanted, drawn before anything is decoded. Then strips of rows,
 * which stay in the CPU's cache: decoded, scaled along the rows; at last
 * scaled down the columns and put, row by row, where they belong.
 */
#include "pipe/join.h"

#include "core/mem.h"
#include "kernel/pixels.h"
#include "op/image.h"
#include "pipe/lap.h"
#include "pipe/sink.h"

enum {
	STRIP = 16,
	LINES = 8, /* output rows made at a time */
};

/* ---- planning ---- */

/* May a step follow that edits the view so, after those with `before`? A
 * second crop could reach beyond the first, where the image goes on but its
 * pixels would be black. */
static bool may_follow(unsigned before, unsigned flags)
{
	if (flags & MR_VIEW_SCALES)
		return !before;
	return !(flags & before & MR_VIEW_PADS);
}

int mr_join_count(const struct mr_step *st, int n)
{
	const struct mr_image_op *op = st->op->image;
	unsigned flags;
	int k = 1;

	if (!op || !(op->start || op->view))
		return 0;
	if (op->view && !mr_image_fits(&st->in))
		return 0; /* planes of reals: by its run() */
	flags = op->flags;
	for (; k < n && st[k].field == st->field; k++) {
		op = st[k].op->image;
		if (!op || !op->view || !may_follow(flags, op->flags))
			break;
		flags |= op->flags;
	}
	if (k < n && st[k].field == st->field && st[k].op->image) {
		op = st[k].op->image;
		if (op->put && op->takes(st[k].self, &st[k].in))
			k++;
	}
	return k;
}

/* ---- one sample ---- */

enum { DECODE, SCALE, PUT, PARTS };
_Static_assert((int)PARTS <= (int)MR_COUNTER_PARTS, "lap.h counts them");

struct join {
	struct mr_worker *w;
	const struct mr_row *of;
	const struct mr_step *step;
	int n;
	const struct mr_image_op *decoder; /* NULL: pixels are there */
	struct mr_opctx cx;		   /* the decoder's */
	struct mr_rng rng;
	struct mr_tensor in, out;
	int channels;
	size_t pixel;	       /* bytes of one, on its way */
	int64_t height, width; /* of the image */
	struct mr_view view;
	struct mr_rect shown; /* of the window: what lies in the image */
	struct mr_rect need;  /* of the image */
	int64_t row;	      /* the next one of need */
	uint8_t *strip;	      /* when there is no decoder */
	uint8_t *line;	      /* LINES rows of output pixels, */
	size_t line_stride;   /* black where the border is */
	void (*put)(const void *self, const uint8_t *row, int channels,
		    size_t n, bool mirror, int64_t y, struct mr_tensor *out);
	const void *put_self;
	uint64_t ticks[PARTS];
};

static void *scratch(struct join *j, size_t bytes)
{
	void *p = mr_arena_take(&j->w->scratch, bytes);

	if (!p)
		mr_too_large(j->w, bytes);
	return p;
}

/* The image's size, from its header or its shape. */
static int begin(struct join *j)
{
	if (!j->decoder) {
		j->height = j->in.shape[0];
		j->width = j->in.shape[1];
		j->channels = (int)j->in.shape[2];
	} else {
		int e = j->decoder->start(&j->cx, &j->in, &j->height,
					  &j->width);

		if (e)
			return e;
		j->channels = (int)j->step->out.shape[2];
	}
	j->pixel = j->channels == 3 ? 4 : (size_t)j->channels;
	if (j->height < 1 || j->width < 1)
		return mr_err_set(&j->w->err, MR_EDATA,
				  "an image without pixels: %lld x %lld",
				  (long long)j->width, (long long)j->height);
	return 0;
}

static int make_view(struct join *j, const struct mr_row *r)
{
	mr_view_init(&j->view, j->height, j->width);
	for (int k = 0; k < j->n; k++) {
		const struct mr_image_op *op = j->step[k].op->image;
		struct mr_rng rng;
		struct mr_opctx cx;
		int e;

		if (!op->view)
			continue;
		mr_step_context(j->w, r, &j->step[k], &rng, &cx);
		e = op->view(&cx, &j->view);
		if (e)
			return e;
	}
	j->w->at_step = j->step->op->name;
	return 0;
}

/* The same part of an image that the decoder has made smaller. */
static void shrink_part(int64_t *at, int64_t *size, int64_t from, int64_t to)
{
	double by = (double)to / (double)from;
	int64_t a = (int64_t)((double)*at * by + 0.5);
	int64_t b = (int64_t)((double)(*at + *size) * by + 0.5);

	*at = a < to ? a : to - 1;
	*size = b > *at ? b - *at : 1;
}

static int reduce(struct join *j)
{
	struct mr_view *v = &j->view;
	int64_t h = j->height, w = j->width;
	double across = (double)v->box.w / (double)v->w;
	double down = (double)v->box.h / (double)v->h;
	int e;

	if (!v->scaled || !j->decoder || !j->decoder->reduce)
		return 0;
	e = j->decoder->reduce(&j->cx, across < down ? across : down, &h, &w);
	if (e || (h == j->height && w == j->width))
		return e;
	shrink_part(&v->box.x, &v->box.w, j->width, w);
	shrink_part(&v->box.y, &v->box.h, j->height, h);
	j->height = h;
	j->width = w;
	return 0;
}

/* The part of [at, at + size) that lies in [0, all). */
static void clip(int64_t at, int64_t size, int64_t all, int64_t *from,
		 int64_t *n)
{
	int64_t to = at + size < all ? at + size : all;

	*from = at > 0 ? at : 0;
	*n = to > *from ? to - *from : 0;
}

/* All of the output is border. */
static bool nothing_shown(const struct join *j)
{
	return !j->shown.w || !j->shown.h;
}

static int make_taps(struct join *j, struct mr_taps *t, int64_t in, int64_t out,
		     int64_t first, int64_t count)
{
	struct mr_scale s = { .in = (int)in,
			      .out = (int)out,
			      .first = (int)first,
			      .count = (int)count,
			      .filter = j->view.filter,
			      .antialias = j->view.antialias };
	size_t bytes = mr_taps_size(&s);
	void *mem;

	if (!bytes)
		return mr_err_set(&j->w->err, MR_EDATA,
				  "cannot scale %lld pixels to %lld",
				  (long long)in, (long long)out);
	mem = scratch(j, bytes);
	if (!mem)
		return j->w->err.code;
	mr_taps_make(t, &s, mem);
	return 0;
}

/* ---- rows ---- */

/* Of a tensor: pixels of three bytes become four. */
static void tensor_rows(struct join *j, struct mr_rows *out)
{
	size_t c = (size_t)j->channels, n = (size_t)j->need.w;
	int64_t left = j->need.h - j->row;

	out->n = left < STRIP ? (int)left : STRIP;
	out->data = j->strip;
	out->stride = mr_round_up(n * j->pixel + MR_ROW_SLACK, MR_ALIGN);
	for (int i = 0; i < out->n; i++) {
		size_t y = (size_t)(j->need.y + j->row + i);
		const uint8_t *src =
			(const uint8_t *)j->in.data +
			(y * (size_t)j->width + (size_t)j->need.x) * c;
		uint8_t *dst = j->strip + (size_t)i * out->stride;

		if (c == 3)
			mr_pixels_expand(src, n, dst);
		else
			memcpy(dst, src, n * c);
	}
}

static int want_rows(struct join *j)
{
	size_t stride = mr_round_up((size_t)j->need.w * j->pixel + MR_ROW_SLACK,
				    MR_ALIGN);

	j->row = 0;
	if (j->decoder)
		return j->decoder->want(&j->cx, &j->need);
	j->strip = scratch(j, stride * STRIP);
	return j->strip ? 0 : j->w->err.code;
}

static int next_rows(struct join *j, struct mr_rows *out)
{
	int e = 0;

	if (j->decoder)
		e = j->decoder->rows(&j->cx, out);
	else
		tensor_rows(j, out);
	if (!e)
		j->row += out->n;
	mr_lap_part(j->w, j->ticks, DECODE);
	return e;
}

/* ---- output ---- */

static void put_line(struct join *j, const uint8_t *line, int64_t y)
{
	j->put(j->put_self, line, j->channels, (size_t)j->view.window.w,
	       j->view.mirror, y, &j->out);
}

/* Rows [from, to) of the output are border. */
static void put_border(struct join *j, int64_t from, int64_t to)
{
	if (from >= to)
		return;
	memset(j->line, 0, (size_t)j->view.window.w * j->pixel);
	for (int64_t y = from; y < to; y++)
		put_line(j, j->line, y);
}

/* Where in j->line the image begins, left of which is border. */
static uint8_t *inner(struct join *j)
{
	return j->line + (size_t)(j->shown.x - j->view.window.x) * j->pixel;
}

/* Rows as they are. */
static int copy_pass(struct join *j)
{
	const struct mr_rect *win = &j->view.window;
	bool bordered = j->shown.w < win->w;
	int64_t y = j->shown.y - win->y;

	while (j->row < j->need.h) {
		struct mr_rows got;
		int e = next_rows(j, &got);

		if (e)
			return e;
		for (int i = 0; i < got.n; i++, y++) {
			const uint8_t *p = got.data + (size_t)i * got.stride;

			if (bordered) {
				memcpy(inner(j), p,
				       (size_t)j->shown.w * j->pixel);
				p = j->line;
			}
			put_line(j, p, y);
		}
		mr_lap_part(j->w, j->ticks, PUT);
	}
	return 0;
}

static int scale_pass(struct join *j, const struct mr_taps *across,
		      const struct mr_taps *down)
{
	size_t n = (size_t)j->shown.w * j->pixel;
	size_t stride = mr_round_up(n + MR_ROW_SLACK, MR_ALIGN);
	uint8_t *rows = scratch(j, stride * (size_t)j->need.h);
	int64_t top = j->shown.y - j->view.window.y;

	if (!rows)
		return j->w->err.code;
	while (j->row < j->need.h) {
		int64_t y = j->row;
		struct mr_rows got;
		int e = next_rows(j, &got);

		if (e)
			return e;
		mr_resample_rows(across, (int)j->pixel, got.n, got.data,
				 got.stride, rows + (size_t)y * stride, stride);
		mr_lap_part(j->w, j->ticks, SCALE);
	}
	for (int64_t y = 0; y < j->shown.h; y += LINES) {
		int64_t left = j->shown.h - y, k = left < LINES ? left : LINES;

		for (int64_t i = 0; i < k; i++)
			mr_resample_column(
				down, (int)(y + i), rows, stride,
				inner(j) + (size_t)i * j->line_stride, n);
		mr_lap_part(j->w, j->ticks, SCALE);
		for (int64_t i = 0; i < k; i++)
			put_line(j, j->line + (size_t)i * j->line_stride,
				 top + y + i);
		mr_lap_part(j->w, j->ticks, PUT);
	}
	return 0;
}

/* The pixels that the view shows, and the pass over them. */
static int pass(struct join *j)
{
	const struct mr_view *v = &j->view;
	struct mr_taps across, down;
	int e;

	if (v->scaled) {
		e = make_taps(j, &across, v->box.w, v->w, j->shown.x,
			      j->shown.w);
		if (!e)
			e = make_taps(j, &down, v->box.h, v->h, j->shown.y,
				      j->shown.h);
		if (e)
			return e;
		j->need = (struct mr_rect){ v->box.x + across.lo,
					    v->box.y + down.lo,
					    across.hi - across.lo,
					    down.hi - down.lo };
		mr_lap_part(j->w, j->ticks, SCALE);
	} else {
		j->need = (struct mr_rect){ v->box.x + j->shown.x,
					    v->box.y + j->shown.y, j->shown.w,
					    j->shown.h };
	}
	e = want_rows(j);
	mr_lap_part(j->w, j->ticks, DECODE);
	if (e)
		return e;
	return v->scaled ? scale_pass(j, &across, &down) : copy_pass(j);
}

/* One pixel, so that a broken file is noticed all the same. */
static int look_at(struct join *j)
{
	struct mr_rows got;
	int e;

	j->need = (struct mr_rect){ 0, 0, 1, 1 };
	e = want_rows(j);
	return e ? e : next_rows(j, &got);
}

static int render(struct join *j)
{
	const struct mr_rect *win = &j->view.window;
	struct mr_rect *s = &j->shown;
	size_t bytes;
	int64_t top;

	clip(win->x, win->w, j->view.w, &s->x, &s->w);
	clip(win->y, win->h, j->view.h, &s->y, &s->h);
	j->line_stride =
		mr_round_up((size_t)win->w * j->pixel + MR_ROW_SLACK, MR_ALIGN);
	bytes = j->line_stride * LINES;
	j->line = scratch(j, bytes);
	if (!j->line)
		return j->w->err.code;
	if (nothing_shown(j)) {
		put_border(j, 0, win->h);
		return look_at(j);
	}
	top = s->y - win->y;
	put_border(j, 0, top);
	put_border(j, top + s->h, win->h);
	memset(j->line, 0, bytes);
	return pass(j);
}

/* ---- all together ---- */

/* Where the output goes, now that its size is known. */
static int place(struct join *j, const struct mr_sink *s)
{
	const struct mr_step *last = &j->step[j->n - 1];
	struct mr_spec image = { MR_U8, 3, { 0 } }, out;
	int64_t elements;

	image.shape[0] = j->view.window.h;
	image.shape[1] = j->view.window.w;
	image.shape[2] = j->channels;
	out = image;
	j->put = mr_image_put;
	if (last->op->image->put) {
		int e = last->op->infer(last->self, &image, &out, &j->w->err);

		if (e)
			return e;
		j->put = last->op->image->put;
		j->put_self = last->self;
	}
	j->out = mr_tensor_of(&out);
	if (!mr_shape_elements(j->out.shape, 3, j->out.dtype, &elements))
		return mr_err_set(&j->w->err, MR_EDATA,
				  "a shape that is out of range");
	j->out.data = mr_sink_reserve(j->w, s, mr_tensor_bytes(&j->out), 0);
	return j->out.data ? 0 : j->w->err.code;
}

/* Each part's time and bytes go to the step that asked for it. */
static void account(struct join *j)
{
	const struct mr_rect *win = &j->view.window;
	size_t c = (size_t)j->channels;
	size_t bytes[PARTS + 1] = { mr_tensor_bytes(&j->in),
				    (size_t)j->need.w * (size_t)j->need.h * c,
				    (size_t)win->w * (size_t)win->h * c,
				    mr_tensor_bytes(&j->out) };
	int stage[PARTS] = { j->step->stage, j->step->stage,
			     j->step[j->n - 1].stage };

	for (int k = j->n - 1; k >= 0; k--) {
		const struct mr_image_op *op = j->step[k].op->image;

		if (op->view && (j->n == 1 || op->flags & MR_VIEW_SCALES))
			stage[SCALE] = j->step[k].stage;
	}
	if (!j->step[j->n - 1].op->image->put)
		stage[PUT] = stage[SCALE];
	for (int k = 0; k < j->n; k++) {
		uint64_t ticks = 0;
		size_t in = 0, out = 0;
		unsigned parts = 0;

		for (int p = 0; p < PARTS; p++) {
			if (stage[p] != j->step[k].stage)
				continue;
			ticks += j->ticks[p];
			in = parts ? in : bytes[p];
			out = bytes[p + 1];
			parts |= 1u << p;
		}
		mr_lap_bytes(j->w, j->step[k].stage, in, out);
		mr_lap_add(j->w, j->of, j->step[k].stage, ticks, parts,
			   MR_SPAN_LAID);
	}
}

int mr_join_run(struct mr_worker *w, const struct mr_row *r,
		const struct mr_step *st, struct mr_tensor *t)
{
	struct join j = {
		.w = w, .of = r, .step = st, .n = st->joined, .in = t[st->field]
	};
	const struct mr_step *last = &st[st->joined - 1];
	struct mr_sink s = { r, st->field, last->out_field, last->begins };
	int e;

	w->laid = w->last;
	j.decoder = st->op->image->start ? st->op->image : NULL;
	mr_step_context(w, r, st, &j.rng, &j.cx);
	e = begin(&j);
	if (!e)
		e = make_view(&j, r);
	mr_lap_part(w, j.ticks, DECODE);
	if (!e)
		e = place(&j, &s);
	if (!e)
		e = reduce(&j);
	if (!e)
		e = render(&j);
	if (j.decoder) {
		int end = j.decoder->stop(&j.cx, !e);

		e = e ? e : end;
		mr_lap_part(w, j.ticks, DECODE);
	}
	mr_arena_reset(&w->scratch);
	if (e)
		return e;
	mr_sink_settle(w, &s, &j.out);
	account(&j);
	t[st->field] = j.out;
	return 0;
}
