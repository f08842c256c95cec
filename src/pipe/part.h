/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step `stored`: a part of the samples, the first ones of the data set or
 * some of all over it, has been through the steps before it once, and lies in a
 * prepared set (plan.h: struct mr_stored_part).
 */
#ifndef MR_PIPE_PART_H
#define MR_PIPE_PART_H

#include "pipe/plan.h"

/* Opens the set of stage i, where the fields are fs, and checks that it holds
 * what the steps before would yield. */
int mr_part_plan(struct mr_plan *plan, int i, const struct mr_fields *fs,
		 int threads, struct mr_err *err);

/* Does a sample come from there? If so, its number in the set. */
static inline bool mr_part_has(const struct mr_plan *plan, uint64_t index,
			       uint64_t *record)
{
	const struct mr_stored_part *part = &plan->part;

	*record = part->record ? (uint64_t)part->record[index] - 1 : index;
	return *record < part->samples;
}

/* Where a sample lies, there or in the source, which has a locate(). */
int mr_part_locate(const struct mr_plan *plan, uint64_t index, char *buf,
		   size_t cap, struct mr_extent *x, struct mr_err *err);

/* May samples lie in mapped files? */
bool mr_part_maps(const struct mr_plan *plan);

#endif
