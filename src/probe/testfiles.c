/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/testfiles.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"

enum {
	PIECE = 8 << 20, /* written at once, and then waited for */
	BLOCK = 4096,
	NAME = 24,
};

static const char pattern[] = "/.millrace-doctor-XXXXXX";

/* ---- bytes ---- */

static void fill(char *buf, size_t n)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t v = mr_mix64(i + UINT64_C(0x2545f4914f6cdd1d));

		memcpy(buf + i, &v, 8);
	}
}

/* Each block its own number: storage that looks for copies finds none. */
static void stamp(char *buf, size_t n, uint64_t first)
{
	for (size_t i = 0; i + 8 <= n; i += BLOCK) {
		uint64_t v = mr_mix64(first + i / BLOCK + 1);

		memcpy(buf + i, &v, 8);
	}
}

/* ---- the directory ---- */

int mr_testfiles_open(struct mr_testfiles *t, const char *parent,
		      struct mr_err *err)
{
	size_t n = strlen(parent);

	*t = (struct mr_testfiles){ .dir_fd = -1, .fd = -1 };
	t->dir = mr_alloc(n + sizeof(pattern), 1, err);
	if (!t->dir)
		return MR_ENOMEM;
	memcpy(t->dir, parent, n);
	memcpy(t->dir + n, pattern, sizeof(pattern));
	if (!mkdtemp(t->dir)) {
		int why = errno;

		free(t->dir);
		t->dir = NULL;
		return mr_err_set(err, MR_EIO,
				  "%s: no files can be made there: %s; name a "
				  "directory that you may write",
				  parent, strerror(why));
	}
	t->dir_fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dir_fd >= 0)
		return 0;
	mr_err_sys(err, errno, t->dir, "open");
	mr_testfiles_close(t);
	return err->code;
}

static void name_of(char name[NAME], uint64_t i)
{
	snprintf(name, NAME, "%06llu", (unsigned long long)i);
}

int mr_testfiles_at(const struct mr_testfiles *t, uint64_t i, int flags)
{
	char name[NAME];

	name_of(name, i);
	return openat(t->dir_fd, name, flags | O_CLOEXEC, 0600);
}

int mr_testfiles_reopen(const struct mr_testfiles *t, int flags)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
	return open(path, flags | O_CLOEXEC);
}

void mr_testfiles_close(struct mr_testfiles *t)
{
	if (!t->dir)
		return;
	for (uint64_t i = 0; i < t->names; i++) {
		char name[NAME];

		name_of(name, i);
		unlinkat(t->dir_fd, name, 0);
	}
	mr_testfiles_drop_large(t);
	if (t->dir_fd >= 0)
		close(t->dir_fd);
	rmdir(t->dir);
	free(t->dir);
	*t = (struct mr_testfiles){ .dir_fd = -1, .fd = -1 };
}

/* ---- the large file ---- */

static int open_large(struct mr_testfiles *t, struct mr_err *err)
{
	t->fd = openat(t->dir_fd, "large", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (t->fd < 0)
		return mr_err_sys(err, errno, t->dir, "cannot make a file");
	unlinkat(t->dir_fd, "large", 0);
	return 0;
}

/* 0 or an errno; what could not be waited for is gone. */
static int write_piece(int fd, const char *buf, size_t n)
{
	int e = mr_write_all(fd, buf, n);

	if (!e && fdatasync(fd))
		e = errno;
	return e;
}

int mr_testfiles_large(struct mr_testfiles *t, struct mr_watch *w,
		       uint64_t bytes, double seconds, struct mr_err *err)
{
	uint64_t until = mr_clock_ns() + (uint64_t)(seconds * 1e9);
	char *buf = mr_map(PIECE, err);
	int e = buf ? open_large(t, err) : MR_ENOMEM, why = 0;

	if (!e)
		fill(buf, PIECE);
	while (!e && !why && t->bytes < bytes) {
		uint64_t left = bytes - t->bytes;
		size_t n = left < PIECE ? (size_t)left : PIECE;

		stamp(buf, n, t->bytes / BLOCK);
		why = write_piece(t->fd, buf, n);
		if (!why)
			t->bytes += n;
		if (mr_watch_look(w) || mr_clock_ns() > until)
			break;
	}
	mr_unmap(buf, PIECE);
	if (!e)
		e = mr_watch_stopped(w, err);
	if (!e && why && !t->bytes)
		e = mr_err_sys(err, why, t->dir, "cannot write a file");
	return e;
}

void mr_testfiles_drop_large(struct mr_testfiles *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	t->bytes = 0;
}

/* ---- the small files ---- */

struct making {
	struct mr_testfiles *t;
	struct mr_watch *w;
	const char *bytes;
	uint64_t files, until;
	_Atomic uint64_t next;
	atomic_int failed; /* an errno */
};

/* Written out, which is enough to evict it; its name need not outlive a
 * crash, which for so many files would take long. */
static int settle(int fd)
{
	if (!sync_file_range(fd, 0, 0,
			     SYNC_FILE_RANGE_WAIT_BEFORE |
				     SYNC_FILE_RANGE_WRITE |
				     SYNC_FILE_RANGE_WAIT_AFTER))
		return 0;
	return fdatasync(fd) ? errno : 0;
}

static int make_one(struct making *m, uint64_t i, char *buf)
{
	int fd = mr_testfiles_at(m->t, i, O_WRONLY | O_CREAT | O_EXCL), e;

	if (fd < 0)
		return errno;
	stamp(buf, m->t->each, i * (m->t->each / BLOCK + 1) << 20);
	e = mr_write_all(fd, buf, m->t->each);
	if (!e)
		e = settle(fd);
	if (close(fd) && !e)
		e = errno;
	return e;
}

static void make_some(void *arg, int k)
{
	struct making *m = arg;
	char *buf = malloc(m->t->each);

	(void)k;
	if (!buf) {
		atomic_store(&m->failed, ENOMEM);
		return;
	}
	fill(buf, m->t->each);
	/* one at least: a thread may start late on a busy machine */
	do {
		uint64_t i = atomic_fetch_add(&m->next, 1);
		int e;

		if (i >= m->files || atomic_load(&m->w->stop))
			break;
		e = make_one(m, i, buf);
		if (e)
			atomic_store(&m->failed, e);
	} while (!atomic_load(&m->failed) && mr_clock_ns() < m->until);
	free(buf);
}

/* Threads end in any order: those from the first hole on do not count. */
static uint64_t complete(const struct mr_testfiles *t)
{
	uint64_t i = 0;

	for (; i < t->names; i++) {
		struct stat st;
		char name[NAME];

		name_of(name, i);
		if (fstatat(t->dir_fd, name, &st, 0) ||
		    (uint64_t)st.st_size != t->each)
			break;
	}
	return i;
}

int mr_testfiles_small(struct mr_testfiles *t, struct mr_watch *w,
		       uint64_t files, size_t each, int threads, double seconds,
		       struct mr_err *err)
{
	struct making m = { .t = t,
			    .w = w,
			    .files = files,
			    .until =
				    mr_clock_ns() + (uint64_t)(seconds * 1e9) };
	int e;

	t->each = each;
	e = mr_watch_run(w, threads, make_some, &m, err);
	t->names = m.next < files ? m.next : files;
	t->files = complete(t);
	if (!e)
		e = mr_watch_stopped(w, err);
	if (!e && !t->files)
		e = mr_err_sys(err, m.failed, t->dir,
			       "cannot write small files");
	return e;
}

/* ---- eviction ---- */

void mr_testfiles_evict_large(const struct mr_testfiles *t,
			      struct mr_evicted *sum)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
	mr_evict_file(path, sum);
}

struct evicting {
	const struct mr_testfiles *t;
	const struct mr_watch *w;
	_Atomic uint64_t next;
	struct mr_evicted sum[MR_WATCH_THREADS];
};

static void evict_some(void *arg, int k)
{
	struct evicting *v = arg;
	uint64_t i;

	while ((i = atomic_fetch_add(&v->next, 1)) < v->t->files &&
	       !atomic_load(&v->w->stop)) {
		char path[4200], name[NAME];

		name_of(name, i);
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", v->t->dir,
				     name) < sizeof(path))
			mr_evict_file(path, &v->sum[k]);
	}
}

int mr_testfiles_evict_small(const struct mr_testfiles *t, struct mr_watch *w,
			     int threads, struct mr_evicted *sum,
			     struct mr_err *err)
{
	struct evicting v = { .t = t, .w = w };
	int e = mr_watch_run(w, threads, evict_some, &v, err);

	for (int i = 0; i < threads; i++) {
		sum->files += v.sum[i].files;
		sum->bytes += v.sum[i].bytes;
		sum->stayed += v.sum[i].stayed;
		sum->unknown += v.sum[i].unknown;
	}
	return e;
}
