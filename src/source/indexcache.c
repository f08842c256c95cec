/* SPDX-License-Identifier: Apache-2.0 */
#include "source/indexcache.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/le.h"
#include "core/mem.h"

/*
 * magic and version 8 | kind 8 | size 8 | changed 8 | xxh3 of the ETag 8 |
 * length 8 | xxh3 of all else 8 | index
 */
enum { HEAD = 56, SUM_AT = 48 };
static const char magic[8] = "MRINDEX2";

enum {
	/* Walking through less is quicker than keeping the result. */
	SMALL = 1 << 20,
	/* A file changed so lately may change again and keep its time. */
	SETTLED_NS = 2000000000,
};

const char *const mr_index_words[] = { "auto", "beside", "cache", "no", NULL };

/* ---- where ---- */

static bool beside(const struct mr_input *in, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s.mri", mr_input_path(in));

	return mr_input_fd(in) >= 0 && n > 0 && n < PATH_MAX;
}

/* A folder that was made read-only stays as it is, for root too. path: of a
 * file in it. */
static bool may_write(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX] = ".";
	struct stat st;

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s",
			 slash > path ? (int)(slash - path) : 1, path);
	return !stat(dir, &st) && (st.st_mode & 0222) && !access(dir, W_OK);
}

/* Named by a hash of the file's full path or URL. */
static bool in_cache(const struct mr_input *in, char path[PATH_MAX])
{
	const char *base = getenv("XDG_CACHE_HOME"), *more = "";
	char full[PATH_MAX];
	const char *name = mr_input_path(in);
	XXH128_hash_t h;
	int n;

	if (!base || *base != '/') {
		base = getenv("HOME");
		more = "/.cache";
	}
	if (mr_input_fd(in) >= 0)
		name = realpath(name, full);
	if (!base || *base != '/' || !name)
		return false;
	h = XXH3_128bits(name, strlen(name));
	n = snprintf(path, PATH_MAX, "%s%s/millrace/%016llx%016llx.mri", base,
		     more, (unsigned long long)h.high64,
		     (unsigned long long)h.low64);
	return n > 0 && n < PATH_MAX;
}

static void make_folders(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(path, 0700);
		*p = '/';
	}
}

/* ---- what ---- */

static void fill_head(const struct mr_input *in, const char *kind,
		      const void *index, size_t n, uint8_t head[HEAD])
{
	const char *etag = mr_input_etag(in);

	memset(head, 0, HEAD);
	memcpy(head, magic, sizeof(magic));
	memcpy(head + 8, kind, strnlen(kind, 8));
	mr_le64_put(head + 16, mr_input_size(in));
	mr_le64_put(head + 24, (uint64_t)mr_input_changed(in));
	mr_le64_put(head + 32, XXH3_64bits(etag, strlen(etag)));
	mr_le64_put(head + 40, n);
	mr_le64_put(head + SUM_AT,
		    XXH3_64bits_withSeed(index, n, XXH3_64bits(head, SUM_AT)));
}

/* Would a change of the file show? */
static bool can_tell(const struct mr_input *in)
{
	return mr_input_changed(in) > 0 || *mr_input_etag(in);
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

	if (place == MR_INDEX_NO || !can_tell(in))
		return NULL;
	if (place != MR_INDEX_CACHE && beside(in, path))
		p = load_from(in, kind, path, max, n);
	if (!p && place != MR_INDEX_BESIDE && in_cache(in, path))
		p = load_from(in, kind, path, max, n);
	return p;
}

static bool worth_keeping(const struct mr_input *in, int place)
{
	struct timespec t;
	int64_t now;

	clock_gettime(CLOCK_REALTIME, &t);
	now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	return place != MR_INDEX_NO && can_tell(in) &&
	       mr_input_changed(in) + SETTLED_NS < now &&
	       (place != MR_INDEX_AUTO || mr_input_size(in) >= SMALL);
}

static int save(const struct mr_input *in, int place, const void *file,
		size_t n, struct mr_err *err)
{
	char path[PATH_MAX];
	int e = MR_EIO;

	if (place != MR_INDEX_CACHE && beside(in, path) && may_write(path))
		e = mr_file_write(path, file, n, err);
	else if (place == MR_INDEX_BESIDE)
		mr_err_set(err, MR_EIO,
			   "%s: on a server, or in a folder that cannot be "
			   "written to",
			   mr_input_path(in));
	if (!e || place == MR_INDEX_BESIDE)
		return e;
	if (!in_cache(in, path))
		return mr_err_set(err, MR_EIO,
				  "%s: no cache folder for its index; set "
				  "XDG_CACHE_HOME or HOME",
				  mr_input_path(in));
	make_folders(path);
	return mr_file_write(path, file, n, err);
}

int mr_index_save(const struct mr_input *in, const char *kind, int place,
		  const void *index, size_t n, struct mr_err *err)
{
	uint8_t *file;
	int e = MR_ENOMEM;

	if (!worth_keeping(in, place))
		return 0;
	file = mr_alloc(HEAD + n, 1, err);
	if (file) {
		fill_head(in, kind, index, n, file);
		memcpy(file + HEAD, index, n);
		e = save(in, place, file, HEAD + n, err);
	}
	free(file);
	if (!e || place == MR_INDEX_AUTO)
		return 0;
	return mr_err_prefix(err, "index=%s: ", mr_index_words[place]);
}
