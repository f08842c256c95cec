/* SPDX-License-Identifier: Apache-2.0 */
/* zlib: one standard stream, made and read by libdeflate in one piece. */
#include "store/deflate.h"

static size_t bound(size_t n)
{
	return mr_deflate_bound(n, libdeflate_zlib_compress_bound(NULL, n));
}

static int pack(void **state, int level, const void *from, size_t n, void *to,
		size_t cap, size_t *packed, struct mr_err *err)
{
	struct libdeflate_compressor *c = mr_deflate_packer(state, level, err);

	if (!c)
		return MR_ENOMEM;
	return mr_deflate_packed("zlib", n, cap,
				 libdeflate_zlib_compress(c, from, n, to, cap),
				 packed, err);
}

static int unpack(void **state, const void *from, size_t n, void *to,
		  size_t size, struct mr_err *err)
{
	struct libdeflate_decompressor *d = mr_deflate_unpacker(state, err);
	size_t used = 0;
	enum libdeflate_result r;

	if (!d)
		return MR_ENOMEM;
	r = libdeflate_zlib_decompress_ex(d, from, n, to, size, &used, NULL);
	return mr_deflate_unpacked("zlib", r, n, used, size, err);
}

const struct mr_codec mr_codec_zlib = {
	.name = "zlib",
	.help = "zlib stream (RFC 1950): for readers that know no other",
	.min = MR_DEFLATE_MIN,
	.max = MR_DEFLATE_MAX,
	.def = MR_DEFLATE_DEF,
	.bound = bound,
	.pack = pack,
	.unpack = unpack,
	.drop_pack = mr_deflate_drop_pack,
	.drop_unpack = mr_deflate_drop_unpack,
};
