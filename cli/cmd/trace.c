/* SPDX-License-Identifier: Apache-2.0 */
/* trace: record what a program does with its data, and when. */
#include "cli.h"
#include "foreign.h"

struct trace {
	const char *out;
};

static const struct mr_param options[] = {
	MR_TEXT(struct trace, out, "trace.mrt", "the file to be written"),
	MR_PARAM_END
};

static int run(const struct cli_args *args, void *options_)
{
	struct trace *o = options_;
	struct mr_err err;
	int status, e;

	if (!args->argc)
		return cli_usage("trace needs a command after --");
	args->argv[args->argc] = NULL;
	e = cli_trace_command(args->argv, o->out, &err, &status);
	if (e < 0)
		fprintf(stderr, "millrace: %s\n", err.text);
	return cli_trace_exit(status);
}

const struct cli_command cli_command_trace = {
	.name = "trace",
	.args = "-- COMMAND...",
	.help = "record where a program's time goes",
	.size = sizeof(struct trace),
	.options = options,
	.run = run,
};
