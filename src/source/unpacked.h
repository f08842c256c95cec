/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that are compressed as a whole, and so have no random access:
 * unpacked once, all into one temporary file that has no name and ends with
 * the process. What it may take is bounded, whatever the input claims.
 */
#ifndef MR_SOURCE_UNPACKED_H
#define MR_SOURCE_UNPACKED_H

#include "io/input.h"

enum mr_packing { MR_PACKED_NOT, MR_PACKED_ZLIB /* or gzip */, MR_PACKED_ZSTD };

struct mr_unpacked {
	int fd; /* -1 until it is needed */
	uint64_t used, max;
};

/* By the first bytes, of which there are n. */
enum mr_packing mr_packing_of(const uint8_t *head, size_t n);

void mr_unpacked_init(struct mr_unpacked *u, uint64_t max);
void mr_unpacked_fini(struct mr_unpacked *u);

/*
 * Unpack all of `in` to the end of the temporary file, as bytes [*at,
 * *at + *size) of it. MR_ELIMIT over u->max, MR_EDATA when it is damaged or
 * cut off; both name the file.
 */
int mr_unpacked_add(struct mr_unpacked *u, struct mr_input *in,
		    enum mr_packing packing, uint64_t *at, uint64_t *size,
		    struct mr_err *err);

/* Exactly n bytes from offset; `path` is for the message. */
int mr_unpacked_read(const struct mr_unpacked *u, void *to, size_t n,
		     uint64_t offset, const char *path, struct mr_err *err);

#endif
