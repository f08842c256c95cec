/* SPDX-License-Identifier: Apache-2.0 */
/* What the plan of a pipeline is, for people and as JSON. */
#include <stdio.h>
#include <sys/stat.h>

#include "cache/ram.h"
#include "core/json.h"
#include "core/str.h"
#include "pipe/loader.h"

enum { PROBES = 64 };

static const struct mr_step *step_of(const struct mr_plan *p, int stage)
{
	for (int i = 0; i < p->steps; i++)
		if (p->step[i].stage == stage)
			return &p->step[i];
	return NULL;
}

/* The stages that run as one pass with this one; false: it runs alone. */
static bool joined(const struct mr_plan *p, int stage, int *first, int *last)
{
	for (int i = 0; i < p->steps; i++) {
		const struct mr_step *st = &p->step[i];

		if (st->joined < 2)
			continue;
		*first = st->stage;
		*last = st[st->joined - 1].stage;
		if (*first <= stage && stage <= *last)
			return true;
	}
	return false;
}

/* Where a stage's result goes, in words. */
static const char *place(const struct mr_loader *l, int stage)
{
	const struct mr_plan *p = &l->plan;
	const struct mr_step *st = step_of(p, stage);
	const struct mr_out_field *o;
	int out = stage == 0 ? p->in_out[0] : st ? st->out_field : -1;
	int first, last;

	if (stage > 0 && !st)
		return p->pipeline->stage[stage].op == &mr_op_batch ?
			       "collated by the workers" :
		       stage == p->cache ? "kept in memory" :
		       stage == p->part.stage ?
					   "from a prepared set" :
		       p->pipeline->stage[stage].op->batch ?
					   "by the worker that ends the batch" :
					   "no work";
	if (joined(p, stage, &first, &last) && stage < last)
		return "joined with the next step";
	if (out < 0)
		return "in the worker's cache";
	o = &p->out[out];
	if (!o->dense && p->pad)
		return "into the batch, then padded";
	return "straight into the batch";
}

/* Bytes that a source says its samples have, by some of them; 0: unknown. */
static double mean_length(const struct mr_plan *p)
{
	uint64_t n = p->samples < PROBES ? p->samples : PROBES;
	double sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = p->samples / n * i + p->samples % n * i / n;
		struct mr_extent x = { 0 };
		struct mr_err err;
		char path[4096];
		struct stat st;

		if (!p->source->locate ||
		    p->source->locate(p->source_self, at, path, sizeof(path),
				      &x, &err))
			return 0;
		if (x.length != MR_TO_END)
			sum += (double)x.length;
		else if (!stat(x.path, &st))
			sum += (double)st.st_size;
	}
	return n ? sum / (double)n : 0;
}

/* Samples that the cache will hold; 0: not known before it is filled. */
static uint64_t cache_fits(const struct mr_plan *p, bool *about)
{
	double bytes = (double)mr_ram_sample(&p->cached), n;

	*about = bytes == 0;
	if (*about && !p->cache_at)
		bytes = mean_length(p);
	if (bytes == 0)
		return 0;
	n = (double)p->cache_ram / bytes;
	return n < (double)p->samples ? (uint64_t)n : p->samples;
}

static void cache_text(const struct mr_plan *p, struct mr_str *out)
{
	bool about;
	uint64_t fits = cache_fits(p, &about);
	char n[32], all[32];

	if (fits)
		mr_str_addf(out, ": %s%s of %s samples fit",
			    about ? "about " : "", mr_str_count(n, fits),
			    mr_str_count(all, p->samples));
	else
		mr_str_add(out, ": as many as fit, whose sizes differ");
}

/* After `batch`, fields have the batch's dimension in front. */
static void batch_text(const struct mr_plan *p, struct mr_str *out)
{
	for (int i = 0; i < p->outs; i++) {
		struct mr_spec s = p->out[i].spec;
		char spec[128];

		if (p->out[i].dense || p->pad) {
			memmove(s.shape + 1, s.shape,
				sizeof(s.shape) - sizeof(s.shape[0]));
			s.shape[0] = p->batch.count;
			s.ndim++;
		}
		mr_spec_text(&s, spec, sizeof(spec));
		mr_str_addf(out, "%s%s %s%s", i ? ", " : "", p->out[i].name,
			    spec,
			    p->out[i].dense || p->pad ? "" : " with offsets");
	}
}

/* After a step on batches: its fields have rows of their own number. */
static void after_text(const struct mr_plan *p, int stage, struct mr_str *out)
{
	const struct mr_fields *fs = &p->visible[stage];

	for (int i = 0; i < fs->n; i++) {
		struct mr_spec s = fs->item[i].spec;
		bool rows = mr_plan_remade(p, i);
		char spec[128];

		if (rows || mr_spec_fixed(&s) || p->pad) {
			memmove(s.shape + 1, s.shape,
				sizeof(s.shape) - sizeof(s.shape[0]));
			s.shape[0] = rows ? MR_ANY : p->batch.count;
			s.ndim++;
		}
		mr_spec_text(&s, spec, sizeof(spec));
		mr_str_addf(out, "%s%s %s", i ? ", " : "", fs->item[i].name,
			    spec);
	}
}

static void stage_text(const struct mr_loader *l, int i, struct mr_str *out)
{
	const struct mr_stage *s = &l->pipeline->stage[i];
	struct mr_str name = { 0 }, fields = { 0 };
	char n[32], all[32];
	int first, last;

	mr_stage_text(s, &name);
	if (s->op == &mr_op_batch)
		batch_text(&l->plan, &fields);
	else if (s->op && s->op->batch)
		after_text(&l->plan, i, &fields);
	else
		mr_fields_text(&l->plan.visible[i], &fields);
	mr_str_addf(out, "%2d  %s\n      -> %s; %s%s", i + 1,
		    name.text ? name.text : s->name,
		    fields.text ? fields.text : "", place(l, i),
		    s->op && s->op->flags & MR_OP_RANDOM ?
			    "; random, new in each epoch" :
			    "");
	if (i && i == l->plan.cache)
		cache_text(&l->plan, out);
	if (i && i == l->plan.part.stage)
		mr_str_addf(out, ": %s%s of %s samples",
			    l->plan.part.record ? "" : "the first ",
			    mr_str_count(n, l->plan.part.samples),
			    mr_str_count(all, l->plan.samples));
	if (joined(&l->plan, i, &first, &last) && i == last)
		mr_str_addf(out, "; steps %d to %d are one pass", first + 1,
			    last + 1);
	if (s->deferred)
		mr_str_add(out, "; left to be done by prepare, which stored "
				"less that way");
	mr_str_add(out, "\n");
	mr_str_fini_into(&name, out);
	mr_str_fini_into(&fields, out);
}

static char *as_text(const struct mr_loader *l)
{
	struct mr_str s = { 0 };
	char a[32], b[32], c[32];

	for (int i = 0; i < l->pipeline->n; i++)
		stage_text(l, i, &s);
	mr_str_addf(&s, "\n%s sample%s; per epoch%s %s in %s batch%s\n",
		    mr_str_count(a, l->plan.samples),
		    l->plan.samples == 1 ? "" : "s",
		    l->opt.ranks > 1 ? " on this rank" : "",
		    mr_str_count(b, l->epoch_samples),
		    mr_str_count(c, l->epoch_batches),
		    l->epoch_batches == 1 ? "" : "es");
	mr_str_addf(&s,
		    "%d threads; ring of %u batches%s%s; memory budget %s\n",
		    l->threads, l->ring, l->plan.batch_bytes ? " of " : "",
		    l->plan.batch_bytes ?
			    mr_str_size(a, (double)l->plan.batch_bytes) :
			    "",
		    mr_str_size(b, (double)l->opt.memory));
	if (l->ring < l->wanted_ring)
		mr_str_addf(&s,
			    "the memory budget holds %u batches; %u would "
			    "keep all threads busy\n",
			    l->ring, l->wanted_ring);
	return mr_str_take(&s);
}

static void json_stage(struct mr_json *j, const struct mr_loader *l, int i)
{
	const struct mr_stage *s = &l->pipeline->stage[i];
	bool random = s->op && s->op->flags & MR_OP_RANDOM;
	struct mr_str text = { 0 };
	int first, last;

	mr_stage_text(s, &text);
	mr_json_open(j, NULL, '{');
	mr_json_text(j, "name", s->name);
	mr_json_text(j, "text", text.text ? text.text : s->name);
	mr_fields_json(&l->plan.visible[i], j);
	mr_json_bool(j, "random", random);
	mr_json_bool(j, "deferred", s->deferred);
	mr_json_text(j, "output", place(l, i));
	if (joined(&l->plan, i, &first, &last)) {
		mr_json_open(j, "joined", '[');
		mr_json_int(j, NULL, first);
		mr_json_int(j, NULL, last);
		mr_json_close(j, ']');
	}
	if (i && i == l->plan.part.stage)
		mr_json_uint(j, "stored", l->plan.part.samples);
	if (i && i == l->plan.cache) {
		bool about;
		uint64_t fits = cache_fits(&l->plan, &about);

		mr_json_open(j, "cache", '{');
		mr_json_uint(j, "ram", l->plan.cache_ram);
		mr_json_uint(j, "fits", fits);
		mr_json_bool(j, "about", about);
		mr_json_close(j, '}');
	}
	mr_json_close(j, '}');
	mr_str_fini_into(&text, &j->out);
}

static char *as_json(const struct mr_loader *l)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "pipeline", l->pipeline->text);
	mr_json_open(&j, "steps", '[');
	for (int i = 0; i < l->pipeline->n; i++)
		json_stage(&j, l, i);
	mr_json_close(&j, ']');
	mr_json_uint(&j, "samples", l->plan.samples);
	mr_json_uint(&j, "epoch_samples", l->epoch_samples);
	mr_json_uint(&j, "epoch_batches", l->epoch_batches);
	mr_json_int(&j, "threads", l->threads);
	mr_json_int(&j, "ring", l->ring);
	mr_json_int(&j, "ring_wanted", l->wanted_ring);
	mr_json_uint(&j, "batch_bytes", l->plan.batch_bytes);
	mr_json_uint(&j, "memory", l->opt.memory);
	mr_json_close(&j, '}');
	return mr_str_take(&j.out);
}

int mr_explain(const char *pipeline, const struct mr_options *opt, bool json,
	       char **text, struct mr_err *err)
{
	struct mr_options o;
	struct mr_loader *l;
	int e;

	mr_options_init(&o);
	if (opt && opt->size == sizeof(o)) {
		o = *opt;
		o.cold = false; /* nothing is read: nothing to evict for */
		opt = &o;
	}
	e = mr_loader_open_with(&l, pipeline, opt, err);
	*text = NULL;
	if (e)
		return e;
	*text = json ? as_json(l) : as_text(l);
	mr_loader_close(l);
	return *text ? 0 : mr_err_set(err, MR_ENOMEM, "out of memory");
}
