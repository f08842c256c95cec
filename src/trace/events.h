/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread can count besides time: the events by perf's names, which of
 * them this machine and its rules allow, and how those share its counters.
 */
#ifndef MR_TRACE_EVENTS_H
#define MR_TRACE_EVENTS_H

#include <linux/perf_event.h>
#include <sys/types.h>

#include "core/err.h"
#include "core/json.h"

enum { MR_EVENTS = 32 };

enum mr_event_how {
	MR_EVENT_NONE,	 /* not to be had: see reason */
	MR_EVENT_PERF,	 /* perf_event_open(), in a group */
	MR_EVENT_RUSAGE, /* getrusage() and the thread's CPU clock */
	MR_EVENT_SCHED,	 /* /proc/thread-self/schedstat, of whole threads */
};

struct mr_event {
	char name[32];
	const char *unit; /* "ns", or "" for a number */
	uint32_t type;	  /* of perf_event_attr */
	uint64_t config;
	bool user_only; /* what the kernel does for the thread is left out */
	enum mr_event_how how;
	char reason[160], remedy[160];
};

/*
 * Hardware events that do not fit the CPU's counters all at once are spread
 * over groups, which take turns; those that take no counter are in each.
 */
struct mr_events {
	struct mr_event event[MR_EVENTS];
	int n;
	int group[MR_EVENTS]; /* of event i; -1: in each */
	int groups;	      /* 0: none of them is perf's */
};

/*
 * The events of a list as "cycles,page-faults,r01c2", "" for all that is
 * known, or "none". Tries which can be had, on the calling thread. MR_EINVAL:
 * a name that is unknown; an event that cannot be had is no error.
 *
 * foreign: for threads of other programs, only some of whose samples are
 * counted. What getrusage() knows is taken from there then: the kernel counts
 * it anyway, while perf's counters make each fault dearer, and a script has
 * hundreds of them in each sample.
 */
int mr_events_init(struct mr_events *s, const char *list, bool foreign,
		   struct mr_err *err);

/* Are all names of a list known? Asks nobody. */
int mr_events_check(const char *list, struct mr_err *err);

/* The events as the key `events` of META. */
void mr_events_json(const struct mr_events *s, struct mr_json *j);

/*
 * How to count them, for threads of other programs: an object with `events`
 * as above, what to call the kernel with (`syscall`, `flags`, `enable`,
 * `disable`), `groups` (lists of [event, perf_event_attr as hexadecimal], the
 * leader first), `usage` (lists of [event, what of getrusage() it is]) and
 * `delay` (events of whole threads).
 */
void mr_events_plan(const struct mr_events *s, struct mr_json *j);

/* Is event i in that group? */
bool mr_event_in(const struct mr_events *s, int i, int group);

/* The attributes to count event i with. */
struct perf_event_attr mr_event_attr(const struct mr_event *e);

/* perf_event_open(); -1 and errno. */
int mr_perf_open(struct perf_event_attr *a, pid_t pid, int cpu, int group);

/* Why that failed, and what would help; texts of 160 bytes. */
void mr_perf_reason(int errnum, char *reason, char *remedy);

#endif
