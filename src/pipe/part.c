/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/part.h"

#include <string.h>

#include "core/mem.h"
#include "core/param.h"
#include "pipe/order.h"
#include "pipe/split.h"
#include "source/prepared.h"

enum { PROBES = 64 };

/* ---- the set ---- */

static int open_set(struct mr_pipeline *p, const struct mr_stored_params *o,
		    int threads, struct mr_err *err)
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
	e = mr_param_set(mr_param_find(s->params, "dir"), self, o->dir,
			 &p->arena, err);
	if (!e)
		e = mr_param_set(mr_param_find(s->params, "check"), self,
				 o->check ? "yes" : "no", &p->arena, err);
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
static int match_fields(struct mr_stored_part *part, const struct mr_fields *fs,
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

/* ---- which samples? ---- */

/* Which sample prepare --subset stores as its k-th. */
static uint64_t chosen(const struct mr_plan *plan, struct mr_order_cache *c,
		       uint64_t k)
{
	const struct mr_order o = {
		.kind = MR_ORDER_SHUFFLE,
		.n = mr_records_meta(plan->part.self)->samples,
		.of = plan->samples,
		.ranks = 1,
		.batch = 1
	};

	return mr_order_at(&o, c, 0, k);
}

/* Are they the first ones, or those that --subset chooses? By the keys of
 * some. */
static int check_keys(const struct mr_plan *plan, bool subset, const char *dir,
		      struct mr_err *err)
{
	const struct mr_stored_part *part = &plan->part;
	struct mr_order_cache c = { 0 };
	char here[1024], there[1024];

	for (uint64_t i = 0; i < PROBES && i < part->samples; i++) {
		uint64_t n = part->samples < PROBES ? part->samples : PROBES;
		uint64_t k = part->samples / n * i + part->samples % n * i / n;
		uint64_t at = subset ? chosen(plan, &c, k) : k;

		plan->source->key(plan->source_self, at, here, sizeof(here));
		part->source->key(part->self, k, there, sizeof(there));
		if (strcmp(here, there) != 0)
			return mr_err_set(
				err, MR_EDATA,
				"%s: its sample %llu is '%.200s', and this "
				"data set has '%.200s' there; prepare it again "
				"with --first N",
				dir, (unsigned long long)k, there, here);
	}
	return 0;
}

static int map_subset(struct mr_plan *plan, struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	struct mr_order_cache c = { 0 };

	if (plan->samples > UINT32_MAX)
		return mr_err_set(err, MR_ELIMIT,
				  "more than %u samples: make the set with "
				  "prepare --first N, not --subset",
				  UINT32_MAX);
	p->record = mr_alloc(plan->samples, sizeof(*p->record), err);
	if (!p->record)
		return MR_ENOMEM;
	for (uint64_t k = 0; k < plan->part.samples; k++)
		p->record[chosen(plan, &c, k)] = (uint32_t)k + 1;
	plan->part.record = p->record;
	return 0;
}

static int find_samples(struct mr_plan *plan, const char *dir,
			struct mr_err *err)
{
	const struct mr_stored_part *part = &plan->part;
	struct mr_err ignored;
	int e;

	if (part->samples > plan->samples)
		return mr_err_set(err, MR_EDATA,
				  "%s: has %llu samples, and the data set %llu",
				  dir, (unsigned long long)part->samples,
				  (unsigned long long)plan->samples);
	e = check_keys(plan, false, dir, err);
	if (!e || check_keys(plan, true, dir, &ignored))
		return e;
	return map_subset(plan, err);
}

int mr_part_plan(struct mr_plan *plan, int i, const struct mr_fields *fs,
		 int threads, struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	const struct mr_stored_params *o = p->stage[i].self;
	struct mr_stored_part *part = &plan->part;
	const struct mr_meta *m;
	int e = open_set(p, o, threads, err);

	if (e)
		return mr_err_prefix(err, "stored: ");
	m = mr_records_meta(p->set.self);
	*part = (struct mr_stored_part){ .stage = i,
					 .at = plan->steps,
					 .source = p->set.source,
					 .self = p->set.self,
					 .samples = m->samples,
					 .in = m->record.fields };
	if (o->first && (uint64_t)o->first < part->samples)
		part->samples = (uint64_t)o->first;
	e = o->check ? check_maker(p, i, o->dir, m, err) : 0;
	if (!e)
		e = match_fields(part, fs, o->dir, err);
	if (!e)
		e = find_samples(plan, o->dir, err);
	if (!e)
		return 0;
	mr_err_prefix(err, "stored: ");
	return mr_pipeline_point(p, i, err);
}

/* ---- samples ---- */

int mr_part_locate(const struct mr_plan *plan, uint64_t index, char *buf,
		   size_t cap, struct mr_extent *x, struct mr_err *err)
{
	const struct mr_stored_part *part = &plan->part;
	uint64_t record;

	return mr_part_has(plan, index, &record) ?
		       part->source->locate(part->self, record, buf, cap, x,
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
