/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images: JPEGs that cost what photos cost. The constants here, in leaves.c,
 * light.c and scene.c were fitted to 400 photos of ImageNet: bytes per pixel,
 * decode time, spectrum, deviation of luma and chroma.
 */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "core/mem.h"
#include "synth/picture.h"

struct worker {
	size_t pixels; /* that there is room for */
	struct canvas canvas;
	uint8_t *samples;
	unsigned char *jpeg;
	unsigned long jpeg_cap;
};

struct images {
	struct synth *s;
	struct synth_options opt; /* with the kind's own size */
	struct synth_field *field;
	struct worker *worker;
};

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
	picture_fini(&w->canvas);
	free(w->samples);
	free(w->jpeg);
	memset(w, 0, sizeof(*w));
}

/* Room for a picture. */
static int worker_fit(struct worker *w, const struct scene *sc,
		      struct mr_err *err)
{
	size_t n = (size_t)sc->width * sc->height;

	if (n <= w->pixels)
		return 0;
	worker_fini(w);
	if (picture_fit(&w->canvas, n, err))
		return MR_ENOMEM;
	w->samples = mr_alloc(3 * PICTURE_SIDE_MAX, 1, err);
	w->jpeg_cap = n + 65536;
	w->jpeg = mr_alloc(w->jpeg_cap, 1, err);
	if (!w->samples || !w->jpeg)
		return MR_ENOMEM;
	w->pixels = n;
	return 0;
}

static int make_image(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct images *im = data;
	const struct synth_options *opt = &im->opt;
	struct worker *w = &im->worker[worker];
	struct synth_rng rng = synth_rng_for((uint64_t)opt->seed, i);
	struct synth_file f = { .fd = -1 };
	struct scene sc;
	size_t size;
	int e;

	picture_draw(&sc, opt, i, &rng);
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
	if (opt->size.n && opt->size.n != 2)
		return mr_err_set(err, MR_EINVAL,
				  "--size: want WIDTHxHEIGHT such as 500x375");
	return 0;
}

static int run(struct synth *s, struct mr_err *err)
{
	struct images im = { .s = s, .opt = *s->opt };
	uint64_t n = (uint64_t)s->opt->count;
	int e = 0;

	s->next = "files %s | batch 64";
	if (!im.opt.size.n)
		im.opt.size = (struct mr_ints){ 2, { 500, 375 } };
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
