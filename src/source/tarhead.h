/* SPDX-License-Identifier: Apache-2.0 */
/* A block of 512 bytes as a tar's header, and what stands before one. */
#ifndef MR_SOURCE_TARHEAD_H
#define MR_SOURCE_TARHEAD_H

#include "core/err.h"
#include "core/str.h"

enum { MR_TAR_BLOCK = 512, MR_TAR_SIZE_AT = 124, MR_TAR_TYPE_AT = 156 };

/* The sum of its bytes is the one it says. */
bool mr_tar_checksum_ok(const uint8_t *p);
/* It says "ustar", as all do since 1988. */
bool mr_tar_magic(const uint8_t *p);
bool mr_tar_zeros(const uint8_t *p);

/* A field of n bytes: octal, or base 256. False when it is neither, or not
 * below 2^63. */
bool mr_tar_number(const uint8_t *p, size_t n, uint64_t *v);

/* The name in the header itself, appended. */
void mr_tar_header_name(const uint8_t *p, struct mr_str *name);

/* Blocks that n bytes take, and the bytes of those. */
static inline uint64_t mr_tar_blocks(uint64_t n)
{
	return n / MR_TAR_BLOCK + (n % MR_TAR_BLOCK != 0);
}

static inline uint64_t mr_tar_padded(uint64_t n)
{
	return mr_tar_blocks(n) * MR_TAR_BLOCK;
}

/* What headers before it tell of a member, or of all that follow. */
struct mr_tar_extra {
	bool used;   /* there was one */
	bool broken; /* ... that was not understood */
	bool sparse, has_name, has_size;
	uint64_t size;
	struct mr_str name;
};

void mr_tar_extra_reset(struct mr_tar_extra *x); /* keeps the memory */
void mr_tar_extra_fini(struct mr_tar_extra *x);

/* GNU's long name: n bytes, or until the first zero. */
int mr_tar_extra_name(struct mr_tar_extra *x, const char *s, size_t n,
		      struct mr_err *err);
/* The records of a pax header; *ok is false when they are damaged. */
int mr_tar_extra_pax(struct mr_tar_extra *x, const char *s, size_t n, bool *ok,
		     struct mr_err *err);

#endif
