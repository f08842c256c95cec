/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Hidden: in a folder of samples it is not one of them. Older ones were not. */
#define OLD    "millrace-tune-"
#define PREFIX "." OLD
#define LOCK   "lock"

static int drop_one(const char *path, const struct stat *st, int type,
		    struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	remove(path); /* what cannot be removed stays */
	return 0;
}

void mr_scratch_drop(const char *path)
{
	nftw(path, drop_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int warm_one(const char *path, const struct stat *st, int type,
		    struct FTW *at)
{
	static char buf[1 << 16]; /* nobody looks at it */
	int fd = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	(void)st;
	(void)at;
	while (fd >= 0 && read(fd, buf, sizeof(buf)) > 0)
		;
	if (fd >= 0)
		close(fd);
	return 0;
}

void mr_scratch_warm(const char *path)
{
	nftw(path, warm_one, 16, FTW_PHYS);
}

/* The lock of a scratch folder, if nobody holds it; -1: somebody does, or it
 * is no such folder. */
static int take_lock(const char *path, int flags)
{
	char name[4200];
	int fd;

	snprintf(name, sizeof(name), "%s/" LOCK, path);
	fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool is_scratch(const char *name)
{
	return !strncmp(name, PREFIX, strlen(PREFIX)) ||
	       !strncmp(name, OLD, strlen(OLD));
}

/* Removes what killed processes left. */
static void sweep(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *x;

	while (d && (x = readdir(d))) {
		char path[4096];
		struct stat st;
		int fd;

		if (!is_scratch(x->d_name) ||
		    (size_t)snprintf(path, sizeof(path), "%s/%s", dir,
				     x->d_name) >= sizeof(path) ||
		    lstat(path, &st) || !S_ISDIR(st.st_mode) ||
		    st.st_uid != geteuid())
			continue;
		fd = take_lock(path, 0);
		if (fd < 0)
			continue;
		mr_scratch_drop(path);
		close(fd);
	}
	if (d)
		closedir(d);
}

int mr_scratch_make(struct mr_scratch *s, const char *dir, struct mr_err *err)
{
	const char *tmp = getenv("TMPDIR");

	if (!*dir)
		dir = tmp && *tmp ? tmp : "/tmp";
	sweep(dir);
	s->lock = -1;
	if ((size_t)snprintf(s->path, sizeof(s->path), "%s/" PREFIX "XXXXXX",
			     dir) >= sizeof(s->path) ||
	    !mkdtemp(s->path)) {
		s->path[0] = 0;
		return mr_err_set(err, MR_EIO,
				  "%s: cannot make a folder for samples: %s; "
				  "give another one: --scratch DIR",
				  dir, strerror(errno));
	}
	s->lock = take_lock(s->path, O_CREAT);
	if (s->lock < 0) {
		mr_err_set(err, MR_EIO,
			   "%s: cannot be locked: %s; give another folder: "
			   "--scratch DIR",
			   s->path, strerror(errno));
		mr_scratch_remove(s);
		return MR_EIO;
	}
	return 0;
}

void mr_scratch_remove(struct mr_scratch *s)
{
	if (!*s->path)
		return;
	mr_scratch_drop(s->path);
	if (s->lock >= 0)
		close(s->lock);
	s->path[0] = 0;
}

uint64_t mr_scratch_room(const struct mr_scratch *s)
{
	struct statvfs fs;

	if (statvfs(s->path, &fs))
		return 0;
	return (uint64_t)fs.f_bavail * fs.f_frsize;
}
