/* SPDX-License-Identifier: Apache-2.0 */
#include "divert.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "guard.h"

enum { FILES = 1 << 20 };

/* More than this is not copied for somebody who wants to change a part. */
#define LARGEST ((off_t)1 << 30)

/* ---- names ---- */

static bool peek(const struct cli_asker *a, uint64_t at, void *to, size_t n)
{
	return pread(a->memory, to, n, (off_t)at) == (ssize_t)n;
}

/* A text of the asker's; it may end right before memory that is not there. */
static bool peek_text(const struct cli_asker *a, uint64_t at, char *to,
		      size_t cap)
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

static bool within(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* The names of threads, of what is open already and the like. */
static bool is_no_file(const char *name)
{
	return within(name, "/proc") || within(name, "/sys") ||
	       within(name, "/dev/fd") || !strcmp(name, "/dev/stdin") ||
	       !strcmp(name, "/dev/stdout") || !strcmp(name, "/dev/stderr");
}

/* The name at `arg`, from the folder of descriptor `dir`, as we can use it
 * ourselves. */
static bool path_of(const struct cli_asker *a, int dir, int arg, char *to,
		    size_t cap)
{
	char name[4096];
	int pid = (int)a->n->pid;
	size_t n;

	if (!peek_text(a, a->n->data.args[arg], name, sizeof(name)))
		return false;
	if (is_no_file(name))
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

/* Devices are written to and stay what they are; files in /dev/shm are as
 * good as others. */
static bool is_device(const char *path, const struct statx *x)
{
	return within(path, "/dev") && !S_ISREG(x->stx_mode) &&
	       !S_ISDIR(x->stx_mode) && !S_ISLNK(x->stx_mode);
}

/* Was it there before the command began? A file system that does not know
 * when a file was made has old ones only; but in /dev/shm, where older
 * kernels do not, what was changed since is taken for the command's own. */
static bool is_old(const struct cli_guard *g, const char *path, int flags,
		   struct statx *x)
{
	const struct statx_timestamp *made = &x->stx_btime;

	if (statx(AT_FDCWD, path, flags,
		  STATX_TYPE | STATX_SIZE | STATX_MODE | STATX_INO |
			  STATX_BTIME | STATX_CTIME,
		  x))
		return false;
	if (within(path, g->folder) || is_device(path, x))
		return false;
	if (!(x->stx_mask & STATX_BTIME)) {
		if (!within(path, "/dev"))
			return true;
		made = &x->stx_ctime;
	}
	return made->tv_sec < g->start ||
	       (made->tv_sec == g->start && made->tv_nsec < g->start_ns);
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

static const struct cli_answer go_on = { .go_on = true };

/* All of it; the kernel can do that by itself, but not from every file system
 * to every other. */
static int copy(int in, int out)
{
	char part[1 << 16];
	ssize_t n;
	int e = 0;

	do
		n = copy_file_range(in, NULL, out, NULL, (size_t)LARGEST, 0);
	while (n > 0);
	while (!e && (n = read(in, part, sizeof(part))) > 0)
		e = mr_write_all(out, part, (size_t)n);
	return n < 0 ? errno : e;
}

static int copy_old(const char *from, const struct statx *x, int out)
{
	int in, e;

	if (x->stx_size > (uint64_t)LARGEST)
		return EROFS;
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return errno;
	e = copy(in, out);
	close(in);
	return e;
}

/* What stands in for `path` gets what is needed for such an open(). Who only
 * writes gets the old contents too: others may read them later. */
static int fill(struct cli_diverted *d, int out, const char *path,
		const struct statx *x, unsigned flags)
{
	bool writes = (flags & O_ACCMODE) == O_WRONLY;
	int e;

	if (flags & O_TRUNC)
		d->has = CLI_WHOLE; /* without any contents */
	if (d->has == CLI_WHOLE || (d->has == CLI_HOLES && writes))
		return 0;
	e = d->has == CLI_HOLES ? EROFS : copy_old(path, x, out);
	if (!e)
		d->has = CLI_WHOLE;
	else if (writes && !ftruncate(out, (off_t)x->stx_size))
		d->has = CLI_HOLES;
	else
		return e;
	return 0;
}

/* Give the asker the file that stands in for `path`. */
static struct cli_answer divert(struct cli_guard *g, const struct cli_asker *a,
				const char *path, const struct statx *x,
				unsigned flags)
{
	struct cli_diverted *d = entry_of(g, path, x);
	struct seccomp_notif_addfd add = { .id = a->n->id };
	struct cli_answer r = { .error = EROFS };
	char aside[8192];
	int fd;

	if (!d)
		return r;
	snprintf(aside, sizeof(aside), "%s/diverted.%zu", g->folder,
		 (size_t)(d - g->old));
	fd = open(aside, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return r;
	r.error = fill(d, fd, path, x, flags);
	close(fd);
	if (r.error)
		return r;
	fd = open(aside,
		  (int)(flags & ~(unsigned)(O_CREAT | O_EXCL | O_NOFOLLOW)) |
			  O_CLOEXEC);
	if (fd < 0)
		return (struct cli_answer){ .error = errno };
	add.srcfd = (uint32_t)fd;
	add.newfd_flags = flags & O_CLOEXEC;
	r.value = ioctl(g->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
	r.error = r.value < 0 ? errno : 0;
	close(fd);
	return r;
}

static struct cli_answer on_open(struct cli_guard *g, const struct cli_asker *a,
				 int dir, int arg, uint64_t flags)
{
	struct statx x;
	char path[8192];

	if (!(flags & CLI_WRITES) || (flags & O_PATH) ||
	    (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) ||
	    !path_of(a, dir, arg, path, sizeof(path)) ||
	    !is_old(g, path, 0, &x) || !S_ISREG(x.stx_mode) ||
	    access(path, W_OK))
		return go_on;
	return divert(g, a, path, &x, (unsigned)flags);
}

/* It seems to be gone. */
static struct cli_answer pretend(struct cli_guard *g, const char *path,
				 const struct statx *x)
{
	struct cli_diverted *d = entry_of(g, path, x);

	if (!d)
		return (struct cli_answer){ .error = EROFS };
	d->gone = true;
	return (struct cli_answer){ 0 };
}

static struct cli_answer on_remove(struct cli_guard *g,
				   const struct cli_asker *a, int dir, int arg)
{
	struct statx x;
	char path[8192];

	if (!path_of(a, dir, arg, path, sizeof(path)) ||
	    !is_old(g, path, AT_SYMLINK_NOFOLLOW, &x))
		return go_on;
	return pretend(g, path, &x);
}

static struct cli_answer on_rename(struct cli_guard *g,
				   const struct cli_asker *a, int from, int at,
				   int to, int at_to)
{
	struct cli_answer r = go_on;
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

static struct cli_answer on_truncate(struct cli_guard *g,
				     const struct cli_asker *a)
{
	struct statx x;
	char path[8192];

	if (!path_of(a, AT_FDCWD, 0, path, sizeof(path)) ||
	    !is_old(g, path, 0, &x))
		return go_on;
	return entry_of(g, path, &x) ? (struct cli_answer){ 0 } :
				       (struct cli_answer){ .error = EROFS };
}

/* A folder that seems to be gone can be made again. */
static struct cli_answer on_mkdir(struct cli_guard *g,
				  const struct cli_asker *a, int dir, int arg)
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
			return (struct cli_answer){ 0 };
		}
	return go_on;
}

/* ---- questions ---- */

struct cli_answer cli_divert(struct cli_guard *g, const struct cli_asker *a)
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
