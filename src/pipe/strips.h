/* SPDX-License-Identifier: Apache-2.0 */
/* Runs joined steps over frames (op/frames.h), a strip of rows at a time. */
#ifndef MR_PIPE_STRIPS_H
#define MR_PIPE_STRIPS_H

#include "pipe/worker.h"

enum { MR_STRIPS_STEPS = 8 }; /* at most */

/* How many steps from st on, of the n there are, can run as one; 0: this one
 * runs alone. */
int mr_strips_count(const struct mr_step *st, int n);

/* Takes the sample's field through st->joined steps. */
int mr_strips_run(struct mr_worker *w, const struct mr_row *r,
		  const struct mr_step *st, struct mr_tensor *t);

#endif
