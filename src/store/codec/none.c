/* SPDX-License-Identifier: Apache-2.0 */
/* none: the bytes as they are. */
#include "store/codec.h"

static size_t bound(size_t n)
{
	return n;
}

static int pack(void **state, int level, const void *from, size_t n, void *to,
		size_t cap, size_t *packed, struct mr_err *err)
{
	(void)state;
	(void)level;
	if (n > cap)
		return mr_err_set(err, MR_ELIMIT,
				  "none: %zu bytes into room for %zu", n, cap);
	if (n)
		memcpy(to, from, n);
	*packed = n;
	return MR_OK;
}

static int unpack(void **state, const void *from, size_t n, void *to,
		  size_t size, struct mr_err *err)
{
	(void)state;
	if (n != size)
		return mr_err_set(err, MR_EDATA,
				  "none: %zu bytes where %zu must be", n, size);
	if (n)
		memcpy(to, from, n);
	return MR_OK;
}

const struct mr_codec mr_codec_none = {
	.name = "none",
	.help = "the bytes as they are",
	.bound = bound,
	.pack = pack,
	.unpack = unpack,
};
