/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a prepared set was made from, and whether it is still so: files on
 * disks (meta.h), files on servers, and what patterns find.
 */
#ifndef MR_SOURCE_ORIGIN_H
#define MR_SOURCE_ORIGIN_H

#include "store/meta.h"

/*
 * A stamp of what a pattern finds: how many files, and a hash of their names.
 * MR_AGAIN when it is a name that means itself, which needs none.
 */
int mr_origin_pattern(struct mr_stamp *s, const char *pattern,
		      struct mr_err *err);

/*
 * As mr_meta_check_source(), for stamps of any kind. Files on servers are
 * asked for by one request each; where a server does not answer, the set is
 * taken as it is.
 */
int mr_origin_check(const struct mr_meta *m, int threads, struct mr_err *err);

#endif
