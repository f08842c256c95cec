/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/facilities.h"

#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "trace/events.h"

static int number_in(const char *path, int none)
{
	FILE *f = fopen(path, "re");
	int v = none;

	if (f && fscanf(f, "%d", &v) != 1)
		v = none;
	if (f)
		fclose(f);
	return v;
}

static void say(struct mr_facility *f, const char *reason, const char *remedy)
{
	snprintf(f->reason, sizeof(f->reason), "%.150s", reason);
	snprintf(f->remedy, sizeof(f->remedy), "%.150s", remedy);
}

/* ---- io_uring ---- */

void mr_facility_uring_reason(struct mr_facility *u, int errnum, int disabled)
{
	u->works = false;
	if (errnum == EPERM && disabled == 2)
		say(u, "switched off: kernel.io_uring_disabled is 2",
		    "sysctl kernel.io_uring_disabled=0");
	else if (errnum == EPERM && disabled == 1)
		say(u, "only for the privileged: kernel.io_uring_disabled is 1",
		    "sysctl kernel.io_uring_disabled=0, or join the group of "
		    "kernel.io_uring_group");
	else if (errnum == EPERM || errnum == EACCES)
		say(u, "refused, as a container's seccomp profile does it",
		    "docker run --security-opt seccomp=FILE with a profile "
		    "that allows io_uring_setup, io_uring_enter and "
		    "io_uring_register");
	else if (errnum == ENOMEM)
		say(u, "not enough memory may be locked",
		    "ulimit -l 65536; in a container: docker run --ulimit "
		    "memlock=67108864");
	else if (errnum == ENOSYS)
		say(u, "the kernel has none, or a seccomp profile says so",
		    "Linux 5.6 or later with CONFIG_IO_URING; in a container, "
		    "a seccomp profile that allows io_uring_setup");
	else
		say(u, strerror(errnum), "see dmesg");
}

static void find_uring(struct mr_facility *u)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	int e = io_uring_queue_init(4, &ring, 0);
	int disabled = number_in("/proc/sys/kernel/io_uring_disabled", -1);

	if (e < 0) {
		mr_facility_uring_reason(u, -e, disabled);
		return;
	}
	/* a profile may allow it to be set up, and nothing more */
	sqe = io_uring_get_sqe(&ring);
	if (sqe)
		io_uring_prep_nop(sqe);
	e = io_uring_submit_and_wait(&ring, 1);
	if (e >= 0)
		e = io_uring_wait_cqe(&ring, &cqe);
	if (e < 0)
		mr_facility_uring_reason(u, -e, disabled);
	else
		u->works = true;
	io_uring_queue_exit(&ring);
}

/* ---- perf ---- */

static void from_event(struct mr_facility *f, const struct mr_event *e)
{
	f->works = e->how == MR_EVENT_PERF;
	if (!f->works)
		say(f, e->reason, e->remedy);
}

static void find_events(struct mr_facilities *f)
{
	struct mr_events s;
	struct mr_err err;

	f->paranoid = number_in("/proc/sys/kernel/perf_event_paranoid", -9);
	if (mr_events_init(&s, "cycles,task-clock", false, &err)) {
		say(&f->pmu, err.text, "");
		say(&f->events, err.text, "");
		return;
	}
	from_event(&f->pmu, &s.event[0]);
	from_event(&f->events, &s.event[1]);
}

/* ---- huge pages ---- */

/* "always [madvise] never" */
static void find_huge_pages(char *to, size_t cap)
{
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
	char text[80] = "", *a, *b;

	if (f && fgets(text, sizeof(text), f)) {
		a = strchr(text, '[');
		b = a ? strchr(a, ']') : NULL;
		if (b)
			snprintf(to, cap, "%.*s", (int)(b - a - 1), a + 1);
	}
	if (f)
		fclose(f);
}

void mr_facilities_find(struct mr_facilities *f)
{
	struct utsname u;

	*f = (struct mr_facilities){ 0 };
	if (!uname(&u))
		snprintf(f->release, sizeof(f->release), "%s", u.release);
	find_uring(&f->uring);
	find_events(f);
	find_huge_pages(f->huge_pages, sizeof(f->huge_pages));
}
