/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a command that is not Millrace's: `trace -o FILE -- CMD`. Pythons
 * that it starts, and their workers, each record into a file of their own in
 * FILE.parts; these are merged into FILE when the command has ended.
 */
#ifndef MR_CLI_FOREIGN_H
#define MR_CLI_FOREIGN_H

#include "trace/merge.h"

struct cli_trace_options {
	int hz; /* how often a second it is written down which function runs;
		 * 0: never */
	const char *events; /* that are counted step by step, as
			     * mr_events_init() takes them */
};

/*
 * Run argv (which ends with NULL) and merge what was recorded into `out`, or
 * into out with .rankN before its extension where there are several ranks:
 * *got, { 0 } before, says what was made, also after an error. *status
 * is what waitpid() said of the command, also after an error. Returns 0; 1
 * when nothing was recorded, which has been said on stderr; or an error (the
 * command could not be run, or the trace not be written; then out.parts
 * stays).
 */
int cli_trace_command(char *const argv[], const char *out,
		      const struct cli_trace_options *o, struct mr_merged *got,
		      struct mr_err *err, int *status);

/*
 * Merge into `out`, or ranks as above, what is in `parts`, the folder that a
 * command that was cut off has left behind. The folder stays, which is said on
 * stderr.
 */
int cli_trace_parts(const char *parts, const char *out, struct mr_merged *got,
		    struct mr_err *err);

/* Say on stderr where it is; hint: and what one does with it. */
void cli_trace_tell(const struct mr_merged *got, bool hint);

#endif
