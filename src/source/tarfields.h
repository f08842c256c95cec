/* SPDX-License-Identifier: Apache-2.0 */
/* Which extensions of a set of tars are fields, and of which type. */
#ifndef MR_SOURCE_TARFIELDS_H
#define MR_SOURCE_TARFIELDS_H

#include "source/tarindex.h"

struct mr_tar_fields {
	int n;
	char name[MR_MAX_FIELDS][MR_NAME_MAX];
	bool number[MR_MAX_FIELDS];	/* digits, else bytes */
	uint64_t having[MR_MAX_FIELDS]; /* samples that have it */
	/* Of each tar, the field of each of its extensions, or -1. */
	int8_t **of;
	size_t tars;
};

/*
 * wanted: the user's list `jpg;png,cls`, in which ; separates extensions of
 * which a sample has one, or "". Without it: the extensions that at least half
 * of the samples have, those of images first. decode: cls and the like are
 * numbers.
 */
int mr_tar_fields_init(struct mr_tar_fields *f, const struct mr_tar_index *x,
		       const struct mr_parts *ps, const char *wanted,
		       bool decode, struct mr_err *err);
void mr_tar_fields_fini(struct mr_tar_fields *f);

/* The digits of a member as Python's int() takes them, within i64. */
bool mr_tar_integer(const char *s, size_t n, int64_t *v);

#endif
