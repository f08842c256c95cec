/* SPDX-License-Identifier: Apache-2.0 */
/* Steps after `batch`, on a batch that is collated. */
#ifndef MR_PIPE_AFTER_H
#define MR_PIPE_AFTER_H

#include "pipe/worker.h"

/* Runs them by the worker that finished the batch, the one at slot s; failure
 * is left in b->failed. */
void mr_after_run(struct mr_worker *w, struct mr_batch *b, uint64_t s);

#endif
