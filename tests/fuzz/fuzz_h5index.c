/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index of an HDF5 dataset and its chunks: what is read
 * without libhdf5. The first byte says how they were stored. */
#include <libdeflate.h>

#include "source.h"
#include "source/h5index.h"
#include "source/h5read.h"

enum { ROWS = 40, COLUMNS = 6 };

static void read_rows(const struct mr_h5_set *s, struct mr_input *in)
{
	struct libdeflate_decompressor *d = NULL;
	struct mr_h5_cache cache = { 0 };
	struct mr_arena scratch;
	struct mr_err err = { 0 };
	static uint8_t to[ROWS * COLUMNS * 8];

	mr_arena_init(&scratch, (size_t)64 << 20);
	for (uint64_t i = 0; i < ROWS; i += 5) {
		struct mr_h5_rows r = { .set = s,
					.in = in,
					.first = i,
					.n = 5,
					.keep_rows = i % 2 ? 5 : 0,
					.limit = 1 << 20,
					.cache = &cache,
					.inflate = &d,
					.scratch = &scratch,
					.err = &err };

		if (mr_h5_read(&r, to) && (!err.code || !err.text[0]))
			abort();
		mr_arena_reset(&scratch);
	}
	mr_arena_fini(&scratch);
	mr_h5_cache_fini(&cache);
	libdeflate_free_decompressor(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned how = size ? data[0] : 0;
	struct mr_h5_set s = { .name = "x",
			       .type = { .dtype = how & 1 ? MR_I32 : MR_I64,
					 .size = 4,
					 .big = how & 2 },
			       .layout = how & 4 ? MR_H5_CHUNKED :
						   MR_H5_CONTIGUOUS,
			       .ndim = 2,
			       .dims = { ROWS, COLUMNS },
			       .row_bytes = COLUMNS * 4,
			       .chunk = { 8, how & 8 ? 4 : COLUMNS },
			       .grid = { 5, how & 8 ? 2 : 1 } };
	struct mr_input *in;
	struct mr_err err = { 0 };
	char path[40];

	s.chunk_bytes = s.chunk[0] * s.chunk[1] * 4;
	if (how & 16)
		s.filter[s.filters++] = MR_H5_SHUFFLE;
	if (how & 32)
		s.filter[s.filters++] = MR_H5_DEFLATE;
	if (how & 64)
		s.filter[s.filters++] = MR_H5_FLETCHER;
	snprintf(path, sizeof(path), "/proc/self/fd/%d",
		 memory_file(data, size));
	if (mr_input_open(&in, path, &err))
		abort();
	if (mr_h5_index(&s, in, 8, how & 128 ? 8 : 0, &err) == 0)
		read_rows(&s, in);
	else if (!err.text[0])
		abort();
	mr_h5_set_fini(&s);
	mr_input_close(in);
	return 0;
}
