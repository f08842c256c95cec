/* SPDX-License-Identifier: Apache-2.0 */
/* The source `records`, for who must know what set it has. */
#ifndef MR_SOURCE_PREPARED_H
#define MR_SOURCE_PREPARED_H

#include "source/source.h"
#include "store/meta.h"

extern const struct mr_source mr_source_records;

/* Of an open one. */
const struct mr_meta *mr_records_meta(const void *self);

#endif
