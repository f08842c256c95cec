/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as packed data: the first chooses the codec, two are the size that
 * must come out, the rest is unpacked, with the state of the runs before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CODECS = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void *states[CODECS];
	struct mr_err err = { 0 };
	uint8_t *in, *out;
	size_t which, want;
	int r;

	if (size < 3)
		return 0;
	which = data[0] % CODECS;
	want = data[1] | (size_t)data[2] << 8;
	/* Of exactly these lengths, so that the sanitizer sees all. */
	in = malloc(size - 3 ? size - 3 : 1);
	out = malloc(want ? want : 1);
	memcpy(in, data + 3, size - 3);
	r = mr_codecs[which]->unpack(&states[which], in, size - 3, out, want,
				     &err);
	if (r != MR_OK && (r != MR_EDATA || !err.text[0]))
		abort();
	free(in);
	free(out);
	return 0;
}
