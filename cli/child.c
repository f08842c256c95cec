/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "core/mem.h"
#include "core/str.h"
#include "guard.h"

extern char **environ;

/* ---- where things are ---- */

/* The folder whose sitecustomize.py Python is to find: beside the command in
 * a build tree, else where it was installed. */
static int find_inject(char **found, struct mr_err *err)
{
	static const char *const places[] = { "python/millrace/inject",
					      MR_INJECT_DIR };
	char exe[4096], path[8192];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n < 0)
		return mr_err_sys(err, errno, "/proc/self/exe", "cannot read");
	exe[n] = 0;
	slash = strrchr(exe, '/');
	if (slash)
		*slash = 0;
	for (size_t i = 0; i < MR_COUNT(places); i++) {
		snprintf(path, sizeof(path), "%s/%s/sitecustomize.py", exe,
			 places[i]);
		if (access(path, R_OK))
			continue;
		*strrchr(path, '/') = 0;
		*found = realpath(path, NULL);
		if (*found)
			return 0;
	}
	return mr_err_set(err, MR_EIO,
			  "%s/%s/sitecustomize.py is missing: without the "
			  "Python module no Python can be followed; install it "
			  "(meson configure -Dpython=true)",
			  exe, MR_INJECT_DIR);
}

bool cli_child_made(const char *parts, const char *name)
{
	char path[8192];

	snprintf(path, sizeof(path), "%s/%s", parts, name);
	return !access(path, F_OK);
}

void cli_child_remove(const char *parts)
{
	char path[8192];
	DIR *d = opendir(parts);
	struct dirent *x;

	while (d && (x = readdir(d))) {
		if (x->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", parts, x->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(parts);
}

/* ---- the command ---- */

/* Our variables stand in the environment of this process, which does nothing
 * else: so the command is found and started as the shell would do it. */
int cli_child_environment(const char *variable, const char *parts,
			  struct mr_err *err)
{
	const char *old = getenv("PYTHONPATH");
	char *full, *text, *inject = NULL;
	struct mr_str s = { 0 };
	int e = find_inject(&inject, err);

	if (e)
		return e;
	full = realpath(parts, NULL);
	mr_str_add(&s, inject);
	if (old && *old)
		mr_str_addf(&s, ":%s", old);
	text = mr_str_take(&s);
	if (!full || !text || setenv("PYTHONPATH", text, 1) ||
	    setenv(variable, full, 1))
		e = mr_err_nomem(err, strlen(inject));
	free(text);
	free(full);
	free(inject);
	return e;
}

static volatile sig_atomic_t child;

/* What the terminal sends, the command gets by itself. */
static void forward(int sig, siginfo_t *info, void *context)
{
	int e = errno;

	(void)context;
	if (child > 0 && info->si_code <= 0)
		kill((pid_t)child, sig);
	errno = e;
}

static const int forwarded[] = { SIGINT, SIGQUIT, SIGTERM,
				 SIGHUP, SIGUSR1, SIGUSR2 };

/* Catch them, but for those that were ignored when we came. */
static void catch_signals(sigset_t *caught)
{
	struct sigaction sa = { .sa_sigaction = forward,
				.sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction old;

	sigemptyset(&sa.sa_mask);
	sigemptyset(caught);
	for (size_t i = 0; i < MR_COUNT(forwarded); i++) {
		sigaction(forwarded[i], NULL, &old);
		if (!(old.sa_flags & SA_SIGINFO) && old.sa_handler == SIG_IGN)
			continue;
		sigaction(forwarded[i], &sa, NULL);
		sigaddset(caught, forwarded[i]);
	}
}

/* What a start needs to know of signals: those that we catch, and what was
 * blocked before. */
struct signals {
	sigset_t caught, before;
};

static int spawn(char *const argv[], bool aside, const struct signals *s,
		 pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int e;

	posix_spawn_file_actions_init(&files);
	if (aside)
		posix_spawn_file_actions_adddup2(&files, STDERR_FILENO,
						 STDOUT_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &s->caught);
	posix_spawnattr_setsigmask(&attr, &s->before);
	e = posix_spawnp(pid, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return e;
}

static void become(char *const argv[], bool aside, const struct signals *s,
		   struct cli_guard *guard)
{
	for (size_t i = 0; i < MR_COUNT(forwarded); i++)
		if (sigismember(&s->caught, forwarded[i]))
			signal(forwarded[i], SIG_DFL);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
	if (aside)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	cli_guard_enter(guard);
	execvp(argv[0], argv);
}

/* The guard is entered between fork and exec. */
static int fork_guarded(char *const argv[], bool aside, const struct signals *s,
			struct cli_guard *guard, pid_t *pid)
{
	int told[2], e = 0;

	if (pipe2(told, O_CLOEXEC))
		return errno;
	fflush(NULL);
	*pid = fork();
	if (!*pid) {
		become(argv, aside, s, guard);
		e = errno;
		_exit(write(told[1], &e, sizeof(e)) == sizeof(e) ? 127 : 126);
	}
	if (*pid < 0)
		e = errno;
	close(told[1]);
	if (!e && read(told[0], &e, sizeof(e)) == sizeof(e))
		waitpid(*pid, NULL, 0);
	close(told[0]);
	return e;
}

int cli_child_start(char *const argv[], bool aside, struct cli_guard *guard,
		    struct mr_err *err)
{
	struct signals s;
	pid_t pid;
	int e;

	sigfillset(&s.caught);
	sigprocmask(SIG_BLOCK, &s.caught, &s.before);
	catch_signals(&s.caught);
	e = guard ? fork_guarded(argv, aside, &s, guard, &pid) :
		    spawn(argv, aside, &s, &pid);
	if (!e)
		child = (sig_atomic_t)pid;
	sigprocmask(SIG_SETMASK, &s.before, NULL);
	return e ? mr_err_sys(err, e, argv[0], "cannot be run") : 0;
}

pid_t cli_child_pid(void)
{
	return (pid_t)child;
}

int cli_child_wait(char *const argv[], int *status, struct mr_err *err)
{
	int e = 0;

	while (!e && waitpid((pid_t)child, status, 0) < 0)
		if (errno != EINTR)
			e = mr_err_sys(err, errno, argv[0],
				       "cannot be waited for");
	child = 0;
	return e;
}

int cli_child_exit(int status)
{
	struct rlimit none = { 0, 0 };
	int sig;

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	sig = WTERMSIG(status);
	setrlimit(RLIMIT_CORE, &none); /* the command has dumped its own */
	fflush(NULL);
	signal(sig, SIG_DFL);
	raise(sig);
	return 128 + sig;
}

/* ---- its words ---- */

static void add_word(struct mr_str *s, const char *word)
{
	bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyz"
						 "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
						 "0123456789_@%+=:,./-")];

	if (s->len)
		mr_str_add(s, " ");
	if (plain) {
		mr_str_add(s, word);
		return;
	}
	mr_str_add(s, "'");
	for (; *word; word++)
		if (*word == '\'')
			mr_str_add(s, "'\\''");
		else
			mr_str_addn(s, word, 1);
	mr_str_add(s, "'");
}

char *cli_child_line(char *const argv[])
{
	struct mr_str line = { 0 };

	for (size_t i = 0; argv[i]; i++)
		add_word(&line, argv[i]);
	return mr_str_take(&line);
}
