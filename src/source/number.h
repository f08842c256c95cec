/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's types of numbers, as the types of tensors that hold them. */
#ifndef MR_SOURCE_NUMBER_H
#define MR_SOURCE_NUMBER_H

#include "core/err.h"

struct mr_number {
	const char *name; /* "uint16" */
	const char *code; /* "u2" */
	size_t size;
	enum mr_dtype as; /* the same, or the next one that holds it */
};

/* By its name, or as "<u2", "|u1"; NULL when we cannot hold it. */
const struct mr_number *mr_number_find(const char *name);

/* The bytes are already those of the tensor. */
bool mr_number_same(const struct mr_number *t);

/*
 * n numbers, little-endian and of any alignment, into a tensor's memory.
 * MR_EDATA for a uint64 that is too large for i64.
 */
int mr_number_load(const struct mr_number *t, const void *from, size_t n,
		   void *to, struct mr_err *err);

#endif
