/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/plan.h"

#include <assert.h>
#include <stdio.h>

#include "core/param.h"
#include "op/batchop.h"
#include "pipe/join.h"
#include "pipe/part.h"
#include "pipe/split.h"
#include "pipe/strips.h"

static int open_source(struct mr_plan *plan, struct mr_pipeline *p, int threads,
		       struct mr_err *err)
{
	struct mr_stage *s = &p->stage[0];
	struct mr_source_env env = { .threads = threads,
				     .lenient = p->lenient,
				     .memory = p->memory,
				     .spell = mr_split_spell };
	int e;

	plan->source = s->source;
	plan->source_self = s->self;
	s->opened = true;
	e = s->source->open ? s->source->open(s->self, &env, err) : 0;
	if (e)
		return e;
	plan->samples = s->source->count(s->self);
	s->source->fields(s->self, &plan->in);
	for (int i = 0; i < plan->in.n; i++)
		plan->in.item[i].id = i;
	return 0;
}

static int open_op(struct mr_pipeline *p, int i, struct mr_err *err)
{
	struct mr_stage *s = &p->stage[i];

	s->opened = true;
	if (s->op->open && s->op->open(s->self, err))
		return mr_pipeline_point(p, i, err);
	return 0;
}

/* The field that stage i works on: the one named, or the first that fits. */
static int choose_field(struct mr_pipeline *p, int i,
			const struct mr_fields *fs, struct mr_spec *out,
			struct mr_err *err)
{
	struct mr_stage *s = &p->stage[i];
	struct mr_err other;
	bool found = false;

	for (int f = 0; f < fs->n; f++) {
		if (s->field && strcmp(s->field, fs->item[f].name) != 0)
			continue;
		if (s->op->infer(s->self, &fs->item[f].spec, out,
				 found ? &other : err) == 0)
			return f;
		found = true;
	}
	if (!found)
		mr_err_set(err, MR_ETYPE, "%s: there is no field '%s' here",
			   s->name, s->field ? s->field : "");
	return mr_pipeline_point(p, i, err);
}

/* The next step, by stage i, which turns field f into `out`. */
static int add_step(struct mr_plan *plan, int i, struct mr_field_spec *f,
		    const struct mr_spec *out, struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	struct mr_stage *s = &p->stage[i];
	struct mr_step *st = &plan->step[plan->steps];
	struct mr_tensor t = mr_tensor_of(out);
	int64_t elements;

	*st = (struct mr_step){
		.op = s->op,
		.self = s->self,
		.stage = i,
		.stream = (uint64_t)(i + plan->base - (plan->cache > 0) -
				     (plan->part.stage > 0)),
		.field = f->id,
		.in = f->spec,
		.out = *out,
		.fixed = mr_spec_fixed(out),
		.out_field = -1,
	};
	if (!mr_shape_elements(t.shape, t.ndim, t.dtype, &elements)) {
		mr_err_set(err, MR_ELIMIT, "%s: its output is too large",
			   s->name);
		return mr_pipeline_point(p, i, err);
	}
	st->bytes = st->fixed ? mr_tensor_bytes(&t) : 0;
	f->spec = *out;
	f->rated |= (s->op->flags & MR_OP_RATE) != 0;
	plan->steps++;
	return 0;
}

static int plan_step(struct mr_plan *plan, int i, struct mr_fields *fs,
		     struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	struct mr_stage *s = &p->stage[i];
	struct mr_spec out = { 0 };
	int f = choose_field(p, i, fs, &out, err), e;

	if (f < 0)
		return f;
	e = add_step(plan, i, &fs->item[f], &out, err);
	if (e)
		return e;
	if (s->op->gives && !strcmp(fs->item[f].name, "data"))
		snprintf(fs->item[f].name, sizeof(fs->item[f].name), "%s",
			 s->op->gives);
	return 0;
}

/* Several fields become one, in the place and under the id of the first. */
static int plan_merge(struct mr_plan *plan, int i, struct mr_fields *fs,
		      struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	struct mr_stage *s = &p->stage[i];
	struct mr_step *st = &plan->step[plan->steps];
	struct mr_inputs c = { 0 };
	bool gone[MR_MAX_FIELDS] = { 0 };
	struct mr_fields left = { 0 };
	int e;

	if (s->op->choose(s->self, fs, &c, err))
		return mr_pipeline_point(p, i, err);
	e = add_step(plan, i, &fs->item[c.at[0]], &c.out, err);
	if (e)
		return e;
	if (c.name[0])
		memcpy(fs->item[c.at[0]].name, c.name, sizeof(c.name));
	st->inputs = c.n;
	for (int k = 0; k < c.n; k++) {
		st->input[k] = fs->item[c.at[k]].id;
		gone[c.at[k]] = k > 0;
	}
	for (int k = 0; k < fs->n; k++)
		if (!gone[k])
			left.item[left.n++] = fs->item[k];
	*fs = left;
	return 0;
}

/* The steps after draw the random numbers that they would draw without. */
static int plan_cache(struct mr_plan *plan, int i)
{
	const struct mr_cache_params *c = plan->pipeline->stage[i].self;

	plan->cache = i;
	plan->cache_at = plan->steps;
	plan->cache_ram = c->ram;
	return 0;
}

/* Does anything after the cache use a field? */
static bool used_after_cache(const struct mr_plan *plan, int id)
{
	for (int k = plan->cache_at; k < plan->steps; k++) {
		const struct mr_step *st = &plan->step[k];

		if (st->field == id)
			return true;
		for (int i = 0; i < st->inputs; i++)
			if (st->input[i] == id)
				return true;
	}
	for (int i = 0; i < plan->outs; i++)
		if (plan->out[i].id == id)
			return true;
	return false;
}

/* The output fields, by id, that no step from `at` on changes any more. */
static void finished(const struct mr_plan *plan, int at, int out[MR_MAX_FIELDS])
{
	for (int i = 0; i < MR_MAX_FIELDS; i++)
		out[i] = -1;
	for (int i = 0; i < plan->outs; i++)
		out[plan->out[i].id] = i;
	for (int k = at; k < plan->steps; k++)
		out[plan->step[k].field] = -1;
}

/* What the cache keeps, now that it is known who needs it. */
static void plan_cached(struct mr_plan *plan)
{
	const struct mr_fields *fs = &plan->visible[plan->cache];

	for (int i = 0; i < fs->n; i++)
		if (used_after_cache(plan, fs->item[i].id))
			plan->cached.item[plan->cached.n++] = fs->item[i];
	finished(plan, plan->cache_at, plan->cached_out);
}

/* All fields become one, which has the first one's id from then on. */
static int plan_pack(struct mr_plan *plan, int i, struct mr_fields *fs,
		     struct mr_err *err)
{
	struct mr_stage *s = &plan->pipeline->stage[i];
	struct mr_field_spec one = {
		.name = "record",
		.spec = { .dtype = MR_U8, .ndim = 1, .shape = { MR_ANY } },
		.id = fs->item[0].id,
	};

	(void)err;
	plan->packed = *fs;
	plan->step[plan->steps++] = (struct mr_step){
		.op = s->op,
		.self = s->self,
		.stage = i,
		.field = one.id,
		.in = fs->item[0].spec,
		.out = one.spec,
		.out_field = -1,
	};
	fs->n = 1;
	fs->item[0] = one;
	return 0;
}

static int plan_batch(struct mr_plan *plan, int i, struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	char *end;

	for (int k = i + 1; k < p->n; k++) {
		if (p->stage[k].op->batch)
			continue;
		mr_err_set(err, MR_EPARSE,
			   "'%s' comes after batch; it works on samples and "
			   "must come before",
			   p->stage[k].name);
		return mr_pipeline_point(p, k, err);
	}
	plan->batched = true;
	plan->batch = *(struct mr_batch_params *)p->stage[i].self;
	plan->pad = plan->batch.pad[0] != 0;
	plan->pad_value = strtod(plan->batch.pad, &end);
	if (*end) {
		mr_err_set(err, MR_EINVAL, "batch: pad=%s: want a number",
			   plan->batch.pad);
		return mr_pipeline_point(p, i, err);
	}
	return 0;
}

/* The fields that a step after `batch` adds to fs. */
static int add_fields(struct mr_after *a, struct mr_fields *fs,
		      struct mr_err *err)
{
	struct mr_field_spec more[MR_BATCH_MORE];

	memcpy(more, a->op->batch->more, sizeof(more));
	if (a->op->batch->types)
		a->op->batch->types(a->self, more);
	a->first = fs->n;
	for (; a->more < MR_BATCH_MORE && more[a->more].name[0]; a->more++) {
		const char *name = more[a->more].name;

		if (fs->n == MR_MAX_FIELDS)
			return mr_err_set(err, MR_ELIMIT,
					  "%s adds a field '%s' to %d, which "
					  "are the most; select fewer before",
					  a->op->name, name, fs->n);
		for (int i = 0; i < fs->n; i++)
			if (!strcmp(fs->item[i].name, name))
				return mr_err_set(err, MR_ETYPE,
						  "%s adds a field '%s', and "
						  "there is one already; leave "
						  "it out with select",
						  a->op->name, name);
		fs->item[fs->n++] = more[a->more];
	}
	return 0;
}

static int plan_after(struct mr_plan *plan, int i, struct mr_fields *fs,
		      struct mr_err *err)
{
	struct mr_pipeline *p = plan->pipeline;
	struct mr_after *a = &plan->after[plan->afters];
	struct mr_spec out = { 0 };
	int f, e = 0;

	if (!plan->batched)
		e = mr_err_set(err, MR_EPARSE,
			       "'%s' works on batches: it comes after `batch "
			       "N`",
			       p->stage[i].name);
	else if (plan->afters == MR_MAX_AFTER)
		e = mr_err_set(err, MR_ELIMIT, "more than %d steps after batch",
			       MR_MAX_AFTER);
	if (e)
		return mr_pipeline_point(p, i, err);
	f = choose_field(p, i, fs, &out, err);
	if (f < 0)
		return f;
	fs->item[f].spec = out;
	*a = (struct mr_after){ .op = p->stage[i].op,
				.self = p->stage[i].self,
				.stage = i,
				.field = f };
	e = add_fields(a, fs, err);
	if (e)
		return mr_pipeline_point(p, i, err);
	plan->afters++;
	return 0;
}

bool mr_plan_remade(const struct mr_plan *plan, int i)
{
	for (int k = 0; k < plan->afters; k++)
		if (plan->after[k].field == i || i >= plan->after[k].first)
			return true;
	return false;
}

/* Buffers of a batch: those of its collated fields, then those of the steps
 * after it. */
static void plan_buffers(struct mr_plan *plan)
{
	plan->bufs = plan->outs;
	for (int k = 0; k < plan->afters; k++) {
		plan->after[k].buf = plan->bufs;
		plan->bufs += 1 + plan->after[k].more;
	}
	assert(plan->bufs <= MR_MAX_BUFS);
}

/* The output fields, and who writes each: the last step of its field, or
 * the source itself. */
static int plan_outputs(struct mr_plan *plan, const struct mr_fields *fs,
			struct mr_err *err)
{
	int64_t rows = plan->batch.count;

	for (int i = 0; i < fs->n; i++) {
		struct mr_out_field *o = &plan->out[i];
		struct mr_tensor t = mr_tensor_of(&fs->item[i].spec);
		int64_t elements;

		memcpy(o->name, fs->item[i].name, sizeof(o->name));
		o->spec = fs->item[i].spec;
		o->id = fs->item[i].id;
		o->dense = mr_spec_fixed(&o->spec);
		o->row_bytes = o->dense ? mr_tensor_bytes(&t) : 0;
		o->ragged = o->dense ? -1 : plan->ragged++;
		if (o->spec.ndim == MR_MAX_DIMS && (o->dense || plan->pad))
			return mr_err_set(err, MR_ELIMIT,
					  "field '%s' has %d dimensions; with "
					  "the batch's there would be one too "
					  "many",
					  o->name, MR_MAX_DIMS);
		if (!mr_shape_elements(t.shape, t.ndim, t.dtype, &elements) ||
		    elements > (INT64_MAX >> 8) / rows)
			return mr_err_set(err, MR_ELIMIT,
					  "field '%s': a batch of it would be "
					  "too large",
					  o->name);
		plan->batch_bytes += o->row_bytes * (size_t)rows;
		for (int k = plan->steps - 1; k >= 0 && !o->placed; k--) {
			if (plan->step[k].field == o->id) {
				plan->step[k].out_field = i;
				o->placed = true;
			}
		}
		if (!o->placed)
			plan->in_out[o->id] = i;
	}
	plan->outs = fs->n;
	return 0;
}

/* The last step of the field that the record begins with writes it there. */
static void plan_beginning(struct mr_plan *plan)
{
	struct mr_step *pack = &plan->step[plan->steps - 1];

	for (int k = plan->steps - 2; k >= 0; k--) {
		struct mr_step *st = &plan->step[k];

		if (st->field != pack->field)
			continue;
		st->out_field = pack->out_field;
		st->begins = pack->begun = true;
		return;
	}
}

/* Steps from k on that one pass may take. What the cache keeps must be there,
 * and so must what a prepared set gives: no pass reaches across them. */
static int reach(const struct mr_plan *plan, int k)
{
	int end = plan->steps;

	if (k < plan->cache_at)
		end = plan->cache_at;
	if (k < plan->part.at && plan->part.at < end)
		end = plan->part.at;
	return end - k;
}

/* MILLRACE_NO_JOIN: each step alone, to compare with. */
static void join_steps(struct mr_plan *plan)
{
	bool alone = getenv("MILLRACE_NO_JOIN") != NULL;

	for (int k = 0; k < plan->steps; k++) {
		struct mr_step *st = &plan->step[k];
		int n = reach(plan, k);

		st->joined = mr_join_count(st, alone ? 1 : n);
		if (!st->joined && !alone)
			st->joined = mr_strips_count(st, n);
		if (st->joined)
			k += st->joined - 1;
	}
}

/* What a prepared set has left to be done, and where random numbers stand. */
static int plan_deferred(struct mr_plan *plan, struct mr_pipeline *p,
			 struct mr_err *err)
{
	const char *deferred = NULL;
	int stages, n = p->n, front = mr_pipeline_front(p), e = 0;

	if (!plan->source->stands_for)
		return 0;
	stages = plan->source->stands_for(plan->source_self, &deferred);
	if (deferred)
		e = mr_pipeline_insert(p, deferred, err);
	n = p->n - n;
	for (int i = front; i < front + n && !e; i++)
		e = open_op(p, i, err);
	if (e)
		return e;
	plan->base = stages - 1 - n;
	return 0;
}

int mr_plan_make(struct mr_plan *plan, struct mr_pipeline *p, int threads,
		 struct mr_err *err)
{
	return mr_plan_make_edited(plan, p, threads, NULL, err);
}

int mr_plan_make_edited(struct mr_plan *plan, struct mr_pipeline *p,
			int threads, const struct mr_edit *edit,
			struct mr_err *err)
{
	struct mr_fields fs, collated;
	int e;

	*plan = (struct mr_plan){ .pipeline = p, .batch.count = 1 };
	for (int i = 0; i < MR_MAX_FIELDS; i++)
		plan->in_out[i] = -1;
	/* Wrong parameters are found before a long listing, not after. */
	for (int i = 1; i < p->n; i++) {
		e = open_op(p, i, err);
		if (e)
			return e;
	}
	e = open_source(plan, p, threads, err);
	if (e)
		return e;
	e = plan_deferred(plan, p, err);
	if (!e && edit)
		e = edit->apply(edit, p, err);
	if (e)
		return e;
	fs = plan->in;
	plan->visible[0] = collated = fs;
	for (int i = 1; i < p->n; i++) {
		const struct mr_op *op = p->stage[i].op;

		if (op == &mr_op_batch)
			e = plan_batch(plan, i, err);
		else if (op == &mr_op_cache)
			e = plan_cache(plan, i);
		else if (op == &mr_op_stored)
			e = mr_part_plan(plan, i, &fs, threads, err);
		else if (op->batch)
			e = plan_after(plan, i, &fs, err);
		else if (op->pack)
			e = plan_pack(plan, i, &fs, err);
		else if (op->choose)
			e = plan_merge(plan, i, &fs, err);
		else if (op->fields)
			e = op->fields(p->stage[i].self, &fs, err) ?
				    mr_pipeline_point(p, i, err) :
				    0;
		else
			e = plan_step(plan, i, &fs, err);
		if (e)
			return e;
		plan->visible[i] = fs;
		if (!plan->afters)
			collated = fs;
	}
	join_steps(plan);
	plan->show = fs;
	e = plan_outputs(plan, &collated, err);
	if (!e && edit && edit->begins)
		plan_beginning(plan);
	if (plan->cache)
		plan_cached(plan);
	if (plan->part.samples)
		finished(plan, plan->part.at, plan->part.out);
	plan_buffers(plan);
	return e;
}
