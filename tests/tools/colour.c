/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The colour kernels on raw bytes, for comparisons from Python.
 *
 *	colour fast|plain grey FROM TO <bytes >bytes
 *	colour fast|plain adjust CHANNELS [KIND FACTOR]... <bytes >bytes
 *
 * KIND: b, c, s, h.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/colour.h"

enum { MOST = 64 << 20, KINDS = 16 };

static uint8_t in[MOST], out[3 * MOST];

static void usage(void)
{
	fputs("usage: colour fast|plain grey FROM TO\n"
	      "       colour fast|plain adjust CHANNELS [b|c|s|h FACTOR]...\n",
	      stderr);
	exit(2);
}

static int channels(const char *word)
{
	if (strcmp(word, "1") && strcmp(word, "3"))
		usage();
	return atoi(word);
}

static int parse(char **words, int n, struct mr_adjust *a)
{
	static const char letters[] = "bcsh";

	if (n % 2 || n / 2 > KINDS)
		usage();
	for (int i = 0; i < n / 2; i++) {
		const char *kind = strchr(letters, words[2 * i][0]);

		if (!kind || !*kind)
			usage();
		a[i].kind = (enum mr_adjust_kind)(kind - letters);
		a[i].factor = strtod(words[2 * i + 1], NULL);
	}
	return n / 2;
}

int main(int argc, char **argv)
{
	struct mr_adjust a[KINDS];
	size_t n, pixels;
	bool plain;
	int from, to;

	if (argc < 4)
		usage();
	plain = !strcmp(argv[1], "plain");
	from = to = channels(argv[3]);
	n = fread(in, 1, MOST, stdin);
	pixels = n / (size_t)from;
	if (!strcmp(argv[2], "grey") && argc == 5) {
		to = channels(argv[4]);
		(plain ? mr_colour_grey_plain : mr_colour_grey)(in, from, out,
								to, pixels);
	} else if (!strcmp(argv[2], "adjust")) {
		int k = parse(argv + 4, argc - 4, a);

		(plain ? mr_colour_adjust_plain :
			 mr_colour_adjust)(a, k, in, out, pixels, from);
	} else {
		usage();
	}
	n = pixels * (size_t)to;
	return fwrite(out, 1, n, stdout) == n && !fflush(stdout) ? 0 : 1;
}
