/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are whole or not there, and the directories they go to. */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "synth/synth.h"

int synth_file_open(struct synth_file *f, struct mr_err *err, const char *fmt,
		    ...)
{
	va_list ap;
	int n;

	f->fd = -1;
	va_start(ap, fmt);
	n = vsnprintf(f->path, sizeof(f->path), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(f->path))
		return mr_err_set(err, MR_EINVAL, "%.80s...: path too long",
				  f->path);
	f->fd = mr_file_beside(f->path, f->temp, sizeof(f->temp));
	if (f->fd < 0)
		return mr_err_sys(err, errno, f->path, "cannot write");
	return 0;
}

int synth_file_write(struct synth_file *f, const void *data, size_t size,
		     uint64_t offset, struct mr_err *err)
{
	const char *p = data;

	while (size) {
		ssize_t n = pwrite(f->fd, p, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mr_err_sys(err, errno, f->path, "cannot write");
		p += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

int synth_file_done(struct synth *s, struct synth_file *f, uint64_t size,
		    struct mr_err *err)
{
	int e = 0;

	if (close(f->fd))
		e = errno;
	f->fd = -1;
	if (!e && rename(f->temp, f->path))
		e = errno;
	if (e) {
		unlink(f->temp);
		return mr_err_sys(err, e, f->path, "cannot write");
	}
	atomic_fetch_add(&s->files, 1);
	atomic_fetch_add(&s->bytes, size);
	return 0;
}

void synth_file_drop(struct synth_file *f)
{
	if (f->fd < 0)
		return;
	close(f->fd);
	unlink(f->temp);
	f->fd = -1;
}

static int make_dir(const char *path, struct mr_err *err)
{
	struct stat st;

	if (mkdir(path, 0777) == 0)
		return 0;
	if (errno != EEXIST)
		return mr_err_sys(err, errno, path, "cannot make directory");
	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return mr_err_sys(err, ENOTDIR, path, "cannot make directory");
	return 0;
}

int synth_make_dirs(const char *path, struct mr_err *err)
{
	char *copy = mr_strdup(path, err);
	int e = 0;

	if (!copy)
		return MR_ENOMEM;
	for (char *p = copy + 1; *copy && *p && !e; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		e = make_dir(copy, err);
		*p = '/';
	}
	free(copy);
	return e ? e : make_dir(path, err);
}

int synth_class_dirs(struct synth *s, struct mr_err *err)
{
	int64_t n = s->opt->classes < s->opt->count ? s->opt->classes :
						      s->opt->count;
	char path[PATH_MAX];
	int e = 0;

	for (int64_t c = 0; c < n && !e; c++) {
		snprintf(path, sizeof(path), "%s/class-%03d", s->dir, (int)c);
		e = make_dir(path, err);
	}
	return e;
}

int synth_check_empty(const char *dir, struct mr_err *err)
{
	const struct dirent *d;
	DIR *h = opendir(dir);
	int e = 0;

	if (!h)
		return mr_err_sys(err, errno, dir, "cannot open");
	while (!e && (d = readdir(h)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			e = mr_err_set(err, MR_EINVAL,
				       "%s: not empty (it holds %s); "
				       "--force writes into it all the same",
				       dir, d->d_name);
	closedir(h);
	return e;
}
