/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/schedule.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/file.h"
#include "pipe/loader.h"

/* Of the time that what comes later takes, this much is kept for it, whatever
 * takes longer than it should. */
#define KEPT 0.6

const char *const mr_phase_names[] = {
	[MR_PHASE_LOOK] = "a look at the data",
	[MR_PHASE_WARM] = "the samples into memory",
	[MR_PHASE_STEPS] = "preparation alone",
	[MR_PHASE_THREADS] = "preparation by threads",
	[MR_PHASE_MEMORY] = "reading from memory",
	[MR_PHASE_ACCELERATOR] = "the accelerator alone",
	[MR_PHASE_TOGETHER] = "accelerator and preparation",
	[MR_PHASE_STORAGE] = "the storage alone",
	[MR_PHASE_JOB] = "the job from the storage",
};

/* A trial between two turns of preparation. */
double mr_phase_beside(void)
{
	return 2 * (TURN + OPENING);
}

static double threads_take(const struct mr_phases *p)
{
	int cores = mr_machine_cores(), own = mr_loader_threads(&p->job.opt);
	int most = cores > own ? cores : own, points = 0;

	for (int n = 1; n < most; n = mr_trial_threads(n, most))
		points++;
	return points * mr_phase_beside();
}

bool mr_phase_slow(const struct mr_phases *p)
{
	return *p->job.opt.storage || p->job.local || p->job.remote;
}

static double job_takes(const struct mr_phases *p)
{
	bool profile = *p->job.opt.storage, cache = *p->cache || p->job.ram > 0;

	return OPENING + (profile || cache ? 2 * JOB : JOB) +
	       (cache ? FILLING : 0) +
	       (profile && cache ? OPENING + FILLING + 2 * COLD : 0);
}

/* Seconds at a scale of 1; `least`: without what can be left out. */
static double takes(const struct mr_phases *p, enum mr_phase which, bool least)
{
	switch (which) {
	case MR_PHASE_LOOK:
		return OPENING + WARM_FIRST;
	case MR_PHASE_WARM:
		return OPENING + WARM_FIRST + (least ? 0 : 1);
	case MR_PHASE_STEPS:
		return OPENING + TURN + (least ? 0 : 1);
	case MR_PHASE_THREADS:
		return least ? 0 : threads_take(p);
	case MR_PHASE_MEMORY:
		return least ? 0 :
			       OPENING + READING + 2 * mr_phase_beside() +
				       FILLING;
	case MR_PHASE_ACCELERATOR:
		return OPENING + 1;
	case MR_PHASE_TOGETHER:
		return OPENING + PACED;
	case MR_PHASE_STORAGE:
		return mr_phase_slow(p) ? OPENING + COLD : 0;
	case MR_PHASE_JOB:
		return mr_phase_slow(p) || p->job_only ? job_takes(p) : 0;
	case MR_PHASES:
		break;
	}
	return 0;
}

static bool has(const struct mr_phases *p, enum mr_phase which)
{
	return !p->job_only || which == MR_PHASE_LOOK ||
	       which == MR_PHASE_WARM || which == MR_PHASE_ACCELERATOR ||
	       which == MR_PHASE_JOB;
}

/* Of those in [from, to). */
static double all_take(const struct mr_phases *p, enum mr_phase from,
		       enum mr_phase to, bool least)
{
	double sum = 0;

	for (; from < to; from++)
		sum += has(p, from) ? takes(p, from, least) : 0;
	return sum;
}

double mr_phases_plan(struct mr_phases *p)
{
	for (int i = 0; i <= MR_PHASES; i++)
		p->planned[i] = all_take(p, 0, (enum mr_phase)i, false);
	return p->planned[MR_PHASES];
}

double mr_phase_since(uint64_t ns)
{
	return (double)(mr_clock_ns() - ns) / 1e9;
}

bool mr_phase_tell(void *data)
{
	struct mr_phases *p = data;
	double before = p->planned[p->phase], past = p->planned[p->phase + 1];
	double done = mr_phase_since(p->began) / p->with.scale;

	/* As far as the time says, within what this phase is of all. */
	done = done < before ? before : done > past ? past : done;
	return p->progress && p->progress(p->data, mr_phase_names[p->phase],
					  done / p->planned[MR_PHASES]);
}

/* Of the data set, that cannot be done without. */
static int openings(enum mr_phase from)
{
	return (from <= MR_PHASE_WARM) + (from <= MR_PHASE_STEPS) +
	       (from <= MR_PHASE_STORAGE) + (from <= MR_PHASE_JOB);
}

void mr_phase_begin(struct mr_phases *p, enum mr_phase which)
{
	double kept =
		KEPT * p->with.scale * all_take(p, which + 1, MR_PHASES, true) +
		p->opening * openings(which + 1);

	p->phase = which;
	p->phase_since = mr_clock_ns();
	p->with.until = p->over - (uint64_t)(kept * 1e9);
	mr_phase_tell(p);
}

void mr_phase_leave_out(struct mr_phases *p, const char *what)
{
	size_t n = strlen(p->left_out);

	if (!strstr(p->left_out, what))
		snprintf(p->left_out + n, sizeof(p->left_out) - n, "%s%s",
			 n ? ", " : "", what);
}

/* Is there no time left for what takes so long, and can be done without? */
bool mr_phase_late(struct mr_phases *p, double seconds, const char *what)
{
	double need = seconds * p->with.scale + p->opening;

	if (mr_clock_ns() + (uint64_t)(need * 1e9) <= p->with.until)
		return false;
	mr_phase_leave_out(p, what);
	return true;
}
