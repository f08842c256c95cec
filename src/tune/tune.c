/* SPDX-License-Identifier: Apache-2.0 */
/* mr_tune(): a pipeline and a goal in, the best strategy out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/param.h"
#include "diagnose/accelerator.h"
#include "io/shape.h"
#include "pipe/loader.h"
#include "pipe/outdir.h"
#include "store/writer.h"
#include "tune/tuner.h"

/* Seconds that it takes at a scale of 1, about; and at most. */
#define USUAL 50.0
#define MOST  600.0

void mr_tune_options_init(struct mr_tune_options *o)
{
	*o = (struct mr_tune_options){ .size = sizeof(*o),
				       .weights = "",
				       .epochs = 30,
				       .max_memory = "",
				       .accelerator = "",
				       .precision = 0.05,
				       .repeats = 5,
				       .scratch = "",
				       .out = "DIR" };
	mr_options_init(&o->loader);
}

void mr_tuned_free(struct mr_tuned *t)
{
	free(t->text);
	free(t->json);
	free(t->pipeline);
	free(t->options);
	free(t->run);
	free(t->prepare);
	*t = (struct mr_tuned){ 0 };
}

int mr_tuner_storing(int on_error)
{
	return on_error == MR_ON_ERROR_REPLACE ? MR_ON_ERROR_SKIP : on_error;
}

/* ---- what is wanted ---- */

static int set_goal(struct mr_tuning *t, const struct mr_tune_options *o,
		    struct mr_err *err)
{
	struct mr_tune_goal *g = &t->goal;
	double *w = g->weight;
	const char *name;
	char end;

	*g = (struct mr_tune_goal){
		.epochs = o->epochs > 0 ? (double)o->epochs : 1,
		.max_storage = (double)o->max_storage,
		.max_prepare = o->max_prepare,
		.price_hour = o->price_hour,
		.price_gb = o->price_gb,
	};
	if (*o->accelerator &&
	    mr_accelerator_parse(o->accelerator, &g->accelerator, &name, err))
		return MR_EINVAL;
	if (g->price_gb > 0 && !(g->price_hour > 0))
		return mr_err_set(err, MR_EINVAL,
				  "price-gb alone: where time costs nothing, "
				  "storing nothing is the cheapest; give "
				  "price-hour, too");
	t->precision = o->precision;
	if (!(t->precision >= 0.005 && t->precision <= 0.5))
		return mr_err_set(err, MR_EINVAL,
				  "precision %g: want 0.005 to 0.5",
				  o->precision);
	if (!*o->weights)
		return 0;
	g->weighted = true;
	if (sscanf(o->weights, "%lf,%lf,%lf%c", &w[0], &w[1], &w[2], &end) !=
		    3 ||
	    !(w[0] >= 0) || !(w[1] >= 0) || !(w[2] >= 0) ||
	    !(w[0] + w[1] + w[2] > 0) || !(w[0] + w[1] + w[2] < 1e9))
		return mr_err_set(err, MR_EINVAL,
				  "weights '%s': want three numbers from 0 on, "
				  "of preparation's time, storage and "
				  "throughput, such as 0,0.2,1",
				  o->weights);
	return 0;
}

/* Memory for caches: known when the samples' size is. */
static int set_memory(struct mr_tuning *t, const struct mr_tune_options *o,
		      struct mr_err *err)
{
	double all = t->split[0].plain * (double)t->samples;
	double given = (double)o->loader.memory, most = given / 2;
	const char *text = o->max_memory;
	char want[32], have[32];
	int e;

	t->memory = (double)mr_machine_memory() / 2;
	if (given > 0 && t->memory > most)
		t->memory = most;
	if (!*text)
		return 0;
	e = mr_model_cache("max-memory", text, all, &t->memory, err);
	t->goal.max_memory = t->memory;
	if (e || !(given > 0) || t->memory <= most)
		return e;
	return mr_err_set(err, MR_EINVAL,
			  "max-memory '%s' is %s: want at most half of "
			  "--memory, which is %s for caches and buffers",
			  text, mr_str_size(want, t->memory),
			  mr_str_size(have, given));
}

/* Caches leave to the batches what these take: with fewer in work, workers wait
 * for one another, and with one there is no loader. */
static void leave_for_batches(struct mr_tuning *t,
			      const struct mr_tune_options *o)
{
	double left = (double)o->loader.memory - t->batches;
	char size[32];

	if (!o->loader.memory || t->memory <= left)
		return;
	t->memory = left > 0 ? left : 0;
	if (*o->max_memory)
		mr_str_addf(&t->notes,
			    "--max-memory %s: %s of it are left for caches "
			    "beside the batches that --memory has to hold\n",
			    o->max_memory, mr_str_size(size, t->memory));
}

/* Of the options named, those that are not as they are by default, as a
 * command's. */
static void add_given(struct mr_str *out, const struct mr_options *o,
		      const char *const *names)
{
	const struct mr_param *p = mr_option_params();
	struct mr_options usual;

	mr_options_init(&usual);
	for (; p->name; p++) {
		struct mr_str is = { 0 }, was = { 0 };
		bool named = false;

		for (int i = 0; names[i]; i++)
			named |= !strcmp(names[i], p->name);
		if (!named)
			continue;
		mr_param_text(p, o, &is);
		mr_param_text(p, &usual, &was);
		if (is.text && was.text && strcmp(is.text, was.text) != 0) {
			mr_str_add(out, " --");
			for (const char *c = p->name; *c; c++)
				mr_str_addn(out, *c == '_' ? "-" : c, 1);
			mr_str_add(out, " ");
			mr_str_add_shell(out, is.text);
		}
		mr_str_fini_into(&was, out);
		mr_str_fini_into(&is, out);
	}
}

/* Options that change the batches, or without which there are none. */
static int keep_options(struct mr_tuning *t, const struct mr_options *o,
			struct mr_err *err)
{
	static const char *const job[] = { "seed",  "memory",  "on_error",
					   "fetch", "plugins", NULL },
				 *const store[] = { "memory", "on_error",
						    "plugins", NULL };
	struct mr_options storing = *o;

	storing.on_error = mr_tuner_storing(o->on_error);
	add_given(&t->job_also, o, job);
	add_given(&t->store_also, &storing, store);
	if (o->ranks > 1)
		mr_str_addf(&t->job_also, " --rank %lld/%lld",
			    (long long)o->rank, (long long)o->ranks);
	return t->job_also.failed || t->store_also.failed ?
		       mr_err_nomem(err, 1) :
		       0;
}

static int set_storage(struct mr_tuning *t, const char *text,
		       struct mr_err *err)
{
	struct mr_profile p;
	int e;

	if (!*text)
		return 0;
	e = mr_profile_parse(&p, text, err);
	if (e)
		return e;
	if (p.cache)
		return mr_err_set(err, MR_EINVAL,
				  "storage '%s': leave cache= out; the page "
				  "cache is one of the strategies, by "
				  "--max-memory",
				  text);
	snprintf(t->profile, sizeof(t->profile), "%s", text);
	t->limits = (struct mr_storage_limits){ (double)p.bw, (double)p.stream,
						p.latency, p.iops };
	return 0;
}

/* ---- what came out ---- */

static void add_notes(struct mr_tuning *t, const struct mr_tuner *u)
{
	char n[32], all[32];

	if (t->sampled < t->samples)
		mr_str_addf(&t->notes,
			    t->order == MR_ORDER_SHUFFLE ?
				    "measured on %s of the %s samples, chosen "
				    "at random\n" :
				    "measured on the first %s of the %s "
				    "samples\n",
			    mr_str_count(n, t->sampled),
			    mr_str_count(all, t->samples));
	if (t->splits == 2 && t->stages > 1)
		mr_str_addf(&t->notes,
			    "the first step is random: only the samples as "
			    "they are read can be stored\n");
	if (!*t->profile && !u->local && !u->remote)
		mr_str_add(&t->notes,
			   "the source has no files: reading it is free here; "
			   "--storage imitates one\n");
	if (t->best >= 0 && t->strategy[t->best].order != t->order)
		mr_str_add(&t->notes,
			   "block order mixes samples within groups of eight "
			   "blocks, not over the whole set, and reads "
			   "neighbours by one request; --keep-order leaves it "
			   "out\n");
}

/* What to type, to have what was promised. */
static int fill_commands(const struct mr_tuner *u, const struct mr_strategy *s,
			 struct mr_tuned *out, struct mr_err *err)
{
	struct mr_str options = { 0 }, run = { 0 }, prepare = { 0 };

	mr_strategy_options(u->t, s, &options);
	mr_strategy_run(u->t, s, u->o->out, &run);
	mr_strategy_prepare(u->t, s, u->o->out, &prepare);
	out->options = mr_str_take(&options);
	out->run = mr_str_take(&run);
	out->prepare = mr_str_take(&prepare);
	return out->options && out->run && (out->prepare || !out->stores) ?
		       0 :
		       mr_err_nomem(err, 1);
}

static int fill_out(const struct mr_tuner *u, struct mr_tuned *out,
		    struct mr_err *err)
{
	const struct mr_tuning *t = u->t;
	const struct mr_strategy *s;

	out->text = mr_tuning_text(t, u->o->out);
	out->json = mr_tuning_json(t, u->o->out);
	if (!out->text || !out->json)
		return mr_err_nomem(err, 1);
	if (t->best < 0)
		return 0;
	s = &t->strategy[t->best];
	out->found = true;
	out->pipeline = mr_strategy_text(t, s, u->o->out, 0, 0);
	out->loader = u->o->loader;
	out->loader.threads = s->threads;
	out->loader.order = s->order;
	if (s->order == MR_ORDER_BLOCK)
		out->loader.block = mr_tuning_block(t, s, t->samples);
	out->stores = s->added > 0;
	mr_strategy_store(t, s, out->until, &out->store);
	out->store.out = u->o->out;
	out->store.loader.threads = u->o->loader.threads;
	out->store.loader.memory = u->o->loader.memory;
	out->store.loader.plugins = u->o->loader.plugins;
	out->store.loader.on_error = mr_tuner_storing(u->o->loader.on_error);
	return out->pipeline ? fill_commands(u, s, out, err) :
			       mr_err_nomem(err, 1);
}

/* A set that is going to be made: refused now, not after the measuring; and it
 * has to fit. */
static int check_out(struct mr_tuner *u, struct mr_err *err)
{
	uint64_t free_there = UINT64_MAX;
	int e;

	if (!u->o->applies)
		return 0;
	e = mr_writer_check(u->o->out, NULL, err);
	if (!e)
		e = mr_outdir_room(u->o->out, 0, &free_there, err);
	if (!e)
		u->t->goal.room = free_there ? (double)free_there : 1;
	return e;
}

static int tune(struct mr_tuner *u, const char *pipeline, struct mr_err *err)
{
	struct mr_tuning *t = u->t;
	int e = set_goal(t, u->o, err);

	/* Its share is known later; that it is one, now. */
	if (!e)
		e = set_memory(t, u->o, err);
	if (!e)
		e = set_storage(
			t, u->o->loader.storage ? u->o->loader.storage : "",
			err);
	if (!e)
		e = keep_options(t, &u->o->loader, err);
	if (!e)
		e = check_out(u, err);
	if (!e)
		e = mr_scratch_make(&u->scratch, u->o->scratch, err);
	if (!e)
		e = mr_tuner_look(u, pipeline, err);
	if (!e)
		e = set_memory(t, u->o, err);
	if (!e)
		e = mr_tuner_choose(u, err);
	if (!e)
		leave_for_batches(t, u->o);
	if (!e)
		e = mr_tuner_profile(u, err);
	if (!e)
		e = mr_tuning_list(t, err);
	if (!e)
		e = mr_tuner_prove(u, err);
	t->seconds = mr_tuner_seconds(u);
	mr_scratch_remove(&u->scratch);
	if (!e)
		add_notes(t, u);
	return e;
}

/* An option of loaders that means nothing here, and was given all the same:
 * why. */
static const char *stray_option(const struct mr_options *o)
{
	if (o->samples)
		return "--samples: how many are looked at follows from "
		       "--precision";
	if (o->subset)
		return "--subset: which samples are looked at follows from "
		       "--precision";
	if (o->cold)
		return "--cold: what is read from the storage is cold anyway";
	return o->trace && *o->trace ?
		       "--trace: many runs of parts are not one; trace a run "
		       "of what comes out of it" :
		       NULL;
}

static int check_options(const struct mr_tune_options *o, struct mr_err *err)
{
	const char *stray = stray_option(&o->loader);

	if (o->size != sizeof(*o))
		return mr_err_set(err, MR_EINVAL,
				  "options of another version of the header; "
				  "call mr_tune_options_init()");
	if (stray)
		return mr_err_set(err, MR_EINVAL, "%s; leave it out", stray);
	if (o->loader.ranks < 1 || o->loader.rank < 0 ||
	    o->loader.rank >= o->loader.ranks)
		return mr_err_set(
			err, MR_EINVAL, "rank %lld of %lld: ranks count from 0",
			(long long)o->loader.rank, (long long)o->loader.ranks);
	if (o->repeats < 1 || o->repeats > MR_TUNE_REPEATS)
		return mr_err_set(err, MR_EINVAL, "repeats %d: want 1 to %d",
				  o->repeats, MR_TUNE_REPEATS);
	return 0;
}

int mr_tune(const char *pipeline, const struct mr_tune_options *o,
	    struct mr_tuned *out, struct mr_err *err)
{
	struct mr_tuning *t = mr_alloc(1, sizeof(*t), err);
	struct mr_tuner u = { .t = t, .o = o, .began = mr_clock_ns() };
	double seconds = o->seconds > 0 ? o->seconds : USUAL;
	int e;

	*out = (struct mr_tuned){ 0 };
	if (!t)
		return MR_ENOMEM;
	e = check_options(o, err);
	if (e) {
		free(t);
		return e;
	}
	u.planned = seconds < MOST ? seconds : MOST;
	u.scale = u.planned / USUAL;
	u.opt = o->loader;
	u.opt.storage = "";
	u.opt.epochs = 0;
	u.opt.seed = 0; /* which chooses the samples that sets are made of */
	/* In random order a rank is as fast as if it were alone, but sees all
	 * samples, and has its cache full, after many epochs only. */
	t->ranks = (uint64_t)o->loader.ranks;
	if (o->loader.order == MR_ORDER_SHUFFLE) {
		u.opt.rank = 0;
		u.opt.ranks = 1;
	}
	t->order = o->loader.order;
	t->fetch = o->loader.fetch;
	t->other_order = !o->keep_order && t->order == MR_ORDER_SHUFFLE &&
			 o->loader.ranks <= 1;
	t->mixes = t->order == MR_ORDER_SHUFFLE;
	t->cores = mr_machine_cores();
	t->best = t->online = t->offline = t->usual = -1;
	e = tune(&u, pipeline, err);
	if (!e)
		e = fill_out(&u, out, err);
	if (e)
		mr_tuned_free(out);
	mr_tuning_fini(t);
	free(t);
	return e;
}
