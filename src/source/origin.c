/* SPDX-License-Identifier: Apache-2.0 */
#include "source/origin.h"

#include <stdio.h>

#include "core/crew.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/mem.h"
#include "io/input.h"
#include "source/paths.h"

/* Paths are absolute, or URLs: neither begins so. */
static const char mark[] = "pattern:";

static bool is_pattern(const struct mr_stamp *s)
{
	return !strncmp(s->path, mark, sizeof(mark) - 1);
}

/* ---- patterns ---- */

/* What it finds now: how many, and a hash of their names. */
static int look_up(const char *pattern, uint64_t *count, int64_t *hash,
		   struct mr_err *err)
{
	char **path;
	size_t n;
	uint64_t h = 0;
	int e = mr_input_list(pattern, &path, &n, err);

	if (e)
		return e;
	for (size_t i = 0; i < n; i++) {
		h = XXH3_64bits_withSeed(path[i], strlen(path[i]), h);
		free(path[i]);
	}
	free(path);
	*count = n;
	*hash = (int64_t)(h >> 1);
	return 0;
}

int mr_origin_pattern(struct mr_stamp *s, const char *pattern,
		      struct mr_err *err)
{
	char *cwd = realpath(".", NULL), *full, *path;
	size_t n;
	int e;

	/* What braces make must be there anyway. */
	if (!strpbrk(pattern, "*?[") || !mr_json_can(pattern)) {
		free(cwd);
		return MR_AGAIN;
	}
	full = mr_path_resolve(cwd, pattern, err);
	free(cwd);
	n = full ? sizeof(mark) + strlen(full) : 0;
	path = full ? mr_alloc(n, 1, err) : NULL;
	e = path ? look_up(full, &s->size, &s->changed, err) : MR_ENOMEM;
	if (!e && mr_json_can(full)) {
		snprintf(path, n, "%s%s", mark, full);
		s->path = path;
		path = NULL;
	} else if (!e) {
		e = MR_AGAIN;
	}
	free(path);
	free(full);
	return e;
}

static int check_pattern(const struct mr_stamp *s, struct mr_err *err)
{
	const char *pattern = s->path + sizeof(mark) - 1;
	struct mr_err ignored;
	uint64_t count;
	int64_t hash;

	/* Nothing, or nobody answers: the set stands alone. */
	if (look_up(pattern, &count, &hash, &ignored))
		return 0;
	if (count == s->size && hash == s->changed)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "%s: finds %llu files, and other ones than the %llu "
			  "that the data set was prepared from; prepare again, "
			  "or say check=no to use the set as it is",
			  pattern, (unsigned long long)count,
			  (unsigned long long)s->size);
}

/* ---- servers ---- */

struct asking {
	const struct mr_meta *m;
	atomic_bool silent; /* somebody got no answer */
};

static int check_remote(void *self, size_t i, struct mr_err *err)
{
	struct asking *a = self;
	const struct mr_stamp *s = &a->m->stamp[i];
	struct mr_input *in;
	struct mr_err ignored;
	bool same;

	if (!mr_input_is_url(s->path) || atomic_load(&a->silent))
		return 0;
	if (mr_input_glance(&in, s->path, &ignored)) {
		atomic_store(&a->silent, true);
		return 0;
	}
	same = mr_input_size(in) == s->size &&
	       (int64_t)mr_input_state(in) == s->changed;
	mr_input_close(in);
	return same ? 0 :
		      mr_err_set(err, MR_EDATA,
				 "%s: has changed on the server since the data "
				 "set was prepared from it; prepare again, or "
				 "say check=no to use the set as it is",
				 s->path);
}

/* ---- all ---- */

static int check_local(const struct mr_meta *m, struct mr_err *err)
{
	struct mr_meta local = *m;
	int e;

	local.stamp = mr_alloc(m->stamps, sizeof(*local.stamp), err);
	if (!local.stamp)
		return MR_ENOMEM;
	local.stamps = 0;
	for (size_t i = 0; i < m->stamps; i++)
		if (!is_pattern(&m->stamp[i]) &&
		    !mr_input_is_url(m->stamp[i].path))
			local.stamp[local.stamps++] = m->stamp[i];
	e = mr_meta_check_source(&local, err);
	free(local.stamp);
	return e;
}

int mr_origin_check(const struct mr_meta *m, int threads, struct mr_err *err)
{
	struct asking a = { .m = m };
	const char *url = NULL;
	int e = check_local(m, err);

	for (size_t i = 0; i < m->stamps; i++) {
		if (mr_input_is_url(m->stamp[i].path))
			url = m->stamp[i].path;
		else if (!e && is_pattern(&m->stamp[i]))
			e = check_pattern(&m->stamp[i], err);
	}
	if (!e && url)
		e = mr_crew_run(mr_input_threads(url, threads), m->stamps,
				check_remote, &a, err);
	return e;
}
