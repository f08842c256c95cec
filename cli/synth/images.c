/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images: JPEGs that cost what photos cost. The constants here, in leaves.c
 * and in light.c were fitted to 400 photos of ImageNet: bytes per pixel,
 * decode time, spectrum, deviation of luma and chroma.
 */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "core/mem.h"
#include "synth/picture.h"

#define USUAL_PIXELS (500 * 375) /* what the constants were fitted at */

struct worker {
	size_t pixels; /* that there is room for */
	struct canvas canvas;
	uint8_t *samples;
	unsigned char *jpeg;
	unsigned long jpeg_cap;
};

struct images {
	struct synth *s;
	struct synth_field *field;
	struct worker *worker;
};

/* ---- the scene ---- */

/* ImageNet: half are of the usual shape, a fifth 3:2, a quarter upright,
 * and a few much smaller or larger. */
static void draw_size(struct scene *sc, const struct synth_options *opt,
		      struct synth_rng *rng)
{
	float w = (float)opt->size.v[0], h = (float)opt->size.v[1];
	float kind = synth_real(rng, 0, 1), scale = 1;
	float upright = synth_real(rng, 0, 1);
	float aspect = synth_real(rng, 0.75f, 1.2f);
	float odd = synth_real(rng, 0, 1), grow = synth_real(rng, 0, 1);

	if (!opt->same_size) {
		if (kind > 0.75f)
			h /= aspect;
		else if (kind > 0.55f)
			h /= 1.125f; /* 4:3 becomes 3:2 */
		if (odd < 0.13f)
			scale = 0.3f + 0.6f * grow;
		else if (odd > 0.92f)
			scale = 1 + 1.4f * grow;
		if (upright < 0.24f) {
			float t = w;

			w = h;
			h = t;
		}
	}
	sc->width = (int)clampf(w * scale, 8, PICTURE_SIDE_MAX);
	sc->height = (int)clampf(h * scale, 8, PICTURE_SIDE_MAX);
}

/* Two in three as the sharing sites write them, the rest from all kinds of
 * programs. Large pictures come from cameras. */
static void draw_coding(struct scene *sc, const struct synth_options *opt,
			struct synth_rng *rng)
{
	float a = synth_real(rng, 0, 1), b = synth_real(rng, 0, 1);
	float chroma = synth_real(rng, 0, 1);

	if (opt->quality)
		sc->quality = (int)opt->quality;
	else
		sc->quality = (a < 0.72f ? 96 : (int)(72 + 22 * b)) -
			      (int)(12 * sc->large);
	sc->full_chroma = opt->subsampling == SYNTH_444 ||
			  (opt->subsampling == SYNTH_MIXED &&
			   sc->large < 0.5f && chroma < 0.79f);
}

static void draw_scene(struct scene *sc, const struct synth_options *opt,
		       uint64_t index, struct synth_rng *rng)
{
	struct synth_rng look;
	float hue[2];

	memset(sc, 0, sizeof(*sc));
	draw_size(sc, opt, rng);
	sc->class = (int)(index % (uint64_t)opt->classes);
	sc->scale = sqrtf((float)sc->width * (float)sc->height / USUAL_PIXELS);
	sc->large = clampf(log2f(sc->scale) / 2.3f, 0, 1);
	draw_coding(sc, opt, rng);

	/* A class has its own look: something for a model to learn. */
	look = synth_rng_for((uint64_t)opt->seed, ~(uint64_t)sc->class >> 1);
	sc->quads = synth_real(&look, 0, 0.6f);
	hue[0] = -8 + 9 * synth_normal(&look);
	hue[1] = 2 - 0.6f * hue[0] + 4 * synth_normal(&look);

	sc->detail = synth_normal(rng);
	sc->contrast = 64 * exp2f(0.3f * synth_normal(rng));
	sc->texture = exp2f(0.7f * synth_normal(rng) + 0.8f * sc->detail -
			    0.8f * sc->large);
	sc->noise = 1.1f * exp2f(0.8f * synth_normal(rng) - sc->large);
	sc->chroma = exp2f(0.5f * synth_normal(rng));
	sc->rmin = clampf(2.2f * exp2f(-0.8f * sc->detail), 1, 20) *
		   (sc->scale > 1 ? sc->scale : 1);
	sc->rmax = 150 * sc->scale;
	if (sc->rmin > sc->rmax / 2)
		sc->rmin = sc->rmax / 2;
	sc->blur = 1 + (int)(2.5f * sc->large);
	sc->soft = 5 + (int)(11 * clampf(2 * sc->large, 0, 1));
	sc->ox = synth_below(rng, SYNTH_FIELD);
	sc->oy = synth_below(rng, SYNTH_FIELD);
	for (int i = 0; i < PICTURE_COLOURS; i++) {
		float warm = 12 * synth_normal(rng);

		sc->colour[i][0] = sc->chroma * (hue[0] - warm);
		sc->colour[i][1] = sc->chroma * (hue[1] + 0.7f * warm +
						 3 * synth_normal(rng));
	}
}

/* ---- the encoder ---- */

struct jpeg_failure {
	struct jpeg_error_mgr mgr;
	jmp_buf escape;
	char text[JMSG_LENGTH_MAX];
};

static void jpeg_failed(j_common_ptr c)
{
	struct jpeg_failure *f = (struct jpeg_failure *)c->err;

	f->mgr.format_message(c, f->text);
	longjmp(f->escape, 1);
}

static void jpeg_settings(struct jpeg_compress_struct *c,
			  const struct scene *sc)
{
	c->image_width = (JDIMENSION)sc->width;
	c->image_height = (JDIMENSION)sc->height;
	c->input_components = 3;
	c->in_color_space = JCS_YCbCr;
	jpeg_set_defaults(c);
	jpeg_set_quality(c, sc->quality, TRUE);
	c->comp_info[0].h_samp_factor = sc->full_chroma ? 1 : 2;
	c->comp_info[0].v_samp_factor = sc->full_chroma ? 1 : 2;
}

/* Into w->jpeg, which grows if need be; *size is its length. */
static int encode(const struct images *im, const struct scene *sc,
		  struct worker *w, struct synth_rng *rng, size_t *size,
		  struct mr_err *err)
{
	struct jpeg_compress_struct c;
	struct jpeg_failure failure;
	unsigned char *out = w->jpeg;
	unsigned long n = w->jpeg_cap;

	c.err = jpeg_std_error(&failure.mgr);
	failure.mgr.error_exit = jpeg_failed;
	if (setjmp(failure.escape)) {
		jpeg_destroy_compress(&c);
		return mr_err_set(err, MR_ENOMEM, "libjpeg: %s", failure.text);
	}
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &out, &n);
	jpeg_settings(&c, sc);
	jpeg_start_compress(&c, TRUE);
	while (c.next_scanline < c.image_height) {
		JSAMPROW row = w->samples;

		picture_expose(im->field, sc, &w->canvas, (int)c.next_scanline,
			       w->samples, rng);
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	if (out != w->jpeg) {
		free(w->jpeg);
		w->jpeg = out;
		w->jpeg_cap = n;
	}
	*size = n;
	return 0;
}

/* ---- the kind ---- */

static void worker_fini(struct worker *w)
{
	free(w->canvas.id);
	for (int i = 0; i < 3; i++)
		free(w->canvas.plane[i]);
	free(w->canvas.row);
	free(w->canvas.leaf);
	free(w->samples);
	free(w->jpeg);
	memset(w, 0, sizeof(*w));
}

/* Room for a picture. */
static int worker_fit(struct worker *w, const struct scene *sc,
		      struct mr_err *err)
{
	size_t n = (size_t)sc->width * sc->height;
	struct canvas *c = &w->canvas;
	bool ok = true;

	if (n <= w->pixels)
		return 0;
	worker_fini(w);
	c->id = mr_alloc(n, sizeof(*c->id), err);
	for (int i = 0; i < 3; i++) {
		c->plane[i] = mr_alloc(n, sizeof(*c->plane[i]), err);
		ok = ok && c->plane[i];
	}
	c->row = mr_alloc(2 * PICTURE_SIDE_MAX, sizeof(*c->row), err);
	c->leaf = mr_alloc(PICTURE_LEAVES, sizeof(*c->leaf), err);
	w->samples = mr_alloc(3 * PICTURE_SIDE_MAX, 1, err);
	w->jpeg_cap = n + 65536;
	w->jpeg = mr_alloc(w->jpeg_cap, 1, err);
	if (!ok || !c->id || !c->row || !c->leaf || !w->samples || !w->jpeg)
		return MR_ENOMEM;
	w->pixels = n;
	return 0;
}

static int make_image(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct images *im = data;
	const struct synth_options *opt = im->s->opt;
	struct worker *w = &im->worker[worker];
	struct synth_rng rng = synth_rng_for((uint64_t)opt->seed, i);
	struct synth_file f = { .fd = -1 };
	struct scene sc;
	size_t size;
	int e;

	draw_scene(&sc, opt, i, &rng);
	e = worker_fit(w, &sc, err);
	if (e)
		return e;
	picture_paint(im->field, &sc, &w->canvas, &rng);
	picture_light(im->field, &sc, &w->canvas);
	e = encode(im, &sc, w, &rng, &size, err);
	if (e)
		return e;
	e = synth_file_open(&f, err, "%s/class-%03d/img-%06llu.jpg", im->s->dir,
			    sc.class, (unsigned long long)i);
	if (!e)
		e = synth_file_write(&f, w->jpeg, size, 0, err);
	if (!e)
		e = synth_file_done(im->s, &f, size, err);
	synth_file_drop(&f);
	return e;
}

static int check(const struct synth_options *opt, struct mr_err *err)
{
	if (opt->size.n != 2)
		return mr_err_set(err, MR_EINVAL,
				  "--size: want WIDTHxHEIGHT such as 500x375");
	return 0;
}

static int run(struct synth *s, struct mr_err *err)
{
	struct images im = { .s = s };
	uint64_t n = (uint64_t)s->opt->count;
	int e = 0;

	s->next = "files %s | batch 64";
	im.field = synth_fields_new((uint64_t)s->opt->seed, err);
	im.worker = mr_alloc((size_t)s->threads, sizeof(*im.worker), err);
	if (!im.field || !im.worker)
		e = MR_ENOMEM;
	if (!e)
		e = synth_class_dirs(s, err);
	if (!e)
		e = synth_each(s, n, (double)n, make_image, &im, err);
	for (int i = 0; im.worker && i < s->threads; i++)
		worker_fini(&im.worker[i]);
	free(im.worker);
	free(im.field);
	return e;
}

const struct synth_kind synth_kind_images = {
	.name = "images",
	.help = "JPEG photos in class folders",
	.options = " size same-size quality subsampling ",
	.check = check,
	.run = run,
};
