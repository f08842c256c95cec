/* SPDX-License-Identifier: Apache-2.0 */
/* run: run a pipeline, throw the batches away, say where the time went. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "cli.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "report.h"

struct run {
	struct mr_options loader;
	double seconds;
	const char *rank, *checkpoint, *resume, *quarantine;
	bool digest, json;
};

#define R struct run

static const struct mr_param options[] = {
	MR_TIME(R, seconds, "0", 0, 1e9, "stop after this time; 0: never"),
	MR_TEXT(R, rank, "",
		"R/N: deliver the share of rank R of N, counted from 0"),
	MR_TEXT(R, checkpoint, "",
		"write the position to this file at the end, or at SIGINT or "
		"SIGTERM"),
	MR_TEXT(R, resume, "", "go on from this checkpoint"),
	MR_TEXT(R, quarantine, "",
		"write the list of bad samples to this file (tab-separated)"),
	MR_BOOL(R, digest, "no", "hash all batches in order"),
	MR_BOOL(R, json, "no", "print one JSON object instead of text"),
	MR_PARAM_END
};

struct job {
	struct run *o;
	struct mr_loader *l;
	struct cli_progress progress;
	uint64_t digest;
	uint64_t start_ns;
	bool timed_out;
};

static int parse_rank(struct run *o)
{
	long long r, n;
	char end;

	if (!*o->rank)
		return 0;
	if (sscanf(o->rank, "%lld/%lld%c", &r, &n, &end) != 2 || n < 1 ||
	    r < 0 || r >= n)
		return cli_usage("--rank %s: want R/N with R from 0 to N-1",
				 o->rank);
	o->loader.rank = r;
	o->loader.ranks = n;
	return 0;
}

/* Samples that the run will deliver, 0: no end. */
static double total_samples(const struct job *j)
{
	double all = (double)j->o->loader.epochs *
		     (double)mr_loader_epoch_samples(j->l);
	double most = (double)j->o->loader.samples;

	return most > 0 && (all <= 0 || most < all) ? most : all;
}

static bool time_is_up(struct job *j)
{
	double s = (double)(mr_clock_ns() - j->start_ns) / 1e9;

	j->timed_out = j->o->seconds > 0 && s >= j->o->seconds;
	return j->timed_out;
}

/* Until the end, a signal, or the time is up. */
static int consume(struct job *j, struct mr_err *err)
{
	uint64_t epochs = 0, samples = 0;
	int e = 0;

	while (e >= 0 && !cli_stopped() && !time_is_up(j)) {
		struct mr_batch *b;

		e = mr_loader_wait(j->l, &b, 100, err);
		if (e == MR_OK) {
			samples += mr_batch_count(b);
			if (j->o->digest)
				j->digest = mr_batch_digest(b, j->digest);
			mr_batch_release(b);
		} else if (e == MR_END) {
			struct mr_state st;

			mr_loader_state(j->l, &st);
			epochs++;
			/* Once more than there are epochs: all is done. */
			if ((j->o->loader.epochs &&
			     st.epoch >= j->o->loader.epochs) ||
			    (j->o->loader.samples &&
			     samples >= j->o->loader.samples) ||
			    epochs > st.epoch + 1)
				break;
		}
		cli_progress_show(&j->progress, (double)samples);
	}
	return e < 0 ? e : 0;
}

static int resume(struct job *j, struct mr_err *err)
{
	struct mr_state st;
	int e;

	if (!*j->o->resume)
		return 0;
	e = cli_checkpoint_read(j->o->resume, &st, &j->digest, err);
	if (e)
		return e;
	e = mr_loader_seek(j->l, &st, err);
	if (e)
		mr_err_prefix(err, "%s: ", j->o->resume);
	return e;
}

static int checkpoint(const struct job *j, struct mr_err *err)
{
	struct mr_state st;

	if (!*j->o->checkpoint)
		return 0;
	mr_loader_state(j->l, &st);
	return cli_checkpoint_write(j->o->checkpoint, &st, j->digest, err);
}

/* A cell of a tab-separated file: names may hold anything but a zero. */
static void add_cell(struct mr_str *s, const char *text)
{
	for (; *text; text++) {
		if (*text == '\t')
			mr_str_add(s, "\\t");
		else if (*text == '\n')
			mr_str_add(s, "\\n");
		else if (*text == '\\')
			mr_str_add(s, "\\\\");
		else
			mr_str_addn(s, text, 1);
	}
}

static int quarantine(const struct job *j, struct mr_err *err)
{
	struct mr_str s = { 0 };
	struct mr_bad bad;
	int e;

	if (!*j->o->quarantine)
		return 0;
	mr_str_add(&s, "epoch\tindex\tkey\toffset\tstep\treason\n");
	for (size_t i = 0; mr_loader_bad(j->l, i, &bad); i++) {
		mr_str_addf(&s, "%llu\t%llu\t", (unsigned long long)bad.epoch,
			    (unsigned long long)bad.index);
		add_cell(&s, bad.key);
		mr_str_addf(&s, "\t%llu\t%s\t", (unsigned long long)bad.offset,
			    bad.step);
		add_cell(&s, bad.reason);
		mr_str_add(&s, "\n");
	}
	if (s.failed)
		e = mr_err_set(err, MR_ENOMEM, "out of memory");
	else
		e = mr_file_write(j->o->quarantine, s.text, s.len, err);
	mr_str_fini(&s);
	return e;
}

static void tell_evicted(void *data, uint64_t done, uint64_t files)
{
	struct cli_progress *p = data;

	p->total = (double)files;
	cli_progress_show(p, (double)done);
}

/* --cold, with a line of progress; not by the loader's own option, which has
 * none. */
static int make_cold(struct job *j, struct mr_err *err)
{
	struct mr_stats st;
	char size[32];
	int e;

	cli_progress_start(&j->progress, "evict", 0);
	e = mr_loader_evict(j->l, tell_evicted, &j->progress, err);
	cli_progress_end(&j->progress);
	if (e)
		return e;
	mr_loader_stats(j->l, &st);
	if (!st.cold.files)
		fprintf(stderr, "millrace: --cold: no file was evicted: the "
				"source does not say where its samples lie\n");
	else if (st.cold.unknown)
		fprintf(stderr,
			"millrace: --cold: %llu files belong to others, so "
			"that the system does not say what stayed in memory; "
			"run as their owner\n",
			(unsigned long long)st.cold.unknown);
	if (st.cold.stayed * 20 > st.cold.bytes)
		fprintf(stderr,
			"millrace: --cold: %s (%.0f %%) stayed in the page "
			"cache: another process uses the files, or they are "
			"in memory only (tmpfs)\n",
			mr_str_size(size, (double)st.cold.stayed),
			100 * (double)st.cold.stayed / (double)st.cold.bytes);
	return 0;
}

static int open_and_consume(struct job *j, const char *pipeline,
			    struct mr_err *err)
{
	bool cold = j->o->loader.cold;
	int e, w;

	j->o->loader.cold = false;
	e = mr_loader_open_with(&j->l, pipeline, &j->o->loader, err);
	if (!e && cold)
		e = make_cold(j, err);
	if (!e)
		e = resume(j, err);
	if (e)
		return e;
	cli_catch_signals();
	cli_progress_start(&j->progress, "run", total_samples(j));
	j->start_ns = mr_clock_ns();
	e = consume(j, err);
	cli_progress_end(&j->progress);
	/* A failed run has a position and bad samples as well. */
	w = checkpoint(j, e ? NULL : err);
	if (!w)
		w = quarantine(j, e ? NULL : err);
	return e ? e : w;
}

static int run(const struct cli_args *args, void *options_)
{
	struct run *o = options_;
	struct job j = { .o = o };
	struct mr_err err;
	int code;

	if (args->argc != 1)
		return cli_usage("run takes one pipeline; quote it: millrace "
				 "run 'files DIR | batch 64'");
	code = parse_rank(o);
	if (code)
		return code;
	if (!o->loader.epochs && !o->loader.samples && o->seconds <= 0)
		o->loader.epochs = 1;
	code = open_and_consume(&j, args->argv[0], &err) ? cli_fail(&err) :
							   EXIT_DONE;
	if (j.l && (code == EXIT_DONE || o->json))
		cli_report(j.l, o->digest ? &j.digest : NULL, o->json,
			   j.timed_out || cli_stopped());
	mr_loader_close(j.l);
	return code;
}

const struct cli_command cli_command_run = {
	.name = "run",
	.args = "PIPELINE",
	.help = "run a pipeline and throw the batches away: rate, step times, "
		"waits, verdict",
	.more = "Runs one epoch unless --epochs, --samples or --seconds says "
		"otherwise.\nCtrl-C ends the run cleanly, with a checkpoint "
		"when asked for one.\n",
	.size = sizeof(struct run),
	.options = options,
	.takes_loader_options = true,
	.loader = offsetof(struct run, loader),
	.run = run,
};
