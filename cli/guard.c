/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "divert.h"

enum { SHOWN = 5 };

/* ---- the filter ---- */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0 /* not tried there */
#endif

/* What is asked for; flags: which argument has those of an open(), -1: ask
 * always. */
static const struct call {
	int number, flags;
} calls[] = {
#ifdef SYS_open
	{ SYS_open, 1 },      { SYS_creat, -1 },   { SYS_rename, -1 },
	{ SYS_unlink, -1 },   { SYS_rmdir, -1 },   { SYS_mkdir, -1 },
#endif
#ifdef SYS_renameat
	{ SYS_renameat, -1 },
#endif
	{ SYS_openat, 2 },    { SYS_openat2, -1 }, { SYS_renameat2, -1 },
	{ SYS_unlinkat, -1 }, { SYS_mkdirat, -1 }, { SYS_truncate, -1 },
};

enum { PROGRAM = 4 + 6 * (int)MR_COUNT(calls) + 3 };

#define LOAD(what) \
	(struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (what))
#define RETURN(what) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, (what))
#define IF(op, k, yes, no)   \
	(struct sock_filter) \
		BPF_JUMP(BPF_JMP | (op) | BPF_K, (uint32_t)(k), (yes), (no))
#define ARGUMENT(i) (uint32_t) offsetof(struct seccomp_data, args[i])

static unsigned short make_program(struct sock_filter *p)
{
	unsigned short n = 0;

	p[n++] = LOAD(offsetof(struct seccomp_data, arch));
	p[n++] = IF(BPF_JEQ, ARCH, 1, 0);
	p[n++] = RETURN(SECCOMP_RET_ALLOW);
	p[n++] = LOAD(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < MR_COUNT(calls); i++) {
		bool always = calls[i].flags < 0;

		p[n++] = IF(BPF_JEQ, calls[i].number, 0, always ? 1 : 5);
		if (!always) {
			p[n++] = LOAD(ARGUMENT(calls[i].flags));
			p[n++] = IF(BPF_JSET, CLI_WRITES, 0, 1);
			/* What must be new cannot be old: shared memory. */
			p[n++] = IF(BPF_JSET, O_EXCL, 0, 1);
			p[n++] = RETURN(SECCOMP_RET_ALLOW);
		}
		p[n++] = RETURN(SECCOMP_RET_USER_NOTIF);
	}
	/* Its requests would open files past the filter. */
	p[n++] = IF(BPF_JEQ, SYS_io_uring_setup, 0, 1);
	p[n++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
	p[n++] = RETURN(SECCOMP_RET_ALLOW);
	return n;
}

static void send_descriptor(int to, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (fd >= 0) {
		m.msg_control = room;
		m.msg_controllen = sizeof(room);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	if (sendmsg(to, &m, MSG_NOSIGNAL) < 0)
		_exit(127);
}

static int receive_descriptor(int from)
{
	char room[CMSG_SPACE(sizeof(int))], byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Is it allowed to read the names that a child's calls are given? */
static bool may_read(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (f && fscanf(f, "%d", &scope) != 1)
		scope = 0;
	if (f)
		fclose(f);
	return scope < 2;
}

/* Linux before 5.9 asks as well, but takes no descriptor for an answer, and
 * before 5.5 not to go on: the command would hang. */
static bool takes_answers(void)
{
	struct utsname u;
	int major, minor;

	return !uname(&u) && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 9));
}

void cli_guard_enter(struct cli_guard *g)
{
	struct sock_filter code[PROGRAM];
	struct sock_fprog p = { make_program(code), code };
	char start[32];
	int fd = -1;

	if (ARCH && takes_answers() && may_read() &&
	    !getenv("MILLRACE_NO_SECCOMP") &&
	    !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				  SECCOMP_FILTER_FLAG_NEW_LISTENER |
					  SECCOMP_FILTER_FLAG_SPEC_ALLOW,
				  &p);
	if (fd < 0) {
		snprintf(start, sizeof(start), "%lld%09u", (long long)g->start,
			 g->start_ns);
		setenv("MILLRACE_DIAGNOSE_GUARD", start, 1);
	}
	send_descriptor(g->pair[1], fd);
	if (fd >= 0)
		close(fd);
}

/* ---- questions ---- */

static void answer(struct cli_guard *g, const struct seccomp_notif *n)
{
	struct seccomp_notif_resp r = { .id = n->id };
	struct cli_asker a = { .n = n };
	struct cli_answer d = { .error = EROFS };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/mem", n->pid);
	a.memory = open(path, O_RDONLY | O_CLOEXEC);
	/* Is it still the process that asked? */
	if (a.memory >= 0 &&
	    !ioctl(g->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &n->id))
		d = cli_divert(g, &a);
	if (a.memory >= 0)
		close(a.memory);
	if (d.go_on)
		r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	r.error = -d.error;
	r.val = d.error ? 0 : d.value;
	ioctl(g->listener, SECCOMP_IOCTL_NOTIF_SEND, &r); /* or it died */
}

static void serve_one(struct cli_guard *g)
{
	struct seccomp_notif n = { 0 };

	if (!ioctl(g->listener, SECCOMP_IOCTL_NOTIF_RECV, &n))
		answer(g, &n);
}

static void tell_that_it_is_weak(void)
{
	fputs("millrace: the kernel does not help to keep the files that are "
	      "there as they are\n(seccomp is not to be had here): Python "
	      "refuses to change them, but what\nlibraries write by themselves "
	      "in C or C++ is not seen, nor are other programs\n",
	      stderr);
}

void cli_guard_serve(struct cli_guard *g, pid_t pid)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };

	close(g->pair[1]);
	g->pair[1] = -1;
	g->listener = receive_descriptor(g->pair[0]);
	if (g->listener < 0) {
		tell_that_it_is_weak();
		return;
	}
	p[0].fd = g->listener;
	p[1].fd = (int)syscall(SYS_pidfd_open, pid, 0);
	while (p[1].fd >= 0 && !p[1].revents && !(p[0].revents & POLLHUP)) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[0].revents & POLLIN)
			serve_one(g);
	}
	if (p[1].fd >= 0)
		close(p[1].fd);
}

/* ---- begin and end ---- */

int cli_guard_open(struct cli_guard *g, const char *folder, struct mr_err *err)
{
	struct timespec now;

	*g = (struct cli_guard){ .folder = folder, .listener = -1 };
	clock_gettime(CLOCK_REALTIME_COARSE,
		      &now); /* as file systems have it */
	g->start = now.tv_sec;
	g->start_ns = (uint32_t)now.tv_nsec;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, g->pair))
		return mr_err_sys(err, errno, "a socket", "cannot be made");
	return 0;
}

void cli_guard_tell(const struct cli_guard *g)
{
	size_t n = g->olds;

	if (!n)
		return;
	fprintf(stderr,
		"millrace: %zu file%s that the script meant to change "
		"stay%s as %s:",
		n, n == 1 ? "" : "s", n == 1 ? "s" : "",
		n == 1 ? "it is" : "they are");
	for (size_t i = 0; i < n && i < SHOWN; i++)
		fprintf(stderr, "%s %s", i ? "," : "", g->old[i].name);
	fprintf(stderr, "%s\n", n > SHOWN ? ", ..." : "");
}

void cli_guard_close(struct cli_guard *g)
{
	if (g->listener >= 0)
		close(g->listener);
	for (int i = 0; i < 2; i++)
		if (g->pair[i] >= 0)
			close(g->pair[i]);
	free(g->old);
}
