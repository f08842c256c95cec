/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: what this machine offers a training job. */
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

struct doctor {
	uint64_t size;
	double seconds;
	bool direct, json;
};

static const struct mr_param options[] = {
	MR_SIZE(struct doctor, size, "0", 0, 64.0 * (1 << 30),
		"of the file that is read; 0: 512 MiB at most, less on a slow "
		"or small disk"),
	MR_TIME(struct doctor, seconds, "30", 0.5, 3600,
		"time that all of it takes, about; from 0.5 s on"),
	MR_BOOL(struct doctor, direct, "no",
		"read past the page cache (O_DIRECT) where the file system "
		"allows it"),
	MR_BOOL(struct doctor, json, "no",
		"print one JSON object instead of text"),
	MR_PARAM_END
};

static bool progress(void *data, const char *what, double done)
{
	bool *on = data;

	if (*on)
		fprintf(stderr, "\rdoctor  %.0f %%  %s\033[K", done * 100,
			what);
	return cli_stopped();
}

static int run(const struct cli_args *args, void *options_)
{
	const struct doctor *o = options_;
	bool on = isatty(STDERR_FILENO) || getenv("MILLRACE_PROGRESS");
	struct mr_doctor_options opt;
	struct mr_err err;
	char *text;
	int e;

	if (args->argc > 1)
		return cli_usage("doctor takes one directory, or none for the "
				 "current one");
	mr_doctor_options_init(&opt);
	if (args->argc)
		opt.dir = args->argv[0];
	opt.bytes = o->size;
	opt.seconds = o->seconds;
	opt.direct = o->direct;
	opt.json = o->json;
	opt.progress = progress;
	opt.data = &on;
	cli_clean_on_signals();
	e = mr_doctor(&opt, &text, &err);
	if (on)
		fputs("\r\033[K", stderr);
	if (e)
		return cli_fail(&err);
	fputs(text, stdout);
	if (o->json)
		fputs("\n", stdout);
	free(text);
	return EXIT_DONE;
}

const struct cli_command cli_command_doctor = {
	.name = "doctor",
	.args = "[DIR]",
	.help = "what this machine offers a training job: storage, memory, "
		"codecs, kernel, limits; with advice",
	.more = "Measures the storage of DIR (the current directory) with "
		"files that it\nmakes there and removes: a large one in "
		"sequence and at random, and many\nsmall ones, cold, with one "
		"thread and with several. The last line of that\nis a profile "
		"for --storage, to imitate this storage elsewhere.\n",
	.size = sizeof(struct doctor),
	.options = options,
	.run = run,
};
