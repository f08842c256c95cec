/* SPDX-License-Identifier: Apache-2.0 */
/*
 * png16: the pictures of `images` as a camera's raw converter writes them,
 * with 16 bits per channel, whose lowest are the sensor's noise: PNGs of
 * two thirds of the plain size.
 */
#include <spng.h>
#include <string.h>

#include "core/mem.h"
#include "synth/picture.h"

struct worker {
	bool ready;
	struct canvas canvas;
	uint16_t *row;
};

struct png16 {
	struct synth *s;
	struct synth_options opt; /* with the kind's own size */
	struct synth_field *field;
	struct worker *worker;
};

static int png_error(int e, struct mr_err *err)
{
	return mr_err_set(err, MR_ENOMEM, "libspng: %s", spng_strerror(e));
}

static int set_up(spng_ctx *png, const struct scene *sc)
{
	struct spng_ihdr head = {
		.width = (uint32_t)sc->width,
		.height = (uint32_t)sc->height,
		.bit_depth = 16,
		.color_type = SPNG_COLOR_TYPE_TRUECOLOR,
	};
	int e = spng_set_option(png, SPNG_ENCODE_TO_BUFFER, 1);

	/* what filters gain is small and known; trying all of them is slow */
	if (!e)
		e = spng_set_option(png, SPNG_FILTER_CHOICE,
				    SPNG_FILTER_CHOICE_PAETH);
	if (!e)
		e = spng_set_option(png, SPNG_IMG_COMPRESSION_LEVEL, 4);
	if (!e)
		e = spng_set_ihdr(png, &head);
	if (!e)
		e = spng_encode_image(png, NULL, 0, SPNG_FMT_PNG,
				      SPNG_ENCODE_PROGRESSIVE |
					      SPNG_ENCODE_FINALIZE);
	return e;
}

/* *out is to be freed by the caller. */
static int encode(const struct png16 *p, const struct scene *sc,
		  const struct worker *w, struct synth_rng *rng, void **out,
		  size_t *size, struct mr_err *err)
{
	size_t bytes = 3 * sizeof(*w->row) * (size_t)sc->width;
	spng_ctx *png = spng_ctx_new(SPNG_CTX_ENCODER);
	int e;

	*out = NULL;
	if (!png)
		return mr_err_nomem(err, bytes);
	e = set_up(png, sc);
	for (int y = 0; y < sc->height && !e; y++) {
		picture_expose16(p->field, sc, &w->canvas, y, w->row, rng);
		e = spng_encode_row(png, w->row, bytes);
	}
	if (e == SPNG_EOI)
		*out = spng_get_png_buffer(png, size, &e);
	spng_ctx_free(png);
	return *out ? 0 : png_error(e, err);
}

static int worker_fit(struct worker *w, const struct scene *sc,
		      struct mr_err *err)
{
	int e;

	if (w->ready)
		return 0;
	e = picture_fit(&w->canvas, (size_t)sc->width * (size_t)sc->height,
			err);
	w->row = mr_alloc(3 * (size_t)sc->width, sizeof(*w->row), err);
	w->ready = !e && w->row;
	return w->ready ? 0 : MR_ENOMEM;
}

static int make_picture(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct png16 *p = data;
	struct worker *w = &p->worker[worker];
	struct synth_rng rng = synth_rng_for((uint64_t)p->opt.seed, i);
	struct synth_file f = { .fd = -1 };
	struct scene sc;
	void *png = NULL;
	size_t size;
	int e;

	picture_draw(&sc, &p->opt, i, &rng);
	e = worker_fit(w, &sc, err);
	if (e)
		return e;
	picture_paint(p->field, &sc, &w->canvas, &rng);
	picture_light(p->field, &sc, &w->canvas);
	e = encode(p, &sc, w, &rng, &png, &size, err);
	if (!e)
		e = synth_file_open(&f, err, "%s/class-%03d/img-%06llu.png",
				    p->s->dir, sc.class, (unsigned long long)i);
	if (!e)
		e = synth_file_write(&f, png, size, 0, err);
	if (!e)
		e = synth_file_done(p->s, &f, size, err);
	synth_file_drop(&f);
	free(png);
	return e;
}

static int check(const struct synth_options *opt, struct mr_err *err)
{
	if (opt->size.n && opt->size.n != 2)
		return mr_err_set(
			err, MR_EINVAL,
			"--size: want WIDTHxHEIGHT such as 2592x1728");
	return 0;
}

static int run(struct synth *s, struct mr_err *err)
{
	struct png16 p = { .s = s, .opt = *s->opt };
	uint64_t n = (uint64_t)s->opt->count;
	int e = 0;

	s->next = "files %s | decode_image | batch 8";
	if (!p.opt.size.n)
		p.opt.size = (struct mr_ints){ 2, { 2592, 1728 } };
	p.opt.same_size = true;
	p.field = synth_fields_new((uint64_t)s->opt->seed, err);
	p.worker = mr_alloc((size_t)s->threads, sizeof(*p.worker), err);
	if (!p.field || !p.worker)
		e = MR_ENOMEM;
	if (!e)
		e = synth_class_dirs(s, err);
	if (!e)
		e = synth_each(s, n, (double)n, make_picture, &p, err);
	for (int i = 0; p.worker && i < s->threads; i++) {
		picture_fini(&p.worker[i].canvas);
		free(p.worker[i].row);
	}
	free(p.worker);
	free(p.field);
	return e;
}

const struct synth_kind synth_kind_png16 = {
	.name = "png16",
	.help = "16-bit PNG photos in class folders, all of one size",
	.options = " size ",
	.check = check,
	.run = run,
};
