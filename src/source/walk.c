/* SPDX-License-Identifier: Apache-2.0 */
#include "source/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "source/paths.h"

enum {
	DENTS = 1 << 16,       /* bytes per call of getdents64() */
	MAX_THREADS = 256,     /* more do not list any faster */
	BIG_SCRATCH = 1 << 22, /* bytes of scratch worth giving back */
};

/* A directory yet to be listed. */
struct todo {
	struct todo *next;
	char path[];
};

struct crew {
	const char *root;
	int root_fd;
	const struct mr_walk_options *opt;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct todo *stack;
	int busy; /* workers that may still push */
	bool failed;
	struct mr_err *err; /* of the first who failed */
};

struct worker {
	struct crew *crew;
	pthread_t thread;
	struct mr_walk_dir **dir; /* done */
	size_t dirs, dirs_cap;
	/* of the directory being listed */
	char *dents;
	char *names;
	size_t used, names_cap;
	struct mr_text *text;
	size_t n, text_cap;
	struct todo *found;
	struct mr_text_sort sort;
};

/* ---- what went wrong ---- */

static const char *remedy(int errnum)
{
	switch (errnum) {
	case ENOENT:
		return "; check the path";
	case ENOTDIR:
		return "; give the directory that holds the files";
	case EACCES:
	case EPERM:
		return "; allow it (chmod u+rx), or move the directory away";
	case EMFILE:
	case ENFILE:
		return "; raise the limit of open files (ulimit -n)";
	default:
		return "";
	}
}

static int dir_error(const struct crew *c, const char *path, int errnum,
		     struct mr_err *err)
{
	return mr_err_set(err, errnum == ENOMEM ? MR_ENOMEM : MR_EIO,
			  "%s%s%s: cannot list the directory: %s%s", c->root,
			  *path ? "/" : "", path, strerror(errnum),
			  remedy(errnum));
}

/* ---- the stack that the workers share ---- */

static void crew_fail(struct crew *c, const struct mr_err *err)
{
	pthread_mutex_lock(&c->lock);
	if (!c->failed)
		*c->err = *err;
	c->failed = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void crew_push(struct worker *w)
{
	struct crew *c = w->crew;
	struct todo *last = w->found;

	if (!last)
		return;
	while (last->next)
		last = last->next;
	pthread_mutex_lock(&c->lock);
	last->next = c->stack;
	c->stack = w->found;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	w->found = NULL;
}

/* The next directory, or NULL when all are listed or someone failed. */
static struct todo *crew_next(struct crew *c, bool was_busy)
{
	struct todo *t = NULL;

	pthread_mutex_lock(&c->lock);
	c->busy -= was_busy;
	while (!c->stack && c->busy && !c->failed)
		pthread_cond_wait(&c->changed, &c->lock);
	if (c->stack && !c->failed) {
		t = c->stack;
		c->stack = t->next;
		c->busy++;
	} else {
		pthread_cond_broadcast(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	return t;
}

static void todo_free(struct todo *t)
{
	while (t) {
		struct todo *next = t->next;

		free(t);
		t = next;
	}
}

/* ---- one directory ---- */

static int add_dir(struct worker *w, const char *path, const char *name,
		   struct mr_err *err)
{
	size_t a = strlen(path), b = strlen(name);
	struct todo *t = malloc(sizeof(*t) + a + b + 2);

	if (!t)
		return mr_err_nomem(err, sizeof(*t) + a + b + 2);
	snprintf(t->path, a + b + 2, "%s%s%s", path, a ? "/" : "", name);
	t->next = w->found;
	w->found = t;
	return 0;
}

static int add_file(struct worker *w, const char *name, struct mr_err *err)
{
	const struct mr_walk_options *opt = w->crew->opt;
	size_t len = strlen(name);
	int e;

	if (opt->keep && !opt->keep(name, len, opt->data))
		return 0;
	e = mr_grow(&w->names, &w->names_cap, w->used + len + MR_TEXT_PAD, 1,
		    UINT32_MAX, err);
	if (!e)
		e = mr_grow(&w->text, &w->text_cap, w->n + 1, sizeof(*w->text),
			    UINT32_MAX, err);
	if (e)
		return e;
	memcpy(w->names + w->used, name, len + 1);
	w->text[w->n++] = (struct mr_text){ .at = (uint32_t)w->used,
					    .len = (uint32_t)len };
	w->used += len + 1;
	return 0;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * Whether st is the directory `path` or one above it, up to the root. Asked
 * for links only: nothing else leads back. Directories are compared with
 * those above them, not with all seen so far, so that two links to one
 * directory both count, whichever thread comes first.
 */
static bool leads_back(const struct crew *c, const char *path,
		       const struct stat *st)
{
	char part[PATH_MAX];
	struct stat up;

	if (fstat(c->root_fd, &up) || same(&up, st))
		return true;
	for (size_t n = 0; path[n] && n < sizeof(part) - 1;) {
		do {
			part[n] = path[n];
			n++;
		} while (path[n] && path[n] != '/' && n < sizeof(part) - 1);
		part[n] = 0;
		if (fstatat(c->root_fd, part, &up, 0) || same(&up, st))
			return true;
	}
	return false;
}

static int add_unknown(struct worker *w, int fd, const char *path,
		       const char *name, struct mr_err *err)
{
	struct stat st;

	if (fstatat(fd, name, &st, 0))
		return add_file(w, name, err);
	if (S_ISREG(st.st_mode))
		return add_file(w, name, err);
	if (S_ISDIR(st.st_mode) && !leads_back(w->crew, path, &st))
		return add_dir(w, path, name, err);
	return 0;
}

static int add_entry(struct worker *w, int fd, const char *path,
		     const struct dirent64 *d, struct mr_err *err)
{
	if (d->d_name[0] == '.')
		return 0;
	switch (d->d_type) {
	case DT_REG:
		return add_file(w, d->d_name, err);
	case DT_DIR:
		return add_dir(w, path, d->d_name, err);
	case DT_LNK:
	case DT_UNKNOWN:
		return add_unknown(w, fd, path, d->d_name, err);
	default:
		return 0;
	}
}

static int read_entries(struct worker *w, int fd, const char *path,
			struct mr_err *err)
{
	for (;;) {
		ssize_t got = getdents64(fd, w->dents, DENTS);
		int e;

		if (got < 0)
			return dir_error(w->crew, path, errno, err);
		if (!got)
			return 0;
		for (ssize_t at = 0; at < got;) {
			struct dirent64 *d = (void *)(w->dents + at);

			e = add_entry(w, fd, path, d, err);
			if (e)
				return e;
			at += d->d_reclen;
		}
		/* Now, so that others start before a long list is done. */
		crew_push(w);
	}
}

/*
 * Names stay as the file system gave them, only where they begin is sorted:
 * copying them in order would visit memory at random.
 */
static int keep_dir(struct worker *w, const char *path, struct mr_err *err)
{
	size_t len = strlen(path) + 1, bytes;
	struct mr_walk_dir *d;
	char *names;
	int e;

	if (!w->n && (!*path || strchr(path, '/')))
		return 0;
	e = mr_grow(&w->dir, &w->dirs_cap, w->dirs + 1, sizeof(d), UINT32_MAX,
		    err);
	if (e)
		return e;
	bytes = sizeof(*d) + w->n * sizeof(d->name[0]) + w->used + len;
	d = malloc(bytes);
	if (!d)
		return mr_err_nomem(err, bytes);
	d->files = (uint32_t)w->n;
	d->label = 0;
	d->path_at = (uint32_t)w->used;
	for (size_t i = 0; i < w->n; i++)
		d->name[i] = w->text[i].at;
	names = (char *)(d->name + d->files);
	if (w->used)
		memcpy(names, w->names, w->used);
	memcpy(names + w->used, path, len);
	w->dir[w->dirs++] = d;
	return 0;
}

/* A huge directory is the exception; the next ones need not carry it. */
static void scratch_trim(struct worker *w)
{
	if (w->names_cap > BIG_SCRATCH) {
		free(w->names);
		w->names = NULL;
		w->names_cap = 0;
	}
	if (w->text_cap * sizeof(*w->text) > BIG_SCRATCH) {
		free(w->text);
		w->text = NULL;
		w->text_cap = 0;
	}
}

static int list_dir(struct worker *w, const char *path, struct mr_err *err)
{
	int e, fd = openat(w->crew->root_fd, *path ? path : ".",
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return dir_error(w->crew, path, errno, err);
	w->n = w->used = 0;
	e = read_entries(w, fd, path, err);
	close(fd);
	if (!e)
		e = mr_text_sort(&w->sort, w->names, w->text, w->n, err);
	if (!e)
		e = keep_dir(w, path, err);
	scratch_trim(w);
	return e;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct mr_err err;
	struct todo *t = NULL;
	int e = 0;

	w->dents = mr_alloc(DENTS, 1, &err);
	if (!w->dents) {
		crew_fail(w->crew, &err);
		return NULL;
	}
	while ((t = crew_next(w->crew, t != NULL))) {
		e = list_dir(w, t->path, &err);
		if (e)
			crew_fail(w->crew, &err);
		free(t);
	}
	todo_free(w->found);
	free(w->dents);
	free(w->names);
	free(w->text);
	mr_text_sort_fini(&w->sort);
	return NULL;
}

/* ---- all of them in order ---- */

/*
 * The paths in one pool, each after the address of its directory. The
 * first slash becomes a zero, which sorts before all else: folders below
 * the root are compared by themselves, deeper paths as a whole.
 */
static int pool_paths(struct mr_walk_dir *const *dir, size_t n, char **pool,
		      struct mr_text **texts, struct mr_err *err)
{
	size_t bytes = MR_TEXT_PAD, at = 0;
	struct mr_text *t;
	char *p;

	for (size_t i = 0; i < n; i++)
		bytes += sizeof(dir[i]) + strlen(mr_walk_path(dir[i]));
	if (bytes > UINT32_MAX)
		return mr_err_set(err, MR_ELIMIT,
				  "the paths of %zu directories take more "
				  "than 4 GB",
				  n);
	p = *pool = mr_alloc(bytes, 1, err);
	t = *texts = mr_alloc(n, sizeof(*t), err);
	if (!p || !t)
		return MR_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *path = mr_walk_path(dir[i]);
		size_t len = strlen(path);
		char *slash;

		memcpy(p + at, &dir[i], sizeof(dir[i]));
		at += sizeof(dir[i]);
		memcpy(p + at, path, len);
		slash = memchr(p + at, '/', len);
		if (slash)
			*slash = 0;
		t[i] = (struct mr_text){ .at = (uint32_t)at,
					 .len = (uint32_t)len };
		at += len;
	}
	return 0;
}

static int sort_dirs(struct mr_walk_dir **dir, size_t n, struct mr_err *err)
{
	struct mr_text_sort sort = { 0 };
	struct mr_text *t = NULL;
	char *pool = NULL;
	int e = pool_paths(dir, n, &pool, &t, err);

	if (!e)
		e = mr_text_sort(&sort, pool, t, n, err);
	if (!e)
		for (size_t i = 0; i < n; i++)
			memcpy(&dir[i], pool + t[i].at - sizeof(dir[i]),
			       sizeof(dir[i]));
	mr_text_sort_fini(&sort);
	free(pool);
	free(t);
	return e;
}

static bool is_folder(const struct mr_walk_dir *d)
{
	const char *path = mr_walk_path(d);

	return *path && !strchr(path, '/');
}

/* Number the files, and the folders, which come before what is in them. */
static int number(struct mr_walk *w, struct mr_err *err)
{
	size_t folders = 0;
	uint64_t files = 0;

	for (size_t i = 0; i < w->dirs; i++)
		folders += is_folder(w->dir[i]);
	w->first = mr_alloc(w->dirs + 1, sizeof(*w->first), err);
	w->folder = mr_alloc(folders, sizeof(*w->folder), err);
	if (!w->first || !w->folder)
		return MR_ENOMEM;
	for (size_t i = 0; i < w->dirs; i++) {
		if (is_folder(w->dir[i]))
			w->folder[w->folders++] = (uint32_t)i;
		if (w->folders)
			w->dir[i]->label = (uint32_t)(w->folders - 1);
		w->first[i] = files;
		files += w->dir[i]->files;
	}
	w->first[w->dirs] = files;
	return 0;
}

/* Moves what the workers found to w, also when some of them failed. */
static int gather(struct mr_walk *w, struct worker *worker, int n,
		  struct mr_err *err)
{
	size_t dirs = 0;

	for (int i = 0; i < n; i++)
		dirs += worker[i].dirs;
	w->dir = mr_alloc(dirs, sizeof(*w->dir), err);
	for (int i = 0; i < n; i++) {
		for (size_t k = 0; k < worker[i].dirs; k++) {
			if (w->dir)
				w->dir[w->dirs++] = worker[i].dir[k];
			else
				free(worker[i].dir[k]);
		}
		free(worker[i].dir);
	}
	return w->dir ? 0 : MR_ENOMEM;
}

static int run_crew(struct crew *c, struct mr_walk *w, struct mr_err *err)
{
	int n = c->opt->threads, started = 1, e;
	struct worker *worker;

	n = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
	worker = mr_alloc((size_t)n, sizeof(*worker), err);
	c->stack = mr_alloc(1, sizeof(struct todo) + 1, err);
	if (!worker || !c->stack) {
		free(worker);
		return MR_ENOMEM;
	}
	for (int i = 0; i < n; i++)
		worker[i].crew = c;
	/* Those that do not start are not needed. */
	while (started < n && !pthread_create(&worker[started].thread, NULL,
					      work, &worker[started]))
		started++;
	work(&worker[0]);
	for (int i = 1; i < started; i++)
		pthread_join(worker[i].thread, NULL);
	e = gather(w, worker, started, err);
	free(worker);
	return c->failed ? err->code : e;
}

int mr_walk(struct mr_walk *w, const char *root,
	    const struct mr_walk_options *opt, struct mr_err *err)
{
	struct mr_err first;
	struct crew c = { .root = root, .opt = opt, .err = &first };
	int e;

	*w = (struct mr_walk){ 0 };
	c.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c.root_fd < 0)
		return dir_error(&c, "", errno, err);
	pthread_mutex_init(&c.lock, NULL);
	pthread_cond_init(&c.changed, NULL);
	e = run_crew(&c, w, &first);
	todo_free(c.stack);
	pthread_cond_destroy(&c.changed);
	pthread_mutex_destroy(&c.lock);
	close(c.root_fd);
	if (!e)
		e = sort_dirs(w->dir, w->dirs, &first);
	if (!e)
		e = number(w, &first);
	if (e) {
		mr_walk_fini(w);
		e = mr_err_set(err, e, "%s", first.text);
	}
	return e;
}

void mr_walk_fini(struct mr_walk *w)
{
	for (size_t i = 0; i < w->dirs; i++)
		free(w->dir[i]);
	free(w->dir);
	free(w->first);
	free(w->folder);
	*w = (struct mr_walk){ 0 };
}

const struct mr_walk_dir *mr_walk_file(const struct mr_walk *w, uint64_t i,
				       const char **name)
{
	size_t lo = 0, hi = w->dirs;

	/* The last directory that begins at or before i. */
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (w->first[mid] <= i)
			lo = mid;
		else
			hi = mid;
	}
	*name = mr_walk_name(w->dir[lo], (uint32_t)(i - w->first[lo]));
	return w->dir[lo];
}
