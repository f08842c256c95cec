/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cli.h"
#include "core/mem.h"
#include "core/str.h"
#include "guard.h"

/* A folder for what the hooks write, to be freed. */
static char *make_folder(struct mr_err *err)
{
	const char *tmp = getenv("TMPDIR");
	struct mr_str s = { 0 };
	char *path;

	mr_str_addf(&s, "%s/millrace-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	path = mr_str_take(&s);
	if (!path) {
		mr_err_nomem(err, 1);
		return NULL;
	}
	if (mkdtemp(path))
		return path;
	mr_err_sys(err, errno, path,
		   "cannot be made (TMPDIR says where it is to be)");
	free(path);
	return NULL;
}

static int set_options(const struct cli_script_options *o, struct mr_err *err)
{
	char text[96];

	snprintf(text, sizeof(text), "%.3f %d %lld", o->seconds,
		 o->keep_running, (long long)o->loader);
	unsetenv("MILLRACE_DIAGNOSE_GUARD");
	return setenv("MILLRACE_DIAGNOSE_OPTIONS", text, 1) ?
		       mr_err_nomem(err, sizeof(text)) :
		       0;
}

/* Its first line, or "". */
static void word_of(const char *folder, const char *name, char *to, size_t cap)
{
	char path[8192];
	FILE *f;

	*to = 0;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (f && fgets(to, (int)cap, f))
		to[strcspn(to, "\n")] = 0;
	if (f)
		fclose(f);
}

static void nothing_seen(const char *folder, const char *command, int status)
{
	char tiny[200];

	word_of(folder, "tiny", tiny, sizeof(tiny));
	if (*tiny)
		fprintf(stderr,
			"millrace: nothing was measured: the data set is too "
			"small: %s\n",
			tiny);
	else if (WIFSIGNALED(status))
		fprintf(stderr,
			"millrace: nothing was measured: %s was ended by "
			"signal %d\n",
			command, WTERMSIG(status));
	else if (cli_child_made(folder, "python"))
		fprintf(stderr,
			"millrace: nothing was measured: the Python that %s "
			"ran went over no torch.utils.data.DataLoader\n",
			command);
	else
		fprintf(stderr,
			"millrace: nothing was measured: %s started no "
			"Python that looks at PYTHONPATH (python -I and -E "
			"and a cleared environment do not)\n",
			command);
}

static int conclude(char *const argv[], const char *folder, int status,
		    char **json, struct mr_err *err)
{
	char *line = cli_child_line(argv);
	int e = line ? mr_diagnose_script(folder, line, json, err) :
		       mr_err_nomem(err, 1);

	free(line);
	if (e != MR_EDATA)
		return e;
	if (cli_child_made(folder, "measured"))
		fprintf(stderr, "millrace: %s\n", err->text);
	else
		nothing_seen(folder, argv[0], status);
	return 1;
}

static int run(char *const argv[], const struct cli_script_options *o,
	       const char *folder, int *status, struct mr_err *err)
{
	struct cli_guard guard;
	int e;

	if (o->keep_running) {
		e = cli_child_start(argv, o->aside, NULL, err);
		return e ? e : cli_child_wait(argv, status, err);
	}
	e = cli_guard_open(&guard, folder, err);
	if (e)
		return e;
	e = cli_child_start(argv, o->aside, &guard, err);
	if (!e) {
		cli_guard_serve(&guard, cli_child_pid());
		e = cli_child_wait(argv, status, err);
	}
	cli_guard_tell(&guard);
	cli_guard_close(&guard);
	return e;
}

int cli_diagnose_command(char *const argv[], const struct cli_script_options *o,
			 char **json, struct mr_err *err, int *status)
{
	char *folder = make_folder(err);
	int e;

	*json = NULL;
	*status = 127 << 8; /* as the shell has it */
	if (!folder)
		return err->code;
	e = cli_child_environment("MILLRACE_DIAGNOSE", folder, err);
	if (!e)
		e = set_options(o, err);
	if (!e)
		e = run(argv, o, folder, status, err);
	if (!e)
		e = conclude(argv, folder, *status, json, err);
	cli_child_remove(folder);
	free(folder);
	return e;
}
