/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the trace of one process, merged with a good one; what comes
 * out can be read to its end. Checksums are made right first. */
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/le.h"
#include "trace/merge.h"
#include "trace/mrt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64], odd[80], good[80], out[80];

static void tidy(void)
{
	unlink(odd);
	unlink(good);
	unlink(out);
	rmdir(dir);
}

static void put(const char *path, const void *data, size_t size)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(data, 1, size, f) != size || fclose(f))
		abort();
}

static void begin(void)
{
	uint8_t b[MR_MRT_HEADER + MR_MRT_CHUNK + 2] = { 0 };
	struct mr_mrt_header h;

	snprintf(dir, sizeof(dir), "/tmp/fuzz_mergeXXXXXX");
	if (!mkdtemp(dir))
		abort();
	snprintf(odd, sizeof(odd), "%s/1.mrt", dir);
	snprintf(good, sizeof(good), "%s/2.mrt", dir);
	snprintf(out, sizeof(out), "%s/out", dir);
	mr_mrt_now(&h);
	mr_mrt_put_header(b, &h);
	memcpy(b + sizeof(b) - 2, "\1a", 2);
	mr_mrt_put_chunk(b + MR_MRT_HEADER, "NAME", 0, b + sizeof(b) - 2, 2);
	put(good, b, sizeof(b));
	atexit(tidy);
}

/* Let chunks be whole as far as their sizes go. */
static void mend(uint8_t *b, size_t size)
{
	size_t at = MR_MRT_HEADER;

	while (size - at >= MR_MRT_CHUNK) {
		size_t n = mr_le32(b + at + 12);
		const uint8_t *body = b + at + MR_MRT_CHUNK;

		if (n > size - at - MR_MRT_CHUNK)
			return;
		memcpy(b + at, "CHNK", 4);
		mr_le32_put(b + at + 16, libdeflate_crc32(0, body, n));
		at += MR_MRT_CHUNK + n;
	}
}

static void check(void)
{
	struct mr_mrt_chunk c;
	struct mr_err err;
	struct mr_mrt t;

	if (mr_mrt_open(&t, out, &err))
		abort();
	while (mr_mrt_next(&t, &c))
		;
	if (t.cut)
		abort();
	mr_mrt_close(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mr_merged got;
	struct mr_err err;
	uint8_t *b;

	if (!*dir)
		begin();
	if (size < MR_MRT_HEADER)
		return 0;
	b = malloc(size);
	if (!b)
		return 0;
	memcpy(b, data, size);
	memcpy(b, "MRTRACE1", 8);
	mr_le32_put(b + 44, 1); /* alone: one trace comes out */
	mr_le32_put(b + 40, 0);
	mend(b, size);
	put(odd, b, size);
	if (mr_merge(dir, out, "{}", &got, &err))
		abort();
	if (got.n)
		check();
	mr_merged_fini(&got);
	free(b);
	return 0;
}
