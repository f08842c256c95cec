/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the phases of a diagnosis take, and when each has to be over: all
 * of them together may not take longer than they may, whatever the samples
 * take. What can be done without is left out when it is late.
 */
#ifndef MR_DIAGNOSE_SCHEDULE_H
#define MR_DIAGNOSE_SCHEDULE_H

#include "diagnose/phases.h"

/* Seconds, at a scale of 1. */
#define WARM_FIRST 3.0
#define ALONE	   2.5
#define TURN	   1.2
#define READING	   1.0
#define COLD	   4.0
#define PACED	   2.5
#define JOB	   6.0
#define OPENING	   0.6 /* of a run, beside its own seconds */
#define FILLING	   2.0 /* of a cache */

extern const char *const mr_phase_names[];

/* Seconds that a trial takes between two turns of preparation. */
double mr_phase_beside(void);

/* Is there a storage that could be slow? */
bool mr_phase_slow(const struct mr_phases *p);

/* From now on p->with.until is when this one is to be over. */
void mr_phase_begin(struct mr_phases *p, enum mr_phase which);

/* Tells how far it is; true: the user has had enough. data: the phases. */
bool mr_phase_tell(void *data);

/* Is there no time left for what takes so long, at a scale of 1, and can be
 * done without? Then it is noted, in these words. */
bool mr_phase_late(struct mr_phases *p, double seconds, const char *what);
void mr_phase_leave_out(struct mr_phases *p, const char *what);

/* Seconds. */
double mr_phase_since(uint64_t ns);

#endif
