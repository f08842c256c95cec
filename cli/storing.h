/* SPDX-License-Identifier: Apache-2.0 */
/* What prepare and convert share: progress, and the report at the end. */
#ifndef MR_CLI_STORING_H
#define MR_CLI_STORING_H

#include "cli.h"

/* Runs the pipeline of args->argv[0]; returns an exit code. */
int cli_store(const struct cli_args *args, struct mr_store_options *opt,
	      bool json);

/* The same, with no more than progress and errors. */
int cli_store_quietly(const char *command, const char *pipeline,
		      struct mr_store_options *opt, struct mr_store_report *r);

#endif
