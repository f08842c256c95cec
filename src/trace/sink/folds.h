/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks: a tree of names, each with its own weight, written as a
 * line per name with the names above it. Whoever has stacks puts them in: the
 * spans here, and samples of the program counter, whose functions go below
 * the step that they fell into.
 */
#ifndef MR_TRACE_SINK_FOLDS_H
#define MR_TRACE_SINK_FOLDS_H

#include "trace/sink/out.h"

struct mr_folds;

int mr_folds_new(struct mr_folds **f, struct mr_err *err);
void mr_folds_free(struct mr_folds *f); /* NULL is allowed */
/* The place of a name below another (0: the top), made when it is new. When
 * there is no room for more, the one above. The text is copied. */
uint32_t mr_folds_below(struct mr_folds *f, uint32_t above, const char *name);
void mr_folds_add(struct mr_folds *f, uint32_t place, uint64_t ns);
/* Microseconds, rounded; lines of none are left out. */
void mr_folds_write(const struct mr_folds *f, struct mr_out *o);

#endif
