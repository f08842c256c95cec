/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/part.h"

#include <string.h>

#include "core/param.h"
#include "pipe/split.h"
#include "source/prepared.h"

enum { PROBES = 64 };

/* ---- the set ---- */

static int open_set(struct mr_pipeline *p, const char *dir, int threads,
		    struct mr_err *err)
{
	const struct mr_source *s = &mr_source_records;
	const struct mr_source_env env = { .threads = threads,
					   .lenient = p->lenient,
					   .memory = p->memory };
	void *self = mr_arena_take(&p->arena, s->size);
	int e;

	if (!self)
		return mr_err_nomem(err, s->size);
	memset(self, 0, s->size);
	mr_param_defaults(s->params, self);
	e = mr_param_set(mr_param_find(s->params, "dir"), self, dir, &p->arena,
			 err);
	if (e)
		return e;
	p->set = (struct mr_stage){
		.name = s->name, .source = s, .self = self, .opened = true
	};
	return s->open(self, &env, err);
}

/* ---- is it the same? ---- */

/* Made by the stages before i, and by those that it left to be done. */
static int check_maker(const struct mr_pipeline *p, int i, const char *dir,
		       const struct mr_meta *m, struct mr_err *err)
{
	char *text = NULL;
	int e = mr_split_text(p, 0, i, &text, err);
	size_t n = text ? strlen(text) : 0;
	const char *rest = m->pipeline + n;

	if (!e && (strncmp(m->pipeline, text, n) != 0 ||
		   (m->deferred ? strncmp(rest, " | ", 3) != 0 ||
					  strcmp(rest + 3, m->deferred) != 0 :
				  *rest)))
		e = mr_err_set(err, MR_EINVAL,
			       "%s: was made by another pipeline, or up to "
			       "another step:\n  %s\nnot by\n  %s%s%s",
			       dir, m->pipeline, text,
			       m->deferred ? "\nand has left to be done: " : "",
			       m->deferred ? m->deferred : "");
	free(text);
	return e;
}

static bool same_type(const struct mr_spec *a, const struct mr_spec *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape));
}

/* Each field has its counterpart, whose id it gets. */
static int match_fields(struct mr_part *part, const struct mr_fields *fs,
			const char *dir, struct mr_err *err)
{
	bool same = part->in.n == fs->n;

	for (int i = 0; i < part->in.n && same; i++) {
		struct mr_field_spec *f = &part->in.item[i];
		int k = 0;

		while (k < fs->n && strcmp(fs->item[k].name, f->name) != 0)
			k++;
		same = k < fs->n && same_type(&fs->item[k].spec, &f->spec);
		f->id = same ? fs->item[k].id : 0;
	}
	return same ? 0 :
		      mr_err_set(err, MR_ETYPE,
				 "%s: its fields are not those that come here",
				 dir);
}

/* A set of samples from all over the data set is not one of the first ones. */
static int check_keys(const struct mr_plan *plan, const char *dir,
		      struct mr_err *err)
{
	const struct mr_part *part = &plan->part;
	char here[1024], there[1024];

	if (part->samples > plan->samples)
		return mr_err_set(err, MR_EDATA,
				  "%s: has %llu samples, and the data set %llu",
				  dir, (unsigned long long)part->samples,
				  (unsigned long long)plan->samples);
	for (uint64_t i = 0; i < PROBES && i < part->samples; i++) {
		uint64_t n = part->samples < PROBES ? part->samples : PROBES;
		uint64_t at = part->samples / n * i + part->samples % n * i / n;

		plan->source->key(plan->source_self, at, here, sizeof(here));
		part->source->key(part->self, at, there, sizeof(there));
		if (strcmp(here, there) != 0)
			return mr_err_set(
				err, MR_EDATA,
				"%s: its sample %llu is '%.200s', and this "
				"data set's is '%.200s'; a set of the first "
				"samples is made by prepare --first N",
				dir, (unsigned long long)at, there, here);
	}
	return 0;
}

int mr_part_plan(struct mr_plan *plan, int i, const struct mr_fields *fs,
		 int threads, struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	const struct mr_stored_params *o = p->stage[i].self;
	struct mr_part *part = &plan->part;
	const struct mr_meta *m;
	int e = open_set(p, o->dir, threads, err);

	if (e)
		return mr_err_prefix(err, "stored: ");
	m = mr_records_meta(p->set.self);
	*part = (struct mr_part){ .stage = i,
				  .at = plan->steps,
				  .source = p->set.source,
				  .self = p->set.self,
				  .samples = m->samples,
				  .in = m->record.fields };
	e = check_maker(p, i, o->dir, m, err);
	if (!e)
		e = match_fields(part, fs, o->dir, err);
	if (!e)
		e = check_keys(plan, o->dir, err);
	if (!e)
		return 0;
	mr_err_prefix(err, "stored: ");
	return mr_pipeline_point(p, i, err);
}

/* ---- samples ---- */

int mr_part_locate(const struct mr_plan *plan, uint64_t index, char *buf,
		   size_t cap, struct mr_extent *x, struct mr_err *err)
{
	const struct mr_part *part = &plan->part;

	return mr_part_has(plan, index) ?
		       part->source->locate(part->self, index, buf, cap, x,
					    err) :
		       plan->source->locate(plan->source_self, index, buf, cap,
					    x, err);
}

bool mr_part_maps(const struct mr_plan *plan)
{
	return plan->source->flags & MR_SOURCE_MAPS ||
	       (plan->part.samples &&
		plan->part.source->flags & MR_SOURCE_MAPS);
}
