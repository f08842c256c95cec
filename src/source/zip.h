/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of zip files, stored or deflated, zip64 too. All that the file says
 * is checked against its size; contents against their CRC32.
 */
#ifndef MR_SOURCE_ZIP_H
#define MR_SOURCE_ZIP_H

#include "io/input.h"
#include "source/source.h"

struct libdeflate_decompressor;

struct mr_zip_member {
	const char *name;
	uint64_t at;	       /* of its bytes in the file */
	uint64_t packed, size; /* bytes there, and once inflated */
	uint32_t crc;
	bool deflated;
};

/* All members, in memory of `mem`. Errors name the file. */
int mr_zip_list(struct mr_input *in, struct mr_arena *mem,
		struct mr_zip_member **out, size_t *n, struct mr_err *err);

/* The one called so, or NULL. */
const struct mr_zip_member *mr_zip_find(const struct mr_zip_member *m, size_t n,
					const char *name);

/* The member's m->size bytes to `to`; packed ones go through `mem`. *inflate
 * is made when first needed; the caller frees it. */
int mr_zip_read(struct mr_input *in, const struct mr_zip_member *m, void *to,
		struct libdeflate_decompressor **inflate, struct mr_arena *mem,
		struct mr_err *err);

/* The first *n bytes of it, or all if it has less; *n says how many. Their
 * CRC32 is not checked. */
int mr_zip_peek(struct mr_input *in, const struct mr_zip_member *m, void *to,
		size_t *n, struct mr_err *err);

/* The error of a member whose bytes give another CRC32 than they should. */
int mr_zip_bad_crc(struct mr_input *in, const struct mr_zip_member *m,
		   struct mr_err *err);

#endif
