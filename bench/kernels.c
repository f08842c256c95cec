/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the image kernels take, in plain C and as this CPU runs them: a
 * line of JSON per kernel and size, in ns per pixel that is written (inverse
 * DCT: per block of 64). The two are taken in turns; the fastest of many
 * rounds counts.
 *
 * Byte shuffles work on 128 KB at once, and are in ns per byte ("copy": what
 * memcpy() takes).
 *
 * usage: kernels [ROUNDS]
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "kernel/jpeg.h"
#include "kernel/pixels.h"
#include "kernel/resample.h"
#include "kernel/shuffle.h"

enum {
	ROWS = 16,     /* that a decoder hands over at once */
	WIDTH = 224,   /* of what comes out */
	WIDEST = 2048, /* of what goes in */
	IMAGES = 128,  /* in a batch that no cache holds */
	AREA = WIDTH * WIDTH,
	SHUFFLED = 128 << 10 /* bytes; twice as many fit into an L2 */
};

static uint8_t *in, *out;
static float *batch;
static const float scale[] = { 0.017f, 0.018f, 0.019f };
static const float bias[] = { -2.1f, -2.0f, -1.8f };

struct job {
	const char *name;
	int channels;
	bool mirror;
	struct mr_taps t;
	struct mr_scale s;
};

/* Runs the job once, plain or fast; returns how many pixels it has made. */
typedef size_t run_fn(struct job *j, bool fast);

static void *need(size_t n)
{
	void *p = aligned_alloc(64, (n + 63) & ~(size_t)63);

	if (!p)
		errx(1, "no memory");
	memset(p, 0, n);
	return p;
}

static size_t run_taps(struct job *j, bool fast)
{
	(void)fast;
	mr_taps_make(&j->t, &j->s, j->t.from);
	return (size_t)j->t.count;
}

static size_t run_rows(struct job *j, bool fast)
{
	size_t c = (size_t)j->channels;

	(fast ? mr_resample_rows : mr_resample_rows_plain)(
		&j->t, j->channels, ROWS, in, WIDEST * 4, out, WIDTH * c);
	return (size_t)ROWS * WIDTH;
}

static size_t run_column(struct job *j, bool fast)
{
	for (int i = 0; i < j->t.count; i++)
		(fast ? mr_resample_column : mr_resample_column_plain)(
			&j->t, i, in, WIDTH * 4, out + i * WIDTH * 4,
			WIDTH * 4);
	return (size_t)j->t.count * WIDTH;
}

static size_t run_pack(struct job *j, bool fast)
{
	for (int i = 0; i < WIDTH; i++)
		(fast ? mr_pixels_pack :
			mr_pixels_pack_plain)(in + i * WIDTH * 4, WIDTH,
					      j->mirror, out + i * WIDTH * 3);
	return AREA;
}

static size_t run_expand(struct job *j, bool fast)
{
	(void)j;
	for (int i = 0; i < WIDTH; i++)
		(fast ? mr_pixels_expand : mr_pixels_expand_plain)(
			in + i * WIDTH * 3, WIDTH, out + i * WIDTH * 4);
	return AREA;
}

static size_t run_planes(struct job *j, bool fast)
{
	for (int i = 0; i < WIDTH; i++)
		(fast ? mr_pixels_planes : mr_pixels_planes_plain)(
			in + i * WIDTH * 4, WIDTH, j->mirror, out + i * WIDTH,
			AREA);
	return AREA;
}

/* Into one image of the batch after the other. */
static size_t run_affine(struct job *j, bool fast)
{
	static size_t turn;
	size_t c = (size_t)j->channels;
	float *dst = batch + turn++ % IMAGES * 3 * AREA;

	for (size_t i = 0; i < WIDTH; i++)
		(fast ? mr_pixels_affine : mr_pixels_affine_plain)(
			in + i * WIDTH * c, j->channels, WIDTH, j->mirror,
			dst + i * WIDTH, AREA, scale, bias);
	return AREA;
}

/* Of blocks that are mostly zeros, as most are. */
static size_t run_idct(struct job *j, bool fast)
{
	static _Alignas(32) int16_t coef[WIDTH / 8][64];
	static _Alignas(32) uint16_t quant[64];

	(void)j;
	if (!quant[0])
		for (size_t i = 0; i < WIDTH / 8 * 12; i++) {
			quant[i % 64] = 7;
			coef[i / 12][in[i] % 64] = (int16_t)(in[i] % 9 - 4);
		}
	for (size_t i = 0; i < AREA / 64; i++)
		(fast ? mr_jpeg_idct : mr_jpeg_idct_plain)(
			coef[i % (WIDTH / 8)], quant,
			out + i / (WIDTH / 8) * WIDTH * 8 + i % (WIDTH / 8) * 8,
			WIDTH);
	return AREA / 64;
}

static size_t run_idct_dc(struct job *j, bool fast)
{
	(void)j;
	for (size_t i = 0; i < AREA / 64; i++)
		(fast ? mr_jpeg_idct_dc : mr_jpeg_idct_dc_plain)(
			(int)i,
			out + i / (WIDTH / 8) * WIDTH * 8 + i % (WIDTH / 8) * 8,
			WIDTH);
	return AREA / 64;
}

static size_t run_h2v1(struct job *j, bool fast)
{
	(void)j;
	for (size_t i = 0; i < WIDTH; i++)
		(fast ? mr_jpeg_h2v1 : mr_jpeg_h2v1_plain)(
			in + 1 + i * WIDTH, WIDTH / 2, out + i * WIDTH);
	return AREA;
}

static size_t run_h2v2(struct job *j, bool fast)
{
	(void)j;
	for (size_t i = 0; i < WIDTH; i++)
		(fast ? mr_jpeg_h2v2 : mr_jpeg_h2v2_plain)(
			in + 1 + i * WIDTH, in + 1 + (i + 1) * WIDTH, WIDTH / 2,
			out + i * WIDTH);
	return AREA;
}

static size_t run_ycc(struct job *j, bool fast)
{
	(void)j;
	for (size_t i = 0; i < WIDTH; i++)
		(fast ? mr_jpeg_ycc : mr_jpeg_ycc_plain)(
			in + i * WIDTH, in + AREA + i * WIDTH,
			in + 2 * AREA + i * WIDTH, WIDTH, out + i * WIDTH * 4);
	return AREA;
}

static size_t run_grey(struct job *j, bool fast)
{
	(void)j;
	for (size_t i = 0; i < WIDTH; i++)
		(fast ? mr_jpeg_grey : mr_jpeg_grey_plain)(
			in + i * WIDTH, WIDTH, out + i * WIDTH * 4);
	return AREA;
}

/* ---- byte shuffles; channels: the size of an element ---- */

static size_t run_shuffle(struct job *j, bool fast)
{
	size_t size = (size_t)j->channels;

	(fast ? mr_shuffle : mr_shuffle_plain)(out, in, SHUFFLED / size, size);
	return SHUFFLED;
}

static size_t run_unshuffle(struct job *j, bool fast)
{
	size_t size = (size_t)j->channels;

	(fast ? mr_unshuffle : mr_unshuffle_plain)(out, in, SHUFFLED / size,
						   size);
	return SHUFFLED;
}

static size_t run_copy(struct job *j, bool fast)
{
	(void)j;
	(void)fast;
	memcpy(out, in, SHUFFLED);
	__asm__ volatile("" ::: "memory"); /* not a copy that none reads */
	return SHUFFLED;
}

/* ns per pixel of some runs of about a fifth of a millisecond. */
static double once(struct job *j, run_fn *run, bool fast)
{
	uint64_t start = mr_clock_ns(), end;
	size_t pixels = 0;

	do {
		pixels += run(j, fast);
		end = mr_clock_ns();
	} while (end - start < 200000);
	return (double)(end - start) / (double)pixels;
}

static void measure(struct job *j, run_fn *run, int rounds)
{
	static const char *const filters[] = { "bilinear", "bicubic", "area" };
	double plain = 1e9, fast = 1e9;

	for (int i = 0; i < rounds; i++) {
		double p = once(j, run, false), f = once(j, run, true);

		plain = p < plain ? p : plain;
		fast = f < fast ? f : fast;
	}
	printf("{\"kernel\": \"%s\", ", j->name);
	if (j->t.taps)
		printf("\"filter\": \"%s\", \"in\": %d, \"out\": %d, "
		       "\"taps\": %d, ",
		       filters[j->s.filter], j->s.in, WIDTH, j->t.taps);
	else
		printf("\"mirror\": %s, ", j->mirror ? "true" : "false");
	printf("\"channels\": %d, \"plain_ns\": %.3f, \"fast_ns\": %.3f}\n",
	       j->channels, plain, fast);
	fflush(stdout);
}

static void measure_scaling(const char *name, run_fn *run, int size,
			    int channels, enum mr_filter filter, int rounds)
{
	struct job j = { .name = name, .channels = channels };
	void *mem;

	j.s = (struct mr_scale){ size, WIDTH, 0, WIDTH, filter, true };
	mem = need(mr_taps_size(&j.s));
	mr_taps_make(&j.t, &j.s, mem);
	measure(&j, run, rounds);
	free(mem);
}

static void measure_layouts(int rounds)
{
	for (int mirror = 0; mirror < 2; mirror++) {
		struct job j = { .channels = 4, .mirror = mirror };

		j.name = "affine";
		measure(&j, run_affine, rounds);
		j.channels = 3;
		measure(&j, run_affine, rounds);
		j.name = "pack";
		measure(&j, run_pack, rounds);
		j.name = "planes";
		measure(&j, run_planes, rounds);
		j.name = "expand";
		if (!mirror)
			measure(&j, run_expand, rounds);
	}
}

static void measure_jpeg(int rounds)
{
	static const struct {
		const char *name;
		run_fn *run;
		int channels;
	} kernels[] = { { "jpeg_idct", run_idct, 1 },
			{ "jpeg_idct_dc", run_idct_dc, 1 },
			{ "jpeg_h2v1", run_h2v1, 1 },
			{ "jpeg_h2v2", run_h2v2, 1 },
			{ "jpeg_ycc", run_ycc, 3 },
			{ "jpeg_grey", run_grey, 1 } };

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		struct job j = { .name = kernels[i].name,
				 .channels = kernels[i].channels };

		measure(&j, kernels[i].run, rounds);
	}
}

static void measure_shuffles(int rounds)
{
	struct job j = { .name = "copy", .channels = 1 };

	measure(&j, run_copy, rounds);
	for (j.channels = 2; j.channels <= 8; j.channels *= 2) {
		j.name = "shuffle";
		measure(&j, run_shuffle, rounds);
		j.name = "unshuffle";
		measure(&j, run_unshuffle, rounds);
	}
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 150, 224, 300, 375, 500, 1000 };
	int rounds = argc > 1 ? atoi(argv[1]) : 20;
	size_t room = (size_t)WIDEST * WIDEST * 4;

	in = need(room);
	out = need(room);
	batch = need((size_t)IMAGES * 3 * AREA * sizeof(*batch));
	for (size_t i = 0; i < room; i++)
		in[i] = (uint8_t)(i * 2654435761u >> 13);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		int n = sizes[i];

		measure_scaling("taps", run_taps, n, 4, MR_FILTER_BILINEAR,
				rounds);
		measure_scaling("rows", run_rows, n, 4, MR_FILTER_BILINEAR,
				rounds);
		measure_scaling("column", run_column, n, 4, MR_FILTER_BILINEAR,
				rounds);
	}
	measure_scaling("taps", run_taps, 375, 4, MR_FILTER_BICUBIC, rounds);
	measure_scaling("taps", run_taps, 375, 4, MR_FILTER_AREA, rounds);
	measure_scaling("rows", run_rows, 375, 3, MR_FILTER_BILINEAR, rounds);
	measure_scaling("rows", run_rows, 375, 1, MR_FILTER_BILINEAR, rounds);
	measure_layouts(rounds);
	measure_jpeg(rounds);
	measure_shuffles(rounds);
	free(in);
	free(out);
	free(batch);
}
