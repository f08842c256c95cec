/* SPDX-License-Identifier: Apache-2.0 */
#include "foreign.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cli.h"
#include "core/file.h"
#include "core/machine.h"
#include "core/mem.h"
#include "core/str.h"
#include "trace/events.h"
#include "trace/merge.h"
#include "trace/sampler.h"

#define META "meta.json"

enum { META_MAX = 1 << 20 };

/* ---- where things are ---- */

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

/* Why the folder could not be made. */
static int no_parts(const char *parts, const char *base, int errnum,
		    struct mr_err *err)
{
	if (errnum != EEXIST)
		return mr_err_sys(err, errnum, parts, "cannot make");
	return mr_err_set(err, MR_EIO,
			  "%s is there already: another trace is being "
			  "recorded to %s, or one was cut off. `millrace trace "
			  "%s` makes a trace of what is in it; then remove it",
			  parts, base, parts);
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
		if (mkdir(*parts, 0777))
			e = no_parts(*parts, base, errno, err);
	}
	free(base);
	if (e) {
		free(*parts);
		*parts = NULL;
	}
	return e;
}

static int write_text(const char *path, const char *text, struct mr_err *err)
{
	/* the command is to find the signal as it was */
	void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
	FILE *f = fopen(path, "we");
	int bad = !f || fputs(text, f) < 0 ? errno : 0;

	if (f && fclose(f) && !bad)
		bad = errno;
	signal(SIGXFSZ, old);
	return bad ? mr_err_sys(err, bad, path, "cannot write") : 0;
}

/* What the command's threads are to count, and how: tried here, once, and
 * found there by the hooks, which count nothing without the file. The command
 * runs in any case. */
static void tell_events(struct mr_events *events, const char *parts)
{
	struct mr_json j = { 0 };
	char path[4096], *text;
	struct mr_err err;
	int e;

	if (!events->n)
		return;
	snprintf(path, sizeof(path), "%s/events.json", parts);
	mr_events_plan(events, &j);
	text = mr_str_take(&j.out);
	e = text ? write_text(path, text, &err) : mr_err_nomem(&err, 1);
	free(text);
	if (!e)
		return;
	fprintf(stderr, "millrace: nothing is counted: %s\n", err.text);
	unlink(path);
	events->n = 0;
}

/* ---- the command ---- */

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
	if (mr_sampler_open(&w->sampler, cli_child_pid(), hz, w->recorder,
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
	int e = cli_child_start(argv, false, NULL, err);

	*status = 127 << 8; /* as the shell has it */
	if (e)
		return e;
	begin_watch(&w, parts, hz);
	e = cli_child_wait(argv, status, err);
	end_watch(&w);
	return e;
}

/* ---- the trace ---- */

/* What the command is and where it ran, and how it ended unless that is NULL;
 * to be freed. */
static char *meta(char *const argv[], const struct mr_events *events,
		  const int *status)
{
	struct mr_json j = { 0 };
	char *line = cli_child_line(argv);

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "pipeline", line && mr_json_can(line) ? line : "?");
	mr_json_text(&j, "version", mr_version());
	mr_json_bool(&j, "foreign", true);
	mr_json_text(&j, "clock", "monotonic");
	if (status && WIFSIGNALED(*status))
		mr_json_int(&j, "signal", WTERMSIG(*status));
	else if (status)
		mr_json_int(&j, "exit", WEXITSTATUS(*status));
	mr_machine_json(&j);
	if (events->n)
		mr_events_json(events, &j);
	mr_json_close(&j, '}');
	free(line);
	return mr_str_take(&j.out);
}

static void nothing_seen(const char *parts, const char *command)
{
	if (cli_child_made(parts, "stopped"))
		fprintf(stderr, "millrace: nothing was recorded\n");
	else if (cli_child_made(parts, "python"))
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

void cli_trace_tell(const struct mr_merged *got, bool hint)
{
	const struct mr_made *first = &got->made[0], *last = first + got->n - 1;
	char n[32];

	fprintf(stderr, "millrace: %s", first->path);
	if (last > first)
		fprintf(stderr, " to %s, of %zu ranks", last->path, got->n);
	fprintf(stderr, ": %s spans", mr_str_count(n, got->spans));
	if (hint)
		fprintf(stderr,
			"; `millrace trace %s` says what is in it, with -o "
			"FILE.html as a page",
			first->path);
	fputs("\n", stderr);
}

static int gather(char *const argv[], const struct mr_events *events,
		  const char *parts, const char *out, int status,
		  struct mr_merged *got, struct mr_err *err)
{
	char *text = meta(argv, events, &status);
	int e = text ? mr_merge(parts, out, text, got, err) :
		       mr_err_nomem(err, 1);

	free(text);
	if (e)
		return mr_err_prefix(err,
				     "what was recorded stays in %s: ", parts);
	if (!got->n)
		nothing_seen(parts, argv[0]);
	cli_child_remove(parts);
	return got->n ? 0 : 1;
}

/* For whoever comes later, if this process is killed. */
static void leave_meta(char *const argv[], const struct mr_events *events,
		       const char *parts)
{
	char *text = meta(argv, events, NULL), path[4096];
	struct mr_err ignored;

	snprintf(path, sizeof(path), "%s/" META, parts);
	if (text)
		write_text(path, text, &ignored);
	free(text);
}

int cli_trace_parts(const char *parts, const char *out, struct mr_merged *got,
		    struct mr_err *err)
{
	char path[4096], *text = NULL;
	size_t n;
	int e;

	snprintf(path, sizeof(path), "%s/" META, parts);
	if (mr_file_read(path, META_MAX, &text, &n, err))
		text = NULL;
	e = mr_merge(parts, out, text ? text : "{\"foreign\": true}", got, err);
	free(text);
	if (!e && !got->n)
		e = mr_err_set(err, MR_EDATA, "%s: nothing was recorded",
			       parts);
	if (!e)
		fprintf(stderr, "millrace: %s stays: remove it\n", parts);
	return e;
}

int cli_trace_command(char *const argv[], const char *out,
		      const struct cli_trace_options *o, struct mr_merged *got,
		      struct mr_err *err, int *status)
{
	struct mr_events events;
	char *parts = NULL;
	int e = mr_events_init(&events, o->events, true, err);

	*status = (e ? EXIT_USAGE : EXIT_FAILED) << 8;
	if (!e)
		e = make_parts(out, &parts, err);
	if (!e) {
		tell_events(&events, parts);
		leave_meta(argv, &events, parts);
		e = cli_child_environment("MILLRACE_TRACE", parts, err);
		if (!e)
			e = run(argv, parts, o->hz, status, err);
		signal(SIGXFSZ, SIG_IGN); /* an error is told */
		if (e)
			cli_child_remove(parts);
		else
			e = gather(argv, &events, parts, out, *status, got,
				   err);
	}
	free(parts);
	return e;
}
