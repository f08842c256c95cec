/* SPDX-License-Identifier: Apache-2.0 */
#include "store/deflate.h"

struct libdeflate_compressor *mr_deflate_packer(void **state, int level,
						struct mr_err *err)
{
	if (!*state)
		*state = libdeflate_alloc_compressor(level ? level :
							     MR_DEFLATE_DEF);
	if (!*state)
		mr_err_nomem(err, sizeof(*state));
	return *state;
}

struct libdeflate_decompressor *mr_deflate_unpacker(void **state,
						    struct mr_err *err)
{
	if (!*state)
		*state = libdeflate_alloc_decompressor();
	if (!*state)
		mr_err_nomem(err, sizeof(*state));
	return *state;
}

void mr_deflate_drop_pack(void *state)
{
	libdeflate_free_compressor(state);
}

void mr_deflate_drop_unpack(void *state)
{
	libdeflate_free_decompressor(state);
}

size_t mr_deflate_bound(size_t n, size_t b)
{
	return b < n ? SIZE_MAX : b;
}

int mr_deflate_packed(const char *codec, size_t n, size_t cap, size_t got,
		      size_t *packed, struct mr_err *err)
{
	if (!got)
		return mr_err_set(err, MR_ELIMIT,
				  "%s: %zu bytes do not fit into %zu packed",
				  codec, n, cap);
	*packed = got;
	return MR_OK;
}

int mr_deflate_unpacked(const char *codec, enum libdeflate_result result,
			size_t n, size_t used, size_t size, struct mr_err *err)
{
	switch (result) {
	case LIBDEFLATE_SUCCESS:
		if (used == n)
			return MR_OK;
		return mr_err_set(err, MR_EDATA,
				  "%s: %zu bytes after its end at %zu", codec,
				  n - used, used);
	case LIBDEFLATE_SHORT_OUTPUT:
		return mr_err_set(err, MR_EDATA,
				  "%s: fewer than %zu bytes unpacked", codec,
				  size);
	case LIBDEFLATE_INSUFFICIENT_SPACE:
		return mr_err_set(err, MR_EDATA,
				  "%s: more than %zu bytes unpacked", codec,
				  size);
	case LIBDEFLATE_BAD_DATA:
		break;
	}
	return mr_err_set(err, MR_EDATA, "%s: damaged, or its checksum differs",
			  codec);
}
