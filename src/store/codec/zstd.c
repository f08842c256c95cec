/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd: one standard frame that tells its size and has no checksum of its
 * own. The contexts are kept: making one costs more than a small sample.
 */
#include <zstd.h>

#include "store/codec.h"

static size_t bound(size_t n)
{
	size_t b = ZSTD_compressBound(n);

	return ZSTD_isError(b) || b < n ? SIZE_MAX : b;
}

static int pack(void **state, int level, const void *from, size_t n, void *to,
		size_t cap, size_t *packed, struct mr_err *err)
{
	size_t got;

	if (!*state)
		*state = ZSTD_createCCtx();
	if (!*state)
		return mr_err_nomem(err, sizeof(*state));
	got = ZSTD_compressCCtx(*state, to, cap, from, n, level);
	if (ZSTD_isError(got))
		return mr_err_set(err, MR_ELIMIT,
				  "zstd: %zu bytes into %zu packed: %s", n, cap,
				  ZSTD_getErrorName(got));
	*packed = got;
	return MR_OK;
}

static int unpack(void **state, const void *from, size_t n, void *to,
		  size_t size, struct mr_err *err)
{
	size_t got;

	if (!*state)
		*state = ZSTD_createDCtx();
	if (!*state)
		return mr_err_nomem(err, sizeof(*state));
	if (n == 0) /* which would be no frame, and no error */
		return mr_err_set(err, MR_EDATA, "zstd: no data");
	got = ZSTD_decompressDCtx(*state, to, size, from, n);
	if (ZSTD_isError(got))
		return mr_err_set(err, MR_EDATA,
				  "zstd: %zu bytes, %zu unpacked: %s", n, size,
				  ZSTD_getErrorName(got));
	if (got != size)
		return mr_err_set(err, MR_EDATA,
				  "zstd: %zu bytes unpacked, %zu must be", got,
				  size);
	return MR_OK;
}

static void drop_pack(void *state)
{
	ZSTD_freeCCtx(state);
}

static void drop_unpack(void *state)
{
	ZSTD_freeDCtx(state);
}

const struct mr_codec mr_codec_zstd = {
	.name = "zstd",
	.help = "Zstandard: the best ratio for its speed",
	.min = 1,
	.max = 19,
	.def = 3,
	.bound = bound,
	.pack = pack,
	.unpack = unpack,
	.drop_pack = drop_pack,
	.drop_unpack = drop_unpack,
};
