/* SPDX-License-Identifier: Apache-2.0 */
#include "store/writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/le.h"
#include "core/mem.h"
#include "store/journal.h"

enum {
	KEY_MAX = 4096,
	DIR_MAX = 4000, /* bytes, so that the files' paths fit too */
	TAR_END = 1024,
	ENTRIES_MAX = 1 << 30,
};

void mr_writer_name(const struct mr_writer *w, uint64_t shard, char *to,
		    size_t cap)
{
	unsigned long long k = shard, n = w->meta->shards;

	if (w->kind == MR_CONTAINER_RECORDS)
		mr_shard_name(to, cap, shard);
	else if (w->kind == MR_CONTAINER_TAR)
		snprintf(to, cap, "shard-%06llu.tar", k);
	else
		snprintf(to, cap, "shard-%05llu-of-%05llu.tfrecord", k, n);
}

static void path_of(const struct mr_writer *w, const char *suffix, char *to,
		    size_t cap)
{
	char name[64];

	mr_writer_name(w, w->shard, name, sizeof(name));
	snprintf(to, cap, "%s/%s%s", w->dir, name, suffix);
}

static int cannot_write(const char *path, int errnum, struct mr_err *err)
{
	if (errnum != ENOSPC && errnum != EDQUOT)
		return mr_err_sys(err, errnum, path, "cannot write");
	return mr_err_set(err, MR_EIO,
			  "%s: cannot write: %s; make room and run the same "
			  "command again: it goes on where it stopped",
			  path, strerror(errnum));
}

/* ---- one shard ---- */

static int end_shard(struct mr_writer *w, struct mr_err *err);

static int write_at(struct mr_writer *w, const void *data, size_t n,
		    struct mr_err *err)
{
	char path[4200];
	int e = mr_append(&w->file, data, n);

	if (e) {
		path_of(w, ".part", path, sizeof(path));
		return cannot_write(path, e, err);
	}
	w->offset += n;
	return 0;
}

static int begin_file(struct mr_writer *w, struct mr_err *err)
{
	struct mr_shard_header h = { .number = (uint32_t)w->shard,
				     .first = w->first,
				     .count = w->count,
				     .set = w->meta->set };
	uint8_t bytes[MR_SHARD_HEADER];
	int e = ftruncate(w->fd, 0) ? errno :
				      mr_append_begin(&w->file, w->fd, 0);

	w->offset = 0;
	if (e)
		return mr_err_sys(err, e, w->dir, "cannot write a shard");
	if (w->kind != MR_CONTAINER_RECORDS)
		return 0;
	mr_shard_put_header(bytes, &h);
	return write_at(w, bytes, sizeof(bytes), err);
}

/* Opens the shard w->shard, and takes over what is good of its parts. */
static int begin_shard(struct mr_writer *w, struct mr_err *err)
{
	char path[4200];
	int e;

	mr_shard_range(w->meta->samples, w->meta->shards, w->shard, &w->first,
		       &w->count);
	w->done = 0;
	w->keys_len = w->log_len = 0;
	if (w->count > ENTRIES_MAX)
		return mr_err_set(err, MR_ELIMIT,
				  "%llu samples in one shard; give more "
				  "--shards",
				  (unsigned long long)w->count);
	e = mr_grow(&w->entries, &w->entry_cap, w->count * MR_SHARD_ENTRY, 1,
		    SIZE_MAX, err);
	if (e)
		return e;
	path_of(w, ".part", path, sizeof(path));
	w->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (w->fd < 0)
		return cannot_write(path, errno, err);
	if (w->kind != MR_CONTAINER_RECORDS)
		return begin_file(w, err);
	path_of(w, ".idx.part", path, sizeof(path));
	w->journal = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (w->journal < 0)
		return cannot_write(path, errno, err);
	e = mr_journal_recover(w, err);
	if (e)
		return e;
	if (!w->done) {
		if (ftruncate(w->journal, 0) || lseek(w->journal, 0, SEEK_SET))
			return cannot_write(path, errno, err);
		return begin_file(w, err);
	}
	e = mr_append_begin(&w->file, w->fd, w->offset);
	if (e)
		return mr_err_sys(err, e, w->dir, "cannot go on");
	/* Else it was killed just before it got its name. */
	return w->done < w->count ? 0 : end_shard(w, err);
}

/* A shard that is not finished keeps what was made of it. */
static void close_files(struct mr_writer *w)
{
	if (w->fd >= 0) {
		mr_append_end(&w->file);
		close(w->fd);
	}
	if (w->journal >= 0)
		close(w->journal);
	w->fd = w->journal = -1;
}

/* The index, or what else a container ends with. */
static int end_file(struct mr_writer *w, struct mr_err *err)
{
	static const uint8_t zeros[TAR_END];
	struct mr_shard_footer f = { .index = w->offset,
				     .count = w->count,
				     .keys = w->keys_len };
	uint8_t bytes[MR_SHARD_FOOTER];
	size_t n = (size_t)w->count * MR_SHARD_ENTRY;
	XXH3_state_t *h;
	int e;

	if (w->kind == MR_CONTAINER_TAR)
		return write_at(w, zeros, sizeof(zeros), err);
	if (w->kind == MR_CONTAINER_TFRECORD)
		return 0;
	h = XXH3_createState();
	if (!h)
		return mr_err_nomem(err, 0);
	f.checksum = XXH3_64bits(w->entries, n);
	f.keys_checksum = XXH3_64bits(w->keys, w->keys_len);
	XXH3_64bits_reset(h);
	for (uint64_t i = 0; i < w->count; i++)
		XXH3_64bits_update(h, w->entries + i * MR_SHARD_ENTRY + 16, 8);
	f.records = XXH3_64bits_digest(h);
	XXH3_freeState(h);
	mr_shard_put_footer(bytes, &f);
	e = write_at(w, w->entries, n, err);
	if (!e)
		e = write_at(w, w->keys, w->keys_len, err);
	if (!e)
		e = write_at(w, bytes, sizeof(bytes), err);
	w->meta->shard[w->shard].records = f.records;
	return e;
}

static int sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), e = 0;

	if (fd < 0 || fsync(fd))
		e = errno;
	if (fd >= 0)
		close(fd);
	return e;
}

static int end_shard(struct mr_writer *w, struct mr_err *err)
{
	char part[4200], path[4200];
	uint64_t t0;
	int e = end_file(w, err);

	if (e)
		return e;
	path_of(w, ".part", part, sizeof(part));
	path_of(w, "", path, sizeof(path));
	t0 = mr_clock_ns();
	e = mr_append_end(&w->file);
	if (!e && (fsync(w->fd) || rename(part, path)))
		e = errno;
	if (e)
		return cannot_write(part, e, err);
	e = sync_dir(w->dir);
	w->sync_seconds += (double)(mr_clock_ns() - t0) / 1e9;
	w->meta->shard[w->shard].bytes = w->offset;
	if (e)
		return cannot_write(w->dir, e, err);
	close_files(w);
	path_of(w, ".idx.part", part, sizeof(part));
	unlink(part);
	w->shard++;
	return w->shard < w->meta->shards ? begin_shard(w, err) : 0;
}

/* ---- samples ---- */

int mr_writer_flush(struct mr_writer *w, struct mr_err *err)
{
	char path[4200];
	int e = 0;

	if (w->log_len && w->journal >= 0)
		e = mr_write_all(w->journal, w->log, w->log_len);
	w->log_len = 0;
	if (!e)
		return 0;
	path_of(w, ".idx.part", path, sizeof(path));
	return cannot_write(path, e, err);
}

int mr_writer_note(struct mr_writer *w, const struct mr_shard_entry *entry,
		   const char *key, size_t len, struct mr_err *err)
{
	struct mr_shard_entry x = *entry;
	int e = mr_grow(&w->keys, &w->keys_cap, w->keys_len + len + 1, 1,
			UINT32_MAX, err);

	if (e == MR_ELIMIT)
		return mr_err_set(err, MR_ELIMIT,
				  "more than 4 GB of keys in one shard; give "
				  "more --shards");
	if (e)
		return e;
	x.key = (uint32_t)w->keys_len;
	memcpy(w->keys + w->keys_len, key, len);
	w->keys[w->keys_len + len] = 0;
	w->keys_len += len + 1;
	mr_shard_put_entry(w->entries + w->done * MR_SHARD_ENTRY, &x);
	w->done++;
	w->next++;
	return 0;
}

int mr_writer_put(struct mr_writer *w, const void *record, size_t length,
		  uint64_t checksum, const char *key, bool bad,
		  struct mr_err *err)
{
	struct mr_shard_entry x = { .offset = w->offset,
				    .length = length,
				    .checksum = checksum,
				    .bad = bad };
	size_t len = strnlen(key, KEY_MAX);
	int e = write_at(w, record, length, err);

	if (e)
		return e;
	w->meta->bad += bad;
	if (w->kind == MR_CONTAINER_RECORDS) {
		e = mr_journal_add(w, &x, key, len, err);
		if (!e)
			e = mr_writer_note(w, &x, key, len, err);
	} else {
		w->done++;
		w->next++;
	}
	if (e || w->done < w->count)
		return e;
	e = mr_writer_flush(w, err);
	return e ? e : end_shard(w, err);
}

/* ---- the whole ---- */

/* What a killed writer may leave behind; never a file of somebody else's. */
static bool is_scrap(const char *name)
{
	size_t n = strlen(name);

	return !strncmp(name, MR_META_NAME ".", sizeof(MR_META_NAME)) ||
	       (!strncmp(name, "shard-", 6) && n > 11 &&
		!strcmp(name + n - 5, ".part"));
}

/* All shards are there: nothing else stays. What cannot be removed but the
 * plan does no harm. */
static int sweep(const struct mr_writer *w, struct mr_err *err)
{
	char path[4200];
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%s", w->dir, MR_META_PART);
	if (unlink(path) && errno != ENOENT)
		return mr_err_sys(err, errno, path, "cannot remove");
	dir = opendir(w->dir);
	while (dir && (d = readdir(dir)))
		if (is_scrap(d->d_name))
			unlinkat(dirfd(dir), d->d_name, 0);
	if (dir)
		closedir(dir);
	return 0;
}

/* The directory, made where it is not there, and ours alone. A file system
 * without locks has to do without. */
static int take_dir(struct mr_writer *w, struct mr_err *err)
{
	if (mkdir(w->dir, 0777) && errno != EEXIST)
		return cannot_write(w->dir, errno, err);
	w->lock = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->lock < 0)
		return mr_err_sys(err, errno, w->dir, "cannot open");
	if (flock(w->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return mr_err_set(err, MR_ESTATE,
				  "%s: another process is writing to it",
				  w->dir);
	return 0;
}

/* Nothing else is in it. */
static int check_dir(const char *name, struct mr_err *err)
{
	char path[4200];
	struct dirent *d;
	bool part = false, other = false;
	DIR *dir = opendir(name);

	if (!dir)
		return mr_err_sys(err, errno, name, "cannot list");
	while ((d = readdir(dir))) {
		part |= !strcmp(d->d_name, MR_META_PART);
		other |= strcmp(d->d_name, ".") && strcmp(d->d_name, "..") &&
			 !is_scrap(d->d_name);
	}
	closedir(dir);
	snprintf(path, sizeof(path), "%s/%s", name, MR_META_NAME);
	if (!part && !access(path, F_OK))
		return mr_err_set(err, MR_EINVAL,
				  "%s: holds a prepared data set already; "
				  "remove it, or choose another directory",
				  name);
	if (other && !part)
		return mr_err_set(
			err, MR_EINVAL,
			"%s: is not empty, and what is in it was not "
			"begun by this command; choose another directory",
			name);
	return 0;
}

/* The plan in the directory, if there is one, is this one. */
static int check_plan(const char *dir, const struct mr_meta *m, bool *there,
		      struct mr_err *err)
{
	char path[4200], why[800];
	struct mr_meta had;
	int e;

	snprintf(path, sizeof(path), "%s/%s", dir, MR_META_PART);
	*there = !access(path, F_OK);
	if (!*there)
		return 0;
	e = mr_meta_read(&had, dir, true, err);
	if (e)
		return e;
	mr_meta_compare(&had, m, why, sizeof(why));
	mr_meta_fini(&had);
	return *why ? mr_err_set(err, MR_EINVAL,
				 "%s: holds a part of another data set: %s; "
				 "remove it, or choose another directory",
				 dir, why) :
		      0;
}

/* Or becomes it. */
static int take_plan(struct mr_writer *w, struct mr_err *err)
{
	bool there;
	int e = check_plan(w->dir, w->meta, &there, err);

	return e || there ? e : mr_meta_write(w->meta, w->dir, true, err);
}

static int check_length(const char *dir, struct mr_err *err)
{
	if (strlen(dir) <= DIR_MAX)
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "--out %.60s...: a path of %zu bytes; at most %d "
			  "leave room for the files' names",
			  dir, strlen(dir), DIR_MAX);
}

int mr_writer_check(const char *dir, const struct mr_meta *m,
		    struct mr_err *err)
{
	bool there;
	int e = check_length(dir, err);

	if (e || access(dir, F_OK))
		return e;
	e = check_dir(dir, err);
	return e || !m ? e : check_plan(dir, m, &there, err);
}

/* Shards that are finished are passed over. */
static int skip_finished(struct mr_writer *w, struct mr_err *err)
{
	for (; w->shard < w->meta->shards; w->shard++) {
		char path[4200];
		uint64_t first, count;
		int e;

		path_of(w, "", path, sizeof(path));
		if (access(path, F_OK))
			break;
		e = mr_journal_finished(w, path, err);
		if (e)
			return e;
		mr_shard_range(w->meta->samples, w->meta->shards, w->shard,
			       &first, &count);
		w->next = first + count;
	}
	return 0;
}

int mr_writer_open(struct mr_writer *w, const char *dir, struct mr_meta *m,
		   enum mr_container kind, struct mr_err *err)
{
	int e;

	*w = (struct mr_writer){
		.meta = m, .kind = kind, .lock = -1, .fd = -1, .journal = -1
	};
	w->dir = mr_strdup(dir, err);
	m->shard = mr_alloc(m->shards, sizeof(*m->shard), err);
	if (!w->dir || !m->shard)
		return MR_ENOMEM;
	e = check_length(dir, err);
	if (!e)
		e = take_dir(w, err);
	if (!e)
		e = check_dir(w->dir, err);
	if (!e)
		e = take_plan(w, err);
	if (!e)
		e = skip_finished(w, err);
	if (!e)
		e = mr_append_init(&w->file, err);
	if (!e && w->shard < m->shards)
		e = begin_shard(w, err);
	w->resumed = w->next;
	return e;
}

int mr_writer_finish(struct mr_writer *w, struct mr_err *err)
{
	int e = 0;

	if (w->kind == MR_CONTAINER_RECORDS)
		e = mr_meta_write(w->meta, w->dir, false, err);
	if (e)
		return e;
	/* Before the plan goes: should that come back after a power failure,
	 * there is nothing to do but to remove it again. */
	e = sync_dir(w->dir);
	return e ? cannot_write(w->dir, e, err) : sweep(w, err);
}

void mr_writer_close(struct mr_writer *w)
{
	close_files(w);
	mr_append_fini(&w->file);
	if (w->lock >= 0)
		close(w->lock);
	free(w->dir);
	free(w->entries);
	free(w->keys);
	free(w->log);
	*w = (struct mr_writer){ .lock = -1, .fd = -1, .journal = -1 };
}
