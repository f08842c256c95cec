/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that is not Millrace's, such as `python3 train.py`: Pythons that
 * it starts, and their workers, find our hooks (python/millrace/inject),
 * which write into a folder. One at a time.
 */
#ifndef MR_CLI_CHILD_H
#define MR_CLI_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/err.h"

struct cli_guard;

/* Let Pythons find the hooks, and `variable` be the folder's full path: in
 * the environment of this process, which does nothing else. */
int cli_child_environment(const char *variable, const char *parts,
			  struct mr_err *err);

/* Is there a file of that name in the folder? The hooks leave `python`. */
bool cli_child_made(const char *parts, const char *name);
/* Remove it with its files. */
void cli_child_remove(const char *parts);

/* Start argv, which ends with NULL, as the shell would; aside: what it writes
 * to stdout goes to stderr; guard: what it must not change, or NULL. Signals
 * that reach us are passed on from here on. */
int cli_child_start(char *const argv[], bool aside, struct cli_guard *guard,
		    struct mr_err *err);
pid_t cli_child_pid(void);
/* *status is what waitpid() said. */
int cli_child_wait(char *const argv[], int *status, struct mr_err *err);

/* The exit code for that status; does not return when the command was ended
 * by a signal, but ends by the same one. */
int cli_child_exit(int status);

/* The command as one would type it; to be freed, NULL when out of memory. */
char *cli_child_line(char *const argv[]);

#endif
