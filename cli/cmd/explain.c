/* SPDX-License-Identifier: Apache-2.0 */
/* explain: the plan of a pipeline. */
#include <stdlib.h>

#include "cli.h"

struct explain {
	struct mr_options loader;
	bool json;
};

static const struct mr_param options[] = {
	MR_BOOL(struct explain, json, "no",
		"print one JSON object instead of text"),
	MR_PARAM_END
};

static int run(const struct cli_args *args, void *options_)
{
	struct explain *o = options_;
	struct mr_err err;
	char *text;

	if (args->argc != 1)
		return cli_usage("explain takes one pipeline; quote it: "
				 "millrace explain 'files DIR | batch 64'");
	if (mr_explain(args->argv[0], &o->loader, o->json, &text, &err))
		return cli_fail(&err);
	printf("%s%s", text, o->json ? "\n" : "");
	free(text);
	return EXIT_DONE;
}

const struct cli_command cli_command_explain = {
	.name = "explain",
	.args = "PIPELINE",
	.help = "the plan: types and shapes after each step, what is random, "
		"where results go, buffers",
	.size = sizeof(struct explain),
	.options = options,
	.takes_loader_options = true,
	.loader = offsetof(struct explain, loader),
	.run = run,
};
