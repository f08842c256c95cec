/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare and convert: the loader runs the steps and, as the last one, packs
 * each sample into its record, all threads taking part; this side takes the
 * batches in order and appends their bytes to the shards.
 */
#include <stdio.h>

#include "core/clock.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "pipe/loader.h"
#include "pipe/outdir.h"
#include "pipe/split.h"
#include "store/packer.h"
#include "store/writer.h"

enum {
	PROBES_MIN = 8, /* samples that the estimate looks at: */
	PROBES_MAX = 64,
	PROBES_OF = 64, /* one in so many */
	ROWS_MAX = 4096,
	BATCH_BYTES = 2 << 20,
};

struct job {
	const char *pipeline;
	const struct mr_store_options *opt;
	struct mr_store_report *report;
	struct mr_meta meta;
	struct mr_split split;
	struct mr_packer packer;
	struct mr_writer writer;
	double mean; /* bytes of a record, by the estimate */
	struct mr_order_cache order;
	uint64_t source_samples;
};

void mr_store_options_init(struct mr_store_options *opt)
{
	*opt = (struct mr_store_options){
		.size = sizeof(*opt),
		.out = "",
		.until = "",
		.codec = "none",
		.level = -1,
	};
	mr_options_init(&opt->loader);
}

/* ---- the plan ---- */

static const struct mr_op *const packers[] = {
	[MR_TO_RECORDS] = &mr_pack_record,
	[MR_TO_TAR] = &mr_pack_tar,
	[MR_TO_TFRECORD] = &mr_pack_tfrecord,
};

static int choose_codec(struct job *j, struct mr_err *err)
{
	struct mr_record_plan *r = &j->meta.record;
	const struct mr_codec *c = mr_codec_find(j->opt->codec);
	int64_t level = j->opt->level;
	struct mr_str names = { 0 };

	if (!c) {
		for (size_t i = 0; mr_codecs[i]; i++)
			mr_str_addf(&names, " %s", mr_codecs[i]->name);
		mr_err_set(err, MR_EINVAL,
			   "--codec %s: there is none; want "
			   "one of:%s",
			   j->opt->codec, names.text ? names.text : "");
		mr_str_fini(&names);
		return MR_EINVAL;
	}
	if (level < 0)
		level = c->def;
	if (level < c->min || level > c->max)
		return mr_err_set(err, MR_EINVAL,
				  c->max ? "--level %lld: %s has %d to %d" :
					   "--level %lld: %s has no levels",
				  (long long)level, c->name, c->min, c->max);
	r->codec = c;
	r->level = (int)level;
	r->shuffle = j->opt->shuffle != MR_SHUFFLE_NO && c->max > 0;
	mr_record_plan_init(r);
	return 0;
}

static void fields_text(const struct mr_fields *fs, char *to, size_t cap)
{
	struct mr_str s = { 0 };

	mr_fields_text(fs, &s);
	snprintf(to, cap, "%s", s.text ? s.text : "");
	mr_str_fini(&s);
}

/* What is left for each epoch. Other containers have no place for it. */
static int note_rest(struct job *j, const struct mr_pipeline *p,
		     struct mr_err *err)
{
	char *text = NULL;
	int e, end = mr_split_samples(p);

	if (j->split.stages == end)
		return 0;
	if (j->opt->to != MR_TO_RECORDS) {
		mr_err_set(err, MR_EINVAL,
			   "%s is random, new in each epoch: it cannot be "
			   "stored; leave it out",
			   p->stage[j->split.stages].name);
		return mr_pipeline_point(p, j->split.stages, err);
	}
	e = mr_split_words(p, j->split.stages, end, &text, err);
	if (!e)
		snprintf(j->report->rest, sizeof(j->report->rest), "%s", text);
	free(text);
	return e;
}

/* The batches, which no set holds. */
static int note_tail(struct job *j, const struct mr_pipeline *p,
		     struct mr_err *err)
{
	char *text = NULL;
	int e, end = mr_split_samples(p);

	if (end == p->n)
		return 0;
	e = mr_split_words(p, end, p->n, &text, err);
	if (!e)
		snprintf(j->report->tail, sizeof(j->report->tail), "%s", text);
	free(text);
	return e;
}

/* What the samples go through that are not among the first ones. */
static int note_head(struct job *j, const struct mr_pipeline *p,
		     struct mr_err *err)
{
	char *text = NULL;
	int e = 0;

	if (j->opt->first)
		e = mr_split_words(p, 0, j->split.stored, &text, err);
	if (text)
		snprintf(j->report->head, sizeof(j->report->head), "%s", text);
	free(text);
	return e;
}

static int check_stages(const struct job *j, struct mr_err *err)
{
	int most = MR_MAX_STEPS - 2; /* packing and batches */

	return j->split.stored <= most ?
		       0 :
		       mr_err_set(err, MR_ELIMIT,
				  "%d stages are too many to store, which "
				  "takes two more of at most %d: end with "
				  "--until %d, and prepare that set again",
				  j->split.stored, MR_MAX_STEPS, most);
}

/* What is to be stored, from the pipeline's types. */
static int make_plan(struct job *j, struct mr_err *err)
{
	struct mr_plan *plan = mr_alloc(1, sizeof(*plan), err);
	struct mr_pipeline *p = NULL;
	bool literal = j->opt->literal || j->opt->to != MR_TO_RECORDS;
	int e = plan ? mr_pipeline_parse(&p, j->pipeline,
					 j->opt->loader.plugins, err) :
		       MR_ENOMEM;

	if (!e) {
		mr_pipeline_uncache(p); /* there is one pass only */
		mr_pipeline_suit(p, &j->opt->loader);
		e = mr_plan_make(plan, p, mr_loader_threads(&j->opt->loader),
				 err);
	}
	if (!e && !plan->samples)
		e = mr_err_set(err, MR_EDATA, "the data set is empty");
	if (!e)
		e = mr_split_find(&j->split, plan, j->opt->until, literal, err);
	if (!e)
		e = mr_split_describe(&j->split, plan, &j->meta, err);
	if (!e)
		e = check_stages(j, err);
	if (!e)
		e = mr_outdir_check(j->opt->out, p, &j->meta,
				    j->opt->to == MR_TO_RECORDS, err);
	if (!e)
		e = note_rest(j, p, err);
	if (!e)
		e = note_tail(j, p, err);
	if (!e)
		e = note_head(j, p, err);
	if (!e)
		e = choose_codec(j, err);
	j->source_samples = j->meta.samples;
	if (j->opt->loader.subset && j->opt->loader.subset < j->meta.samples)
		j->meta.samples = j->opt->loader.subset;
	if (j->opt->first && j->opt->first < j->meta.samples)
		j->meta.samples = j->opt->first;
	mr_pipeline_free(p);
	free(plan);
	if (e)
		return e;
	fields_text(&j->meta.record.fields, j->report->stored,
		    sizeof(j->report->stored));
	snprintf(j->report->deferred, sizeof(j->report->deferred), "%s",
		 j->meta.deferred ? j->meta.deferred : "");
	j->report->samples = j->meta.samples;
	j->packer.plan = &j->meta.record;
	j->packer.op = packers[j->opt->to];
	return 0;
}

/* ---- running it ---- */

struct cut {
	struct mr_edit edit; /* first */
	struct job *job;
	struct mr_batch_params batch;
};

/* The stages up to the split, then packing, then batches of our own size. */
static int apply_cut(const struct mr_edit *edit, struct mr_pipeline *p,
		     struct mr_err *err)
{
	struct cut *c = (struct cut *)(uintptr_t)edit;
	int e;

	mr_pipeline_uncache(p);
	mr_pipeline_cut(p, c->job->split.stored);
	e = mr_pipeline_append(p, c->job->packer.op, &c->job->packer, err);
	return e ? e : mr_pipeline_append(p, &mr_op_batch, &c->batch, err);
}

/* The field that is a file as it is: field 0, of sources that read files and
 * of a prepared set of nothing but those, as long as no step changes it. */
static int file_field(const struct mr_plan *p)
{
	const char *deferred;
	bool own = p->source->flags & MR_SOURCE_RAW;

	if (p->source->stands_for)
		own = p->source->stands_for(p->source_self, &deferred) == 1 &&
		      !strcmp(p->in.item[0].name, "data");
	for (int k = 0; k < p->steps; k++)
		own &= p->step[k].field != 0 || p->step[k].op->pack;
	return own ? 0 : -1;
}

static int open_loader(struct job *j, struct cut *c,
		       const struct mr_options *opt, struct mr_loader **l,
		       struct mr_err *err)
{
	int e;

	c->edit.apply = apply_cut;
	c->edit.begins = j->opt->to == MR_TO_RECORDS &&
			 mr_record_begins(&j->meta.record);
	c->job = j;
	c->batch.pad = "";
	e = mr_loader_open_edited(l, j->pipeline, opt, &c->edit, err);
	if (e)
		return e;
	j->packer.key = (*l)->plan.source->key;
	j->packer.source = (*l)->plan.source_self;
	j->packer.file = file_field(&(*l)->plan);
	j->packer.named = !strcmp((*l)->plan.source->name, "tar");
	return 0;
}

/* The bytes of some samples from all over the set stand for the others. */
static int probe(struct job *j, double *mean, struct mr_err *err)
{
	struct mr_options opt = j->opt->loader;
	struct cut c = { .batch.count = 1 };
	struct mr_loader *l;
	struct mr_batch *b;
	uint64_t bytes = 0, n = 0;
	int e;

	opt.order = MR_ORDER_SHUFFLE;
	opt.seed = 0;
	opt.epochs = 1;
	opt.samples = j->meta.samples / PROBES_OF;
	if (opt.samples < PROBES_MIN)
		opt.samples = PROBES_MIN;
	if (opt.samples > PROBES_MAX)
		opt.samples = PROBES_MAX;
	opt.rank = 0;
	opt.ranks = 1;
	e = open_loader(j, &c, &opt, &l, err);
	if (e)
		return e;
	while ((e = mr_loader_next(l, &b, err)) == MR_OK) {
		n += mr_batch_count(b);
		if (mr_batch_count(b))
			bytes += mr_tensor_bytes(&mr_batch_field(b, 0)->tensor);
		mr_batch_release(b);
	}
	mr_loader_close(l);
	if (e < 0)
		return e;
	*mean = n ? (double)bytes / (double)n : 1;
	if (n && j->opt->to == MR_TO_RECORDS)
		*mean -= MR_RECORD_SEAL;
	return 0;
}

static bool has_wide(const struct mr_fields *fs)
{
	for (int i = 0; i < fs->n; i++)
		if (mr_dtype_size(fs->item[i].spec.dtype) > 1 &&
		    fs->item[i].spec.ndim > 0)
			return true;
	return false;
}

/* Records of one size need no look at samples. Shuffled bytes pack better
 * where numbers are smooth, and worse where they are few different ones:
 * whichever is smaller. */
static int estimate(struct job *j, struct mr_err *err)
{
	struct mr_record_plan *r = &j->meta.record;
	bool either;
	double plain;
	int e = 0;

	if (r->shuffle && !has_wide(&r->fields))
		r->shuffle = false;
	either = r->shuffle && j->opt->shuffle == MR_SHUFFLE_AUTO;
	j->mean = j->opt->record_bytes;
	if (j->opt->to == MR_TO_RECORDS && mr_record_fixed(r))
		j->mean = (double)mr_record_fixed(r);
	if (either || !(j->mean > 0))
		e = probe(j, &j->mean, err);
	if (!e && either) {
		r->shuffle = false;
		e = probe(j, &plain, err);
		r->shuffle = !e && plain > j->mean;
		if (!e && plain < j->mean)
			j->mean = plain;
	}
	if (e)
		return e;
	j->report->estimate = (uint64_t)((j->mean + MR_SHARD_ENTRY + 32) *
					 (double)j->meta.samples);
	return 0;
}

static void choose_shards(struct job *j)
{
	uint64_t n = j->opt->shards;

	if (!n)
		n = mr_shard_number(j->meta.samples,
				    (double)j->report->estimate);
	if (n > j->meta.samples)
		n = j->meta.samples;
	j->meta.shards = n ? n : 1;
	j->report->shards = j->meta.shards;
}

/* Why sample `index` has no record: the loader keeps the first reasons. */
static void bad_reason(const struct mr_loader *l, uint64_t index, char *why,
		       size_t cap)
{
	struct mr_bad bad;

	snprintf(why, cap, "could not be made when the set was prepared");
	for (size_t i = 0; mr_loader_bad(l, i, &bad); i++)
		if (bad.index == index)
			snprintf(why, cap, "%s: %s: %s", bad.key, bad.step,
				 bad.reason);
}

/* A sample that is missing in a batch leaves its reason in its place. */
static int put_hole(struct job *j, struct mr_loader *l, uint64_t index,
		    struct mr_err *err)
{
	char key[4096], why[1024];
	size_t n;

	if (j->opt->to != MR_TO_RECORDS)
		return mr_writer_put(&j->writer, "", 0, 0, "", true, err);
	l->plan.source->key(l->plan.source_self, index, key, sizeof(key));
	memset(why, 0, sizeof(why));
	bad_reason(l, index, why, sizeof(why) - MR_RECORD_ALIGN);
	n = mr_round_up(strlen(why) + 1, MR_RECORD_ALIGN);
	return mr_writer_put(&j->writer, why, n, XXH3_64bits(why, n), key, true,
			     err);
}

static int put_row(struct job *j, const struct mr_batch *b, uint64_t row,
		   struct mr_err *err)
{
	const struct mr_field *f = mr_batch_field(b, 0);
	const uint8_t *p = (uint8_t *)f->tensor.data + f->offsets[row];
	size_t n = (size_t)(f->offsets[row + 1] - f->offsets[row]);
	uint64_t checksum = 0;
	char key[4096];

	mr_batch_key(b, row, key, sizeof(key));
	if (j->opt->to == MR_TO_RECORDS) {
		n -= MR_RECORD_SEAL;
		checksum = mr_record_sealed(p, n);
	}
	return mr_writer_put(&j->writer, p, n, checksum, key, false, err);
}

/* Appends the records of a batch: of each position the row that stands for
 * it, or a hole. What was written before a restart is passed over. */
static int put_batch(struct job *j, struct mr_loader *l, struct mr_batch *b,
		     struct mr_err *err)
{
	const uint64_t *index = mr_batch_indices(b);
	uint64_t at = mr_batch_number(b) * l->rows, end = at + l->rows;
	uint64_t row = 0, want;
	int e = 0;

	if (at > j->writer.next)
		at = j->writer.next;
	if (end > j->meta.samples) /* of the first ones only */
		end = j->meta.samples;
	for (; !e && at < end && mr_loader_sample_at(l, &j->order, at, &want);
	     at++) {
		bool here = row < mr_batch_count(b) && index[row] == want;

		if (at >= j->writer.next)
			e = here ? put_row(j, b, row, err) :
				   put_hole(j, l, want, err);
		row += here;
	}
	return e ? e : mr_writer_flush(&j->writer, err);
}

/* Bad samples at the end, of which no batch tells. */
static int put_last_holes(struct job *j, struct mr_loader *l,
			  struct mr_err *err)
{
	uint64_t want;
	int e = 0;

	while (!e && j->writer.next < j->meta.samples &&
	       mr_loader_sample_at(l, &j->order, j->writer.next, &want))
		e = put_hole(j, l, want, err);
	return e;
}

static bool told_to_stop(struct job *j)
{
	return j->opt->progress &&
	       j->opt->progress(j->opt->data, j->writer.next, j->meta.samples);
}

/* All samples from where the writer stands; false in *done when stopped. */
static int copy_all(struct job *j, struct mr_loader *l, bool *done,
		    struct mr_err *err)
{
	struct mr_state st;
	int e;

	mr_loader_state(l, &st);
	st.batch = j->writer.next / l->rows;
	e = mr_loader_seek(l, &st, err);
	while (e >= 0 && j->writer.next < j->meta.samples) {
		struct mr_batch *b;

		if (told_to_stop(j))
			break;
		e = mr_loader_wait(l, &b, 100, err);
		if (e == MR_OK) {
			uint64_t t0 = mr_clock_ns();

			e = put_batch(j, l, b, err);
			j->report->write_seconds +=
				(double)(mr_clock_ns() - t0) / 1e9;
			mr_batch_release(b);
		} else if (e == MR_END) {
			e = put_last_holes(j, l, err);
			break;
		}
	}
	*done = j->writer.next == j->meta.samples;
	if (e >= 0 && *done)
		told_to_stop(j); /* shows the end */
	return e < 0 ? e : 0;
}

/* The texts outlive the loader. */
static void keep_stats(struct job *j, struct mr_loader *l)
{
	struct mr_store_report *r = j->report;
	const char *storage = j->opt->loader.storage;

	mr_loader_stats(l, &r->stats);
	r->stats.storage.profile = storage ? storage : "";
	/* Which is to store what is made here. */
	r->stats.verdict.advice[0] = 0;
	for (size_t i = 0; i < r->stats.steps; i++) {
		snprintf(r->names[i], sizeof(r->names[i]), "%s",
			 r->stats.step[i].name);
		r->stats.step[i].name = r->names[i];
	}
}

static int run(struct job *j, struct mr_err *err)
{
	struct mr_options opt = j->opt->loader;
	struct cut c = { 0 };
	struct mr_loader *l;
	bool done = false;
	int e;

	/* Of a subset, samples from all over the set, by the seed. */
	opt.order = opt.subset && opt.subset < j->source_samples ?
			    MR_ORDER_SHUFFLE :
			    MR_ORDER_SEQUENTIAL;
	opt.epochs = 1;
	opt.samples = j->opt->first;
	opt.rank = 0;
	opt.ranks = 1;
	c.batch.count = (int64_t)(BATCH_BYTES / (j->mean + 1)) + 1;
	if (c.batch.count > ROWS_MAX)
		c.batch.count = ROWS_MAX;
	e = open_loader(j, &c, &opt, &l, err);
	if (e)
		return e;
	if (l->plan.samples != j->source_samples)
		e = mr_err_set(err, MR_EDATA,
			       "the source has changed while it was read: %llu "
			       "samples, and %llu before",
			       (unsigned long long)l->plan.samples,
			       (unsigned long long)j->source_samples);
	if (!e)
		e = copy_all(j, l, &done, err);
	if (!e && done)
		e = mr_writer_finish(&j->writer, err);
	j->report->complete = !e && done;
	keep_stats(j, l);
	mr_loader_close(l);
	return e;
}

/* An option of loaders that means nothing here, and was given all the same. */
static const char *stray_option(const struct mr_options *opt)
{
	struct mr_options usual;

	mr_options_init(&usual);
	if (opt->order != usual.order)
		return "order";
	if (opt->epochs != usual.epochs)
		return "epochs";
	if (opt->samples != usual.samples)
		return "samples";
	if (opt->seed != usual.seed)
		return "seed";
	return opt->ranks != usual.ranks ? "rank" : NULL;
}

static int check_options(const struct mr_store_options *opt, struct mr_err *err)
{
	const char *stray = stray_option(&opt->loader);

	if (opt->size != sizeof(*opt))
		return mr_err_set(err, MR_EINVAL,
				  "options of another version of the header; "
				  "call mr_store_options_init() and build "
				  "again");
	if (stray)
		return mr_err_set(err, MR_EINVAL,
				  "--%s: all samples are stored, once and in "
				  "their order; leave it out",
				  stray);
	if (!*opt->out)
		return mr_err_set(err, MR_EINVAL, "say where to: --out DIR");
	if (opt->first && (opt->loader.subset || opt->to != MR_TO_RECORDS))
		return mr_err_set(err, MR_EINVAL,
				  opt->loader.subset ?
					  "--first and --subset: give one" :
					  "--first: of prepared sets only");
	if (opt->loader.on_error == MR_ON_ERROR_REPLACE)
		return mr_err_set(err, MR_EINVAL,
				  "--on-error replace would store samples "
				  "twice; take skip, and replace when the set "
				  "is read");
	return 0;
}

int mr_store(const char *pipeline, const struct mr_store_options *opt,
	     struct mr_store_report *report, struct mr_err *err)
{
	struct job j = { .pipeline = pipeline, .opt = opt, .report = report };
	uint64_t t0 = mr_clock_ns();
	int e = check_options(opt, err);

	*report = (struct mr_store_report){ 0 };
	j.writer.lock = j.writer.fd = j.writer.journal = -1;
	if (!e)
		e = mr_writer_check(opt->out, NULL, err);
	if (!e)
		e = make_plan(&j, err);
	if (!e)
		e = estimate(&j, err);
	if (!e) {
		choose_shards(&j);
		e = mr_meta_identify(&j.meta, err);
	}
	if (!e && opt->dry_run)
		e = mr_writer_check(opt->out, &j.meta, err);
	if (!e)
		e = mr_outdir_room(opt->out, report->estimate,
				   &report->available, err);
	if (!e && !opt->dry_run)
		e = mr_writer_open(&j.writer, opt->out, &j.meta,
				   (enum mr_container)opt->to, err);
	if (!e && opt->planned)
		opt->planned(opt->data, report);
	if (!e && !opt->dry_run)
		e = run(&j, err);
	report->resumed = j.writer.resumed;
	report->bad = j.meta.bad;
	for (uint64_t i = 0; j.meta.shard && i < j.meta.shards; i++)
		report->bytes += j.meta.shard[i].bytes;
	report->sync_seconds = j.writer.sync_seconds;
	report->seconds = (double)(mr_clock_ns() - t0) / 1e9;
	mr_writer_close(&j.writer);
	mr_meta_fini(&j.meta);
	return e;
}
