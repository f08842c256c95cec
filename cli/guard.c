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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"

enum {
	FILES = 1 << 20,
	SHOWN = 5,
};

/* More than this is not copied for somebody who wants to change a part. */
#define LARGEST ((off_t)1 << 30)

#define WRITES ((unsigned)(O_WRONLY | O_RDWR | O_TRUNC))

/* A file that was there before, and what stands in for it. */
struct cli_diverted {
	dev_t dev;
	ino_t ino;
	bool gone;     /* removed or renamed, as far as the command knows */
	bool copied;   /* there is a file in its place: number `at` */
	char name[96]; /* for people, cut off at the front */
};

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
			p[n++] = IF(BPF_JSET, WRITES, 0, 1);
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

void cli_guard_enter(struct cli_guard *g)
{
	struct sock_filter code[PROGRAM];
	struct sock_fprog p = { make_program(code), code };
	int fd = -1;

	if (ARCH && may_read() && !getenv("MILLRACE_NO_SECCOMP") &&
	    !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				  SECCOMP_FILTER_FLAG_NEW_LISTENER |
					  SECCOMP_FILTER_FLAG_SPEC_ALLOW,
				  &p);
	if (fd < 0)
		setenv("MILLRACE_DIAGNOSE_GUARD", "python", 1);
	send_descriptor(g->pair[1], fd);
	if (fd >= 0)
		close(fd);
}

/* ---- names ---- */

/* A process that waits for an answer. */
struct asker {
	const struct seccomp_notif *n;
	int memory; /* /proc/PID/mem */
};

static bool peek(const struct asker *a, uint64_t at, void *to, size_t n)
{
	return pread(a->memory, to, n, (off_t)at) == (ssize_t)n;
}

/* A text of the asker's; it may end right before memory that is not there. */
static bool peek_text(const struct asker *a, uint64_t at, char *to, size_t cap)
{
	size_t n = 0;

	while (n < cap) {
		size_t page = 4096 - (size_t)((at + n) & 4095);
		size_t want = page < cap - n ? page : cap - n;
		ssize_t got = pread(a->memory, to + n, want, (off_t)(at + n));

		if (got <= 0)
			return false;
		if (memchr(to + n, 0, (size_t)got))
			return true;
		n += (size_t)got;
	}
	return false;
}

/* The name at `arg`, from the folder of descriptor `dir`, as we can use it
 * ourselves. */
static bool path_of(const struct asker *a, int dir, int arg, char *to,
		    size_t cap)
{
	char name[4096];
	int pid = (int)a->n->pid;
	size_t n;

	if (!peek_text(a, a->n->data.args[arg], name, sizeof(name)))
		return false;
	if (*name == '/')
		n = (size_t)snprintf(to, cap, "%s", name);
	else if (dir == AT_FDCWD)
		n = (size_t)snprintf(to, cap, "/proc/%d/cwd/%s", pid, name);
	else
		n = (size_t)snprintf(to, cap, "/proc/%d/fd/%d/%s", pid, dir,
				     name);
	return n < cap;
}

static bool within(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* Was it there before the command began? A file system that does not know
 * when a file was made has old ones only. */
static bool is_old(const struct cli_guard *g, const char *path, int flags,
		   struct statx *x)
{
	if (statx(AT_FDCWD, path, flags,
		  STATX_TYPE | STATX_SIZE | STATX_MODE | STATX_INO |
			  STATX_BTIME,
		  x))
		return false;
	if (within(path, g->folder) || within(path, "/dev"))
		return false;
	return !(x->stx_mask & STATX_BTIME) || x->stx_btime.tv_sec < g->start ||
	       (x->stx_btime.tv_sec == g->start &&
		x->stx_btime.tv_nsec < g->start_ns);
}

/* For people: without the way through /proc, cut off at the front. */
static void name(char *to, size_t cap, const char *path)
{
	char link[64], full[4096];
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, full, sizeof(full) - 1);
	if (fd >= 0)
		close(fd);
	if (n > 0) {
		full[n] = 0;
		path = full;
	}
	n = (ssize_t)strlen(path);
	if (n < (ssize_t)cap)
		snprintf(to, cap, "%s", path);
	else
		snprintf(to, cap, "...%s", path + n - (ssize_t)cap + 4);
}

static struct cli_diverted *entry_of(struct cli_guard *g, const char *path,
				     const struct statx *x)
{
	dev_t dev = makedev(x->stx_dev_major, x->stx_dev_minor);
	struct cli_diverted *d;
	struct mr_err ignored;

	for (size_t i = 0; i < g->olds; i++)
		if (g->old[i].dev == dev && g->old[i].ino == x->stx_ino)
			return &g->old[i];
	if (mr_grow(&g->old, &g->cap, g->olds + 1, sizeof(*g->old), FILES,
		    &ignored))
		return NULL;
	d = &g->old[g->olds++];
	*d = (struct cli_diverted){ .dev = dev, .ino = x->stx_ino };
	name(d->name, sizeof(d->name), path);
	return d;
}

/* ---- what becomes of it ---- */

/* How an asker's call ends. */
struct answer {
	bool go_on; /* let the kernel do it */
	int error;
	int64_t value;
};

static const struct answer go_on = { .go_on = true };

/* A file as long as the old one, with its contents where they can be read
 * through what was asked for. */
static int fill(int fd, const char *from, const struct statx *x, bool readable)
{
	off_t left = (off_t)x->stx_size;
	ssize_t n = 1;
	int in;

	if (!readable)
		return ftruncate(fd, left) ? errno : 0;
	if (left > LARGEST)
		return EROFS;
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return errno;
	while (left > 0 && n > 0) {
		n = copy_file_range(in, NULL, fd, NULL, (size_t)left, 0);
		left -= n > 0 ? n : 0;
	}
	close(in);
	return left ? EROFS : 0;
}

/* Give the asker the file that stands in for `path`. */
static struct answer divert(struct cli_guard *g, const struct asker *a,
			    const char *path, const struct statx *x,
			    unsigned flags)
{
	struct cli_diverted *d = entry_of(g, path, x);
	struct seccomp_notif_addfd add = { .id = a->n->id };
	struct answer r = { .error = EROFS };
	char aside[8192];
	int fd;

	if (!d)
		return r;
	snprintf(aside, sizeof(aside), "%s/diverted.%zu", g->folder,
		 (size_t)(d - g->old));
	fd = open(aside, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return r;
	r.error = d->copied ? 0 :
			      fill(fd, path, x,
				   !(flags & O_WRONLY) && !(flags & O_TRUNC));
	close(fd);
	if (r.error)
		return r;
	d->copied = true;
	fd = open(aside,
		  (int)(flags & ~(unsigned)(O_CREAT | O_EXCL | O_NOFOLLOW)) |
			  O_CLOEXEC);
	if (fd < 0)
		return (struct answer){ .error = errno };
	add.srcfd = (uint32_t)fd;
	add.newfd_flags = flags & O_CLOEXEC;
	r.value = ioctl(g->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
	r.error = r.value < 0 ? errno : 0;
	close(fd);
	return r;
}

static struct answer on_open(struct cli_guard *g, const struct asker *a,
			     int dir, int arg, uint64_t flags)
{
	struct statx x;
	char path[8192];

	if (!(flags & WRITES) || (flags & O_PATH) ||
	    (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) ||
	    !path_of(a, dir, arg, path, sizeof(path)) ||
	    !is_old(g, path, 0, &x) || !S_ISREG(x.stx_mode) ||
	    access(path, W_OK))
		return go_on;
	return divert(g, a, path, &x, (unsigned)flags);
}

/* It seems to be gone. */
static struct answer pretend(struct cli_guard *g, const char *path,
			     const struct statx *x)
{
	struct cli_diverted *d = entry_of(g, path, x);

	if (!d)
		return (struct answer){ .error = EROFS };
	d->gone = true;
	return (struct answer){ 0 };
}

static struct answer on_remove(struct cli_guard *g, const struct asker *a,
			       int dir, int arg)
{
	struct statx x;
	char path[8192];

	if (!path_of(a, dir, arg, path, sizeof(path)) ||
	    !is_old(g, path, AT_SYMLINK_NOFOLLOW, &x))
		return go_on;
	return pretend(g, path, &x);
}

static struct answer on_rename(struct cli_guard *g, const struct asker *a,
			       int from, int at, int to, int at_to)
{
	struct answer r = go_on;
	char path[8192], onto[8192];
	struct statx x;
	bool old;

	if (!path_of(a, from, at, path, sizeof(path)) ||
	    !path_of(a, to, at_to, onto, sizeof(onto)))
		return r;
	old = is_old(g, path, AT_SYMLINK_NOFOLLOW, &x);
	if (old)
		r = pretend(g, path, &x);
	if (is_old(g, onto, AT_SYMLINK_NOFOLLOW, &x)) {
		r = pretend(g, onto, &x);
		if (!old && !r.error)
			unlink(path); /* as if it had been moved */
	}
	return r;
}

static struct answer on_truncate(struct cli_guard *g, const struct asker *a)
{
	struct statx x;
	char path[8192];

	if (!path_of(a, AT_FDCWD, 0, path, sizeof(path)) ||
	    !is_old(g, path, 0, &x))
		return go_on;
	return entry_of(g, path, &x) ? (struct answer){ 0 } :
				       (struct answer){ .error = EROFS };
}

/* A folder that seems to be gone can be made again. */
static struct answer on_mkdir(struct cli_guard *g, const struct asker *a,
			      int dir, int arg)
{
	struct cli_diverted *d;
	struct statx x;
	char path[8192];

	if (!path_of(a, dir, arg, path, sizeof(path)) ||
	    !is_old(g, path, AT_SYMLINK_NOFOLLOW, &x) || !S_ISDIR(x.stx_mode))
		return go_on;
	for (d = g->old; d < g->old + g->olds; d++)
		if (d->gone && d->ino == x.stx_ino &&
		    d->dev == makedev(x.stx_dev_major, x.stx_dev_minor)) {
			d->gone = false;
			return (struct answer){ 0 };
		}
	return go_on;
}

/* ---- questions ---- */

static struct answer decide(struct cli_guard *g, const struct asker *a)
{
	const struct seccomp_data *c = &a->n->data;
	const __u64 *v = c->args;
	uint64_t flags;

	switch (c->nr) {
#ifdef SYS_open
	case SYS_open:
		return on_open(g, a, AT_FDCWD, 0, v[1]);
	case SYS_creat:
		return on_open(g, a, AT_FDCWD, 0, O_CREAT | O_WRONLY | O_TRUNC);
	case SYS_rename:
		return on_rename(g, a, AT_FDCWD, 0, AT_FDCWD, 1);
	case SYS_unlink:
	case SYS_rmdir:
		return on_remove(g, a, AT_FDCWD, 0);
	case SYS_mkdir:
		return on_mkdir(g, a, AT_FDCWD, 0);
#endif
#ifdef SYS_renameat
	case SYS_renameat:
#endif
	case SYS_renameat2:
		return on_rename(g, a, (int)v[0], 1, (int)v[2], 3);
	case SYS_openat:
		return on_open(g, a, (int)v[0], 1, v[2]);
	case SYS_openat2:
		return peek(a, v[2], &flags, sizeof(flags)) ?
			       on_open(g, a, (int)v[0], 1, flags) :
			       go_on;
	case SYS_unlinkat:
		return on_remove(g, a, (int)v[0], 1);
	case SYS_mkdirat:
		return on_mkdir(g, a, (int)v[0], 1);
	case SYS_truncate:
		return on_truncate(g, a);
	default:
		return go_on;
	}
}

static void answer(struct cli_guard *g, const struct seccomp_notif *n)
{
	struct seccomp_notif_resp r = { .id = n->id };
	struct asker a = { .n = n };
	struct answer d = { .error = EROFS };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/mem", n->pid);
	a.memory = open(path, O_RDONLY | O_CLOEXEC);
	/* Is it still the process that asked? */
	if (a.memory >= 0 &&
	    !ioctl(g->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &n->id))
		d = decide(g, &a);
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

void cli_guard_serve(struct cli_guard *g, pid_t pid)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };

	close(g->pair[1]);
	g->pair[1] = -1;
	g->listener = receive_descriptor(g->pair[0]);
	if (g->listener < 0)
		return;
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
