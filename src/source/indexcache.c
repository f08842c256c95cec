/* SPDX-License-Identifier: Apache-2.0 */
#include "source/indexcache.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/file.h"
#include "core/le.h"
#include "core/mem.h"

/*
 * magic 8 | kind 8 | size 8 | changed 8 | length 8 | xxh3 of all else 8 |
 * index
 */
enum { HEAD = 48, SUM_AT = 40 };
static const char magic[8] = "MRINDEX1";

enum {
	/* Walking through less is quicker than keeping the result. */
	SMALL = 1 << 20,
	/* A file changed so lately may change again and keep its time. */
	SETTLED_NS = 2000000000,
};

const char *const mr_index_words[] = { "auto", "beside", "cache", "no", NULL };

bool mr_index_is(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && !strcmp(path + n - 4, ".mri");
}

/* ---- where ---- */

static bool beside(const struct mr_input *in, char *buf, size_t cap)
{
	const char *path = mr_input_path(in);
	int n = snprintf(buf, cap, "%s.mri", path);

	return mr_input_fd(in) >= 0 && n > 0 && (size_t)n < cap;
}

/* A folder that was made read-only stays as it is, for root too. */
static bool may_write_beside(const struct mr_input *in)
{
	char folder[PATH_MAX];
	const char *path = mr_input_path(in), *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 1;
	struct stat st;

	snprintf(folder, sizeof(folder), "%.*s", (int)n, slash ? path : ".");
	if (slash == path)
		snprintf(folder, sizeof(folder), "/");
	return stat(folder, &st) == 0 && (st.st_mode & 0222) &&
	       access(folder, W_OK) == 0;
}

static bool cache_folder(char *buf, size_t cap, bool make)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	if (xdg && xdg[0] == '/')
		n = snprintf(buf, cap, "%s", xdg);
	else if (home && home[0] == '/')
		n = snprintf(buf, cap, "%s/.cache", home);
	else
		return false;
	if (n < 0 || (size_t)n + sizeof("/millrace") > cap)
		return false;
	if (make)
		mkdir(buf, 0700);
	snprintf(buf + n, cap - (size_t)n, "/millrace");
	if (make)
		mkdir(buf, 0700);
	return true;
}

/* Named by a hash of the file's full path. */
static bool in_cache(const struct mr_input *in, char *buf, size_t cap,
		     bool make)
{
	char full[PATH_MAX];
	const char *path = mr_input_path(in);
	XXH128_hash_t h;
	size_t n;

	if (mr_input_fd(in) >= 0 && realpath(path, full))
		path = full;
	if (!cache_folder(buf, cap, make))
		return false;
	h = XXH3_128bits(path, strlen(path));
	n = strlen(buf);
	return snprintf(buf + n, cap - n, "/%016llx%016llx.mri",
			(unsigned long long)h.high64,
			(unsigned long long)h.low64) < (int)(cap - n);
}

/* ---- what ---- */

static uint64_t checksum(const uint8_t *head, const void *index, size_t n)
{
	return XXH3_64bits_withSeed(index, n, XXH3_64bits(head, SUM_AT));
}

static void fill_head(const struct mr_input *in, const char *kind,
		      const void *index, size_t n, uint8_t head[HEAD])
{
	memset(head, 0, HEAD);
	memcpy(head, magic, sizeof(magic));
	memcpy(head + 8, kind, strnlen(kind, 8));
	mr_le64_put(head + 16, mr_input_size(in));
	mr_le64_put(head + 24, (uint64_t)mr_input_changed(in));
	mr_le64_put(head + 32, n);
	mr_le64_put(head + SUM_AT, checksum(head, index, n));
}

static void *load_from(const struct mr_input *in, const char *kind,
		       const char *path, size_t max, size_t *n)
{
	uint8_t want[HEAD];
	char *data = NULL;
	size_t size;
	struct mr_err err;

	if (access(path, R_OK) ||
	    mr_file_read(path, max + HEAD, &data, &size, &err))
		return NULL;
	if (size >= HEAD) {
		fill_head(in, kind, data + HEAD, size - HEAD, want);
		if (!memcmp(want, data, HEAD)) {
			*n = size - HEAD;
			memmove(data, data + HEAD, *n);
			return data;
		}
	}
	free(data);
	return NULL;
}

void *mr_index_load(const struct mr_input *in, const char *kind, int place,
		    size_t max, size_t *n)
{
	char path[PATH_MAX];
	void *p = NULL;

	if (place == MR_INDEX_NO || !mr_input_changed(in))
		return NULL;
	if (place != MR_INDEX_CACHE && beside(in, path, sizeof(path)))
		p = load_from(in, kind, path, max, n);
	if (!p && place != MR_INDEX_BESIDE &&
	    in_cache(in, path, sizeof(path), false))
		p = load_from(in, kind, path, max, n);
	return p;
}

static bool worth_keeping(const struct mr_input *in, int place)
{
	int64_t changed = mr_input_changed(in), now;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	return place != MR_INDEX_NO && changed && changed + SETTLED_NS < now &&
	       (place != MR_INDEX_AUTO || mr_input_size(in) >= SMALL);
}

void mr_index_save(const struct mr_input *in, const char *kind, int place,
		   const void *index, size_t n)
{
	char path[PATH_MAX];
	struct mr_err err;
	uint8_t *file;
	bool done = false;

	if (!worth_keeping(in, place))
		return;
	file = mr_alloc(HEAD + n, 1, &err);
	if (!file)
		return;
	fill_head(in, kind, index, n, file);
	memcpy(file + HEAD, index, n);
	if (place != MR_INDEX_CACHE && beside(in, path, sizeof(path)) &&
	    may_write_beside(in))
		done = mr_file_write(path, file, HEAD + n, &err) == 0;
	if (!done && place != MR_INDEX_BESIDE &&
	    in_cache(in, path, sizeof(path), true))
		mr_file_write(path, file, HEAD + n, &err);
	free(file);
}
