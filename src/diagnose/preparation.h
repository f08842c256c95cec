/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P: how fast the steps are by themselves, from memory. It is measured turn
 * after turn, and what is compared with it between two turns: how fast the
 * machine is may change from one second to the next, and what differs from P by
 * a few percent would drown in that.
 */
#ifndef MR_DIAGNOSE_PREPARATION_H
#define MR_DIAGNOSE_PREPARATION_H

#include "diagnose/phases.h"

/* The first turn, and what the steps take of time and make of bytes. Leaves the
 * loader in p->steps. */
int mr_prep_alone(struct mr_phases *p, struct mr_err *err);

/* P by threads: 1, 2, 4, ... up to the cores; the job's own is known. */
int mr_prep_curve(struct mr_phases *p, struct mr_err *err);

/* A trial between two turns. The figure is the share of P, until
 * mr_prep_end(). */
int mr_prep_beside(struct mr_phases *p, const struct mr_trial *t,
		   struct mr_figure *f, struct mr_err *err);

/* P is what most of its turns say: one in which somebody else had the CPU does
 * not count for the others. What was taken beside it follows. */
void mr_prep_end(struct mr_phases *p);

/* With an accelerator, preparation is no faster than alone: if it seems to be,
 * all that was taken in P's turns was taken at a bad time. */
void mr_prep_raise(struct mr_phases *p);

#endif
