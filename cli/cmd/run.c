/* SPDX-License-Identifier: Apache-2.0 */
/* run: run a pipeline, throw the batches away, say where the time went. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "consume.h"
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
	const struct run *o;
	struct cli_job run;
};

static int resume(struct job *j, struct mr_err *err)
{
	struct mr_state st;
	int e;

	if (!*j->o->resume)
		return 0;
	e = cli_checkpoint_read(j->o->resume, &st, &j->run.hash, err);
	if (e)
		return e;
	e = mr_loader_seek(j->run.l, &st, err);
	if (e)
		mr_err_prefix(err, "%s: ", j->o->resume);
	return e;
}

static int checkpoint(const struct job *j, struct mr_err *err)
{
	struct mr_state st;

	if (!*j->o->checkpoint)
		return 0;
	mr_loader_state(j->run.l, &st);
	return cli_checkpoint_write(j->o->checkpoint, &st, j->run.hash, err);
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
	for (size_t i = 0; mr_loader_bad(j->run.l, i, &bad); i++) {
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

static int open_and_consume(struct job *j, const char *pipeline,
			    struct mr_err *err)
{
	int e = cli_job_open(&j->run, pipeline, err), w;

	if (!e)
		e = resume(j, err);
	if (e)
		return e;
	e = cli_job_consume(&j->run, "run", err);
	/* A failed run has a position and bad samples as well. */
	w = checkpoint(j, e ? NULL : err);
	if (!w)
		w = quarantine(j, e ? NULL : err);
	return e ? e : w;
}

static int run(const struct cli_args *args, void *options_)
{
	struct run *o = options_;
	struct job j = { .o = o,
			 .run = { .opt = &o->loader,
				  .seconds = o->seconds,
				  .digest = o->digest } };
	struct mr_recorded recorded;
	struct mr_err err;
	int code;

	if (args->argc != 1)
		return cli_usage("run takes one pipeline; quote it: millrace "
				 "run 'files DIR | batch 64'");
	code = cli_parse_rank(o->rank, &o->loader);
	if (!code && (!o->loader.trace || !*o->loader.trace))
		code = cli_takes_all_but(args, "run without --trace",
					 "events sample");
	if (code)
		return code;
	code = open_and_consume(&j, args->argv[0], &err) ? cli_fail(&err) :
							   EXIT_DONE;
	if (j.run.l && (code == EXIT_DONE || o->json))
		cli_report(j.run.l, o->digest ? &j.run.hash : NULL, o->json,
			   j.run.timed_out || cli_stopped());
	mr_loader_close_traced(j.run.l, &recorded);
	return recorded.failed.code && !code ? cli_fail(&recorded.failed) :
					       code;
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
