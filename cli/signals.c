/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask a command to stop. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "cli.h"
#include "core/mem.h"

/* Seconds after which a command that was asked to stop must be hanging. */
enum { HANGS = 10 };

/* Any thread may be the one that a signal finds. */
static atomic_int stopped, since;

bool cli_stopped(void)
{
	return stopped != 0;
}

static void stop(int sig)
{
	stopped = sig;
}

void cli_catch_signals(void)
{
	struct sigaction sa = { .sa_handler = stop,
				.sa_flags = (int)SA_RESETHAND };

	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

/* ---- for those that have files to remove ---- */

static void stop_once(int sig)
{
	struct timespec now;
	int e = errno;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!stopped) {
		since = (int)now.tv_sec;
		stopped = sig; /* last: it says that the other one is set */
	} else if (now.tv_sec - since >= HANGS) {
		signal(sig, SIG_DFL);
		raise(sig); /* comes when this one has returned */
	}
	errno = e;
}

/* By nohup, or a shell that runs it in the background. */
static bool is_ignored(int sig)
{
	struct sigaction sa;

	return !sigaction(sig, NULL, &sa) && sa.sa_handler == SIG_IGN;
}

void cli_clean_on_signals(void)
{
	static const int sig[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction sa = { .sa_handler = stop_once };

	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < MR_COUNT(sig); i++)
		sigaddset(&sa.sa_mask, sig[i]);
	for (size_t i = 0; i < MR_COUNT(sig); i++)
		if (sig[i] == SIGINT || sig[i] == SIGTERM ||
		    !is_ignored(sig[i]))
			sigaction(sig[i], &sa, NULL);
}
