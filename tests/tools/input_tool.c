/* SPDX-License-Identifier: Apache-2.0 */
/* input_tool PATH BYTES STEP: writes BYTES bytes from each STEP-th byte of an
 * input to stdout, as one who indexes it would read them. */
#include <stdio.h>
#include <stdlib.h>

#include "io/input.h"

int main(int argc, char **argv)
{
	struct mr_input *in;
	struct mr_err err;
	uint64_t step;
	size_t n;
	char *buf;

	if (argc != 4)
		return 2;
	n = strtoul(argv[2], NULL, 10);
	step = strtoull(argv[3], NULL, 10);
	buf = malloc(n + 1);
	if (!buf || mr_input_open(&in, argv[1], &err))
		goto fail;
	for (uint64_t at = 0; at + n <= mr_input_size(in); at += step) {
		if (mr_input_read(in, buf, n, at, &err))
			goto fail;
		fwrite(buf, 1, n, stdout);
	}
	mr_input_close(in);
	free(buf);
	return 0;
fail:
	fprintf(stderr, "%s\n", err.text);
	return 1;
}
