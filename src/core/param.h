/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters by table: texts become members of a struct, checked for type
 * and range. The table's types and macros are in plugin.h.
 */
#ifndef MR_CORE_PARAM_H
#define MR_CORE_PARAM_H

#include "core/arena.h"
#include "core/err.h"
#include "core/str.h"

/* Entries of a table. */
size_t mr_param_count(const struct mr_param *params);

/* The entry called name, or NULL. */
const struct mr_param *mr_param_find(const struct mr_param *params,
				     const char *name);

/* The table's name nearest to a misspelt one, or NULL when none is near. */
const char *mr_param_nearest(const struct mr_param *params, const char *name);

/*
 * Set all members to their defaults. Those without one stay as they are.
 * Texts are kept by pointer: the table is static.
 */
void mr_param_defaults(const struct mr_param *params, void *self);

/*
 * Parse value into p's member of self; the message names parameter, value
 * and what is allowed. Texts are copied into `strings`.
 */
int mr_param_set(const struct mr_param *p, void *self, const char *value,
		 struct mr_arena *strings, struct mr_err *err);

/* All members within their ranges? For structs that a program has filled. */
int mr_param_check(const struct mr_param *params, const void *self,
		   struct mr_err *err);

/* "integer, 1 to 4096", "yes or no", "u8 i16 ..." */
void mr_param_range(const struct mr_param *p, struct mr_str *out);

/* The member's value as the user would write it. */
void mr_param_text(const struct mr_param *p, const void *self,
		   struct mr_str *out);

/* The word nearest to `name` among n words that get(i) gives, or NULL when
 * none is within a third of its length. */
const char *mr_nearest(const char *name, size_t n,
		       const char *(*get)(size_t i, const void *data),
		       const void *data);

#endif
