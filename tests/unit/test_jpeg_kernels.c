/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows a JPEG's entropy coding: what runs on this CPU against the
 * plain twins, those against their definitions, and both against libjpeg, by
 * whose coefficients we must come to its pixels. Rows are allocated with
 * exactly the slack that the header grants.
 */
#include "scratch.h"

#include <math.h>
#include <stdbool.h>

#include <jpeglib.h>

#include "kernel/cpu.h"
#include "kernel/jpeg.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5, STRIDE = 24 };

static uint64_t seed;

/* 0 to n - 1, the same in each run. */
static size_t below(size_t n)
{
	return (size_t)(mr_mix64(++seed) % n);
}

static int between(int lo, int hi)
{
	return lo + (int)below((size_t)(hi - lo) + 1);
}

static void *need(size_t n)
{
	void *p = malloc(n ? n : 1);

	assert_non_null(p);
	return p;
}

/* n random bytes; black and white ones are frequent, for clipping. */
static uint8_t *noise(size_t n)
{
	uint8_t *p = need(n);

	for (size_t i = 0; i < n; i++) {
		size_t k = below(512);

		p[i] = k < 256 ? (uint8_t)k : k & 1 ? 255 : 0;
	}
	return p;
}

/* ---- inverse DCT ---- */

struct block {
	_Alignas(32) int16_t coef[64];
	_Alignas(32) uint16_t quant[64];
};

typedef void idct_fn(const int16_t coef[64], const uint16_t quant[64],
		     uint8_t *dst, size_t stride);

/* A block into 8 x 8 bytes; nothing around them may change. */
static void run_idct(idct_fn *idct, const struct block *b, uint8_t out[64])
{
	uint8_t mem[GUARD + 8 * STRIDE + GUARD];

	memset(mem, GUARD_BYTE, sizeof(mem));
	idct(b->coef, b->quant, mem + GUARD, STRIDE);
	for (size_t i = 0; i < sizeof(mem); i++) {
		size_t x = (i - GUARD) % STRIDE, y = (i - GUARD) / STRIDE;

		if (i >= GUARD && x < 8 && y < 8)
			out[8 * y + x] = mem[i];
		else
			assert_int_equal(mem[i], GUARD_BYTE);
	}
}

static void check_idct(const struct block *b)
{
	uint8_t got[64], want[64];

	run_idct(mr_jpeg_idct, b, got);
	run_idct(mr_jpeg_idct_plain, b, want);
	assert_memory_equal(got, want, 64);
}

/* Of which coefficients are not 0. */
static bool in_shape(int shape, size_t i)
{
	switch (shape) {
	case 0:
		return true;
	case 1:
		return i == 0;
	case 2:
		return i < 8;
	case 3:
		return i % 8 == 0;
	case 4:
		return i / 8 < 3 && i % 8 < 3;
	case 5:
		return below(8) == 0;
	default:
		return i == 0 || i == 63;
	}
}

/* How far coefficients and the table's entries go. */
static void fill_block(struct block *b, int shape, int coef, int quant)
{
	for (size_t i = 0; i < 64; i++) {
		b->coef[i] = 0;
		if (in_shape(shape, i))
			b->coef[i] = (int16_t)between(-coef, coef);
		if (b->coef[i] && below(4) == 0) /* just that far */
			b->coef[i] = (int16_t)(below(2) ? coef : -coef);
		b->quant[i] = (uint16_t)between(1, quant);
	}
}

static const struct {
	int coef, quant;
} ranges[] = { { 20, 20 },    { 100, 16 },     { 1023, 1 },  { 2047, 16 },
	       { 2047, 255 }, { 2047, 65535 }, { 32767, 1 }, { 32767, 65535 } };

static void test_idct_is_the_plain_twins(void **state)
{
	struct block b;

	(void)state;
	for (size_t r = 0; r < sizeof(ranges) / sizeof(*ranges); r++)
		for (int i = 0; i < 7 * 3000; i++) {
			fill_block(&b, i % 7, ranges[r].coef, ranges[r].quant);
			check_idct(&b);
		}
}

static void test_idct_of_corners_is_the_plain_twins(void **state)
{
	static const int16_t corners[] = { INT16_MIN, INT16_MAX, -8193, -8192,
					   8191,      8192,	 0,	-1 };
	struct block b;

	(void)state;
	for (int i = 0; i < 50000; i++) {
		for (size_t k = 0; k < 64; k++) {
			b.coef[k] = corners[below(8)];
			if (i % 2 && k >= 8)
				b.coef[k] = 0;
			b.quant[k] = 1;
		}
		check_idct(&b);
	}
}

static void test_dc_alone_is_the_idct_of_it(void **state)
{
	struct block b = { .quant = { 1 } };
	uint8_t got[8 * STRIDE], want[64];

	(void)state;
	for (int dc = INT16_MIN; dc <= INT16_MAX; dc++) {
		b.coef[0] = (int16_t)dc;
		mr_jpeg_idct(b.coef, b.quant, want, 8);
		mr_jpeg_idct_dc(dc, got, STRIDE);
		for (size_t y = 0; y < 8; y++)
			assert_memory_equal(got + y * STRIDE, want + y * 8, 8);
		mr_jpeg_idct_dc_plain(dc, got, STRIDE);
		for (size_t y = 0; y < 8; y++)
			assert_memory_equal(got + y * STRIDE, want + y * 8, 8);
	}
}

/* The definition: a sum of cosines. */
static double idct_at(const struct block *b, size_t x, size_t y, double c[8][8])
{
	double sum = 0;

	for (size_t v = 0; v < 8; v++)
		for (size_t u = 0; u < 8; u++)
			sum += b->coef[8 * v + u] * b->quant[8 * v + u] *
			       c[x][u] * c[y][v];
	return fmin(fmax(sum + 128, 0), 255);
}

static void test_idct_is_the_sum_of_cosines(void **state)
{
	size_t wrong = 0, all = 0;
	double c[8][8];
	struct block b;
	uint8_t out[64];

	(void)state;
	for (int x = 0; x < 8; x++)
		for (int u = 0; u < 8; u++)
			c[x][u] = cos((2 * x + 1) * u * acos(-1) / 16) *
				  (u ? 0.5 : sqrt(0.125));
	for (int i = 0; i < 7 * 200; i++) {
		fill_block(&b, i % 7, 100, 4);
		run_idct(mr_jpeg_idct_plain, &b, out);
		for (size_t k = 0; k < 64; k++, all++) {
			double want = idct_at(&b, k % 8, k / 8, c);

			assert_true(fabs(out[k] - want) < 0.6);
			wrong += out[k] != (uint8_t)lround(want);
		}
	}
	assert_true(wrong * 100 < all);
}

/* ---- rows ---- */

/* A row of n bytes and the slack after it, one byte before it. */
static uint8_t *noise_row(size_t n)
{
	return noise(1 + n + MR_JPEG_READ_SLACK) + 1;
}

/* For n bytes and the slack. */
static uint8_t *make_out(size_t n)
{
	uint8_t *p = need(GUARD + n + MR_JPEG_WRITE_SLACK);

	memset(p, GUARD_BYTE, GUARD);
	return p + GUARD;
}

/* The two agree; both are dropped. */
static void check_out(uint8_t *got, uint8_t *want, size_t n)
{
	assert_memory_equal(got, want, n);
	for (int i = 1; i <= GUARD; i++)
		assert_int_equal(got[-i], GUARD_BYTE);
	free(got - GUARD);
	free(want - GUARD);
}

static void test_h2v1_is_the_triangle(void **state)
{
	(void)state;
	for (size_t n = 0; n < 300; n++) {
		uint8_t *c = noise_row(n);
		uint8_t *got = make_out(2 * n), *want = make_out(2 * n);

		mr_jpeg_h2v1(c, n, got);
		mr_jpeg_h2v1_plain(c, n, want);
		for (size_t i = 0; i < n; i++) {
			const uint8_t *p = c + i;

			assert_int_equal(want[2 * i],
					 (3 * p[0] + p[-1] + 1) >> 2);
			assert_int_equal(want[2 * i + 1],
					 (3 * p[0] + p[1] + 2) >> 2);
		}
		check_out(got, want, 2 * n);
		free(c - 1);
	}
}

/* Each pair of neighbours that there is. */
static void test_h2v1_of_all_pairs_is_the_plain_twins(void **state)
{
	enum { N = 512 };

	(void)state;
	for (int a = 0; a < 256; a++) {
		uint8_t *c = noise_row(N);
		uint8_t *got = make_out(2 * N), *want = make_out(2 * N);

		for (int i = 0; i < N; i++)
			c[i] = (uint8_t)(i % 2 ? a : i / 2);
		mr_jpeg_h2v1(c, N, got);
		mr_jpeg_h2v1_plain(c, N, want);
		check_out(got, want, 2 * N);
		free(c - 1);
	}
}

static int near_far(const uint8_t *near, const uint8_t *far, size_t i)
{
	return 3 * near[i] + far[i];
}

static void test_h2v2_is_the_triangle_both_ways(void **state)
{
	(void)state;
	for (size_t n = 0; n < 1200; n++) {
		uint8_t *near = noise_row(n), *far = noise_row(n);
		uint8_t *got = make_out(2 * n), *want = make_out(2 * n);

		mr_jpeg_h2v2(near, far, n, got);
		mr_jpeg_h2v2_plain(near, far, n, want);
		for (size_t i = 0; i < n; i++) {
			int l = near_far(near - 1, far - 1, i);
			int c = near_far(near, far, i);
			int r = near_far(near + 1, far + 1, i);

			assert_int_equal(want[2 * i], (3 * c + l + 8) >> 4);
			assert_int_equal(want[2 * i + 1], (3 * c + r + 7) >> 4);
		}
		check_out(got, want, 2 * n);
		free(near - 1);
		free(far - 1);
	}
}

static void check_ycc(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
		      size_t n)
{
	uint8_t *got = make_out(4 * n), *want = make_out(4 * n);

	mr_jpeg_ycc(y, cb, cr, n, got);
	mr_jpeg_ycc_plain(y, cb, cr, n, want);
	check_out(got, want, 4 * n);
}

static void test_rows_of_colour_are_the_plain_twins(void **state)
{
	(void)state;
	for (size_t n = 0; n < 300; n++) {
		uint8_t *y = noise_row(n), *cb = noise_row(n),
			*cr = noise_row(n);

		check_ycc(y, cb, cr, n);
		free(y - 1);
		free(cb - 1);
		free(cr - 1);
	}
}

/* All pairs of chroma, each with the luma where nothing clips, and with
 * those that do. */
static void test_all_colours_are_the_plain_twins(void **state)
{
	enum { N = 256 };
	uint8_t *y = noise_row(N), *cb = noise_row(N), *cr = noise_row(N);
	static const uint8_t luma[] = { 0, 77, 128, 200, 255 };

	(void)state;
	for (int r = 0; r < 256; r++)
		for (size_t k = 0; k < sizeof(luma); k++) {
			for (int i = 0; i < N; i++) {
				y[i] = luma[k];
				cb[i] = (uint8_t)i;
				cr[i] = (uint8_t)r;
			}
			check_ycc(y, cb, cr, N);
		}
	free(y - 1);
	free(cb - 1);
	free(cr - 1);
}

static void test_grey_is_three_times_the_luma(void **state)
{
	(void)state;
	for (size_t n = 0; n < 300; n++) {
		uint8_t *y = noise_row(n);
		uint8_t *got = make_out(4 * n), *want = make_out(4 * n);

		mr_jpeg_grey(y, n, got);
		mr_jpeg_grey_plain(y, n, want);
		for (size_t i = 0; i < 4 * n; i++)
			assert_int_equal(want[i], i % 4 == 3 ? 255 : y[i / 4]);
		check_out(got, want, 4 * n);
		free(y - 1);
	}
}

/* ---- libjpeg ---- */

struct file {
	unsigned char *mem;
	unsigned long n;
};

struct shape {
	int width, height, components;
	int h, v; /* luma samples per chroma sample */
	int quality;
	bool smooth;
};

static uint8_t sample(const struct shape *s, int x, int y, int c)
{
	if (!s->smooth)
		return (uint8_t)below(256);
	return (uint8_t)(128 + 127 * sin(x * 0.11 * (c + 1) + y * 0.07));
}

static struct file make_jpeg(const struct shape *s)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr err;
	struct file f = { 0 };
	JSAMPROW row = need((size_t)(s->width * s->components));

	c.err = jpeg_std_error(&err);
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &f.mem, &f.n);
	c.image_width = (JDIMENSION)s->width;
	c.image_height = (JDIMENSION)s->height;
	c.input_components = s->components;
	c.in_color_space = s->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, s->quality, TRUE);
	c.comp_info[0].h_samp_factor = s->h;
	c.comp_info[0].v_samp_factor = s->v;
	jpeg_start_compress(&c, TRUE);
	for (int y = 0; y < s->height; y++) {
		for (int i = 0; i < s->width * s->components; i++)
			row[i] = sample(s, i / s->components, y,
					i % s->components);
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	free(row);
	return f;
}

static void open_jpeg(struct jpeg_decompress_struct *d,
		      struct jpeg_error_mgr *err, const struct file *f)
{
	d->err = jpeg_std_error(err);
	jpeg_create_decompress(d);
	jpeg_mem_src(d, f->mem, f->n);
	jpeg_read_header(d, TRUE);
}

/* libjpeg's own pixels. */
static uint8_t *decode(const struct file *f)
{
	struct jpeg_decompress_struct d;
	struct jpeg_error_mgr err;
	uint8_t *px;

	open_jpeg(&d, &err, f);
	d.out_color_space = JCS_EXT_RGBX;
	jpeg_start_decompress(&d);
	px = need((size_t)d.output_width * d.output_height * 4);
	while (d.output_scanline < d.output_height) {
		JSAMPROW row =
			px + (size_t)d.output_scanline * d.output_width * 4;

		jpeg_read_scanlines(&d, &row, 1);
	}
	jpeg_finish_decompress(&d);
	jpeg_destroy_decompress(&d);
	return px;
}

/* One component: rows of whole blocks, and the slack. */
struct plane {
	uint8_t *mem;
	size_t stride;
	int width, height; /* of samples that count */
	int h, v;	   /* pixels per sample */
};

static struct plane make_plane(struct jpeg_decompress_struct *d,
			       jvirt_barray_ptr coefs, int i)
{
	const jpeg_component_info *c = d->comp_info + i;
	struct plane p = { .h = d->max_h_samp_factor / c->h_samp_factor,
			   .v = d->max_v_samp_factor / c->v_samp_factor };
	struct block b;

	p.width = ((int)d->image_width + p.h - 1) / p.h;
	p.height = ((int)d->image_height + p.v - 1) / p.v;
	p.stride = c->width_in_blocks * 8 + MR_JPEG_READ_SLACK;
	p.mem = need(p.stride * c->height_in_blocks * 8);
	memcpy(b.quant, c->quant_table->quantval, sizeof(b.quant));
	for (JDIMENSION y = 0; y < c->height_in_blocks; y++) {
		JBLOCKARRAY rows = d->mem->access_virt_barray(
			(j_common_ptr)d, coefs, y, 1, FALSE);

		for (JDIMENSION x = 0; x < c->width_in_blocks; x++) {
			memcpy(b.coef, rows[0][x], sizeof(b.coef));
			mr_jpeg_idct(b.coef, b.quant,
				     p.mem + 8 * y * p.stride + 8 * x,
				     p.stride);
		}
	}
	return p;
}

/* Row y (or the edge's) into to[-1] .. to[width]. */
static void copy_row(const struct plane *p, int y, uint8_t *to)
{
	y = y < 0 ? 0 : y >= p->height ? p->height - 1 : y;
	memcpy(to, p->mem + (size_t)y * p->stride, (size_t)p->width);
	to[-1] = to[0];
	to[p->width] = to[p->width - 1];
}

/* The samples of row y of the image, at full width. */
static uint8_t *full_row(const struct plane *p, int y)
{
	size_t n = (size_t)p->width;
	uint8_t *near = noise_row(n), *far = noise_row(n);
	uint8_t *out = need(2 * n + MR_JPEG_WRITE_SLACK);

	copy_row(p, y / p->v, near);
	copy_row(p, y % 2 ? y / 2 + 1 : y / 2 - 1, far);
	if (p->h == 1)
		memcpy(out, near, n);
	else if (n <= 2) /* as libjpeg has it: no filter */
		for (size_t i = 0; i < 2 * n; i++)
			out[i] = near[i / 2];
	else if (p->v == 1)
		mr_jpeg_h2v1(near, n, out);
	else
		mr_jpeg_h2v2(near, far, n, out);
	free(near - 1);
	free(far - 1);
	return out;
}

/* Rows of pixels as the header's kernels make them are libjpeg's. */
static void check_rows(const struct plane *p, int components,
		       const uint8_t *want)
{
	size_t n = (size_t)p->width;
	uint8_t *got = need(4 * n + MR_JPEG_WRITE_SLACK);

	for (int y = 0; y < p->height; y++) {
		uint8_t *row[3];

		for (int i = 0; i < components; i++)
			row[i] = full_row(&p[i], y);
		if (components == 3)
			mr_jpeg_ycc(row[0], row[1], row[2], n, got);
		else
			mr_jpeg_grey(row[0], n, got);
		assert_memory_equal(got, want + (size_t)y * n * 4, n * 4);
		for (int i = 0; i < components; i++)
			free(row[i]);
	}
	free(got);
}

/* From libjpeg's coefficients to its pixels; drops f. */
static void check_file(struct file *f)
{
	struct jpeg_decompress_struct d;
	struct jpeg_error_mgr err;
	struct plane p[3] = { 0 };
	jvirt_barray_ptr *coefs;
	uint8_t *want = decode(f);

	open_jpeg(&d, &err, f);
	coefs = jpeg_read_coefficients(&d);
	for (int i = 0; i < d.num_components; i++)
		p[i] = make_plane(&d, coefs[i], i);
	check_rows(p, d.num_components, want);
	for (int i = 0; i < 3; i++)
		free(p[i].mem);
	jpeg_finish_decompress(&d);
	jpeg_destroy_decompress(&d);
	free(want);
	free(f->mem);
}

static void check_images(int components, int h, int v)
{
	for (int i = 0; i < 200; i++) {
		struct shape s = { .width = between(1, i % 4 ? 150 : 8),
				   .height = between(1, 100),
				   .components = components,
				   .h = h,
				   .v = v,
				   .quality = between(50, 100),
				   .smooth = i % 2 };
		struct file f;

		if (i % 10 == 0)
			s.quality = 1; /* large quants, values far out */
		f = make_jpeg(&s);
		check_file(&f);
	}
}

static void test_grey_images_are_libjpegs(void **state)
{
	(void)state;
	check_images(1, 1, 1);
}

static void test_444_images_are_libjpegs(void **state)
{
	(void)state;
	check_images(3, 1, 1);
}

static void test_422_images_are_libjpegs(void **state)
{
	(void)state;
	check_images(3, 2, 1);
}

static void test_420_images_are_libjpegs(void **state)
{
	(void)state;
	check_images(3, 2, 2);
}

/* Instead of a caution about coarse tables. */
static void say_nothing(j_common_ptr c, int level)
{
	(void)c;
	(void)level;
}

/* A grey image of one row of such blocks. */
static struct file make_wild(int coef, int quant)
{
	enum { BLOCKS = 21 };
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr err;
	struct file f = { 0 };
	jvirt_barray_ptr coefs;
	unsigned int table[64];
	JBLOCKARRAY rows;
	struct block b;

	c.err = jpeg_std_error(&err);
	err.emit_message = say_nothing;
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &f.mem, &f.n);
	c.image_width = 8 * BLOCKS;
	c.image_height = 8;
	c.input_components = 1;
	c.in_color_space = JCS_GRAYSCALE;
	jpeg_set_defaults(&c);
	c.comp_info[0].width_in_blocks = BLOCKS;
	c.comp_info[0].height_in_blocks = 1;
	for (int i = 0; i < 64; i++)
		table[i] = (unsigned int)between(1, quant);
	jpeg_add_quant_table(&c, 0, table, 100, FALSE);
	coefs = c.mem->request_virt_barray((j_common_ptr)&c, JPOOL_IMAGE, TRUE,
					   BLOCKS, 1, 1);
	c.optimize_coding = TRUE; /* codes for any coefficient */
	jpeg_write_coefficients(&c, &coefs);
	rows = c.mem->access_virt_barray((j_common_ptr)&c, coefs, 0, 1, TRUE);
	for (int i = 0; i < BLOCKS; i++) {
		fill_block(&b, i % 7, coef, 1);
		memcpy(rows[0][i], b.coef, sizeof(b.coef));
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	return f;
}

static void test_wild_coefficients_are_libjpegs(void **state)
{
	static const int quants[] = { 1, 16, 255, 65535 };

	(void)state;
#if !defined(__x86_64__)
	skip(); /* without SIMD, libjpeg-turbo does not wrap */
#endif
	for (int i = 0; i < 400; i++) {
		struct file f = make_wild(1023, quants[i % 4]);

		check_file(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idct_is_the_plain_twins),
		cmocka_unit_test(test_idct_of_corners_is_the_plain_twins),
		cmocka_unit_test(test_dc_alone_is_the_idct_of_it),
		cmocka_unit_test(test_idct_is_the_sum_of_cosines),
		cmocka_unit_test(test_h2v1_is_the_triangle),
		cmocka_unit_test(test_h2v1_of_all_pairs_is_the_plain_twins),
		cmocka_unit_test(test_h2v2_is_the_triangle_both_ways),
		cmocka_unit_test(test_rows_of_colour_are_the_plain_twins),
		cmocka_unit_test(test_all_colours_are_the_plain_twins),
		cmocka_unit_test(test_grey_is_three_times_the_luma),
		cmocka_unit_test(test_grey_images_are_libjpegs),
		cmocka_unit_test(test_444_images_are_libjpegs),
		cmocka_unit_test(test_422_images_are_libjpegs),
		cmocka_unit_test(test_420_images_are_libjpegs),
		cmocka_unit_test(test_wild_coefficients_are_libjpegs),
	};

	if (!mr_cpu_avx2())
		print_message("no AVX2: the twins are compared with "
			      "themselves\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
