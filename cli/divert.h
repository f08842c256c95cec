/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a system call that would change a file: guard.h. */
#ifndef MR_CLI_DIVERT_H
#define MR_CLI_DIVERT_H

#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_guard;

/* Flags of open() that may change a file. */
#define CLI_WRITES ((unsigned)(O_WRONLY | O_RDWR | O_TRUNC))

/* What the file has that stands in for an old one. */
enum cli_contents {
	CLI_NONE,  /* it is not there */
	CLI_HOLES, /* the length, for those that only write: the old contents
		    * were too many or cannot be read */
	CLI_WHOLE, /* the old contents, or what was written over them */
};

/* A file that was there before, and what stands in for it. */
struct cli_diverted {
	dev_t dev;
	ino_t ino;
	bool gone; /* removed or renamed, as far as the command knows */
	enum cli_contents has;
	char name[96]; /* for people, cut off at the front */
};

/* A process that waits for an answer. */
struct cli_asker {
	const struct seccomp_notif *n;
	int memory; /* /proc/PID/mem */
};

/* How its call ends. */
struct cli_answer {
	bool go_on; /* let the kernel do it */
	int error;
	int64_t value;
};

/* Decide, and do what has to be done for it. */
struct cli_answer cli_divert(struct cli_guard *g, const struct cli_asker *a);

#endif
