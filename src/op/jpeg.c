/* SPDX-License-Identifier: Apache-2.0 */
#include "op/jpeg.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
/* after it: which messages there are depends on its settings */
#include <jerror.h>

#include "core/mem.h"
#include "op/baseline.h"
#include "op/exif.h"

enum {
	STRIP = 16,	 /* rows decoded at a time: they stay in the L1 cache */
	MARGIN = 2,	 /* columns whose neighbours upsampling looks at */
	MAX_SCANS = 500, /* a progressive file that has more is an attack */
};

struct mr_jpeg {
	struct jpeg_decompress_struct c; /* first: libjpeg gives it back */
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf fail;
	struct mr_err *err;
	char damage[JMSG_LENGTH_MAX]; /* the first warning about the data */
	bool at_end;		      /* the bytes have run out */
	struct mr_jpeg_options opt;
	struct mr_baseline *baseline; /* NULL: all by libjpeg */
	bool ours;		      /* this one is not by libjpeg */
	unsigned by;		      /* which it makes smaller */
	const uint8_t *bytes;
	size_t n;
	struct mr_rect want;
	unsigned skip; /* columns before the first wanted one */
	int64_t left;  /* rows */
	uint8_t *strip;
	size_t stride, strip_cap;
};

/* ---- what libjpeg tells ---- */

static void on_error(j_common_ptr c)
{
	struct mr_jpeg *j = (struct mr_jpeg *)c;
	char text[JMSG_LENGTH_MAX];
	int code =
		c->err->msg_code == JERR_OUT_OF_MEMORY ? MR_ENOMEM : MR_EDATA;

	c->err->format_message(c, text);
	mr_err_set(j->err, code, "JPEG: %s", text);
	longjmp(j->fail, 1);
}

/* Warnings after which pixels are not those of the picture. */
static bool is_damage(int code)
{
	switch (code) {
	case JWRN_HIT_MARKER:
	case JWRN_HUFF_BAD_CODE:
	case JWRN_ARITH_BAD_CODE:
	case JWRN_JPEG_EOF:
	case JWRN_MUST_RESYNC:
		return true;
	default:
		return false;
	}
}

static void on_message(j_common_ptr c, int level)
{
	struct mr_jpeg *j = (struct mr_jpeg *)c;
	int code = c->err->msg_code;

	if (level >= 0 || !is_damage(code))
		return;
	if (code == JWRN_JPEG_EOF)
		j->at_end = true;
	else if (j->opt.lenient)
		return;
	if (!j->damage[0])
		c->err->format_message(c, j->damage);
}

/* Called now and then, and for each scan. */
static void on_progress(j_common_ptr c)
{
	struct mr_jpeg *j = (struct mr_jpeg *)c;

	if (j->c.input_scan_number <= MAX_SCANS)
		return;
	mr_err_set(j->err, MR_EDATA, "JPEG: more than %d scans", MAX_SCANS);
	longjmp(j->fail, 1);
}

static int damaged(struct mr_jpeg *j)
{
	if (j->at_end)
		return mr_err_set(j->err, MR_EDATA,
				  "JPEG: truncated: the file ends after %zu "
				  "bytes, in line %u of %u",
				  j->n, j->c.output_scanline,
				  j->c.output_height);
	return mr_err_set(j->err, MR_EDATA,
			  "JPEG: %s, near line %u of %u (lenient=yes takes "
			  "what there is)",
			  j->damage, j->c.output_scanline, j->c.output_height);
}

/* ---- life ---- */

int mr_jpeg_new(struct mr_jpeg **out, struct mr_err *err)
{
	struct mr_jpeg *j = mr_alloc(1, sizeof(*j), err);

	if (!j)
		return MR_ENOMEM;
	/* MILLRACE_LIBJPEG: to compare with. */
	if (!getenv("MILLRACE_LIBJPEG") && mr_baseline_new(&j->baseline, err)) {
		free(j);
		return err->code;
	}
	*out = j;
	return 0;
}

/* A new one for each image: an old one would lend it the tables of the one
 * before if it has none. */
static void create(struct mr_jpeg *j)
{
	jpeg_destroy_decompress(&j->c);
	j->c.err = jpeg_std_error(&j->errors);
	j->errors.error_exit = on_error;
	j->errors.emit_message = on_message;
	jpeg_create_decompress(&j->c);
	j->progress.progress_monitor = on_progress;
	j->c.progress = &j->progress;
}

void mr_jpeg_free(struct mr_jpeg *j)
{
	if (!j)
		return;
	jpeg_destroy_decompress(&j->c);
	mr_baseline_free(j->baseline);
	free(j->strip);
	free(j);
}

/* ---- header ---- */

bool mr_jpeg_is(const uint8_t *b, size_t n)
{
	return n >= 3 && b[0] == 0xff && b[1] == 0xd8 && b[2] == 0xff;
}

/* EXIF's orientation, from the segments before the first scan. */
static int orientation_of(const uint8_t *b, size_t n)
{
	size_t at = 2;

	while (at + 4 <= n && b[at] == 0xff) {
		uint8_t kind = b[at + 1];
		size_t len = (size_t)b[at + 2] << 8 | b[at + 3];

		if (kind == 0xff) { /* filler */
			at++;
			continue;
		}
		if (kind == 0xda || len < 2 || len > n - at - 2)
			break;
		if (kind == 0xe1 && len > 8 &&
		    !memcmp(b + at + 4, "Exif\0\0", 6))
			return mr_exif_orientation(b + at + 10, len - 8);
		at += 2 + len;
	}
	return 1;
}

/* Progressive files are held in memory as coefficients. */
static int check_size(const struct mr_jpeg *j)
{
	const struct jpeg_decompress_struct *c = &j->c;
	int64_t pixels = (int64_t)c->image_width * c->image_height;
	uint64_t bytes = 0;

	if (pixels > j->opt.max_pixels)
		return mr_err_set(j->err, MR_EDATA,
				  "JPEG: says that it has %u x %u pixels, more "
				  "than max_pixels=%lld",
				  c->image_width, c->image_height,
				  (long long)j->opt.max_pixels);
	if (!jpeg_has_multiple_scans((j_decompress_ptr)(uintptr_t)c))
		return 0;
	for (int i = 0; i < c->num_components; i++)
		bytes += (uint64_t)c->comp_info[i].width_in_blocks *
			 c->comp_info[i].height_in_blocks * sizeof(JBLOCK);
	if (bytes > j->opt.max_bytes)
		return mr_err_set(j->err, MR_ELIMIT,
				  "JPEG: %u x %u pixels in several scans need "
				  "%llu bytes; raise --memory",
				  c->image_width, c->image_height,
				  (unsigned long long)bytes);
	return 0;
}

static int choose_colours(struct mr_jpeg *j)
{
	struct jpeg_decompress_struct *c = &j->c;

	switch (c->jpeg_color_space) {
	case JCS_GRAYSCALE:
	case JCS_YCbCr:
	case JCS_RGB:
		c->out_color_space = JCS_EXT_RGBX;
		return 0;
	case JCS_CMYK:
	case JCS_YCCK:
		c->out_color_space = JCS_CMYK;
		return 0;
	default:
		return mr_err_set(j->err, MR_EDATA,
				  "JPEG: %d components of unknown colours",
				  c->num_components);
	}
}

int mr_jpeg_start(struct mr_jpeg *j, const uint8_t *bytes, size_t n,
		  const struct mr_jpeg_options *opt, int64_t *h, int64_t *w,
		  int *orientation, struct mr_err *err)
{
	int e;

	j->err = err;
	j->opt = *opt;
	j->bytes = bytes;
	j->n = n;
	j->damage[0] = 0;
	j->at_end = j->ours = false;
	j->by = 1;
	if (setjmp(j->fail))
		return err->code;
	create(j);
	jpeg_mem_src(&j->c, bytes, n);
	jpeg_read_header(&j->c, TRUE);
	e = check_size(j);
	if (!e)
		e = choose_colours(j);
	if (e)
		return e;
	if (opt->fast) {
		j->c.dct_method = JDCT_IFAST;
		j->c.do_fancy_upsampling = FALSE;
	}
	*h = j->c.image_height;
	*w = j->c.image_width;
	*orientation = opt->exif ? orientation_of(bytes, n) : 1;
	return 0;
}

void mr_jpeg_reduce(struct mr_jpeg *j, double most, int64_t *h, int64_t *w)
{
	unsigned by = most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;

	j->by = by;
	j->c.scale_num = 1;
	j->c.scale_denom = by;
	*h = (j->c.image_height + by - 1) / by;
	*w = (j->c.image_width + by - 1) / by;
}

/* ---- pixels ---- */

/*
 * A progressive file that stops before its coefficients are exact is made
 * smooth by libjpeg, which looks two blocks away, but not beyond the columns
 * that it is asked for.
 */
static bool is_smoothed(const struct jpeg_decompress_struct *c)
{
	if (!c->coef_bits)
		return false;
	for (int i = 0; i < c->num_components; i++)
		for (int k = 0; k < DCTSIZE2; k++)
			if (c->coef_bits[i][k])
				return true;
	return false;
}

/* Only these columns; upsampling needs some more. */
static void crop_columns(struct mr_jpeg *j)
{
	struct jpeg_decompress_struct *c = &j->c;
	int64_t from = j->want.x - MARGIN, to = j->want.x + j->want.w + MARGIN;
	JDIMENSION x, width;

	from = from < 0 ? 0 : from;
	to = to > c->output_width ? c->output_width : to;
	x = (JDIMENSION)from;
	width = (JDIMENSION)(to - from);
	if (width < c->output_width && !is_smoothed(c))
		jpeg_crop_scanline(c, &x, &width);
	else
		x = 0;
	j->skip = (unsigned)(j->want.x - x);
}

static int reserve_strip(struct mr_jpeg *j)
{
	size_t need;

	j->stride =
		mr_round_up((size_t)j->c.output_width * 4 + MR_ROW_SLACK, 64);
	need = j->stride * STRIP;
	if (need <= j->strip_cap)
		return 0;
	free(j->strip);
	j->strip = NULL;
	j->strip_cap = 0;
	j->strip = aligned_alloc(64, need);
	if (!j->strip)
		return mr_err_set(j->err, MR_ENOMEM, "out of memory");
	memset(j->strip, 0, need);
	j->strip_cap = need;
	return 0;
}

/* Nothing but the end follows the picture. A file that has its end has, in
 * all likelihood, the rest. */
static bool has_end(const struct mr_jpeg *j)
{
	return j->n >= 2 && j->bytes[j->n - 2] == 0xff &&
	       j->bytes[j->n - 1] == 0xd9;
}

/*
 * By our own decoder, if it can: 0, or MR_EDATA for libjpeg. A file without an
 * end may lack more, of which libjpeg tells.
 *
 * Which of both it is must not be seen in the pixels, as it may depend on the
 * memory and on the crop. libjpeg's exact ones are ours; reduced ones are not.
 */
static int decode_ours(struct mr_jpeg *j)
{
	const struct jpeg_source_mgr *src = j->c.src;
	int e;

	if (!j->baseline || !has_end(j) || !mr_baseline_fits(&j->c))
		return MR_EDATA;
	e = mr_baseline_decode(j->baseline, &j->c, (int)j->by, &j->want,
			       src->next_input_byte, src->bytes_in_buffer,
			       j->opt.max_bytes / 4);
	if (e == MR_ELIMIT && j->by > 1)
		return mr_err_set(j->err, e,
				  "JPEG: %u x %u pixels at 1/%u need more "
				  "memory; raise --memory",
				  j->c.image_width, j->c.image_height, j->by);
	j->c.dct_method = JDCT_ISLOW;
	j->c.do_fancy_upsampling = TRUE;
	return e ? MR_EDATA : 0;
}

int mr_jpeg_want(struct mr_jpeg *j, const struct mr_rect *r, struct mr_err *err)
{
	int e;

	j->err = err;
	j->want = *r;
	j->left = r->h;
	e = decode_ours(j);
	if (e != MR_EDATA) {
		j->ours = !e;
		return e;
	}
	if (setjmp(j->fail))
		return err->code;
	jpeg_start_decompress(&j->c);
	if (j->damage[0])
		return damaged(j);
	crop_columns(j);
	if (r->y)
		jpeg_skip_scanlines(&j->c, (JDIMENSION)r->y);
	return reserve_strip(j);
}

/* (a * b + 127) / 255, rounded */
static unsigned muldiv255(unsigned a, unsigned b)
{
	unsigned t = a * b + 128;

	return ((t >> 8) + t) >> 8;
}

/* In place. The inks are stored inverted, as Adobe does it, with its marker or
 * without; Pillow thinks so, too. */
static void cmyk_to_rgb(uint8_t *p, size_t n)
{
	for (; n; n--, p += 4) {
		unsigned white = p[3];

		for (int i = 0; i < 3; i++)
			p[i] = (uint8_t)(white - muldiv255(255u - p[i], white));
	}
}

int mr_jpeg_rows(struct mr_jpeg *j, struct mr_rows *out, struct mr_err *err)
{
	struct jpeg_decompress_struct *c = &j->c;
	JSAMPROW row[STRIP];
	int n = j->left < STRIP ? (int)j->left : STRIP;

	if (j->ours) {
		mr_baseline_rows(j->baseline, out);
		return 0;
	}
	j->err = err;
	if (setjmp(j->fail))
		return err->code;
	for (int i = 0; i < n; i++)
		row[i] = j->strip + (size_t)i * j->stride;
	for (int i = 0; i < n;)
		i += (int)jpeg_read_scanlines(c, row + i, (JDIMENSION)(n - i));
	if (j->damage[0])
		return damaged(j);
	if (c->out_color_space == JCS_CMYK)
		for (int i = 0; i < n; i++)
			cmyk_to_rgb(row[i], c->output_width);
	j->left -= n;
	*out = (struct mr_rows){ j->strip + (size_t)j->skip * 4, j->stride, n };
	return 0;
}

/* Decodes the rest. The last line is read, as libjpeg does nothing at all
 * when it is told to skip all that is left. */
static void run_through(struct mr_jpeg *j)
{
	struct jpeg_decompress_struct *c = &j->c;
	JDIMENSION left = c->output_height - c->output_scanline;
	JSAMPROW row = j->strip;

	if (!left)
		return;
	if (left > 1)
		jpeg_skip_scanlines(c, left - 1);
	jpeg_read_scanlines(c, &row, 1);
}

int mr_jpeg_stop(struct mr_jpeg *j, bool whole, struct mr_err *err)
{
	struct jpeg_decompress_struct *c = &j->c;
	int e;

	j->err = err;
	if (setjmp(j->fail)) {
		jpeg_destroy_decompress(c);
		return err->code;
	}
	/* So that a truncated file is bad with every crop, not with some. */
	if (whole && !j->ours && !has_end(j))
		run_through(j);
	e = whole && j->damage[0] ? damaged(j) : 0;
	jpeg_destroy_decompress(c);
	return e;
}
