/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases of a diagnosis: the same pipeline, run with one thing after
 * another taken away, so that the differences tell what each costs.
 */
#ifndef MR_DIAGNOSE_PHASES_H
#define MR_DIAGNOSE_PHASES_H

#include "analyze/diagnosis.h"
#include "diagnose/pace.h"

/* A pipeline in parts, so that some can be left out. */
struct mr_job {
	char *source;		  /* `files DIR` */
	char *before;		  /* steps before the place of a cache, or "" */
	char *after;		  /* and after it, with `batch` */
	char *upto[MR_MAX_STEPS]; /* the source and the steps up to that stage,
				   * while they are the same in each epoch */
	int place;		  /* of a cache: so many stages are before it */
	double ram;		  /* of the one that the pipeline has, or 0 */
	uint64_t batch, samples;
	bool local;  /* the source has files to be evicted, */
	bool remote; /* or has them on a server, where they are slow anyway */
	bool ahead;  /* it is read ahead of the workers */
	struct mr_options opt;
};

struct mr_phases {
	struct mr_job job;
	struct mr_diagnosis *d;
	double scale;	   /* of the phases' times */
	uint64_t subset;   /* samples that they look at */
	bool job_only;	   /* nothing but how fast the job is */
	const char *cache; /* "35%", "8G", or "": as the pipeline has it */
	bool (*progress)(void *data, const char *phase, double done);
	void *data;
	double spent, planned; /* seconds, of progress */
	const char *phase;
	uint64_t phase_since;
};

/* Fills d's measured part, but for the accelerator's rate, which it has. */
int mr_phases_run(struct mr_phases *p, struct mr_err *err);

/* How the samples as they are stored pack, one by one. */
void mr_phase_codecs(struct mr_diagnosis *d, const struct mr_batch *b,
		     double seconds);

#endif
