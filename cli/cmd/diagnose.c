/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose: is it the storage, the CPU or the accelerator? */
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "cli.h"
#include "core/file.h"
#include "script.h"

enum { JSON_MAX = 16 << 20 };

struct diagnose {
	struct mr_options loader;
	const char *accelerator, *cache, *from, *out, *html;
	double step_time, seconds;
	bool job_only, json, keep_running;
	int64_t which_loader;
};

#define D struct diagnose

static const struct mr_param options[] = {
	MR_TEXT(D, accelerator, "",
		"samples per second that it takes, or one that MLPerf Storage "
		"knows: unet3d, resnet50 or cosmoflow, - and v100, a100 or "
		"h100"),
	MR_TIME(D, step_time, "0", 0, 1e6,
		"instead: the time that it computes on a batch"),
	MR_TEXT(D, cache, "",
		"of the job, in memory: a share of the data set (35%) or a "
		"size (8G); empty: what the pipeline has"),
	MR_TIME(D, seconds, "0", 0, 90,
		"to take, about, up to 90 s; 0: 35 s for a pipeline, 60 s for "
		"a "
		"script"),
	MR_BOOL(D, job_only, "no",
		"measure nothing but how fast the job is, to check a "
		"prediction"),
	MR_BOOL(D, keep_running, "no",
		"of a script: let it go on when it has been measured"),
	MR_INT(D, which_loader, "1", 1, 1000,
	       "of a script: measure its loop over the n-th DataLoader"),
	MR_TEXT(D, from, "",
		"measure nothing: show the diagnosis that `--out` or `--json` "
		"wrote to this file"),
	MR_TEXT(D, out, "",
		"write the diagnosis to this file, for `whatif` and `--from`"),
	MR_TEXT(D, html, "",
		"write it as a page to this file, too, with charts"),
	MR_BOOL(D, json, "no", "print one JSON object instead of text"),
	MR_PARAM_END
};

static bool tell(void *data, const char *phase, double done)
{
	struct cli_progress *p = data;

	p->label = phase;
	cli_progress_show(p, 100 * done);
	return cli_stopped();
}

static int save(const char *path, const char *json, struct mr_err *err)
{
	struct mr_str s = { 0 };
	int e;

	mr_str_addf(&s, "%s\n", json);
	e = s.failed ? mr_err_set(err, MR_ENOMEM, "out of memory") :
		       mr_file_write(path, s.text, s.len, err);
	mr_str_fini(&s);
	return e;
}

/* Last: a page that cannot be written takes nothing else away. */
static int page(const struct diagnose *o, const char *json, const char *name)
{
	struct mr_err err;

	if (!*o->html)
		return EXIT_DONE;
	if (mr_diagnosis_page(json, name, o->html, &err))
		return cli_fail(&err);
	fprintf(stderr, "millrace: %s: written\n", o->html);
	return EXIT_DONE;
}

/* What was found, as asked for; a text goes to `to`. */
static int say(const struct diagnose *o, const char *json, FILE *to)
{
	struct mr_err err;
	char *text;

	if (*o->out && save(o->out, json, &err))
		return cli_fail(&err);
	if (o->json) {
		puts(json);
		return page(o, json, "the diagnosis");
	}
	if (mr_diagnosis_show(json, "the diagnosis", &text, &err))
		return cli_fail(&err);
	fputs(text, to);
	free(text);
	if (*o->out)
		fprintf(stderr,
			"millrace: %s: written; `millrace whatif %s` "
			"predicts from it\n",
			o->out, o->out);
	return page(o, json, "the diagnosis");
}

static int show_saved(const struct diagnose *o)
{
	char *json = NULL, *text;
	struct mr_err err;
	size_t n;
	int e = mr_file_read(o->from, JSON_MAX, &json, &n, &err);

	if (!e)
		e = mr_diagnosis_show(json, o->from, &text, &err);
	if (!e) {
		fputs(o->json ? json : text, stdout);
		free(text);
		e = page(o, json, o->from);
	} else {
		e = cli_fail(&err);
	}
	free(json);
	return e;
}

static int run_saved(const struct cli_args *args, const struct diagnose *o)
{
	int code;

	if (args->argc > 0 || args->behind >= 0)
		return cli_usage("diagnose --from %s shows a diagnosis that "
				 "was saved: it takes no pipeline and no "
				 "command",
				 o->from);
	if (*o->accelerator || o->step_time > 0 || *o->cache || *o->out)
		return cli_usage("diagnose --from %s shows what was measured, "
				 "as it was: no --accelerator, --step-time, "
				 "--cache or --out; `millrace whatif %s` "
				 "predicts from it",
				 o->from, o->from);
	code = cli_takes_only(args, "diagnose --from FILE", "from html json");
	return code ? code : show_saved(o);
}

static int run_pipeline(const struct cli_args *args, const struct diagnose *o)
{
	struct mr_diagnose_options d;
	struct cli_progress progress;
	struct mr_err err;
	char *json;
	int code = cli_takes_all_but(args, "diagnose PIPELINE",
				     "keep_running which_loader epochs samples "
				     "trace events sample cold"),
	    e;

	if (code)
		return code;
	mr_diagnose_options_init(&d);
	d.loader = o->loader;
	d.accelerator = o->accelerator;
	d.step = o->step_time;
	d.cache = o->cache;
	d.seconds = o->seconds;
	d.job_only = o->job_only;
	d.progress = tell;
	d.data = &progress;
	cli_catch_signals();
	cli_progress_start(&progress, "diagnose", 100);
	e = mr_diagnose(args->argv[0], &d, &json, &err);
	cli_progress_end(&progress);
	if (e)
		return cli_fail(&err);
	code = say(o, json, stdout);
	free(json);
	return code;
}

/* stdout is the script's, unless the result is JSON. */
static int run_command(const struct cli_args *args, const struct diagnose *o)
{
	struct cli_script_options s = {
		.seconds = o->seconds > 0 ? o->seconds : 60,
		.keep_running = o->keep_running,
		.aside = o->json,
		.loader = o->which_loader,
	};
	struct mr_err err;
	char *json;
	int e, status, code;

	code = cli_takes_only(args, "diagnose -- COMMAND",
			      "seconds keep_running which_loader out html "
			      "json");
	if (code)
		return code;
	code = EXIT_FAILED;
	if (args->behind > 0 || args->argc == 0)
		return cli_usage("diagnose takes a pipeline, or a command "
				 "after --: millrace diagnose -- python3 "
				 "train.py");
	args->argv[args->argc] = NULL;
	e = cli_diagnose_command(args->argv, &s, &json, &err, &status);
	if (e < 0)
		cli_fail(&err);
	else if (!e)
		code = say(o, json, stderr);
	free(json);
	e = cli_child_exit(status);
	return e ? e : code;
}

static int run(const struct cli_args *args, void *options_)
{
	const struct diagnose *o = options_;

	if (*o->from)
		return run_saved(args, o);
	if (args->behind >= 0)
		return run_command(args, o);
	if (args->argc != 1)
		return cli_usage("diagnose takes one pipeline; quote it: "
				 "millrace diagnose 'files DIR | ... | batch "
				 "64' --accelerator 1790");
	return run_pipeline(args, o);
}

const struct cli_command cli_command_diagnose = {
	.name = "diagnose",
	.args = "PIPELINE | -- COMMAND... | --from FILE",
	.help = "is it the storage, the CPU or the accelerator that a job "
		"waits for, and what would help",
	.more = "The accelerator is imitated: it sleeps as long as it would "
		"compute.\nA part of the data set, said in the result, is "
		"measured in memory, from\nthe storage and by threads.\n"
		"After --, a script that trains with PyTorch's DataLoader: it "
		"is measured\nfrom within its own loop, and then ends; no "
		"file that was there before is\nchanged "
		"(docs/diagnosing-scripts.md).\n",
	.size = sizeof(struct diagnose),
	.options = options,
	.takes_loader_options = true,
	.loader = offsetof(struct diagnose, loader),
	.run = run,
};
