/* SPDX-License-Identifier: Apache-2.0 */
#include "source/tarset.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>

#include "source/tarunpack.h"

enum { MAX_THREADS = 64 };

struct crew {
	struct mr_tar_set *set;
	const struct mr_tar_options *opt;
	_Atomic size_t next;
	_Atomic uint64_t left; /* bytes for unpacked tars */
	atomic_long open_left; /* files that may stay open */
	atomic_bool failed;
	pthread_mutex_t lock;
	size_t failed_at; /* and *err is of that one */
	struct mr_err *err;
};

/* ---- one tar ---- */

/* In place of the compressed file, one that is not. */
static int open_packed(struct crew *c, struct mr_tar *t,
		       enum mr_tar_packing packing, struct mr_err *err)
{
	struct mr_input *plain;
	uint64_t hurt;
	int e = mr_tar_unpack(t->in, packing, &c->left, &plain, &hurt, err);

	if (e)
		return e;
	mr_input_close(t->in);
	t->in = plain;
	e = mr_tar_index_build(&t->index, t->in,
			       hurt == UINT64_MAX ? NULL : &hurt, err);
	return e ? mr_err_prefix(err, "%s, unpacked: ", t->path) : 0;
}

static int open_plain(struct crew *c, struct mr_tar *t, struct mr_err *err)
{
	enum mr_tar_keep keep = c->opt->keep;
	int e;

	if (!mr_tar_cache_load(&t->index, t->in, keep)) {
		e = mr_tar_index_build(&t->index, t->in, NULL, err);
		if (!e)
			e = mr_tar_cache_save(&t->index, t->in, keep, err);
		if (e)
			return e;
	}
	if (c->opt->map)
		mr_input_map(t->in);
	if (mr_input_fd(t->in) >= 0 &&
	    atomic_fetch_sub(&c->open_left, 1) <= 0) {
		mr_input_close(t->in);
		t->in = NULL;
	}
	return 0;
}

static int open_tar(struct crew *c, struct mr_tar *t, struct mr_err *err)
{
	enum mr_tar_packing packing;
	int e = mr_input_open(&t->in, t->path, err);

	if (!e)
		e = mr_tar_packing(t->in, &packing, err);
	if (e)
		return e;
	return packing ? open_packed(c, t, packing, err) :
			 open_plain(c, t, err);
}

/* ---- all of them ---- */

static void report(struct crew *c, size_t i, const struct mr_err *err)
{
	pthread_mutex_lock(&c->lock);
	if (!c->failed || i < c->failed_at) {
		c->failed_at = i;
		*c->err = *err;
	}
	c->failed = true;
	pthread_mutex_unlock(&c->lock);
}

static void *work(void *arg)
{
	struct crew *c = arg;
	struct mr_err err;
	size_t i;

	while (!c->failed && (i = atomic_fetch_add(&c->next, 1)) < c->set->n)
		if (open_tar(c, &c->set->tar[i], &err))
			report(c, i, &err);
	return NULL;
}

static void run_crew(struct crew *c)
{
	pthread_t thread[MAX_THREADS];
	int n = c->opt->threads, started = 0;

	if (n > MAX_THREADS)
		n = MAX_THREADS;
	if ((size_t)n > c->set->n)
		n = (int)c->set->n;
	/* Those that do not start are not needed. */
	while (started < n - 1 &&
	       !pthread_create(&thread[started], NULL, work, c))
		started++;
	work(c);
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
}

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

/* An index beside a tar matches patterns such as shards/x* too. */
static bool is_index(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && !strcmp(path + n - 4, ".mri");
}

static int list_tars(struct mr_tar_set *s, const char *pattern,
		     struct mr_err *err)
{
	char **paths;
	size_t n;
	int e = mr_input_list(pattern, &paths, &n, err);

	if (e)
		return e;
	s->tar = mr_alloc(n, sizeof(*s->tar), err);
	for (size_t i = 0; i < n; i++) {
		if (s->tar && (n == 1 || !is_index(paths[i])))
			s->tar[s->n++].path = paths[i];
		else
			free(paths[i]);
	}
	free(paths);
	return s->tar ? 0 : MR_ENOMEM;
}

int mr_tar_set_open(struct mr_tar_set *s, const char *pattern,
		    const struct mr_tar_options *opt, struct mr_err *err)
{
	struct crew c = { .set = s, .opt = opt, .left = opt->unpacked };
	int e = list_tars(s, pattern, err);

	if (e)
		return e;
	c.err = err;
	c.open_left = files_to_keep();
	pthread_mutex_init(&c.lock, NULL);
	run_crew(&c);
	pthread_mutex_destroy(&c.lock);
	if (c.failed)
		return err->code;
	for (size_t i = 0; i < s->n; i++) {
		s->tar[i].first = s->samples;
		s->samples += s->tar[i].index.samples;
	}
	return 0;
}

void mr_tar_set_fini(struct mr_tar_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		mr_tar_index_fini(&s->tar[i].index);
		mr_input_close(s->tar[i].in);
		free(s->tar[i].path);
	}
	free(s->tar);
	*s = (struct mr_tar_set){ 0 };
}

/* The last tar that begins at or before the sample. */
const struct mr_tar *mr_tar_set_find(const struct mr_tar_set *s, uint64_t *i)
{
	size_t lo = 0, hi = s->n;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->tar[mid].first <= *i)
			lo = mid;
		else
			hi = mid;
	}
	*i -= s->tar[lo].first;
	return &s->tar[lo];
}
