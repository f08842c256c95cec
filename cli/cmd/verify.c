/* SPDX-License-Identifier: Apache-2.0 */
/* verify: compare a prepared data set with its checksums. */
#include <stdlib.h>

#include "cli.h"
#include "core/json.h"
#include "core/str.h"

struct verify {
	int64_t threads;
	bool json;
};

static const struct mr_param options[] = {
	MR_INT(struct verify, threads, "0", 0, 4096,
	       "that read; 0: the cores this process may use"),
	MR_BOOL(struct verify, json, "no",
		"print one JSON object instead of text"),
	MR_PARAM_END
};

struct checking {
	struct cli_progress progress;
	struct mr_json *list; /* of what was found, or NULL */
	bool begun;
};

static bool progress(void *data, uint64_t done, uint64_t samples)
{
	struct checking *c = data;

	if (!c->begun)
		cli_progress_start(&c->progress, "verify", (double)samples);
	c->begun = true;
	cli_progress_show(&c->progress, (double)done);
	return cli_stopped();
}

static void found(void *data, const char *text)
{
	struct checking *c = data;

	if (c->list)
		mr_json_text(c->list, NULL, text);
	else
		printf("%s\n", text);
}

static void print_json(const struct mr_verify_report *r, struct mr_json *list,
		       const struct mr_err *err)
{
	struct mr_json j = { 0 };
	char *text;

	mr_json_close(list, ']');
	mr_json_open(&j, NULL, '{');
	mr_json_bool(&j, "ok", !err->code && r->complete);
	mr_json_bool(&j, "complete", r->complete);
	mr_json_uint(&j, "samples", r->samples);
	mr_json_uint(&j, "bad_samples", r->bad);
	mr_json_uint(&j, "shards", r->shards);
	mr_json_uint(&j, "bytes", r->bytes);
	mr_json_uint(&j, "damaged", r->damaged);
	text = mr_str_take(&list->out);
	mr_json_raw(&j, "found", text ? text : "[]");
	free(text);
	if (err->code)
		mr_json_text(&j, "error", err->text);
	mr_json_close(&j, '}');
	text = mr_str_take(&j.out);
	puts(text ? text : "{}");
	free(text);
}

static int run(const struct cli_args *args, void *options_)
{
	struct verify *o = options_;
	struct mr_json list = { 0 };
	struct checking c = { .list = o->json ? &list : NULL };
	struct mr_verify_report r = { .found = found,
				      .progress = progress,
				      .data = &c };
	struct mr_err err = { 0 };
	char a[32], b[32];
	int e;

	if (args->argc != 1)
		return cli_usage("verify takes one directory that prepare "
				 "wrote");
	mr_json_open(&list, NULL, '[');
	cli_catch_signals();
	e = mr_verify(args->argv[0], (int)o->threads, &r, &err);
	if (c.begun)
		cli_progress_end(&c.progress);
	if (o->json)
		print_json(&r, &list, &err);
	mr_str_fini(&list.out);
	if (e)
		return cli_fail(&err);
	if (!r.complete)
		return cli_usage("stopped after %s samples",
				 mr_str_count(a, r.samples));
	if (!o->json)
		printf("%s: %s samples in %llu shards, %s: all as they were "
		       "written%s\n",
		       args->argv[0], mr_str_count(a, r.samples),
		       (unsigned long long)r.shards,
		       mr_str_size(b, (double)r.bytes),
		       r.bad ? ", some of them bad from the start" : "");
	return EXIT_DONE;
}

const struct cli_command cli_command_verify = {
	.name = "verify",
	.args = "DIR",
	.help = "check a prepared data set's checksums and completeness",
	.more = "Prints a line for each sample that is not as it was written,\n"
		"with its shard, number, bytes and key, and exits with 1.\n",
	.size = sizeof(struct verify),
	.options = options,
	.run = run,
};
