/* SPDX-License-Identifier: Apache-2.0 */
#include "source/tarcache.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/file.h"

enum { MAGIC = 8, SUM = 8, VARINT = 10 };

static const char magic[MAGIC] = "MRTARIX\1";

/* ---- where ---- */

static bool beside(const struct mr_input *in, char *path)
{
	int n = snprintf(path, PATH_MAX, "%s.mri", mr_input_path(in));

	return mr_input_fd(in) >= 0 && n > 0 && n < PATH_MAX;
}

static bool cache_dir(char *path)
{
	const char *base = getenv("XDG_CACHE_HOME"), *more = "";
	int n;

	if (!base || *base != '/') {
		base = getenv("HOME");
		more = "/.cache";
	}
	if (!base || *base != '/')
		return false;
	n = snprintf(path, PATH_MAX, "%s%s/millrace", base, more);
	return n > 0 && n < PATH_MAX;
}

/* Named by a hash of where the tar is. */
static bool in_cache(const struct mr_input *in, char *path)
{
	char full[PATH_MAX], dir[PATH_MAX];
	const char *name = mr_input_path(in);
	XXH128_hash_t h;
	int n;

	if (mr_input_fd(in) >= 0)
		name = realpath(name, full);
	if (!name || !cache_dir(dir))
		return false;
	h = XXH3_128bits(name, strlen(name));
	n = snprintf(path, PATH_MAX, "%s/%016llx%016llx.mri", dir,
		     (unsigned long long)h.high64, (unsigned long long)h.low64);
	return n > 0 && n < PATH_MAX;
}

static void make_dirs(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(path, 0700);
		*p = '/';
	}
}

/* ---- reading ---- */

static uint64_t sum_at(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < SUM; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

/* A length and as many bytes. */
static bool text(const uint8_t **p, const uint8_t *end, const uint8_t **s,
		 uint64_t *n)
{
	if (!mr_varint_get(p, end, n) || *n > (uint64_t)(end - *p))
		return false;
	*s = *p;
	*p += *n;
	return true;
}

static bool parse_index(struct mr_tar_index *x, const uint8_t *p,
			const uint8_t *end)
{
	uint64_t exts, n;
	const uint8_t *s;
	struct mr_err err;

	if (!mr_varint_get(&p, end, &exts) || exts > MR_TAR_EXTENSIONS)
		return false;
	for (uint64_t i = 0; i < exts; i++)
		if (!text(&p, end, &s, &n) || memchr(s, 0, n) ||
		    mr_names_add(&x->ext, (const char *)s, n, &err))
			return false;
	if (!text(&p, end, &s, &n) || p != end)
		return false;
	x->records = mr_alloc(n, 1, &err);
	if (!x->records)
		return false;
	memcpy(x->records, s, n);
	x->bytes = x->cap = n;
	return mr_tar_index_check(x, &err) == 0;
}

static bool parse_file(struct mr_tar_index *x, const uint8_t *p, size_t n,
		       const struct mr_input *in)
{
	const uint8_t *end = p + n - SUM;
	uint64_t size, changed;

	if (n < MAGIC + SUM || memcmp(p, magic, MAGIC) ||
	    sum_at(end) != XXH3_64bits(p, n - SUM))
		return false;
	p += MAGIC;
	if (!mr_varint_get(&p, end, &size) || size != mr_input_size(in) ||
	    !mr_varint_get(&p, end, &changed) ||
	    changed != (uint64_t)mr_input_changed(in))
		return false;
	x->file_size = size;
	return parse_index(x, p, end);
}

static bool load(struct mr_tar_index *x, const char *path,
		 const struct mr_input *in)
{
	/* A member takes 512 bytes in the tar and less here. */
	size_t max = mr_input_size(in) + (1 << 16), n;
	struct mr_err err;
	char *data;
	bool ok;

	if (mr_file_read(path, max, &data, &n, &err))
		return false;
	ok = parse_file(x, (const uint8_t *)data, n, in);
	if (!ok)
		mr_tar_index_fini(x);
	free(data);
	return ok;
}

bool mr_tar_cache_load(struct mr_tar_index *x, struct mr_input *in,
		       enum mr_tar_keep keep)
{
	char path[PATH_MAX];

	if (keep == MR_TAR_NO || mr_input_changed(in) <= 0)
		return false;
	if (keep != MR_TAR_CACHE && beside(in, path) && load(x, path, in))
		return true;
	return keep != MR_TAR_BESIDE && in_cache(in, path) && load(x, path, in);
}

/* ---- writing ---- */

static void add_number(struct mr_str *s, uint64_t v)
{
	uint8_t b[VARINT];
	size_t n = mr_varint_put(b, v);

	mr_str_addn(s, (const char *)b, n);
}

static void add_text(struct mr_str *s, const char *text_, size_t n)
{
	add_number(s, n);
	mr_str_addn(s, text_, n);
}

static void make_file(const struct mr_tar_index *x, const struct mr_input *in,
		      struct mr_str *s)
{
	uint64_t sum;
	char b[SUM];

	mr_str_addn(s, magic, MAGIC);
	add_number(s, x->file_size);
	add_number(s, (uint64_t)mr_input_changed(in));
	add_number(s, x->ext.n);
	for (size_t i = 0; i < x->ext.n; i++) {
		const char *ext = mr_names_get(&x->ext, i);

		add_text(s, ext, strlen(ext));
	}
	add_text(s, (const char *)x->records, x->bytes);
	if (s->failed)
		return;
	sum = XXH3_64bits(s->text, s->len);
	for (int i = 0; i < SUM; i++)
		b[i] = (char)(sum >> 8 * i);
	mr_str_addn(s, b, SUM);
}

/* A change of the tar within the clock's tick of the last would not show. */
static bool is_fresh(const struct mr_input *in)
{
	struct timespec now;
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec -
	      mr_input_changed(in);
	return age < 2000000000;
}

/* Root may write everywhere, but a folder that nobody may write to is meant
 * to stay as it is. path: of a file in it. */
static bool is_writable(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX] = ".";
	struct stat st;

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s",
			 slash > path ? (int)(slash - path) : 1, path);
	return !stat(dir, &st) && (st.st_mode & 0222) && !access(dir, W_OK);
}

static int save(const struct mr_input *in, const struct mr_str *s,
		enum mr_tar_keep keep, struct mr_err *err)
{
	char path[PATH_MAX];
	int e = MR_EIO;

	if (keep != MR_TAR_CACHE && beside(in, path) &&
	    (keep == MR_TAR_BESIDE || is_writable(path)))
		e = mr_file_write(path, s->text, s->len, err);
	else if (keep == MR_TAR_BESIDE)
		e = mr_err_set(err, MR_EIO,
			       "%s: no place beside it for an index",
			       mr_input_path(in));
	if (!e || keep == MR_TAR_BESIDE)
		return e;
	if (!in_cache(in, path))
		return mr_err_set(err, MR_EIO,
				  "%s: no cache directory for its index: set "
				  "XDG_CACHE_HOME or HOME",
				  mr_input_path(in));
	make_dirs(path);
	return mr_file_write(path, s->text, s->len, err);
}

int mr_tar_cache_save(const struct mr_tar_index *x, struct mr_input *in,
		      enum mr_tar_keep keep, struct mr_err *err)
{
	struct mr_str s = { 0 };
	int e;

	if (keep == MR_TAR_NO || mr_input_changed(in) <= 0 || is_fresh(in))
		return 0;
	make_file(x, in, &s);
	e = s.failed ? mr_err_nomem(err, x->bytes) : save(in, &s, keep, err);
	mr_str_fini(&s);
	if (e && keep != MR_TAR_AUTO)
		return mr_err_prefix(err, "index=%s: ",
				     keep == MR_TAR_BESIDE ? "beside" :
							     "cache");
	return 0;
}
