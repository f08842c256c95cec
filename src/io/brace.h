/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of names, and {a,b} and {000..147} in them. */
#ifndef MR_IO_BRACE_H
#define MR_IO_BRACE_H

#include "core/err.h"

enum { MR_NAMES_MAX = 1000000 };

struct mr_name_list {
	char **item;
	size_t n, cap;
};

/* Append `name`, which becomes the list's; it is freed on failure too. NULL
 * is a name for which there was no memory. */
int mr_name_list_take(struct mr_name_list *l, char *name, struct mr_err *err);
void mr_name_list_fini(struct mr_name_list *l);

/*
 * Append what the braces of `pattern` make, in their order: {a,b} each of
 * its parts, {7..12} and {007..012} numbers, as wide as they were written,
 * {0..9..3} every third. Several, also nested ones, multiply. Braces that
 * are neither stay as they are. MR_ELIMIT over MR_NAMES_MAX names.
 */
int mr_brace_expand(struct mr_name_list *l, const char *pattern,
		    struct mr_err *err);

#endif
