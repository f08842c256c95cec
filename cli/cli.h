/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command: one file per subcommand in cmd/, whose last lines are its
 * declaration. main.c parses the options by the table and calls run().
 */
#ifndef MR_CLI_H
#define MR_CLI_H

#include <stdio.h>

#include "core/arena.h"
#include "core/param.h"
#include "millrace/plugin.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { CLI_OPTIONS = 64 }; /* of a command, at most */

struct cli_args {
	const struct cli_command *command;
	int argc; /* what is left after the options */
	char **argv;
	int behind; /* of them, from here on they stood behind "--"; argc:
		     * none did, -1: there was no "--" */
	struct mr_arena *strings; /* lives until the end of main() */
	/* Members that options were given for, each once. */
	const char *given[CLI_OPTIONS];
	int givens;
};

struct cli_command {
	const char *name;
	const char *args; /* "PIPELINE", "[NAME]": for the usage line */
	const char *help; /* one line */
	const char *more; /* paragraphs for --help, or NULL */
	size_t size;	  /* of the options' struct */
	/* --name VALUE or --name=VALUE; '_' is written '-'; MR_P_BOOL
	 * options take no value. Ends with MR_PARAM_END. May be NULL. */
	const struct mr_param *options;
	/* A second table, over struct mr_options at offset `loader`, for
	 * commands that run a pipeline; or false. */
	bool takes_loader_options;
	size_t loader;
	/* Returns an exit code. */
	int (*run)(const struct cli_args *args, void *options);
};

/* All commands, by name; the table is made from the files in cmd/. */
extern const struct cli_command *const cli_commands[];

/* "millrace: text" on stderr, and the exit code for this error. */
int cli_fail(const struct mr_err *err);
int cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * An option that was given and means nothing is refused, not ignored. Commands
 * that are used in several ways say which options each way takes, or does not
 * take: members' names with spaces between them. `use` is that way, as one
 * writes it ("trace FILE.mrt"). An exit code, told, or 0.
 */
int cli_takes_only(const struct cli_args *args, const char *use,
		   const char *names);
int cli_takes_all_but(const struct cli_args *args, const char *use,
		      const char *names);

/* Set by a signal: finish cleanly, then leave. */
bool cli_stopped(void);

/* Of SIGINT and SIGTERM. The second Ctrl-C ends the process at once. */
void cli_catch_signals(void);

/*
 * Of these, and of a terminal that is closed and Ctrl-\, for commands that
 * would leave large files behind: the second one changes nothing, so that the
 * files are removed. Ten seconds after the first one, when removing them must
 * hang, one ends the process at once.
 */
void cli_clean_on_signals(void);

/*
 * The line of progress on stderr, when that is a terminal (or always with
 * MILLRACE_PROGRESS=1): "label  12,345 of 50,000  25 %  8,312/s  4 s left".
 */
struct cli_progress {
	const char *label;
	double total; /* 0: unknown */
	double start, last;
	bool on, drawn;
};

void cli_progress_start(struct cli_progress *p, const char *label,
			double total);
void cli_progress_show(struct cli_progress *p, double done);
void cli_progress_end(struct cli_progress *p);

/* The help of one command, and the list of all; plain text or troff. */
void cli_help(const struct cli_command *c, FILE *out);
void cli_help_all(FILE *out);
void cli_man(FILE *out);

#endif
