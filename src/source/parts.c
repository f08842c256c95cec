/* SPDX-License-Identifier: Apache-2.0 */
#include "source/parts.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "source/paths.h"

/* ---- which ---- */

int mr_parts_make(struct mr_parts *ps, size_t n, struct mr_err *err)
{
	ps->item = mr_alloc(n, sizeof(*ps->item), err);
	if (!ps->item)
		return MR_ENOMEM;
	ps->n = n;
	for (size_t i = 0; i < n; i++)
		ps->item[i].plain.fd = -1;
	return 0;
}

int mr_parts_list(struct mr_parts *ps, const char *cwd, const char *pattern,
		  struct mr_err *err)
{
	char *full = mr_path_resolve(cwd, pattern, err), **paths;
	size_t n;
	int e = full ? mr_input_list(full, &paths, &n, err) : MR_ENOMEM;

	free(full);
	if (e)
		return e;
	e = mr_parts_make(ps, n, err);
	for (size_t i = 0; i < n; i++) {
		if (e)
			free(paths[i]);
		else
			ps->item[i].path = paths[i];
	}
	free(paths);
	return e;
}

void mr_parts_fini(struct mr_parts *ps)
{
	for (size_t i = 0; i < ps->n; i++) {
		mr_input_close(ps->item[i].in);
		free(ps->item[i].path);
		free(ps->item[i].lost);
	}
	free(ps->item);
	mr_unpacked_fini(&ps->unpacked);
	*ps = (struct mr_parts){ 0 };
}

/* ---- opening all ---- */

struct opening {
	struct mr_parts *ps;
	const struct mr_parts_how *how;
	atomic_long may_stay; /* files that may be kept open */
};

static long files_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	long n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Half of what the process may still open. */
static long files_to_keep(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur > 1 << 20)
		return 1 << 19;
	return ((long)r.rlim_cur - files_open()) / 2;
}

bool mr_part_forgiven(const struct mr_source_env *env, size_t n, int code)
{
	return env->lenient && n > 1 && code == MR_EDATA;
}

/* From here on it is its samples that are bad. */
static int lose(const struct opening *o, size_t i, struct mr_err *err)
{
	struct mr_part *p = &o->ps->item[i];
	struct mr_err other;

	p->lost = mr_strdup(err->text, &other);
	if (!p->lost) {
		*err = other;
		return MR_ENOMEM;
	}
	if (o->how->drop)
		o->how->drop(o->how->self, i);
	mr_input_close(p->in);
	p->in = NULL;
	p->plain.fd = -1;
	p->samples = p->samples ? p->samples : 1;
	return 0;
}

static int open_one(void *arg, size_t i, struct mr_err *err)
{
	struct opening *o = arg;
	struct mr_part *p = &o->ps->item[i];
	bool packed;
	int e = o->how->open(o->how->self, i, err);

	if (e && mr_part_forgiven(o->how->env, o->ps->n, e))
		return lose(o, i, err);
	if (!e && o->how->look)
		e = o->how->look(o->how->self, i, err);
	if (e)
		return e;
	packed = p->plain.fd >= 0;
	if (packed || (mr_input_fd(p->in) >= 0 &&
		       atomic_fetch_sub(&o->may_stay, 1) <= 0)) {
		mr_input_close(p->in);
		p->in = NULL;
	}
	return p->in && o->how->map ? mr_input_map(p->in, err) : 0;
}

/* A data set of nothing but bad samples would say why only when it is read. */
static int check_any(const struct mr_parts *ps, struct mr_err *err)
{
	for (size_t i = 0; i < ps->n; i++)
		if (!ps->item[i].lost)
			return 0;
	return ps->n ? mr_part_check(&ps->item[0], err) : 0;
}

int mr_parts_open(struct mr_parts *ps, const struct mr_parts_how *how,
		  struct mr_err *err)
{
	struct opening o = { ps, how, files_to_keep() };
	int e;

	mr_unpacked_init(&ps->unpacked, how->unpack);
	e = mr_crew_run(mr_input_threads(how->where, how->env->threads), ps->n,
			open_one, &o, err);
	if (!e)
		e = check_any(ps, err);
	for (size_t i = 0; !e && i < ps->n; i++) {
		ps->item[i].first = ps->samples;
		ps->samples += ps->item[i].samples;
	}
	return e;
}

/* The last one that begins at or before the sample. */
const struct mr_part *mr_parts_find(const struct mr_parts *ps, uint64_t *i)
{
	size_t lo = 0, hi = ps->n;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (ps->item[mid].first <= *i)
			lo = mid;
		else
			hi = mid;
	}
	*i -= ps->item[lo].first;
	return &ps->item[lo];
}

/* ---- one ---- */

int mr_part_check(const struct mr_part *p, struct mr_err *err)
{
	return p->lost ? mr_err_set(err, MR_EDATA, "%s", p->lost) : 0;
}

int mr_part_open(struct mr_part *p, struct mr_err *err)
{
	int e = mr_input_open(&p->in, p->path, err);

	if (!e)
		p->size = mr_input_size(p->in);
	return e;
}

int mr_part_unpack(struct mr_part *p, struct mr_parts *ps,
		   enum mr_packing packing, struct mr_err *err)
{
	int e = mr_unpacked_add(&ps->unpacked, p->in, packing, &p->plain, err);

	p->size = p->plain.size;
	return e;
}

size_t mr_part_window(const struct mr_part *p, uint64_t stride, size_t near)
{
	bool far = p->plain.fd < 0 && mr_input_is_url(p->path);

	return far && stride < MR_FAR_WINDOW / 2 ? MR_FAR_WINDOW : near;
}

static int read_plain(const struct mr_part *p, void *to, size_t n,
		      uint64_t offset, struct mr_err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = pread(p->plain.fd, (char *)to + got, n - got,
				  (off_t)(p->plain.at + offset + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return mr_err_sys(err, k < 0 ? errno : EIO, p->path,
					  "cannot read what was unpacked");
		got += (size_t)k;
	}
	return 0;
}

int mr_part_read(const struct mr_part *p, void *to, size_t n, uint64_t offset,
		 struct mr_err *err)
{
	struct mr_input *in = p->in;
	int e = 0;

	if (p->plain.fd >= 0)
		return read_plain(p, to, n, offset, err);
	if (!in)
		e = mr_input_open(&in, p->path, err);
	if (!e)
		e = mr_input_read(in, to, n, offset, err);
	if (in != p->in)
		mr_input_close(in);
	return e;
}

void mr_part_extent(const struct mr_part *p, uint64_t offset, uint64_t n,
		    struct mr_extent *e)
{
	if (p->in)
		mr_input_extent(p->in, offset, n, e);
	else
		*e = (struct mr_extent){ .path = p->path,
					 .fd = p->plain.fd,
					 .offset = p->plain.at + offset,
					 .length = n };
}
