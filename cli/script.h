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
	bool json;	   /* one JSON object instead of a text; what the
			    * script writes to stdout goes to stderr then */
	int64_t loader;	   /* which DataLoader, by when the script first
			    * goes over it, from 1 (1) */
};

/*
 * Run argv (which ends with NULL) and measure. *text becomes the report, to
 * be freed: for stdout with `json`, else for stderr, since stdout is the
 * script's. *status is what waitpid() said of the command, also after an
 * error: cli_child_exit() makes an exit code of it.
 * Returns 0; 1 when nothing could be measured, which has been said on
 * stderr; or an error (the command could not be run, ...). *text is NULL
 * then.
 */
int cli_diagnose_command(char *const argv[], const struct cli_script_options *o,
			 char **text, struct mr_err *err, int *status);

#endif
