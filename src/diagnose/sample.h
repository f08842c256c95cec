/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the samples a diagnosis looks at: as many as can be read in time,
 * which are in memory then. */
#ifndef MR_DIAGNOSE_SAMPLE_H
#define MR_DIAGNOSE_SAMPLE_H

#include "diagnose/phases.h"

/* Reads as many as the time allows, and learns their size. */
int mr_phase_choose(struct mr_phases *p, struct mr_err *err);

/* Has them in memory, and looks whether they are there. */
int mr_phase_warm(struct mr_phases *p, struct mr_err *err);

#endif
