/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte shuffle, as in HDF5 and Blosc: the first bytes of all elements, then
 * their second bytes, and so on. Bytes that mean the same lie together, which
 * packs better: the exponents of floats, the high bytes of small numbers.
 *
 * `to` and `from` are of elements * size bytes and do not overlap; neither
 * need be aligned. Sizes 2, 4 and 8 are fast. mr_X_plain() gives the same
 * bytes in plain C.
 */
#ifndef MR_KERNEL_SHUFFLE_H
#define MR_KERNEL_SHUFFLE_H

#include <stddef.h>
#include <stdint.h>

void mr_shuffle(void *to, const void *from, size_t elements, size_t size);
void mr_shuffle_plain(void *to, const void *from, size_t elements, size_t size);

/* The way back. */
void mr_unshuffle(void *to, const void *from, size_t elements, size_t size);
void mr_unshuffle_plain(void *to, const void *from, size_t elements,
			size_t size);

#endif
