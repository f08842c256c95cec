/* SPDX-License-Identifier: Apache-2.0 */
/* mr_diagnose(): a pipeline and an accelerator in, a diagnosis out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "diagnose/accelerator.h"
#include "diagnose/phases.h"
#include "op/op.h"
#include "pipe/fetch.h"
#include "pipe/order.h"
#include "pipe/split.h"

/* Seconds that the phases take at a scale of 1, about; that are planned for
 * at most; and after which all is over. */
#define USUAL	35.0
#define PLANNED 80.0
#define MOST	90.0

#define PATIENCE 4 /* times what was asked for */
#define OPENINGS                                                            \
	14	   /* of the data set, which are no part of what is planned \
		    */
#define LEAST 20.0 /* that is left for the rest */

void mr_diagnose_options_init(struct mr_diagnose_options *o)
{
	*o = (struct mr_diagnose_options){ .size = sizeof(*o),
					   .accelerator = "",
					   .cache = "" };
	mr_options_init(&o->loader);
}

static void drop_job(struct mr_job *j)
{
	free(j->source);
	free(j->before);
	free(j->after);
	for (int i = 0; i < MR_MAX_STEPS; i++)
		free(j->upto[i]);
}

/* Where the pipeline has a cache, or where one would be put: after the
 * source. *next is the stage after it. */
static void place_cache(const struct mr_pipeline *p, struct mr_job *j,
			int *next)
{
	j->place = *next = 1;
	for (int i = 1; i < p->n; i++) {
		if (strcmp(p->stage[i].name, "cache") != 0)
			continue;
		j->place = i;
		*next = i + 1;
		j->ram = (double)((const struct mr_cache_params *)p->stage[i]
					  .self)
				 ->ram;
	}
}

/* Stages [from, to) as a text; "" when there are none. */
static int words(const struct mr_pipeline *p, int from, int to, char **text,
		 struct mr_err *err)
{
	if (from < to)
		return mr_split_words(p, from, to, text, err);
	*text = mr_strdup("", err);
	return *text ? 0 : MR_ENOMEM;
}

/* The parts of the pipeline, from a loader that was opened for them. */
static int take_apart(struct mr_job *j, const struct mr_loader *l,
		      struct mr_err *err)
{
	const struct mr_pipeline *p = l->pipeline;
	int next, e;

	place_cache(p, j, &next);
	j->batch = l->rows;
	j->samples = l->plan.samples;
	j->remote = l->plan.source->locate && mr_fetch_remote(l);
	j->local =
		(l->plan.source->locate && !j->remote) || l->plan.source->file;
	j->ahead = l->plan.source->locate ||
		   l->plan.source->flags & MR_SOURCE_MADE;
	e = words(p, 0, 1, &j->source, err);
	if (!e)
		e = words(p, 1, j->place, &j->before, err);
	if (!e)
		e = words(p, next, p->n, &j->after, err);
	for (int i = 1; !e && i < mr_split_samples(p); i++) {
		if (p->stage[i].op->flags & MR_OP_RANDOM || j->ram > 0)
			break;
		e = words(p, 0, i + 1, &j->upto[i], err);
	}
	return e;
}

static int open_job(struct mr_phases *p, const char *pipeline,
		    struct mr_err *err)
{
	struct mr_options opt = p->job.opt;
	struct mr_loader *l;
	int e;

	opt.cold = false;
	opt.threads = 1;
	e = mr_loader_open_with(&l, pipeline, &opt, err);
	if (e)
		return e;
	e = l->plan.part.samples ?
		    mr_err_set(err, MR_EUNSUPPORTED,
			       "diagnose: with 'stored', samples come by two "
			       "ways; leave it out to diagnose the longer one, "
			       "or see what `millrace run` says of both") :
		    take_apart(&p->job, l, err);
	p->d->samples = p->job.samples;
	p->d->batch = p->job.batch;
	if (!e)
		e = words(l->pipeline, 0, l->pipeline->n, &p->d->pipeline, err);
	mr_loader_close(l);
	return e;
}

/* What the accelerator takes: one of two ways to say it. */
static int set_accelerator(struct mr_diagnosis *d,
			   const struct mr_diagnose_options *o,
			   struct mr_err *err)
{
	const char *name = "given";
	double rate;
	int e;

	if (*o->accelerator && o->step > 0)
		return mr_err_set(err, MR_EINVAL,
				  "an accelerator by its rate or by the time "
				  "of a step, not both");
	if (o->step > 0) {
		d->step_seconds = o->step;
	} else if (*o->accelerator) {
		e = mr_accelerator_parse(o->accelerator, &rate, &name, err);
		if (e)
			return e;
		d->step_seconds = (double)d->batch / rate;
	} else {
		return mr_err_set(err, MR_EINVAL,
				  "how fast is the accelerator? give its "
				  "samples per second (--accelerator 1790), "
				  "one that is known (--accelerator "
				  "resnet50-h100), or the time of a step "
				  "(--step-time 224ms)");
	}
	snprintf(d->accelerator, sizeof(d->accelerator), "%s", name);
	return 0;
}

static void add_notes(struct mr_diagnosis *d, const struct mr_job *j)
{
	char n[32], all[32];

	if (d->sampled < d->samples)
		mr_str_addf(&d->notes, "measured on %s of the %s samples, %s\n",
			    mr_str_count(n, d->sampled),
			    mr_str_count(all, d->samples),
			    j->opt.order == MR_ORDER_SHUFFLE ?
				    "chosen by the seed" :
				    "the first ones");
	if (d->warm_resident >= 0 && d->warm_resident < 0.99)
		mr_str_addf(&d->notes,
			    "only %.0f %% of the samples' bytes were in memory "
			    "while P was measured: P is a lower bound\n",
			    100 * d->warm_resident);
	if (!*d->profile && j->local && d->cold_stayed > 0.05)
		mr_str_addf(&d->notes,
			    "%.0f %% of the bytes could not be evicted from "
			    "memory: S and F are upper bounds\n",
			    100 * d->cold_stayed);
	if (!*d->profile && j->local && d->cold_stayed < 0)
		mr_str_add(&d->notes,
			   "whether the files were out of memory when they "
			   "were read cold is not known (of files that are "
			   "somebody else's the kernel does not tell): S and F "
			   "may be upper bounds\n");
	if (!*d->profile && !j->local && !j->remote)
		mr_str_add(&d->notes,
			   "the source has no files: there is no storage to "
			   "wait for; --storage imitates one\n");
}

/* As long as was asked for, or as it may take, and when it is over in any
 * case: what waits for samples that take long takes longer than planned. */
static void set_times(struct mr_phases *p, double seconds)
{
	double plan = mr_phases_plan(p), most = PATIENCE * seconds + 10;
	double left = PLANNED - OPENINGS * p->opening;

	p->with.scale = seconds / USUAL;
	if (left < LEAST)
		left = LEAST;
	if (p->with.scale * plan > left)
		p->with.scale = left / plan;
	p->over = p->began + (uint64_t)((most < MOST ? most : MOST) * 1e9);
}

static int run(struct mr_phases *p, const char *pipeline,
	       const struct mr_diagnose_options *o, struct mr_err *err)
{
	struct mr_diagnosis *d = p->d;
	double any;
	int e;

	p->began = mr_clock_ns();
	e = open_job(p, pipeline, err);
	p->opening = (double)(mr_clock_ns() - p->began) / 1e9;

	if (!e)
		e = set_accelerator(d, o, err);
	/* How large it is is known later; that it is one, now. */
	if (!e && *o->cache)
		e = mr_model_cache("cache", o->cache, 1, &any, err);
	if (e)
		return e;
	d->cores = mr_machine_cores();
	d->threads = mr_loader_threads(&p->job.opt);
	snprintf(d->profile, sizeof(d->profile), "%s",
		 p->job.opt.storage ? p->job.opt.storage : "");
	set_times(p, o->seconds > 0 ? o->seconds : USUAL);
	e = mr_phases_run(p, err);
	d->seconds = (double)(mr_clock_ns() - p->began) / 1e9;
	if (!e)
		add_notes(d, &p->job);
	return e;
}

int mr_diagnose(const char *pipeline, const struct mr_diagnose_options *o,
		char **json, struct mr_err *err)
{
	struct mr_diagnosis *d = mr_alloc(1, sizeof(*d), err);
	struct mr_phases p = { .d = d };
	int e;

	*json = NULL;
	if (!d)
		return MR_ENOMEM;
	if (o->size != sizeof(*o)) {
		free(d);
		return mr_err_set(err, MR_EINVAL,
				  "options of another version of the header; "
				  "call mr_diagnose_options_init()");
	}
	p.job.opt = o->loader;
	if (!p.job.opt.storage)
		p.job.opt.storage = "";
	p.job.opt.epochs = p.job.opt.samples = 0;
	p.job.opt.trace = NULL;
	p.cache = o->cache;
	p.job_only = o->job_only;
	p.progress = o->progress;
	p.data = o->data;
	e = run(&p, pipeline, o, err);
	if (!e) {
		mr_diagnosis_conclude(d);
		*json = mr_diagnosis_json(d);
		e = *json ? 0 : mr_err_nomem(err, 1);
	}
	drop_job(&p.job);
	mr_diagnosis_fini(d);
	free(d);
	return e;
}

int mr_diagnosis_show(const char *json, const char *file, char **text,
		      struct mr_err *err)
{
	struct mr_diagnosis *d = mr_alloc(1, sizeof(*d), err);
	int e;

	*text = NULL;
	if (!d)
		return MR_ENOMEM;
	e = mr_diagnosis_parse(d, json, file, err);
	if (!e) {
		*text = mr_diagnosis_text(d);
		mr_diagnosis_fini(d);
		e = *text ? 0 : mr_err_nomem(err, 1);
	}
	free(d);
	return e;
}
