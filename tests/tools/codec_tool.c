/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a codec, for tests that compare with other programs.
 *
 * usage: codec_tool CODEC pack LEVEL
 *        codec_tool CODEC unpack SIZE
 * From stdin to stdout.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/codec.h"

enum { MOST = 64 << 20 };

static void *need(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p)
		errx(1, "no memory");
	return p;
}

int main(int argc, char **argv)
{
	const struct mr_codec *c = argc == 4 ? mr_codec_find(argv[1]) : NULL;
	void *in = need(MOST), *out, *state = NULL;
	size_t n = fread(in, 1, MOST, stdin), size;
	struct mr_err why = { 0 };
	int r;

	if (!c)
		errx(2, "usage: codec_tool CODEC pack LEVEL|unpack SIZE");
	if (!strcmp(argv[2], "pack")) {
		size = c->bound(n);
		out = need(size);
		r = c->pack(&state, atoi(argv[3]), in, n, out, size, &size,
			    &why);
		if (c->drop_pack)
			c->drop_pack(state);
	} else {
		size = strtoull(argv[3], NULL, 10);
		out = need(size);
		r = c->unpack(&state, in, n, out, size, &why);
		if (c->drop_unpack)
			c->drop_unpack(state);
	}
	if (r)
		errx(1, "%s", why.text);
	if (fwrite(out, 1, size, stdout) != size || fflush(stdout))
		err(1, "stdout");
	free(in);
	free(out);
	return 0;
}
