/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/storage.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/str.h"
#include "probe/place.h"
#include "probe/testfiles.h"

enum {
	SMALL = 100 * 1024, /* bytes of a small file, a multiple of a page */
	FILES = 5000,
	LEAST = 1 << 20,  /* of the large file */
	MOST = 512 << 20, /* unless asked for */
	EVICTERS = 4,	  /* threads */
	EVICT_TRIES = 10,
};

/* Shares of the time: writing each kind, each run. */
static const double write_share = 0.2, run_share = 0.06;

static const struct {
	const char *name, *tell;
	size_t block;
} kinds[MR_STORAGE_KINDS] = {
	{ "sequential", "sequential reads", 1 << 20 },
	{ "random_4k", "random reads of 4 KiB", 4 << 10 },
	{ "random_128k", "random reads of 128 KiB", 128 << 10 },
	{ "small_files", "small files", SMALL },
};

const char *mr_storage_kind_name(enum mr_storage_kind k)
{
	return kinds[k].name;
}

void mr_storage_none(struct mr_storage *s, const char *reason)
{
	*s = (struct mr_storage){ .free = NAN };
	snprintf(s->reason, sizeof(s->reason), "%s", reason);
	for (int i = 0; i < MR_STORAGE_RUNS; i++) {
		struct mr_storage_run *run = &s->run[i];

		run->kind = (enum mr_storage_kind)(i / 2);
		run->block = kinds[run->kind].block;
		run->threads = 1;
		run->r = mr_reads_none;
		run->resident = NAN;
		snprintf(run->reason, sizeof(run->reason), "not measured");
	}
}

/* ---- requests ---- */

struct target {
	const struct mr_testfiles *t;
	int fd; /* of the large file */
	size_t block;
	const uint32_t *order; /* of its blocks; NULL: as they lie */
	bool direct;
};

static int64_t read_block(const void *arg, uint64_t i, void *buf)
{
	const struct target *g = arg;
	uint64_t k = g->order ? g->order[i] : i;
	ssize_t n = pread(g->fd, buf, g->block, (off_t)(k * g->block));

	return n < 0 ? -errno : n;
}

static int64_t read_file(const void *arg, uint64_t i, void *buf)
{
	const struct target *g = arg;
	int fd =
		mr_testfiles_at(g->t, i, O_RDONLY | (g->direct ? O_DIRECT : 0));
	ssize_t n;
	int why;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, g->block);
	why = errno;
	close(fd);
	return n < 0 ? -why : n;
}

/* ---- one run ---- */

static double share_resident(const struct mr_evicted *v)
{
	if (v->unknown || !v->bytes)
		return NAN;
	return (double)v->stayed / (double)v->bytes;
}

static int measure_files(struct mr_storage_run *run, struct target *g,
			 struct mr_watch *w, double seconds, struct mr_err *err)
{
	struct mr_reads r = { .one = read_file,
			      .arg = g,
			      .count = g->t->files,
			      .buffer = SMALL,
			      .threads = run->threads,
			      .seconds = seconds };
	struct mr_evicted v = { 0 };
	int e = mr_testfiles_evict_small(g->t, w, EVICTERS, &v, err);

	if (e)
		return e;
	run->resident = share_resident(&v);
	return mr_reads_run(w, &r, &run->r, err);
}

/* What the kernel was still reading ahead when the last run ended comes in
 * late, and cannot be evicted before. */
static double evict_large(const struct mr_testfiles *t, struct mr_watch *w)
{
	struct timespec nap = { 0, 50 * 1000 * 1000 };
	double share = NAN;

	for (int i = 0; i < EVICT_TRIES; i++) {
		struct mr_evicted v = { 0 };

		mr_testfiles_evict_large(t, &v);
		share = share_resident(&v);
		if (!(share > 0) || mr_watch_look(w))
			break;
		nanosleep(&nap, NULL);
	}
	return share;
}

static int measure_blocks(struct mr_storage_run *run, struct target *g,
			  struct mr_watch *w, double seconds,
			  struct mr_err *err)
{
	struct mr_reads r = { .one = read_block,
			      .arg = g,
			      .count = g->t->bytes / run->block,
			      .buffer = run->block,
			      .threads = run->threads,
			      .seconds = seconds };
	bool random = run->kind != MR_STORAGE_SEQUENTIAL;
	uint32_t *order = NULL;
	int e;

	if (random) {
		order = mr_reads_shuffled((uint32_t)r.count, err);
		if (!order)
			return MR_ENOMEM;
	}
	g->order = order;
	g->block = run->block;
	/* else the kernel reads more than it is asked for */
	posix_fadvise(g->fd, 0, 0,
		      random ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
	run->resident = evict_large(g->t, w);
	e = mr_reads_run(w, &r, &run->r, err);
	g->order = NULL;
	free(order);
	return e;
}

/* A run that fails says why, and the others go on. */
static int measure_run(struct mr_storage_run *run, struct target *g,
		       struct mr_watch *w, double seconds, struct mr_err *err)
{
	bool small = run->kind == MR_STORAGE_FILES;
	int e = 0;

	if (small ? !g->t->files : !g->t->bytes)
		return 0; /* the reason is known */
	*run->reason = 0;
	w->what = kinds[run->kind].tell;
	if (small) {
		g->block = SMALL;
		e = measure_files(run, g, w, seconds, err);
	} else {
		e = measure_blocks(run, g, w, seconds, err);
	}
	if (!e)
		e = mr_watch_stopped(w, err);
	if (e == MR_ESTATE)
		return e;
	if (e)
		snprintf(run->reason, sizeof(run->reason), "%.150s", err->text);
	return 0;
}

/* ---- all runs ---- */

static void no_runs(struct mr_storage *s, bool small, const char *reason)
{
	for (int i = 0; i < MR_STORAGE_RUNS; i++)
		if ((s->run[i].kind == MR_STORAGE_FILES) == small)
			snprintf(s->run[i].reason, sizeof(s->run[i].reason),
				 "%.150s", reason);
}

/* A descriptor to read the large file by. Not all file systems know
 * O_DIRECT. */
static int open_target(struct mr_storage *s, struct target *g, bool direct)
{
	g->fd = direct ? mr_testfiles_reopen(g->t, O_RDONLY | O_DIRECT) : -1;
	g->direct = s->direct = g->fd >= 0;
	if (direct && !g->direct)
		snprintf(s->direct_reason, sizeof(s->direct_reason),
			 "the file system refuses O_DIRECT: %s",
			 strerror(errno));
	if (g->fd < 0)
		g->fd = mr_testfiles_reopen(g->t, O_RDONLY);
	return g->fd;
}

static int measure_kinds(struct mr_storage *s, struct mr_testfiles *t,
			 const struct mr_storage_options *o, bool small,
			 struct mr_watch *w, struct mr_err *err)
{
	struct target g = { .t = t, .fd = -1, .direct = s->direct };
	int e = 0;

	if (!small && open_target(s, &g, o->direct) < 0)
		return mr_err_sys(err, errno, t->dir, "open");
	for (int i = 0; i < MR_STORAGE_RUNS && !e; i++)
		if ((s->run[i].kind == MR_STORAGE_FILES) == small)
			e = measure_run(&s->run[i], &g, w,
					o->seconds * run_share, err);
	if (g.fd >= 0)
		close(g.fd);
	return e;
}

/* The small ones are written when the large one is gone, and take its
 * space. */
static int measure_all(struct mr_storage *s, struct mr_testfiles *t,
		       const struct mr_storage_options *o, uint64_t bytes,
		       struct mr_watch *w, struct mr_err *err)
{
	double seconds = o->seconds * write_share;
	uint64_t files = bytes / SMALL < FILES ? bytes / SMALL : FILES;
	int e;

	w->what = "writing a large file";
	e = mr_testfiles_large(t, w, bytes, seconds, err);
	s->file_bytes = t->bytes;
	if (!e)
		e = measure_kinds(s, t, o, false, w, err);
	else if (e == MR_EIO)
		no_runs(s, false, err->text);
	if (e && e != MR_EIO)
		return e;
	mr_testfiles_drop_large(t);
	w->what = "writing small files";
	e = mr_testfiles_small(t, w, files, SMALL, o->threads, seconds, err);
	s->files = t->files;
	s->each = SMALL;
	if (!e)
		e = measure_kinds(s, t, o, true, w, err);
	else if (e == MR_EIO)
		no_runs(s, true, err->text);
	return e == MR_EIO ? 0 : e;
}

/* ---- is there room? ---- */

static int look_at(struct mr_storage *s, const char *dir, struct mr_err *err)
{
	struct mr_place place;
	struct statvfs v;
	struct stat st;

	snprintf(s->dir, sizeof(s->dir), "%s", dir);
	if (stat(dir, &st))
		return mr_err_set(err, MR_EIO,
				  "%s: %s; name the directory that the data "
				  "lies in",
				  dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return mr_err_set(err, MR_EIO,
				  "%s: not a directory; name the one that the "
				  "data lies in",
				  dir);
	mr_place_find(&place, dir);
	snprintf(s->fs, sizeof(s->fs), "%s", place.fs);
	snprintf(s->device, sizeof(s->device), "%s", place.device);
	s->memory = place.memory;
	if (!statvfs(dir, &v)) {
		s->free = (double)v.f_bavail * (double)v.f_frsize;
		s->read_only = v.f_flag & ST_RDONLY;
	}
	return 0;
}

/* Bytes of the large file, or 0: s->reason says why. A tmpfs is memory,
 * which must not be used up. */
static int choose_size(struct mr_storage *s, uint64_t wanted, uint64_t *bytes,
		       struct mr_err *err)
{
	double room = isnan(s->free) ? MOST : s->free * 0.9, most = MOST;
	char a[32], b[32];

	if (s->memory && (double)mr_machine_memory() / 16 < most)
		most = (double)mr_machine_memory() / 16;
	if (room / 2 < most)
		most = room / 2;

	if (wanted && (double)wanted > room)
		return mr_err_set(err, MR_ELIMIT,
				  "%s: %s do not fit: %s are free; give a "
				  "smaller --size",
				  s->dir, mr_str_size(a, (double)wanted),
				  mr_str_size(b, s->free));
	*bytes = wanted ? wanted : (uint64_t)most;
	if (*bytes >= LEAST)
		return 0;
	*bytes = 0;
	s->full = true;
	snprintf(s->reason, sizeof(s->reason),
		 "%.200s: only %s are free, too little to measure with; "
		 "make room, or name another directory",
		 s->dir, mr_str_size(b, s->free));
	return 0;
}

int mr_storage_measure(struct mr_storage *s, const struct mr_storage_options *o,
		       struct mr_watch *w, struct mr_err *err)
{
	struct mr_testfiles t = { 0 };
	uint64_t bytes = 0;
	int e;

	mr_storage_none(s, "");
	for (int i = 0; i < MR_STORAGE_RUNS; i++)
		s->run[i].threads = i % 2 ? o->threads : 1;
	e = look_at(s, o->dir, err);
	if (e)
		return e;
	if (s->read_only) {
		snprintf(s->reason, sizeof(s->reason),
			 "%.200s: the file system is read-only; name a "
			 "directory on the same storage that can be written",
			 s->dir);
		return 0;
	}
	e = choose_size(s, o->bytes, &bytes, err);
	if (e || !bytes)
		return e;
	e = mr_testfiles_open(&t, o->dir, err);
	if (e == MR_EIO) {
		s->read_only = true;
		snprintf(s->reason, sizeof(s->reason), "%.390s", err->text);
		return 0;
	}
	if (!e)
		e = measure_all(s, &t, o, bytes, w, err);
	w->what = "removing the files";
	mr_watch_look(w);
	mr_testfiles_close(&t);
	return e;
}
