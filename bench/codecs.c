/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the codecs are, and how much they save: the file is cut into
 * samples, which are packed and unpacked one by one, on one thread. A line of
 * JSON per codec and level: ratio (plain / packed), MB/s of plain bytes; the
 * fastest of the rounds counts.
 *
 * usage: codecs FILE SAMPLE ELEMENT ROUNDS [CODEC LEVEL]
 * ELEMENT: bytes of an element, to shuffle them before packing; 1: do not.
 * CODEC LEVEL: this one only.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "kernel/shuffle.h"
#include "store/codec.h"

static const struct {
	const char *name;
	int level;
} runs[] = { { "none", 0 }, { "lz4", 1 },   { "lz4", 3 },  { "lz4", 9 },
	     { "lz4", 12 }, { "zstd", 1 },  { "zstd", 3 }, { "zstd", 6 },
	     { "zstd", 9 }, { "zstd", 19 }, { "zlib", 1 }, { "zlib", 6 },
	     { "zlib", 9 }, { "zlib", 12 }, { "gzip", 6 } };

static struct {
	uint8_t *plain, *packed, *turned, *again; /* again: what comes out */
	size_t *length;				  /* packed, of each sample */
	size_t samples, size, width, bound;
} set;

static size_t number(const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);

	if (*end || !v)
		errx(2, "not a positive number: '%s'", text);
	return (size_t)v;
}

static void *need(size_t n)
{
	void *p = aligned_alloc(64, (n + 63) & ~(size_t)63);

	if (!p)
		errx(1, "no memory for %zu bytes", n);
	memset(p, 1, n);
	return p;
}

static void load(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;

	if (!f || fstat(fileno(f), &st))
		err(1, "%s", path);
	set.samples = (size_t)st.st_size / set.size;
	if (!set.samples)
		errx(1, "%s: no whole sample in it", path);
	set.plain = need(set.samples * set.size);
	if (fread(set.plain, set.size, set.samples, f) != set.samples)
		errx(1, "%s: cannot be read", path);
	fclose(f);
	set.length = need(set.samples * sizeof(*set.length));
	set.turned = need(set.size);
	set.again = need(set.size);
}

static double pack_all(const struct mr_codec *c, int level, void **state)
{
	uint64_t start = mr_clock_ns();
	struct mr_err why;

	for (size_t i = 0; i < set.samples; i++) {
		const uint8_t *from = set.plain + i * set.size;

		if (set.width > 1) {
			mr_shuffle(set.turned, from, set.size / set.width,
				   set.width);
			from = set.turned;
		}
		if (c->pack(state, level, from, set.size,
			    set.packed + i * set.bound, set.bound,
			    &set.length[i], &why))
			errx(1, "%s", why.text);
	}
	return (double)(mr_clock_ns() - start) * 1e-9;
}

static double unpack_all(const struct mr_codec *c, void **state)
{
	uint64_t start = mr_clock_ns();
	struct mr_err why;

	for (size_t i = 0; i < set.samples; i++) {
		uint8_t *to = set.width > 1 ? set.turned : set.again;

		if (c->unpack(state, set.packed + i * set.bound, set.length[i],
			      to, set.size, &why))
			errx(1, "%s", why.text);
		if (set.width > 1)
			mr_unshuffle(set.again, to, set.size / set.width,
				     set.width);
	}
	return (double)(mr_clock_ns() - start) * 1e-9;
}

static void measure(const struct mr_codec *c, int level, size_t rounds)
{
	size_t all = set.samples * set.size, small = 0;
	double pack = 1e9, unpack = 1e9;
	void *in = NULL, *out = NULL;

	set.bound = c->bound(set.size);
	set.packed = need(set.samples * set.bound);
	for (size_t i = 0; i < rounds; i++) {
		/* a slow one is exact enough at once */
		double p = i && pack > 1 ? pack : pack_all(c, level, &in);
		double u = unpack_all(c, &out);

		pack = p < pack ? p : pack;
		unpack = u < unpack ? u : unpack;
	}
	if (memcmp(set.again, set.plain + all - set.size, set.size))
		errx(1, "%s: other bytes came back", c->name);
	for (size_t i = 0; i < set.samples; i++)
		small += set.length[i];
	printf("{\"codec\": \"%s\", \"level\": %d, \"element\": %zu, "
	       "\"ratio\": %.4f, \"pack_mb_s\": %.1f, \"unpack_mb_s\": %.1f}\n",
	       c->name, level, set.width, (double)all / (double)small,
	       (double)all / pack * 1e-6, (double)all / unpack * 1e-6);
	fflush(stdout);
	if (c->drop_pack)
		c->drop_pack(in);
	if (c->drop_unpack)
		c->drop_unpack(out);
	free(set.packed);
}

int main(int argc, char **argv)
{
	size_t rounds;

	if (argc != 5 && argc != 7)
		errx(2, "usage: codecs FILE SAMPLE ELEMENT ROUNDS "
			"[CODEC LEVEL]");
	set.size = number(argv[2]);
	set.width = number(argv[3]);
	rounds = number(argv[4]);
	if (set.size % set.width)
		errx(2, "a sample is no multiple of %zu bytes", set.width);
	load(argv[1]);
	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++)
		if (argc == 5 || (!strcmp(runs[i].name, argv[5]) &&
				  runs[i].level == atoi(argv[6])))
			measure(mr_codec_find(runs[i].name), runs[i].level,
				rounds);
	free(set.plain);
	free(set.length);
	free(set.turned);
	free(set.again);
}
