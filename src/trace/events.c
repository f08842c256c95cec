/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/str.h"

enum {
	TEXT = 160,
	RUN_NS = 2 * 1000 * 1000, /* a group that does not count for so long
				   * will not */
};

/* ---- what there is ---- */

#define HW(n, c)                                             \
	{                                                    \
		n, "", PERF_TYPE_HARDWARE, PERF_COUNT_HW_##c \
	}
#define SW(n, u, c)                                         \
	{                                                   \
		n, u, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##c \
	}

/* The first of a number is the one that perf prints. */
static const struct known {
	const char *name, *unit;
	uint32_t type;
	uint64_t config;
	bool usual; /* counted when nobody chooses */
} known[] = {
	{ "cycles", "", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true },
	{ "instructions", "", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS,
	  true },
	{ "cache-references", "", PERF_TYPE_HARDWARE,
	  PERF_COUNT_HW_CACHE_REFERENCES, true },
	{ "cache-misses", "", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES,
	  true },
	{ "branches", "", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	  true },
	{ "branch-misses", "", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES,
	  true },
	{ "stalled-cycles-frontend", "", PERF_TYPE_HARDWARE,
	  PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, true },
	{ "stalled-cycles-backend", "", PERF_TYPE_HARDWARE,
	  PERF_COUNT_HW_STALLED_CYCLES_BACKEND, true },
	{ "task-clock", "ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK,
	  true },
	{ "minor-faults", "", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN,
	  true },
	{ "major-faults", "", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ,
	  true },
	{ "context-switches", "", PERF_TYPE_SOFTWARE,
	  PERF_COUNT_SW_CONTEXT_SWITCHES, true },
	{ "cpu-migrations", "", PERF_TYPE_SOFTWARE,
	  PERF_COUNT_SW_CPU_MIGRATIONS, true },
	HW("bus-cycles", BUS_CYCLES),
	HW("ref-cycles", REF_CPU_CYCLES),
	SW("page-faults", "", PAGE_FAULTS),
	SW("cpu-clock", "ns", CPU_CLOCK),
	SW("alignment-faults", "", ALIGNMENT_FAULTS),
	SW("emulation-faults", "", EMULATION_FAULTS),
	HW("cpu-cycles", CPU_CYCLES),
	HW("branch-instructions", BRANCH_INSTRUCTIONS),
	HW("idle-cycles-frontend", STALLED_CYCLES_FRONTEND),
	HW("idle-cycles-backend", STALLED_CYCLES_BACKEND),
	SW("faults", "", PAGE_FAULTS),
	SW("cs", "", CONTEXT_SWITCHES),
	SW("migrations", "", CPU_MIGRATIONS),
};

static const char run_delay[] = "run-delay";

/* ---- asking the kernel ---- */

int mr_perf_open(struct perf_event_attr *a, pid_t pid, int cpu, int group)
{
	a->size = sizeof(*a);
	return (int)syscall(SYS_perf_event_open, a, pid, cpu, group,
			    PERF_FLAG_FD_CLOEXEC);
}

static int paranoid(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level = -9;

	if (f) {
		if (fscanf(f, "%d", &level) != 1)
			level = -9;
		fclose(f);
	}
	return level;
}

static void refused(int errnum, char *reason, char *remedy)
{
	int level = paranoid();
	const char *how = errnum == EPERM ? "refused, as a container's seccomp "
					    "profile does it" :
					    "not allowed";

	if (level > -9)
		snprintf(reason, TEXT, "%s; kernel.perf_event_paranoid is %d",
			 how, level);
	else
		snprintf(reason, TEXT, "%s", how);
	snprintf(remedy, TEXT,
		 "sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON; in a "
		 "container also a seccomp profile that allows "
		 "perf_event_open");
}

void mr_perf_reason(int errnum, char *reason, char *remedy)
{
	switch (errnum) {
	case EACCES:
	case EPERM:
		refused(errnum, reason, remedy);
		return;
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		snprintf(reason, TEXT,
			 "the machine has no such counter (%s), as virtual "
			 "machines without a PMU",
			 strerror(errnum));
		snprintf(remedy, TEXT,
			 "run on bare metal, or give the virtual machine a "
			 "PMU");
		return;
	case ENOSYS:
		snprintf(reason, TEXT, "the kernel has no perf events");
		snprintf(remedy, TEXT, "a kernel with CONFIG_PERF_EVENTS");
		return;
	case EMFILE:
		snprintf(reason, TEXT, "too many open files");
		snprintf(remedy, TEXT, "raise `ulimit -n`");
		return;
	default:
		snprintf(reason, TEXT, "perf_event_open: %s", strerror(errnum));
		snprintf(remedy, TEXT, "leave it out of the list of events");
	}
}

struct perf_event_attr mr_event_attr(const struct mr_event *e)
{
	return (struct perf_event_attr){
		.type = e->type,
		.config = e->config,
		.exclude_kernel = e->user_only,
		.exclude_hv = 1,
		.read_format = PERF_FORMAT_GROUP |
			       PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
}

/* What the kernel does by itself in the thread's name has no place in user
 * space: there such a counter stays at 0, which would be a lie. */
static bool kernel_alone(const struct mr_event *e)
{
	return e->type == PERF_TYPE_SOFTWARE &&
	       (e->config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
		e->config == PERF_COUNT_SW_CPU_MIGRATIONS);
}

/* The thread's usage has some of the same: of user and kernel together. */
static bool in_usage(const struct mr_event *e)
{
	if (e->type != PERF_TYPE_SOFTWARE)
		return false;
	switch (e->config) {
	case PERF_COUNT_SW_TASK_CLOCK:
	case PERF_COUNT_SW_CPU_CLOCK:
	case PERF_COUNT_SW_PAGE_FAULTS:
	case PERF_COUNT_SW_PAGE_FAULTS_MIN:
	case PERF_COUNT_SW_PAGE_FAULTS_MAJ:
	case PERF_COUNT_SW_CONTEXT_SWITCHES:
		return true;
	}
	return false;
}

static void try_event(struct mr_event *e, bool foreign)
{
	struct perf_event_attr a = mr_event_attr(e);
	int fd, why;

	if (foreign && in_usage(e) && !e->user_only) {
		e->how = MR_EVENT_RUSAGE;
		return;
	}
	fd = mr_perf_open(&a, 0, -1, -1);
	why = errno;
	if (fd < 0 && (why == EACCES || why == EPERM) && !kernel_alone(e)) {
		a.exclude_kernel = 1;
		fd = mr_perf_open(&a, 0, -1, -1);
		why = fd < 0 ? errno : why;
		e->user_only = fd >= 0;
	}
	if (fd >= 0) {
		close(fd);
		e->how = MR_EVENT_PERF;
	} else {
		mr_perf_reason(why, e->reason, e->remedy);
		e->how = in_usage(e) ? MR_EVENT_RUSAGE : MR_EVENT_NONE;
	}
}

/* ---- groups ---- */

/* Do these count when they are together? */
static bool together(const struct mr_events *s, const int *member, int n)
{
	int fd[MR_EVENTS], opened = 0;
	uint64_t got[3 + MR_EVENTS] = { 0 }, until;
	bool runs = false;

	while (opened < n) {
		struct perf_event_attr a =
			mr_event_attr(&s->event[member[opened]]);

		fd[opened] = mr_perf_open(&a, 0, -1, opened ? fd[0] : -1);
		if (fd[opened] < 0)
			break;
		opened++;
	}
	/* A group that the kernel takes may still wait for a counter that
	 * someone else holds, for ever. */
	until = mr_clock_ns() + RUN_NS;
	while (opened == n && !runs && mr_clock_ns() < until)
		runs = read(fd[0], got, sizeof(got)) > 0 && got[2] > 0;
	while (opened)
		close(fd[--opened]);
	return runs;
}

bool mr_event_in(const struct mr_events *s, int i, int group)
{
	return s->event[i].how == MR_EVENT_PERF &&
	       (s->group[i] == group || s->group[i] == -1);
}

/* Members of group g so far. */
static int members(const struct mr_events *s, int g, int *member)
{
	int n = 0;

	for (int i = 0; i < s->n; i++)
		if (mr_event_in(s, i, g))
			member[n++] = i;
	return n;
}

/* Event i into the last group, or into a new one. */
static void place(struct mr_events *s, int i)
{
	struct mr_event *e = &s->event[i];
	int member[MR_EVENTS];

	for (int g = s->groups ? s->groups - 1 : 0; g <= s->groups; g++) {
		int n = members(s, g, member);

		member[n] = i;
		if (!together(s, member, n + 1))
			continue;
		s->group[i] = g;
		s->groups = g + 1 > s->groups ? g + 1 : s->groups;
		return;
	}
	e->how = MR_EVENT_NONE;
	snprintf(e->reason, TEXT,
		 "it does not count: the CPU's counters are "
		 "taken");
	snprintf(e->remedy, TEXT,
		 "sysctl kernel.nmi_watchdog=0, or end other "
		 "profilers");
}

/* Events that take no counter first: they are in each group. */
static void arrange(struct mr_events *s)
{
	bool any = false;

	for (int i = 0; i < s->n; i++) {
		/* -2: not placed yet */
		s->group[i] = s->event[i].type == PERF_TYPE_SOFTWARE ? -1 : -2;
		any |= s->event[i].how == MR_EVENT_PERF;
	}
	for (int i = 0; i < s->n; i++)
		if (s->event[i].how == MR_EVENT_PERF &&
		    s->event[i].type != PERF_TYPE_SOFTWARE)
			place(s, i);
	if (any && !s->groups)
		s->groups = 1;
}

/* ---- the list ---- */

static int unknown(const char *name, struct mr_err *err)
{
	const char *near = run_delay;
	int best = mr_str_distance(name, run_delay);

	for (size_t i = 0; i < MR_COUNT(known); i++) {
		int d = mr_str_distance(name, known[i].name);

		if (d < best) {
			best = d;
			near = known[i].name;
		}
	}
	return mr_err_set(err, MR_EINVAL,
			  "events: unknown event '%s'; did you mean '%s'? Raw "
			  "ones are rNNNN, hexadecimal",
			  name, near);
}

/* rNNNN: the number that the CPU's manual gives. */
static bool raw(const char *name, uint64_t *config)
{
	size_t n = strspn(name + 1, "0123456789abcdefABCDEF");

	if (name[0] != 'r' || !n || n > 16 || name[1 + n])
		return false;
	*config = strtoull(name + 1, NULL, 16);
	return true;
}

static int add(struct mr_events *s, const char *word, struct mr_err *err)
{
	struct mr_event *e = &s->event[s->n];
	char name[sizeof(e->name)];
	char *colon;

	if (s->n == MR_EVENTS)
		return mr_err_set(err, MR_EINVAL,
				  "events: more than %d of them", MR_EVENTS);
	if (strlen(word) >= sizeof(name))
		return unknown(word, err);
	*e = (struct mr_event){ .unit = "" };
	memcpy(e->name, word, strlen(word) + 1);
	memcpy(name, word, strlen(word) + 1);
	colon = strchr(name, ':');
	if (colon && strcmp(colon, ":u") == 0) {
		e->user_only = true;
		*colon = 0;
	}
	if (strcmp(name, run_delay) == 0) {
		e->how = MR_EVENT_SCHED;
		e->unit = "ns";
	} else if (raw(name, &e->config)) {
		e->type = PERF_TYPE_RAW;
	} else {
		size_t i = 0;

		while (i < MR_COUNT(known) && strcmp(known[i].name, name) != 0)
			i++;
		if (i == MR_COUNT(known))
			return unknown(word, err);
		e->type = known[i].type;
		e->config = known[i].config;
		e->unit = known[i].unit;
	}
	s->n++;
	return 0;
}

static int add_usual(struct mr_events *s, struct mr_err *err)
{
	int e = 0;

	for (size_t i = 0; i < MR_COUNT(known) && !e; i++)
		if (known[i].usual)
			e = add(s, known[i].name, err);
	return e ? e : add(s, run_delay, err);
}

static int add_list(struct mr_events *s, const char *list, struct mr_err *err)
{
	for (const char *p = list; *p;) {
		char word[64];
		size_t n = strcspn(p, ", ");
		int e;

		if (n >= sizeof(word))
			return mr_err_set(err, MR_EINVAL,
					  "events: unknown event '%.40s...'",
					  p);
		memcpy(word, p, n);
		word[n] = 0;
		e = n ? add(s, word, err) : 0;
		if (e)
			return e;
		p += n + strspn(p + n, ", ");
	}
	return 0;
}

static int parse(struct mr_events *s, const char *list, struct mr_err *err)
{
	memset(s, 0, sizeof(*s));
	if (strcmp(list, "none") == 0)
		return 0;
	return *list ? add_list(s, list, err) : add_usual(s, err);
}

int mr_events_check(const char *list, struct mr_err *err)
{
	struct mr_events s;

	return parse(&s, list, err);
}

int mr_events_init(struct mr_events *s, const char *list, bool foreign,
		   struct mr_err *err)
{
	int e = parse(s, list, err);

	if (e)
		return e;
	for (int i = 0; i < s->n; i++)
		if (s->event[i].how != MR_EVENT_SCHED)
			try_event(&s->event[i], foreign);
	arrange(s);
	return 0;
}

/* ---- telling ---- */

static const char *source(const struct mr_event *e)
{
	if (e->how == MR_EVENT_NONE)
		return "unavailable";
	return e->how == MR_EVENT_PERF && e->type != PERF_TYPE_SOFTWARE ?
		       "hw-counted" :
		       "sw-counted";
}

void mr_events_json(const struct mr_events *s, struct mr_json *j)
{
	mr_json_open(j, "events", '[');
	for (int i = 0; i < s->n; i++) {
		const struct mr_event *e = &s->event[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "name", e->name);
		mr_json_text(j, "source", source(e));
		mr_json_text(j, "unit", e->unit);
		if (e->user_only)
			mr_json_bool(j, "user_only", true);
		if (e->how == MR_EVENT_PERF && s->group[i] >= 0)
			mr_json_int(j, "group", s->group[i]);
		if (e->how == MR_EVENT_RUSAGE)
			mr_json_text(j, "via", "getrusage");
		if (*e->reason) {
			mr_json_text(j, "reason", e->reason);
			mr_json_text(j, "remedy", e->remedy);
		}
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

/* ---- for others ---- */

static void plan_event(struct mr_json *j, const struct mr_events *s, int i,
		       bool leads)
{
	struct perf_event_attr a = mr_event_attr(&s->event[i]);
	char hex[2 * sizeof(a) + 1];
	uint8_t bytes[sizeof(a)];

	a.size = sizeof(a);
	a.disabled = leads; /* the leader's alone counts */
	memcpy(bytes, &a, sizeof(a));
	for (size_t k = 0; k < sizeof(a); k++)
		snprintf(hex + 2 * k, 3, "%02x", bytes[k]);
	mr_json_open(j, NULL, '[');
	mr_json_int(j, NULL, i);
	mr_json_text(j, NULL, hex);
	mr_json_close(j, ']');
}

static void plan_group(struct mr_json *j, const struct mr_events *s, int group)
{
	bool first = true;

	mr_json_open(j, NULL, '[');
	for (int i = 0; i < s->n; i++) {
		if (!mr_event_in(s, i, group))
			continue;
		plan_event(j, s, i, first);
		first = false;
	}
	mr_json_close(j, ']');
}

static const char *usage_name(uint64_t event)
{
	switch (event) {
	case PERF_COUNT_SW_PAGE_FAULTS:
		return "faults";
	case PERF_COUNT_SW_PAGE_FAULTS_MIN:
		return "minor";
	case PERF_COUNT_SW_PAGE_FAULTS_MAJ:
		return "major";
	case PERF_COUNT_SW_CONTEXT_SWITCHES:
		return "switches";
	default:
		return "cpu";
	}
}

static void plan_usage(struct mr_json *j, const struct mr_events *s)
{
	mr_json_open(j, "usage", '[');
	for (int i = 0; i < s->n; i++) {
		if (s->event[i].how != MR_EVENT_RUSAGE)
			continue;
		mr_json_open(j, NULL, '[');
		mr_json_int(j, NULL, i);
		mr_json_text(j, NULL, usage_name(s->event[i].config));
		mr_json_close(j, ']');
	}
	mr_json_close(j, ']');
}

void mr_events_plan(const struct mr_events *s, struct mr_json *j)
{
	mr_json_open(j, NULL, '{');
	mr_events_json(s, j);
	mr_json_int(j, "syscall", SYS_perf_event_open);
	mr_json_int(j, "flags", PERF_FLAG_FD_CLOEXEC);
	mr_json_int(j, "enable", PERF_EVENT_IOC_ENABLE);
	mr_json_int(j, "disable", PERF_EVENT_IOC_DISABLE);
	mr_json_open(j, "groups", '[');
	for (int g = 0; g < s->groups; g++)
		plan_group(j, s, g);
	mr_json_close(j, ']');
	plan_usage(j, s);
	mr_json_open(j, "delay", '[');
	for (int i = 0; i < s->n; i++)
		if (s->event[i].how == MR_EVENT_SCHED)
			mr_json_int(j, NULL, i);
	mr_json_close(j, ']');
	mr_json_close(j, '}');
}

int mr_trace_events(const char *events, char **json, struct mr_err *err)
{
	struct mr_events s;
	struct mr_json j = { 0 };
	int e = mr_events_init(&s, events, true, err);

	*json = NULL;
	if (e || !s.n)
		return e;
	mr_events_plan(&s, &j);
	*json = mr_str_take(&j.out);
	return *json ? 0 : mr_err_nomem(err, 1);
}
