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

/* ---- a file, packed or not ---- */

struct mr_part {
	char *path;
	struct mr_input *in;		  /* NULL when it is not kept open */
	const struct mr_unpacked *unpack; /* where the bytes lie, or NULL */
	uint64_t base, size;		  /* ...from there, so many */
};

/* Open p->path, which is p's to free, also on failure. */
int mr_part_open(struct mr_part *p, struct mr_err *err);
void mr_part_close(struct mr_part *p);

/* From here on the unpacked bytes are meant. */
int mr_part_unpack(struct mr_part *p, struct mr_unpacked *u,
		   enum mr_packing packing, struct mr_err *err);

/* All is known of it. A descriptor that is not needed is given back; so is
 * one of very many files, which are then opened for each read. */
void mr_part_settle(struct mr_part *p, size_t files);

/* Exactly n bytes from offset. */
int mr_part_read(const struct mr_part *p, void *to, size_t n, uint64_t offset,
		 struct mr_err *err);
void mr_part_extent(const struct mr_part *p, uint64_t offset, uint64_t n,
		    struct mr_extent *e);

#endif
