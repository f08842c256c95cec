/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a loader of photos with libjpeg-turbo must do: N threads
 * decode JPEG files in random order with its exact settings (accurate integer
 * DCT, smooth upsampling). A loader with a decoder of its own can be faster.
 * Nothing is scaled, flipped or normalised. All files are in memory before the
 * clock starts; a thread uses one decoder and one buffer of pixels again and
 * again: for a whole picture, or for a few rows of a box, as a loader that
 * scales them at once never has it all in memory.
 *
 *   whole   the whole picture
 *   region  only a box that RandomResizedCrop's rule draws (8 to 100 % of the
 *           area, 3:4 to 4:3), another one in each epoch: the columns outside
 *           it are not transformed, rows above are skipped, rows below never
 *           read
 *   center  only the box that remains of `resize 256 | center_crop 224`
 *
 * usage: bare_jpeg whole|region|center DIR THREADS EPOCHS [rgbx|rgb]
 */
#include "bare.h"

#include <ftw.h>
#include <malloc.h>
#include <math.h>
#include <sys/stat.h>

#include <jpeglib.h>

enum mode { WHOLE, REGION, CENTER };

#define ROWS 16 /* asked for at a time; the decoder gives one or two */

struct file {
	char *path;
	unsigned char *data;
	unsigned long size;
};

struct box {
	JDIMENSION x, y, w, h;
};

struct set {
	struct file *file;
	size_t n, cap, epochs;
	const uint32_t *order;
	enum mode mode;
	J_COLOR_SPACE space;
	_Atomic size_t next;
};

struct worker {
	struct set *set;
	size_t done, pixels; /* written when all is done */
};

static struct set files; /* nftw() has no argument to pass on */

static void slurp(struct file *f, const char *path, size_t size)
{
	FILE *in = fopen(path, "rbe");

	f->path = strdup(path);
	f->data = bare_alloc(size, 1);
	f->size = size;
	if (!in || !f->path || fread(f->data, 1, size, in) != size)
		err(1, "%s", path);
	fclose(in);
}

static int found(const char *path, const struct stat *st, int type,
		 struct FTW *at)
{
	(void)at;
	if (type != FTW_F || st->st_size == 0)
		return 0;
	if (files.n == files.cap) {
		files.cap = files.cap ? files.cap * 2 : 1024;
		files.file =
			realloc(files.file, files.cap * sizeof(*files.file));
		if (!files.file)
			err(1, "list of files");
	}
	slurp(&files.file[files.n++], path, (size_t)st->st_size);
	return 0;
}

static void fatal(j_common_ptr c)
{
	char text[JMSG_LENGTH_MAX];

	c->err->format_message(c, text);
	errx(1, "%s: %s", ((struct file *)c->client_data)->path, text);
}

static void quiet(j_common_ptr c, int level)
{
	(void)c;
	(void)level;
}

/* A number in [0, 1): splitmix64 over a state that image and epoch seed. */
static double unit(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15U;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
	z = (z ^ z >> 27) * 0x94d049bb133111ebU;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* torchvision's RandomResizedCrop.get_params() with its defaults. */
static struct box crop(JDIMENSION width, JDIMENSION height, uint64_t seed)
{
	const double low = 3.0 / 4, high = 4.0 / 3;
	double area = (double)width * height, w, h;

	for (int i = 0; i < 10; i++) {
		double part = area * (0.08 + 0.92 * unit(&seed));
		double ratio =
			exp(log(low) + (log(high) - log(low)) * unit(&seed));

		w = rint(sqrt(part * ratio));
		h = rint(sqrt(part / ratio));
		if (w >= 1 && w <= width && h >= 1 && h <= height)
			return (struct box){
				(JDIMENSION)(unit(&seed) * (width - w + 1)),
				(JDIMENSION)(unit(&seed) * (height - h + 1)),
				(JDIMENSION)w, (JDIMENSION)h
			};
	}
	w = fmin(width, rint(height * high));
	h = fmin(height, rint(width / low));
	return (struct box){ (JDIMENSION)((width - w) / 2),
			     (JDIMENSION)((height - h) / 2), (JDIMENSION)w,
			     (JDIMENSION)h };
}

static struct box center(JDIMENSION width, JDIMENSION height)
{
	double side = (width < height ? width : height) * 224.0 / 256;
	JDIMENSION x = (JDIMENSION)((width - side) / 2);
	JDIMENSION y = (JDIMENSION)((height - side) / 2);
	JDIMENSION n = (JDIMENSION)ceil(side);

	return (struct box){ x, y, n, n };
}

static struct box choose(const struct set *s, size_t i, size_t epoch,
			 JDIMENSION width, JDIMENSION height)
{
	if (s->mode == REGION)
		return crop(width, height, (uint64_t)epoch << 32 | i);
	if (s->mode == CENTER)
		return center(width, height);
	return (struct box){ 0, 0, width, height };
}

/* keep: one row below the other; else always into the same few. */
static void rows(struct jpeg_decompress_struct *c, JSAMPLE *to, JDIMENSION end,
		 int keep)
{
	size_t stride = (size_t)c->output_width * (size_t)c->output_components;
	JSAMPROW row[ROWS];

	while (c->output_scanline < end) {
		JDIMENSION n = end - c->output_scanline;

		n = n < ROWS ? n : ROWS;
		for (JDIMENSION k = 0; k < n; k++)
			row[k] = to + k * stride;
		n = jpeg_read_scanlines(c, row, n);
		if (keep)
			to += n * stride;
	}
}

/* Decode image i; how many pixels were made. */
static size_t decode(struct jpeg_decompress_struct *c, const struct set *s,
		     size_t i, size_t epoch, JSAMPLE **buf, size_t *cap)
{
	struct file *f = &s->file[i];
	struct box b;
	size_t pixels, need;

	c->client_data = f;
	jpeg_mem_src(c, f->data, f->size);
	jpeg_read_header(c, TRUE);
	c->out_color_space = s->space;
	jpeg_start_decompress(c);
	b = choose(s, i, epoch, c->output_width, c->output_height);
	if (b.w < c->output_width)
		jpeg_crop_scanline(c, &b.x, &b.w);
	pixels = (size_t)c->output_width * b.h;
	need = (s->mode == WHOLE ? pixels : (size_t)c->output_width * ROWS) *
	       (size_t)c->output_components;
	if (need > *cap) {
		free(*buf);
		*buf = (JSAMPLE *)bare_buffer(need);
		*cap = need;
	}
	if (b.y)
		jpeg_skip_scanlines(c, b.y);
	rows(c, *buf, b.y + b.h, s->mode == WHOLE);
	jpeg_abort_decompress(c);
	return pixels;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct set *s = w->set;
	struct jpeg_decompress_struct c;
	struct jpeg_error_mgr e;
	JSAMPLE *buf = NULL;
	size_t cap = 0, at, done = 0, pixels = 0;

	c.err = jpeg_std_error(&e);
	e.error_exit = fatal;
	e.emit_message = quiet;
	jpeg_create_decompress(&c);
	for (;;) {
		at = atomic_fetch_add_explicit(&s->next, 1,
					       memory_order_relaxed);
		if (at >= s->n * s->epochs)
			break;
		pixels += decode(&c, s, s->order[at % s->n], at / s->n, &buf,
				 &cap);
		done++;
	}
	jpeg_destroy_decompress(&c);
	free(buf);
	w->done = done;
	w->pixels = pixels;
	return NULL;
}

static enum mode mode_of(const char *s)
{
	static const char *const names[] = { "whole", "region", "center" };

	for (int i = 0; i < 3; i++)
		if (strcmp(s, names[i]) == 0)
			return (enum mode)i;
	errx(2, "no mode is called '%s'", s);
}

int main(int argc, char **argv)
{
	struct worker *w;
	size_t done = 0, pixels = 0;
	double seconds;
	int threads;

	if (argc < 5 || argc > 6 ||
	    (argc == 6 && strcmp(argv[5], "rgbx") && strcmp(argv[5], "rgb")))
		errx(2, "usage: bare_jpeg whole|region|center DIR THREADS "
			"EPOCHS [rgbx|rgb]");
	files.mode = mode_of(argv[1]);
	threads = bare_threads(argv[3]);
	files.epochs = bare_number(argv[4]);
	files.space = argc == 6 && strcmp(argv[5], "rgb") == 0 ? JCS_EXT_RGB :
								 JCS_EXT_RGBX;
	/* the decoder's own buffers stay mapped from picture to picture */
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	if (nftw(argv[2], found, 32, 0))
		err(1, "%s", argv[2]);
	if (files.n == 0)
		errx(1, "%s: no files in it", argv[2]);
	files.order = bare_order(files.n);

	w = bare_alloc((size_t)threads, sizeof(*w));
	for (int i = 0; i < threads; i++)
		w[i].set = &files;
	seconds = bare_run(threads, work, w, sizeof(*w));
	for (int i = 0; i < threads; i++) {
		done += w[i].done;
		pixels += w[i].pixels;
	}
	printf("{\"images\": %zu, \"pixels\": %zu, \"threads\": %d, "
	       "\"seconds\": %.6f, \"images_per_s\": %.2f}\n",
	       done, pixels, threads, seconds, (double)done / seconds);
	return 0;
}
