/* SPDX-License-Identifier: Apache-2.0 */
/* Where prepare and convert put what they make. */
#ifndef MR_PIPE_OUTDIR_H
#define MR_PIPE_OUTDIR_H

#include "pipe/spec.h"
#include "store/meta.h"

/*
 * A set within its own source would be a part of it; and one that notes its
 * source's files (`stamped`), and lies beside them, would find their folder
 * changed when it is read. The directory need not be there yet.
 */
int mr_outdir_check(const char *out, const struct mr_pipeline *p,
		    const struct mr_meta *m, bool stamped, struct mr_err *err);

/*
 * Room for so many bytes at the place where the directory is or will be, with
 * what a stopped run has left there; before it is made, so that another try is
 * not in the way of itself. Fills *available, where it can be known.
 */
int mr_outdir_room(const char *out, uint64_t bytes, uint64_t *available,
		   struct mr_err *err);

#endif
