/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lz4: raw blocks, not frames: the size is known, and checksums are kept
 * elsewhere. Level 1 is the fast compressor, whose tables lie on the stack;
 * the levels above are LZ4HC, whose 256 KB are kept between calls.
 */
#include <limits.h>
#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>

#include "core/mem.h"
#include "store/codec.h"

static size_t bound(size_t n)
{
	if (n > LZ4_MAX_INPUT_SIZE)
		return SIZE_MAX;
	return (size_t)LZ4_compressBound((int)n);
}

static int pack_high(void **state, int level, const void *from, int n, void *to,
		     int cap, struct mr_err *err)
{
	if (!*state)
		*state = mr_alloc(1, (size_t)LZ4_sizeofStateHC(), err);
	if (!*state)
		return MR_ENOMEM;
	return LZ4_compress_HC_extStateHC(*state, from, to, n, cap, level);
}

static int pack(void **state, int level, const void *from, size_t n, void *to,
		size_t cap, size_t *packed, struct mr_err *err)
{
	int room = cap > INT_MAX ? INT_MAX : (int)cap, got;

	if (n > LZ4_MAX_INPUT_SIZE)
		return mr_err_set(err, MR_ELIMIT,
				  "lz4: %zu bytes are over its limit of %d", n,
				  LZ4_MAX_INPUT_SIZE);
	if (level > 1)
		got = pack_high(state, level, from, (int)n, to, room, err);
	else
		got = LZ4_compress_default(from, to, (int)n, room);
	if (got < 0)
		return got;
	if (got == 0)
		return mr_err_set(err, MR_ELIMIT,
				  "lz4: %zu bytes do not fit into %zu packed",
				  n, cap);
	*packed = (size_t)got;
	return MR_OK;
}

static int unpack(void **state, const void *from, size_t n, void *to,
		  size_t size, struct mr_err *err)
{
	int got;

	(void)state;
	if (n > INT_MAX || size > LZ4_MAX_INPUT_SIZE)
		return mr_err_set(err, MR_EDATA,
				  "lz4: no block packs %zu bytes into %zu",
				  size, n);
	got = LZ4_decompress_safe(from, to, (int)n, (int)size);
	if (got < 0)
		return mr_err_set(err, MR_EDATA,
				  "lz4: damaged, or not %zu bytes unpacked",
				  size);
	if ((size_t)got != size)
		return mr_err_set(err, MR_EDATA,
				  "lz4: %d bytes unpacked, %zu must be", got,
				  size);
	return MR_OK;
}

const struct mr_codec mr_codec_lz4 = {
	.name = "lz4",
	.help = "LZ4 block: fastest to unpack; levels above 1 pack slowly",
	.min = 1,
	.max = LZ4HC_CLEVEL_MAX,
	.def = 1,
	.bound = bound,
	.pack = pack,
	.unpack = unpack,
	.drop_pack = free,
};
