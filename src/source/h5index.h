/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the chunks of a dataset lie, read from the file itself: its object
 * header (versions 1 and 2), the layout message in it (version 3) and the
 * B-tree of chunks (version 1), which is what HDF5 writes unless it is told
 * to use the newest format. libhdf5 1.10 can be asked for one chunk at a
 * time only, and goes through all before it: five minutes for 100,000.
 */
#ifndef MR_SOURCE_H5INDEX_H
#define MR_SOURCE_H5INDEX_H

#include "io/input.h"
#include "source/h5set.h"

/*
 * Fills in s->at, or s->chunks, of the dataset whose object header lies at
 * `header`; s has its dimensions, layout and chunk's shape already. `base` is
 * what addresses in the file are relative to. MR_EUNSUPPORTED for other
 * versions than those above.
 */
int mr_h5_index(struct mr_h5_set *s, struct mr_input *in, uint64_t header,
		uint64_t base, struct mr_err *err);

/* One more chunk, whose first element is at `offset`; then sort them. Chunks
 * outside of the dataset's dimensions are left out. */
int mr_h5_index_add(struct mr_h5_set *s, const uint64_t *offset, uint64_t at,
		    uint64_t size, uint32_t mask, struct mr_err *err);
void mr_h5_index_sort(struct mr_h5_set *s);

#endif
