/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `diagnose -- COMMAND`: measures the stalls of a PyTorch script that knows
 * nothing of it, from within its own process. docs/diagnosing-scripts.md.
 */
#ifndef MR_CLI_SCRIPT_H
#define MR_CLI_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct cli_script_options {
	double seconds;	   /* that the diagnosis may take, about (60) */
	bool keep_running; /* the script goes on afterwards (no) */
	bool aside;	   /* what the script writes to stdout goes to
			    * stderr: the result needs it (no) */
	int64_t loader;	   /* which DataLoader, by when the script first
			    * goes over it, from 1 (1) */
};

/*
 * Run argv (which ends with NULL) and measure. *json becomes the diagnosis,
 * to be freed. *status is what waitpid() said of the command, also after an
 * error: cli_child_exit() makes an exit code of it.
 * Returns 0; 1 when nothing could be measured, which has been said on
 * stderr; or an error (the command could not be run, ...). *json is NULL
 * then.
 */
int cli_diagnose_command(char *const argv[], const struct cli_script_options *o,
			 char **json, struct mr_err *err, int *status);

#endif
