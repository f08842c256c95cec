/* SPDX-License-Identifier: Apache-2.0 */
#include "foreign.h"

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "core/file.h"
#include "core/machine.h"
#include "core/mem.h"
#include "trace/merge.h"
#include "trace/sampler.h"

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

/* A number of the environment, or -1. */
static int env_int(const char *name)
{
	const char *s = getenv(name);
	char *end;
	long v = s && *s ? strtol(s, &end, 10) : -1;

	return s && *s && !*end && v >= 0 && v < 1 << 30 ? (int)v : -1;
}

/* Which of several ranks this is, or -1. */
static int my_rank(void)
{
	static const struct {
		const char *rank, *ranks;
	} by[] = {
		{ "RANK", "WORLD_SIZE" },
		{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
		{ "PMI_RANK", "PMI_SIZE" },
		{ "SLURM_PROCID", "SLURM_NTASKS" },
		{ "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
	};

	for (size_t i = 0; i < MR_COUNT(by); i++) {
		int r = env_int(by[i].rank), n = env_int(by[i].ranks);

		if (r >= 0 && r < n)
			return n > 1 ? r : -1;
	}
	return -1;
}

/* FILE.parts, each rank its own: they may share a folder. */
static int make_parts(const char *out, char **parts, struct mr_err *err)
{
	int rank = my_rank();
	char *base = rank < 0 ? strdup(out) : mr_merge_name(out, rank);
	size_t n;
	int e = 0;

	if (!base)
		return mr_err_nomem(err, strlen(out));
	n = strlen(base) + 8;
	*parts = malloc(n);
	if (!*parts) {
		e = mr_err_nomem(err, n);
	} else {
		snprintf(*parts, n, "%s.parts", base);
		if (mkdir(*parts, 0777) && errno == EEXIST)
			e = mr_err_set(err, MR_EIO,
				       "%s is there already: another trace is "
				       "being recorded to %s, or one was cut "
				       "off; remove it",
				       *parts, base);
		else if (access(*parts, W_OK))
			e = mr_err_sys(err, errno, *parts, "cannot make");
	}
	free(base);
	if (e) {
		free(*parts);
		*parts = NULL;
	}
	return e;
}

static bool was_made(const char *parts, const char *name)
{
	char path[8192];

	snprintf(path, sizeof(path), "%s/%s", parts, name);
	return !access(path, F_OK);
}

static void remove_parts(const char *parts)
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
static int set_environment(const char *inject, const char *parts,
			   struct mr_err *err)
{
	const char *old = getenv("PYTHONPATH");
	char *full = realpath(parts, NULL);
	struct mr_str s = { 0 };
	char *text;
	int e = 0;

	mr_str_add(&s, inject);
	if (old && *old)
		mr_str_addf(&s, ":%s", old);
	text = mr_str_take(&s);
	if (!full || !text || setenv("PYTHONPATH", text, 1) ||
	    setenv("MILLRACE_TRACE", full, 1))
		e = mr_err_nomem(err, strlen(inject));
	free(text);
	free(full);
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

static int start(char *const argv[], struct mr_err *err)
{
	posix_spawnattr_t attr;
	sigset_t caught, before;
	pid_t pid;
	int e;

	sigfillset(&caught);
	sigprocmask(SIG_BLOCK, &caught, &before);
	catch_signals(&caught);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&attr, &caught);
	posix_spawnattr_setsigmask(&attr, &before);
	e = posix_spawnp(&pid, argv[0], NULL, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	if (!e)
		child = (sig_atomic_t)pid;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return e ? mr_err_sys(err, e, argv[0], "cannot be run") : 0;
}

/* Which functions the command and its children run in, into a file of its
 * own among the parts. What is not allowed is left out. */
struct watch {
	struct mr_clock clock;
	struct mr_recorder *recorder;
	struct mr_sampler *sampler;
};

static void begin_watch(struct watch *w, const char *parts, int hz)
{
	struct mr_mrt_header h;
	struct mr_err ignored;
	char path[4096];

	if (!hz || snprintf(path, sizeof(path), "%s/samples.mrt", parts) >=
			   (int)sizeof(path))
		return;
	mr_clock_init(&w->clock);
	mr_mrt_now(&h);
	if (mr_recorder_new(&w->recorder, path, &h, &w->clock, 1, &ignored))
		return;
	if (mr_sampler_open(&w->sampler, (pid_t)child, hz, w->recorder,
			    &ignored))
		w->sampler = NULL;
}

static void end_watch(struct watch *w)
{
	mr_recorder_close(w->recorder, NULL, NULL, NULL);
	mr_sampler_free(w->sampler);
}

static int run(char *const argv[], const char *parts, int hz, int *status,
	       struct mr_err *err)
{
	struct watch w = { 0 };
	int e = start(argv, err);

	*status = 127 << 8; /* as the shell has it */
	if (e)
		return e;
	begin_watch(&w, parts, hz);
	while (!e && waitpid((pid_t)child, status, 0) < 0)
		if (errno != EINTR)
			e = mr_err_sys(err, errno, argv[0],
				       "cannot be waited for");
	end_watch(&w);
	child = 0;
	return e;
}

int cli_trace_exit(int status)
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

/* ---- the trace ---- */

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

/* What the command is and where it ran; to be freed. */
static char *meta(char *const argv[], int status)
{
	struct mr_json j = { 0 };
	struct mr_str line = { 0 };

	for (size_t i = 0; argv[i]; i++)
		add_word(&line, argv[i]);
	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "pipeline",
		     line.text && mr_json_can(line.text) ? line.text : "?");
	mr_json_text(&j, "version", mr_version());
	mr_json_bool(&j, "foreign", true);
	mr_json_text(&j, "clock", "monotonic");
	mr_json_int(&j, WIFSIGNALED(status) ? "signal" : "exit",
		    WIFSIGNALED(status) ? WTERMSIG(status) :
					  WEXITSTATUS(status));
	mr_machine_json(&j);
	mr_json_close(&j, '}');
	mr_str_fini(&line);
	return mr_str_take(&j.out);
}

static void nothing_seen(const char *parts, const char *command)
{
	if (was_made(parts, "stopped"))
		fprintf(stderr, "millrace: nothing was recorded\n");
	else if (was_made(parts, "python"))
		fprintf(stderr,
			"millrace: no DataLoader was seen: the Python that %s "
			"ran took no batch from a torch.utils.data."
			"DataLoader\n",
			command);
	else
		fprintf(stderr,
			"millrace: no DataLoader was seen: %s started no "
			"Python that looks at PYTHONPATH (python -I and -E "
			"and a cleared environment do not)\n",
			command);
}

static int gather(char *const argv[], const char *parts, const char *out,
		  int status, struct mr_err *err)
{
	char *text = meta(argv, status);
	struct mr_merged got = { 0 };
	int e = text ? mr_merge(parts, out, text, &got, err) :
		       mr_err_nomem(err, 1);

	free(text);
	if (e)
		return mr_err_prefix(err,
				     "what was recorded stays in %s: ", parts);
	if (!got.spans) {
		nothing_seen(parts, argv[0]);
		if (got.parts)
			unlink(out);
	}
	if (got.traces > 1)
		fprintf(stderr, "millrace: %u ranks, a trace for each\n",
			got.traces);
	remove_parts(parts);
	return got.spans ? 0 : 1;
}

int cli_trace_command(char *const argv[], const char *out, int hz,
		      struct mr_err *err, int *status)
{
	char *inject = NULL, *parts = NULL;
	int e = find_inject(&inject, err);

	*status = EXIT_FAILED << 8;
	if (!e)
		e = make_parts(out, &parts, err);
	if (!e) {
		e = set_environment(inject, parts, err);
		if (!e)
			e = run(argv, parts, hz, status, err);
		signal(SIGXFSZ, SIG_IGN); /* an error is told */
		if (e)
			remove_parts(parts);
		else
			e = gather(argv, parts, out, *status, err);
	}
	free(inject);
	free(parts);
	return e;
}
