/* SPDX-License-Identifier: Apache-2.0 */
/* Running a pipeline and throwing its batches away: what `run` and `trace`
 * have in common. */
#ifndef MR_CLI_CONSUME_H
#define MR_CLI_CONSUME_H

#include "cli.h"

struct cli_job {
	struct mr_options *opt;
	double seconds; /* stop after; 0: never */
	bool digest;	/* hash the batches into: */
	uint64_t hash;
	/* results */
	struct mr_loader *l;
	bool timed_out;
	/* own */
	struct cli_progress progress;
	uint64_t start_ns;
};

/* "R/N" into opt; "" changes nothing. An exit code, told, or 0. */
int cli_parse_rank(const char *text, struct mr_options *opt);

/* Opens the loader, with a line of progress where --cold takes its time. One
 * epoch, unless the options say otherwise. */
int cli_job_open(struct cli_job *j, const char *pipeline, struct mr_err *err);

/* Takes all batches: until the end, a signal, or the time is up. */
int cli_job_consume(struct cli_job *j, const char *label, struct mr_err *err);

#endif
