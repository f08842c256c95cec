/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a diagnosis: the same pipeline, run with one thing after
 * another taken away, so that the differences tell what each costs.
 */
#ifndef MR_DIAGNOSE_PHASES_H
#define MR_DIAGNOSE_PHASES_H

#include "analyze/diagnosis.h"
#include "diagnose/trial.h"

enum { MR_TURNS = 2 * MR_CURVE_MAX };

enum mr_phase {
	MR_PHASE_LOOK,
	MR_PHASE_WARM,
	MR_PHASE_STEPS,
	MR_PHASE_THREADS,
	MR_PHASE_MEMORY,
	MR_PHASE_ACCELERATOR,
	MR_PHASE_TOGETHER,
	MR_PHASE_STORAGE,
	MR_PHASE_JOB,
	MR_PHASES
};

struct mr_phases {
	struct mr_job job;
	struct mr_diagnosis *d;
	struct mr_setup with; /* of the trials: scale is given, the rest is
			       * set */
	bool job_only;	      /* nothing but how fast the job is */
	const char *cache;    /* "35%", "8G", or "": as the pipeline has it */
	bool (*progress)(void *data, const char *phase, double done);
	void *data;
	bool slept_p, slept_f;	 /* G+P, F: taken to be G */
	struct mr_loader *steps; /* preparation alone, */
	double turn[MR_TURNS];	 /* and its rates, time after time */
	int turns;
	double opening; /* seconds that it took to list the data set */
	/* and of the phases before each one, and of all of them, as planned, at
	 * a scale of 1 */
	double planned[MR_PHASES + 1];
	uint64_t began,
		over; /* ns: of all phases, when they are to have ended */
	enum mr_phase phase;
	uint64_t phase_since;
	char left_out[200]; /* what there was no time for, in words */
};

/* Plans how long they take. Seconds of all of them, about, at a scale of 1; the
 * parts of the job are known by then. */
double mr_phases_plan(struct mr_phases *p);

/* Fills d's measured part, but for the accelerator's rate, which it has. */
int mr_phases_run(struct mr_phases *p, struct mr_err *err);

/* One figure; `optional`: there may be none. st: the loader's, or NULL. */
int mr_phase_figure(struct mr_phases *p, const struct mr_trial *t,
		    bool optional, struct mr_figure *f, struct mr_stats *st,
		    struct mr_err *err);

/* The error that not one sample came, in the time that there was. */
int mr_phase_nothing(const struct mr_phases *p, struct mr_err *err);

/* How the samples as they are stored pack, one by one. */
void mr_phase_codecs(struct mr_diagnosis *d, const struct mr_batch *b,
		     double seconds);

#endif
