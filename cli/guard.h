/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a command run without changing any file that was there before: the
 * kernel asks us (seccomp's user notification, Linux 5.9, no root needed)
 * before a process of the command opens a file for writing, renames, removes
 * or truncates one, whichever library or language does it. Files that are
 * older than the command are left alone: who writes to one gets another one
 * in a folder of ours; who removes or replaces one is told that it was done.
 * New files are made as ever.
 */
#ifndef MR_CLI_GUARD_H
#define MR_CLI_GUARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

struct cli_guard {
	const char *folder;
	int listener;  /* where the kernel asks; -1: it does not */
	int pair[2];   /* how the listener comes from the child */
	int64_t start; /* of the command: seconds since 1970 */
	uint32_t start_ns;
	struct cli_diverted *old; /* files that were to be changed */
	size_t olds, cap;
};

/* `folder` is for what is diverted, and must outlive the guard. */
int cli_guard_open(struct cli_guard *g, const char *folder, struct mr_err *err);

/* In the child, before exec: from here on the kernel asks. Where it cannot,
 * the environment tells the hooks in Python when the command began, which then
 * refuse what they see. */
void cli_guard_enter(struct cli_guard *g);

/* Answer until process `pid`, a child that is not yet waited for, ends; where
 * nobody asks, that is said on stderr. */
void cli_guard_serve(struct cli_guard *g, pid_t pid);

/* On stderr, which files were to be changed and were not. */
void cli_guard_tell(const struct cli_guard *g);

void cli_guard_close(struct cli_guard *g);

#endif
