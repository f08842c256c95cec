/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scales one image with the kernels, for tests that compare it with others.
 *
 * usage: resample_tool plain|fast IN_H IN_W CHANNELS OUT_H OUT_W
 *                      bilinear|bicubic|area ANTIALIAS TOP LEFT H W
 * stdin: the pixels; stdout: rows [TOP, TOP + H) and columns [LEFT, LEFT + W)
 * of the image scaled to OUT_H x OUT_W.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/resample.h"

struct job {
	bool fast;
	int channels;
	struct mr_scale y, x;
};

static int number(const char *text)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || *end || v < 0 || v > 1 << 24)
		errx(2, "%s: not a number from 0 to 2^24", text);
	return (int)v;
}

static enum mr_filter filter_of(const char *name)
{
	static const char *const names[] = { "bilinear", "bicubic", "area" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i]))
			return (enum mr_filter)i;
	errx(2, "%s: no such filter", name);
}

static void *need(size_t n)
{
	void *p = aligned_alloc(64, (n + 63) & ~(size_t)63);

	if (!p)
		errx(1, "no memory");
	return p;
}

static struct mr_taps taps_for(const struct mr_scale *s)
{
	size_t n = mr_taps_size(s);
	struct mr_taps t;

	if (!n)
		errx(2, "out of range");
	mr_taps_make(&t, s, need(n));
	return t;
}

/* Only the rows and columns that the window needs are handed over. */
static void scale(const struct job *j, const uint8_t *src, uint8_t *dst)
{
	struct mr_taps x = taps_for(&j->x), y = taps_for(&j->y);
	size_t c = (size_t)j->channels, in = (size_t)j->x.in * c;
	size_t out = (size_t)x.count * c;
	int rows = y.hi - y.lo;
	uint8_t *mid = need((size_t)rows * out);

	src += (size_t)y.lo * in + (size_t)x.lo * c;
	(j->fast ? mr_resample_rows : mr_resample_rows_plain)(
		&x, j->channels, rows, src, in, mid, out);
	for (int i = 0; i < y.count; i++)
		(j->fast ? mr_resample_column : mr_resample_column_plain)(
			&y, i, mid, out, dst + (size_t)i * out, out);
	free(mid);
	free(x.from); /* where their memory begins */
	free(y.from);
}

int main(int argc, char **argv)
{
	struct job j;
	size_t in, out;
	uint8_t *src, *dst;

	if (argc != 13)
		errx(2, "usage: resample_tool plain|fast IN_H IN_W CHANNELS "
			"OUT_H OUT_W FILTER ANTIALIAS TOP LEFT H W");
	j.fast = !strcmp(argv[1], "fast");
	j.channels = number(argv[4]);
	j.y.filter = j.x.filter = filter_of(argv[7]);
	j.y.antialias = j.x.antialias = number(argv[8]);
	j.y.in = number(argv[2]);
	j.x.in = number(argv[3]);
	j.y.out = number(argv[5]);
	j.x.out = number(argv[6]);
	j.y.first = number(argv[9]);
	j.x.first = number(argv[10]);
	j.y.count = number(argv[11]);
	j.x.count = number(argv[12]);
	if (j.channels < 1 || j.channels > 4)
		errx(2, "1 to 4 channels");
	in = (size_t)j.y.in * (size_t)j.x.in * (size_t)j.channels;
	out = (size_t)j.y.count * (size_t)j.x.count * (size_t)j.channels;
	src = need(in + MR_ROW_SLACK);
	dst = need(out);
	if (fread(src, 1, in, stdin) != in)
		errx(1, "stdin: too short");
	scale(&j, src, dst);
	if (fwrite(dst, 1, out, stdout) != out || fflush(stdout))
		err(1, "stdout");
	free(src);
	free(dst);
}
