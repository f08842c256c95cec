/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a command and say, from outside, how long it took and what it used. A
 * small process of its own, because a child's ru_maxrss begins with what the
 * parent has in memory: a Python would count its own.
 *
 * usage: spawn FILE CMD [ARG...]; the line of JSON goes to FILE, the exit
 * status is the command's.
 */
#include "bare.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
	struct rusage ru;
	double start, wall;
	int status, e;
	pid_t pid;
	FILE *f;

	if (argc < 3)
		errx(2, "usage: spawn FILE CMD [ARG...]");
	start = bare_now();
	e = posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ);
	if (e)
		errx(127, "%s: %s", argv[2], strerror(e));
	while (wait4(pid, &status, 0, &ru) < 0)
		if (errno != EINTR)
			err(1, "wait4");
	wall = bare_now() - start;
	f = fopen(argv[1], "we");
	if (!f)
		err(1, "%s", argv[1]);
	fprintf(f,
		"{\"seconds\": %.6f, \"maxrss_kib\": %ld, \"user_s\": %.6f, "
		"\"sys_s\": %.6f}\n",
		wall, ru.ru_maxrss, seconds(ru.ru_utime), seconds(ru.ru_stime));
	if (fclose(f))
		err(1, "%s", argv[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
