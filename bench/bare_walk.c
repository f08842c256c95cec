/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that listing a data set must do: N threads read all folders below
 * DIR with getdents64 and count the files. Nothing is kept and nothing sorted.
 *
 * usage: bare_walk DIR THREADS
 */
#include "bare.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Folders that wait to be read; `busy` threads may still add to them. */
struct todo {
	pthread_mutex_t lock;
	pthread_cond_t more;
	char **path;
	size_t n, cap;
	int busy;
};

struct walker {
	struct todo *todo;
	size_t files, bytes; /* found, and of their names */
};

static void todo_put(struct todo *t, char *path)
{
	pthread_mutex_lock(&t->lock);
	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 1024;
		t->path = realloc(t->path, t->cap * sizeof(*t->path));
		if (!t->path)
			err(1, "list of folders");
	}
	t->path[t->n++] = path;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

/* The next folder, or NULL when none is left and nobody can add one. The
 * caller is busy until it comes back, except for its first call. */
static char *todo_take(struct todo *t, int first)
{
	char *path = NULL;

	pthread_mutex_lock(&t->lock);
	if (!first)
		t->busy--;
	while (t->n == 0 && t->busy > 0)
		pthread_cond_wait(&t->more, &t->lock);
	if (t->n > 0) {
		path = t->path[--t->n];
		t->busy++;
	} else {
		pthread_cond_broadcast(&t->more);
	}
	pthread_mutex_unlock(&t->lock);
	return path;
}

static void see(struct walker *w, const char *folder, const struct dirent64 *e)
{
	char *sub;

	if (e->d_type == DT_REG) {
		w->files++;
		w->bytes += strlen(e->d_name);
	} else if (e->d_type == DT_DIR && strcmp(e->d_name, ".") != 0 &&
		   strcmp(e->d_name, "..") != 0) {
		if (asprintf(&sub, "%s/%s", folder, e->d_name) < 0)
			err(1, "%s", folder);
		todo_put(w->todo, sub);
	}
}

static void read_folder(struct walker *w, const char *path)
{
	_Alignas(struct dirent64) char buf[64 << 10];
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (fd < 0)
		err(1, "%s", path);
	while ((n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n;) {
			struct dirent64 *e = (void *)p;

			see(w, path, e);
			p += e->d_reclen;
		}
	}
	if (n < 0)
		err(1, "%s", path);
	close(fd);
}

static void *work(void *arg)
{
	struct walker *w = arg;
	char *path;
	int first = 1;

	while ((path = todo_take(w->todo, first))) {
		first = 0;
		read_folder(w, path);
		free(path);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct todo todo = { .lock = PTHREAD_MUTEX_INITIALIZER,
			     .more = PTHREAD_COND_INITIALIZER };
	struct walker *w;
	size_t files = 0, bytes = 0;
	double seconds;
	int threads;

	if (argc != 3)
		errx(2, "usage: bare_walk DIR THREADS");
	threads = bare_threads(argv[2]);
	w = bare_alloc((size_t)threads, sizeof(*w));
	for (int i = 0; i < threads; i++)
		w[i].todo = &todo;
	todo_put(&todo, strdup(argv[1]));
	seconds = bare_run(threads, work, w, sizeof(*w));
	for (int i = 0; i < threads; i++) {
		files += w[i].files;
		bytes += w[i].bytes;
	}
	bare_report(files, bytes, threads, seconds);
	return 0;
}
