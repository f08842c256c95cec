/* SPDX-License-Identifier: Apache-2.0 */
/* Tars that were compressed as a whole, which leaves no way to a sample but
 * through all before it: unpacked once, into a file without a name. */
#ifndef MR_SOURCE_TARUNPACK_H
#define MR_SOURCE_TARUNPACK_H

#include <stdatomic.h>

#include "io/input.h"

enum mr_tar_packing { MR_TAR_PLAIN, MR_TAR_GZIP, MR_TAR_ZSTD };

/* By the first bytes, not by the name. MR_EUNSUPPORTED for other packings. */
int mr_tar_packing(struct mr_input *in, enum mr_tar_packing *packing,
		   struct mr_err *err);

/*
 * Unpack into a file in $TMPDIR, or /var/tmp. *left: bytes that it and others
 * may take; MR_ELIMIT when there are more. When the compressed data is damaged
 * or cut off, what came before is kept, and *hurt is where, else UINT64_MAX.
 */
int mr_tar_unpack(struct mr_input *in, enum mr_tar_packing packing,
		  _Atomic uint64_t *left, struct mr_input **out, uint64_t *hurt,
		  struct mr_err *err);

#endif
