/* SPDX-License-Identifier: Apache-2.0 */
/* What zlib and gzip share: libdeflate's states, limits and reasons. */
#ifndef MR_STORE_DEFLATE_H
#define MR_STORE_DEFLATE_H

#include <libdeflate.h>

#include "store/codec.h"

#define MR_DEFLATE_MIN 1
#define MR_DEFLATE_MAX 12
#define MR_DEFLATE_DEF 6

/* *state, made when it is NULL; NULL and *err without memory. level 0 is the
 * default one. */
struct libdeflate_compressor *mr_deflate_packer(void **state, int level,
						struct mr_err *err);
struct libdeflate_decompressor *mr_deflate_unpacker(void **state,
						    struct mr_err *err);
void mr_deflate_drop_pack(void *state); /* NULL is allowed */
void mr_deflate_drop_unpack(void *state);

/* libdeflate's bound b of n bytes, or SIZE_MAX when it has overflown. */
size_t mr_deflate_bound(size_t n, size_t b);

/* What packing has given (0: it did not fit), as the result of pack(). */
int mr_deflate_packed(const char *codec, size_t n, size_t cap, size_t got,
		      size_t *packed, struct mr_err *err);

/* What unpacking of n bytes into `size` has given, of which `used` were read,
 * as the result of unpack(). */
int mr_deflate_unpacked(const char *codec, enum libdeflate_result result,
			size_t n, size_t used, size_t size, struct mr_err *err);

#endif
