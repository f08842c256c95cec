/* SPDX-License-Identifier: Apache-2.0 */
/* Runs joined image steps (op/image.h) as one pass over the pixels. */
#ifndef MR_PIPE_JOIN_H
#define MR_PIPE_JOIN_H

#include "pipe/worker.h"

/* How many steps from st on, of the n there are, can run as one: 0 when the
 * step is not of that kind. */
int mr_join_count(const struct mr_step *st, int n);

/* Takes the sample's field through st->joined steps. */
int mr_join_run(struct mr_worker *w, const struct mr_row *r,
		const struct mr_step *st, struct mr_tensor *t);

#endif
