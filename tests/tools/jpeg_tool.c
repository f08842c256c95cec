/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JPEGs of the kinds that Pillow does not.
 *
 * usage: jpeg_tool H W CHANNELS [sample=HxV] [quality=N] [restart=N]
 *                  [progressive] [arith] [separate] [rgb] [ycck] [plain]
 * stdin: the pixels; stdout: the file. CHANNELS: 1 grey, 3 RGB, 4 CMYK.
 * sample: of luma (chroma has 1x1); restart: every N MCUs; separate: a scan
 * per component; rgb, ycck: how it is stored; plain: no Adobe marker.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { SIDE = 1 << 13 };

static int number(const char *text)
{
	int v = atoi(text);

	if (v < 1 || v > SIDE)
		errx(2, "%s: not a number from 1 to %d", text, SIDE);
	return v;
}

static void set_sampling(struct jpeg_compress_struct *c, const char *text)
{
	int h, v;

	if (sscanf(text, "%dx%d", &h, &v) != 2)
		errx(2, "%s: not HxV", text);
	c->comp_info[0].h_samp_factor = h;
	c->comp_info[0].v_samp_factor = v;
	for (int i = 1; i < c->num_components; i++)
		c->comp_info[i].h_samp_factor = c->comp_info[i].v_samp_factor =
			1;
	if (c->num_components == 4)
		c->comp_info[3] = c->comp_info[0];
	if (c->num_components == 4)
		c->comp_info[3].component_id = 4;
}

static void separate_scans(struct jpeg_compress_struct *c)
{
	static jpeg_scan_info scans[4];

	for (int i = 0; i < c->num_components; i++)
		scans[i] = (jpeg_scan_info){ .comps_in_scan = 1,
					     .component_index = { i },
					     .Se = DCTSIZE2 - 1 };
	c->scan_info = scans;
	c->num_scans = c->num_components;
}

static void set_option(struct jpeg_compress_struct *c, const char *o)
{
	if (!strncmp(o, "sample=", 7))
		set_sampling(c, o + 7);
	else if (!strncmp(o, "quality=", 8))
		jpeg_set_quality(c, number(o + 8), TRUE);
	else if (!strncmp(o, "restart=", 8))
		c->restart_interval = (unsigned)number(o + 8);
	else if (!strcmp(o, "progressive"))
		jpeg_simple_progression(c);
	else if (!strcmp(o, "arith"))
		c->arith_code = TRUE;
	else if (!strcmp(o, "separate"))
		separate_scans(c);
	else if (!strcmp(o, "rgb"))
		jpeg_set_colorspace(c, JCS_RGB);
	else if (!strcmp(o, "ycck"))
		jpeg_set_colorspace(c, JCS_YCCK);
	else if (!strcmp(o, "plain"))
		c->write_Adobe_marker = FALSE;
	else
		errx(2, "%s: no such option", o);
}

int main(int argc, char **argv)
{
	static const J_COLOR_SPACE spaces[] = {
		[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK
	};
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	JSAMPROW row;
	size_t bytes;
	int channels;

	if (argc < 4)
		errx(2, "usage: jpeg_tool H W CHANNELS [OPTION...]");
	channels = number(argv[3]);
	if (channels == 2 || channels > 4)
		errx(2, "1, 3 or 4 channels");
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_stdio_dest(&c, stdout);
	c.image_height = (JDIMENSION)number(argv[1]);
	c.image_width = (JDIMENSION)number(argv[2]);
	c.input_components = channels;
	c.in_color_space = spaces[channels];
	jpeg_set_defaults(&c);
	for (int i = 4; i < argc; i++)
		set_option(&c, argv[i]);
	bytes = (size_t)c.image_width * (size_t)channels;
	row = malloc(bytes);
	if (!row)
		errx(1, "no memory");
	jpeg_start_compress(&c, TRUE);
	while (c.next_scanline < c.image_height) {
		if (fread(row, 1, bytes, stdin) != bytes)
			errx(1, "stdin: too short");
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	free(row);
	if (fflush(stdout))
		err(1, "stdout");
}
