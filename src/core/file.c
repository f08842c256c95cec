/* SPDX-License-Identifier: Apache-2.0 */
#include "core/file.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/mem.h"

enum { TRIES = 100 }; /* names of a file that is not yet whole */

int mr_file_read(const char *path, size_t max, char **data, size_t *size,
		 struct mr_err *err)
{
	char *buf = NULL;
	size_t cap = 0, n = 0;
	int e = 0, fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return mr_err_sys(err, errno, path, "cannot open");
	for (;;) {
		ssize_t got;

		if (n > max) {
			e = mr_err_set(err, MR_ELIMIT,
				       "%s: larger than %zu bytes", path, max);
			goto out;
		}
		e = mr_grow(&buf, &cap, n + 65536, 1, SIZE_MAX, err);
		if (e)
			goto out;
		got = read(fd, buf + n, cap - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			e = mr_err_sys(err, errno, path, "cannot read");
			goto out;
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	buf[n] = 0;
	*data = buf;
	*size = n;
	buf = NULL;
out:
	free(buf);
	close(fd);
	return e;
}

int mr_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

int mr_pwrite_all(int fd, const void *data, size_t size, uint64_t at)
{
	const char *p = data;

	while (size) {
		ssize_t n = pwrite(fd, p, size, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		p += n;
		at += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

bool mr_pread_all(int fd, void *to, size_t size, uint64_t at)
{
	for (size_t got = 0; got < size;) {
		ssize_t k = pread(fd, (char *)to + got, size - got,
				  (off_t)(at + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		got += (size_t)k;
	}
	return true;
}

/* A device or a pipe is written to, not replaced. */
static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
	       !S_ISDIR(st.st_mode);
}

static int write_special(const char *path, const void *data, size_t size,
			 struct mr_err *err)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), e;

	if (fd < 0)
		return mr_err_sys(err, errno, path, "cannot write");
	e = mr_write_all(fd, data, size);
	if (close(fd) && !e)
		e = errno;
	return e ? mr_err_sys(err, e, path, "cannot write") : 0;
}

int mr_file_beside(const char *path, char *tmp, size_t cap)
{
	int fd = -1;

	for (int i = 0; i < TRIES && fd < 0; i++) {
		int n = snprintf(tmp, cap, "%s.tmp-%d-%d", path, (int)getpid(),
				 i);

		if (n < 0 || (size_t)n >= cap) {
			errno = ENAMETOOLONG;
			break;
		}
		fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

int mr_file_write(const char *path, const void *data, size_t size,
		  struct mr_err *err)
{
	char tmp[4096];
	int fd, e;

	if (is_special(path))
		return write_special(path, data, size, err);
	fd = mr_file_beside(path, tmp, sizeof(tmp));
	if (fd < 0)
		return mr_err_sys(err, errno, path, "cannot write");
	e = mr_write_all(fd, data, size);
	if (!e && fsync(fd))
		e = errno;
	if (close(fd) && !e)
		e = errno;
	if (!e && rename(tmp, path))
		e = errno;
	if (e) {
		unlink(tmp);
		return mr_err_sys(err, e, path, "cannot write");
	}
	return 0;
}

int64_t mr_file_changed(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

int mr_machine_cores(void)
{
	struct mr_cgroup group;
	cpu_set_t set;
	int n = 1;

	mr_cgroup_read(&group, "");
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (group.cores < n)
		n = group.cores < 1 ? 1 : (int)(group.cores + 0.5);
	return n;
}

uint64_t mr_machine_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	double all = pages > 0 && size > 0 ? (double)pages * (double)size : 4e9;
	struct mr_cgroup group;

	mr_cgroup_read(&group, "");
	return (uint64_t)(group.memory < all ? group.memory : all);
}
