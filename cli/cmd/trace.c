/* SPDX-License-Identifier: Apache-2.0 */
/* trace: record where every microsecond of every batch went, and say it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "consume.h"
#include "core/str.h"
#include "foreign.h"

/* A pipeline is looked at for seconds, a command may run for days; primes, so
 * as not to beat with what happens at round ones. */
enum { PIPELINE_HZ = 499, COMMAND_HZ = 17 };

struct trace {
	struct mr_options loader;
	double seconds;
	const char *rank, *out;
	int64_t sample;
	bool summary, json;
};

#define T struct trace

static const struct mr_param options[] = {
	MR_TEXT(T, out, "",
		"the file; its ending tells the kind: .mrt, .json (Perfetto, "
		"chrome://tracing), .html, .csv, .folded (flame graphs); "
		"trace.mrt when none is given"),
	MR_INT(T, sample, "-1", -1, 100000,
	       "how often a second, of each thread's time, to write down "
	       "which function runs; 0: never, -1: 499 of a pipeline, 17 of "
	       "a command"),
	MR_BOOL(T, summary, "no",
		"of a trace: say what is in it, which is done anyway unless "
		"--out asks for a file"),
	MR_BOOL(T, json, "no", "the summary as one JSON object"),
	MR_TIME(T, seconds, "0", 0, 1e9, "stop after this time; 0: never"),
	MR_TEXT(T, rank, "",
		"R/N: deliver the share of rank R of N, counted from 0"),
	MR_PARAM_END
};

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && strcmp(s + n - k, end) == 0;
}

static int tell_summary(const char *file, bool json, FILE *to)
{
	struct mr_err err;
	char *text;

	if (mr_trace_summary(file, json, &text, &err))
		return cli_fail(&err);
	fputs(text, to);
	if (json)
		fputs("\n", to);
	free(text);
	return EXIT_DONE;
}

/* ---- recording ---- */

static void tell_recorded(const char *file, const struct mr_recorded *r)
{
	char n[32], size[32], lost[32];

	fprintf(stderr, "millrace: %s: %s spans, %s", file,
		mr_str_count(n, r->spans), mr_str_size(size, (double)r->bytes));
	if (r->lost && r->failed.code)
		fprintf(stderr, "; the last %s could not be written",
			mr_str_count(lost, r->lost));
	else if (r->lost)
		fprintf(stderr,
			"; %s spans were LOST: the disk or this "
			"machine was too slow for them",
			mr_str_count(lost, r->lost));
	fputs("\n", stderr);
}

/* *seen: something was recorded, in a run that was as it should be, even if
 * it could not be recorded to its end. */
static int record(struct trace *o, const char *pipeline, const char *file,
		  bool *seen)
{
	struct cli_job j = { .opt = &o->loader, .seconds = o->seconds };
	struct mr_recorded recorded;
	struct mr_err err;
	int e;

	o->loader.trace = file;
	o->loader.sample = o->sample < 0 ? PIPELINE_HZ : o->sample;
	e = cli_job_open(&j, pipeline, &err);
	if (!e)
		e = cli_job_consume(&j, "trace", &err);
	if (e)
		cli_fail(&err);
	mr_loader_close_traced(j.l, &recorded);
	*seen = !e && recorded.spans;
	if (recorded.failed.code && !e)
		e = cli_fail(&recorded.failed) ? MR_EIO : 0;
	if (recorded.spans)
		tell_recorded(file, &recorded);
	return e ? EXIT_FAILED : EXIT_DONE;
}

/* ---- what becomes of it ---- */

/* `file` as what the name of `to` says. */
static int export(const char *file, const char *to)
{
	struct mr_err err;

	if (mr_trace_export(file, to, &err))
		return cli_fail(&err);
	if (*err.text)
		fprintf(stderr, "millrace: %s\n", err.text);
	fprintf(stderr, "millrace: %s: written\n", to);
	return EXIT_DONE;
}

/* Where to record what becomes `out`: there, or beside it; to be freed. */
static char *recording_of(const char *out, bool *aside)
{
	struct mr_str s = { 0 };

	*aside = !ends_in(out, ".mrt");
	mr_str_add(&s, out);
	if (*aside)
		mr_str_add(&s, ".mrt");
	return mr_str_take(&s);
}

/* The recording becomes `out`, and is gone. */
static int convert(const char *file, const char *out)
{
	int code = export(file, out);

	if (!code)
		unlink(file);
	return code;
}

/* A trace that was merged becomes `out`, with its rank in the name. */
static int convert_made(const struct mr_made *made, const char *out)
{
	char *name = made->rank < 0 ? NULL : mr_merge_name(out, made->rank);
	int code = EXIT_FAILED;

	if (name || made->rank < 0)
		code = convert(made->path, name ? name : out);
	free(name);
	return code;
}

/* What was merged: told where that was asked for, each rank by itself, and if
 * it lies aside, made what -o asks for. */
static int tell_made(const struct trace *o, const struct mr_merged *got,
		     bool told, bool aside, FILE *to)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < got->n; i++) {
		const struct mr_made *made = &got->made[i];
		int c = EXIT_DONE;

		if (told && got->n > 1 && !o->json)
			fprintf(to, "%srank %d\n", i ? "\n" : "", made->rank);
		if (told)
			c = tell_summary(made->path, o->json, to);
		if (!c && aside)
			c = convert_made(made, o->out);
		code = code ? code : c;
	}
	return code;
}

/* Before a run that may take long: can it become that? */
static int check_out(const char *out)
{
	struct mr_err err;

	return ends_in(out, ".mrt") || !mr_trace_export_check(out, &err) ?
		       EXIT_DONE :
		       cli_fail(&err);
}

static int record_to(struct trace *o, const char *pipeline, const char *out)
{
	bool aside, seen;
	char *file = recording_of(out, &aside);
	int code, told = EXIT_DONE;

	if (!file)
		return EXIT_FAILED;
	code = record(o, pipeline, file, &seen);
	if (!code || seen)
		told = tell_summary(file, o->json, stdout);
	if (!code)
		code = told;
	if (!code && aside)
		code = convert(file, out);
	free(file);
	return code;
}

static int run_pipeline(const struct cli_args *args, struct trace *o)
{
	int code = cli_takes_all_but(args, "trace PIPELINE", "trace");
	char *name;

	if (!code)
		code = cli_parse_rank(o->rank, &o->loader);
	if (!code)
		code = check_out(o->out);
	if (code)
		return code;
	if (o->loader.ranks <= 1)
		return record_to(o, args->argv[0], o->out);
	name = mr_merge_name(o->out, (int)o->loader.rank);
	code = name ? record_to(o, args->argv[0], name) : EXIT_FAILED;
	free(name);
	return code;
}

/* The command's output, exit code and signals are its own: what we say of it
 * goes to stderr, and is a line unless more is asked for. */
static int trace_command(char *const argv[], const struct trace *o)
{
	struct cli_trace_options t = {
		.hz = o->sample < 0 ? COMMAND_HZ : (int)o->sample,
		.events = o->loader.events,
	};
	bool told = o->summary || o->json, aside;
	char *file = recording_of(o->out, &aside);
	struct mr_merged got = { 0 };
	struct mr_err err;
	int status, e;

	if (!file)
		return EXIT_FAILED;
	e = cli_trace_command(argv, file, &t, &got, &err, &status);
	if (e < 0)
		cli_fail(&err);
	if (!e && !aside && (!told || got.made[0].rank >= 0))
		cli_trace_tell(&got, !told);
	if (!e)
		tell_made(o, &got, told, aside, stderr);
	mr_merged_fini(&got);
	free(file);
	return cli_child_exit(status);
}

static int run_command(const struct cli_args *args, const struct trace *o)
{
	int e;

	if (args->behind > 0 || args->argc == 0)
		return cli_usage("trace takes a pipeline, or a command after "
				 "--: millrace trace -- python3 train.py");
	e = cli_takes_only(args, "trace -- COMMAND",
			   "out sample summary json events");
	if (!e)
		e = check_out(o->out);
	if (e)
		return e;
	args->argv[args->argc] = NULL;
	return trace_command(args->argv, o);
}

/* ---- what was recorded before ---- */

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Each trace once, and none of them is written over. */
static int check_files(const struct cli_args *args, const char *out)
{
	for (int i = 0; i < args->argc; i++) {
		if (same_file(args->argv[i], out))
			return cli_usage("-o %s is one of the traces that are "
					 "to be read; name another file",
					 out);
		for (int k = 0; k < i; k++)
			if (same_file(args->argv[i], args->argv[k]))
				return cli_usage("%s and %s are the same "
						 "trace; name it once",
						 args->argv[k], args->argv[i]);
	}
	return EXIT_DONE;
}

/* Several ranks' traces become one. */
static int merge(const struct cli_args *args, const struct trace *o, bool given)
{
	struct mr_merged got = { 0 };
	struct mr_err err;
	bool aside;
	char *file;
	int code;

	if (!given)
		return cli_usage("several traces are merged into one: name it "
				 "with -o FILE.mrt");
	code = check_out(o->out);
	if (!code)
		code = check_files(args, o->out);
	if (code)
		return code;
	file = recording_of(o->out, &aside);
	if (!file)
		return EXIT_FAILED;
	code = mr_merge_ranks((const char *const *)args->argv,
			      (size_t)args->argc, file, &got, &err) ?
		       cli_fail(&err) :
		       tell_made(o, &got, true, aside, stdout);
	mr_merged_fini(&got);
	free(file);
	return code;
}

/* The folder FILE.parts, of a command's trace that was cut off. */
static int run_parts(const char *parts, struct trace *o, bool given)
{
	struct mr_merged got = { 0 };
	struct mr_str name = { 0 };
	struct mr_err err;
	bool aside;
	char *file;
	int code;

	if (!given) { /* FILE */
		mr_str_addn(&name, parts, strlen(parts) - strlen(".parts"));
		o->out = name.failed ? "trace.mrt" : name.text;
	}
	code = check_out(o->out);
	file = code ? NULL : recording_of(o->out, &aside);
	if (!file) {
		code = code ? code : EXIT_FAILED;
	} else if (cli_trace_parts(parts, file, &got, &err)) {
		code = cli_fail(&err);
	} else {
		if (!aside)
			cli_trace_tell(&got, false);
		code = tell_made(o, &got, true, aside, stdout);
	}
	mr_merged_fini(&got);
	free(file);
	mr_str_fini(&name);
	return code;
}

/* One trace: its summary, and what -o asks for. */
static int run_file(const struct cli_args *args, const struct trace *o,
		    bool given)
{
	int code = EXIT_DONE;

	if (!given || o->summary || o->json)
		code = tell_summary(args->argv[0], o->json, stdout);
	return !code && given ? export(args->argv[0], o->out) : code;
}

/* Files, not a pipeline, which has more than one word. */
static bool all_traces(const struct cli_args *args)
{
	for (int i = 0; i < args->argc; i++)
		if (!ends_in(args->argv[i], ".mrt") ||
		    strpbrk(args->argv[i], "|=\n"))
			return false;
	return args->argc > 0;
}

static int run_files(const struct cli_args *args, const struct trace *o,
		     bool given)
{
	int code = cli_takes_only(args, "trace FILE.mrt", "out summary json");

	if (code)
		return code;
	return args->argc > 1 ? merge(args, o, given) :
				run_file(args, o, given);
}

static bool is_parts(const char *name)
{
	struct stat st;

	return ends_in(name, ".mrt.parts") && !stat(name, &st) &&
	       S_ISDIR(st.st_mode);
}

static int run(const struct cli_args *args, void *options_)
{
	struct trace *o = options_;
	bool given = *o->out;
	int code;

	if (!given)
		o->out = "trace.mrt";
	if (args->behind >= 0)
		return run_command(args, o);
	if (all_traces(args))
		return run_files(args, o, given);
	if (args->argc != 1)
		return cli_usage("trace takes one pipeline, or traces; quote "
				 "it: millrace trace 'files DIR | batch 64'");
	if (!is_parts(args->argv[0]))
		return run_pipeline(args, o);
	code = cli_takes_only(args, "trace FILE.mrt.parts", "out summary json");
	return code ? code : run_parts(args->argv[0], o, given);
}

const struct cli_command cli_command_trace = {
	.name = "trace",
	.args = "PIPELINE | FILE.mrt... | -- COMMAND...",
	.help = "record what each thread does, and when; say where the time "
		"of every batch went",
	.more = "Runs one epoch unless --epochs, --samples or --seconds says "
		"otherwise.\nOf a FILE.mrt that was recorded, says what is in "
		"it; several, of\nranks, are merged into --out. "
		"FILE.mrt.parts is what a command\nleaves behind whose "
		"tracing was killed.\nAfter --, a "
		"program that uses PyTorch's DataLoader: "
		"`millrace trace -o\ntrain.mrt -- python3 train.py`. Its "
		"output and exit code are its own.\n",
	.size = sizeof(struct trace),
	.options = options,
	.takes_loader_options = true,
	.loader = offsetof(struct trace, loader),
	.run = run,
};
