/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of a tar as a file, so that a tar is walked once: NAME.mri beside
 * it, or in the user's cache directory. It serves a tar of the same size and
 * time of change only; what is damaged or of another version is as if it were
 * not there.
 *
 *	"MRTARIX" and a version byte
 *	size and time of change of the tar
 *	how many extensions; for each its length, and it
 *	bytes of the records, and they
 *	xxh3 of all before, 8 bytes, low ones first
 *
 * Numbers are varints, as in the records (tarindex.h).
 */
#ifndef MR_SOURCE_TARCACHE_H
#define MR_SOURCE_TARCACHE_H

#include "source/tarindex.h"

/* Where: AUTO is beside it or else, where that cannot be written, in the
 * cache directory. */
enum mr_tar_keep { MR_TAR_AUTO, MR_TAR_BESIDE, MR_TAR_CACHE, MR_TAR_NO };

/* False when there is none that fits; *x is then untouched. */
bool mr_tar_cache_load(struct mr_tar_index *x, struct mr_input *in,
		       enum mr_tar_keep keep);
/* Fails only where the user has said where to. */
int mr_tar_cache_save(const struct mr_tar_index *x, struct mr_input *in,
		      enum mr_tar_keep keep, struct mr_err *err);

#endif
