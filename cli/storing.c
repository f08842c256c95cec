/* SPDX-License-Identifier: Apache-2.0 */
#include "storing.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/json.h"

struct storing {
	const char *out;
	struct cli_progress progress;
	bool begun;
};

static bool progress(void *data, uint64_t done, uint64_t samples)
{
	struct storing *s = data;

	if (!s->begun)
		cli_progress_start(&s->progress, s->progress.label,
				   (double)samples);
	s->begun = true;
	cli_progress_show(&s->progress, (double)done);
	return cli_stopped();
}

static void print_json(const struct mr_store_options *opt,
		       const struct mr_store_report *r)
{
	struct mr_json j = { 0 };
	/* A dry run has none. */
	char *stats = r->stats.steps ? mr_stats_json(&r->stats) : NULL, *text;

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "out", opt->out);
	mr_json_bool(&j, "complete", r->complete);
	mr_json_uint(&j, "samples", r->samples);
	mr_json_uint(&j, "resumed", r->resumed);
	mr_json_uint(&j, "bad_samples", r->bad);
	mr_json_uint(&j, "shards", r->shards);
	mr_json_uint(&j, "bytes", r->bytes);
	mr_json_uint(&j, "estimate_bytes", r->estimate);
	mr_json_uint(&j, "available_bytes", r->available);
	mr_json_text(&j, "stored", r->stored);
	mr_json_text(&j, "deferred", r->deferred);
	mr_json_text(&j, "rest", r->rest);
	mr_json_text(&j, "tail", r->tail);
	mr_json_text(&j, "head", r->head);
	mr_json_real(&j, "seconds", r->seconds, 6);
	mr_json_real(&j, "write_seconds", r->write_seconds, 6);
	mr_json_real(&j, "sync_seconds", r->sync_seconds, 6);
	if (stats)
		mr_json_raw(&j, "loader", stats);
	mr_json_close(&j, '}');
	free(stats);
	text = mr_str_take(&j.out);
	puts(text ? text : "{}");
	free(text);
}

static void print_plan(void *data, const struct mr_store_report *r)
{
	const struct storing *s = data;
	char a[32], b[32], c[32];

	printf("stores %s\n", r->stored);
	if (*r->rest)
		printf("leaves to each epoch: %s\n", r->rest);
	if (*r->deferred)
		printf("leaves to be done on load: %s\n", r->deferred);
	printf("%s samples, about %s in %llu shards; %s free at %s\n",
	       mr_str_count(a, r->samples), mr_str_size(b, (double)r->estimate),
	       (unsigned long long)r->shards,
	       mr_str_size(c, (double)r->available), s->out);
	fflush(stdout);
}

/* What was left to be done comes by itself after `records`. */
static void print_use(const struct mr_store_options *opt,
		      const struct mr_store_report *r)
{
	printf("use it: millrace run '");
	if (opt->first)
		printf("%s | stored %s%s%s", r->head, opt->out,
		       *r->deferred ? " | " : "", r->deferred);
	else
		printf("records %s", opt->out);
	printf("%s%s | %s'\n", *r->rest ? " | " : "", r->rest,
	       *r->tail ? r->tail : "batch 64");
}

static void print_report(const struct mr_store_options *opt,
			 const struct mr_store_report *r)
{
	const struct mr_stats *st = &r->stats;
	char a[32], b[32];
	double s = r->seconds > 0 ? r->seconds : 1;
	uint64_t fresh = r->samples - r->resumed;

	printf("%s: %s samples, %s in %llu shards", opt->out,
	       mr_str_count(a, r->samples), mr_str_size(b, (double)r->bytes),
	       (unsigned long long)r->shards);
	if (r->bad)
		printf(", %s of them bad", mr_str_count(a, r->bad));
	printf("\n");
	if (r->resumed)
		printf("%s were there already\n", mr_str_count(a, r->resumed));
	printf("%.1f s, %s samples/s; writing took %.1f s, of which %.1f s "
	       "waiting for the disk\n",
	       r->seconds, mr_str_count(a, (uint64_t)((double)fresh / s)),
	       r->write_seconds, r->sync_seconds);
	for (size_t i = 0; i < st->steps; i++)
		if (st->step[i].total_ms > 0)
			printf("  %-20s %6.1f %% of the threads' time\n",
			       st->step[i].name, 100 * st->step[i].share);
	if (opt->to == MR_TO_RECORDS)
		print_use(opt, r);
}

int cli_store_quietly(const char *command, const char *pipeline,
		      struct mr_store_options *opt, struct mr_store_report *r)
{
	struct storing s = { .out = opt->out, .progress.label = command };
	struct mr_err err;
	int e;

	opt->progress = progress;
	opt->data = &s;
	cli_catch_signals();
	e = mr_store(pipeline, opt, r, &err);
	if (s.begun)
		cli_progress_end(&s.progress);
	if (e)
		return cli_fail(&err);
	if (opt->dry_run || r->complete)
		return EXIT_DONE;
	fprintf(stderr, "millrace: stopped; run the same command again to go "
			"on\n");
	return EXIT_FAILED;
}

int cli_store(const struct cli_args *args, struct mr_store_options *opt,
	      bool json)
{
	const char *command = args->command->name, *pipeline = args->argv[0];
	struct mr_store_report r;
	int code =
		cli_takes_all_but(args, command, "epochs samples order block");

	if (code)
		return code;
	opt->planned = json ? NULL : print_plan;
	code = cli_store_quietly(command, pipeline, opt, &r);
	if (code == EXIT_DONE && json)
		print_json(opt, &r);
	else if (code == EXIT_DONE && !opt->dry_run)
		print_report(opt, &r);
	return code;
}
