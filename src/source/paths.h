/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sources share whose samples are files: packed lists of names, sorting
 * them, paths, and the fields `data` and `label`.
 */
#ifndef MR_SOURCE_PATHS_H
#define MR_SOURCE_PATHS_H

#include "core/str.h"
#include "source/source.h"

/* ---- texts in one piece of memory: 9 bytes each beyond their own ---- */

struct mr_names {
	char *pool;
	size_t used, pool_cap;
	uint64_t *at;
	size_t n, at_cap;
};

/* Append n bytes of s, which must hold no zero. */
int mr_names_add(struct mr_names *t, const char *s, size_t n,
		 struct mr_err *err);
/* Give back what growing took in advance. */
void mr_names_trim(struct mr_names *t);
void mr_names_fini(struct mr_names *t);

static inline const char *mr_names_get(const struct mr_names *t, uint64_t i)
{
	return t->pool + t->at[i];
}

/* ---- sorting texts by their bytes ---- */

struct mr_text {
	uint64_t key;	  /* for mr_text_sort() */
	uint32_t at, len; /* from `base` */
};

/* What must be readable after the last text. */
#define MR_TEXT_PAD 8

/* Scratch of mr_text_sort(), for one thread; start from { 0 }. */
struct mr_text_sort {
	struct mr_text *tmp;
	size_t cap;
	uint32_t count[8][256];
};

/* Sort n texts; some 50 ns each for a million. */
int mr_text_sort(struct mr_text_sort *s, const char *base, struct mr_text *t,
		 size_t n, struct mr_err *err);
void mr_text_sort_fini(struct mr_text_sort *s);

/* ---- paths ---- */

/* A copy of path, put after cwd when it is relative and cwd not NULL, and
 * without slashes at its end; a URL stays as it is. The caller frees it. */
char *mr_path_resolve(const char *cwd, const char *path, struct mr_err *err);

/* "a/b/c" into buf; an empty a or b is left out with its slash, and so is
 * what stands before an absolute c. MR_ELIMIT when it does not fit. */
int mr_path_join(char *buf, size_t cap, const char *a, const char *b,
		 const char *c, struct mr_err *err);

/* ---- samples that are one file each ---- */

/* `data`, bytes, and `label`, a number. */
void mr_path_fields(struct mr_fields *out);
/* The whole file whose path was built in buf. */
void mr_path_extent(struct mr_extent *e, const char *buf);
int mr_path_unpack(const struct mr_load *ld, int64_t label, const void *bytes,
		   size_t length, struct mr_tensor *f);

#endif
