/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a loader of one file per sample must do: N threads open,
 * read and close them in random order, into batch buffers that they use again
 * and again. The files stand in folders of DIR; listing them is not timed.
 *
 * usage: bare_files DIR MAX_BYTES BATCH THREADS EPOCHS [RING]
 */
#include "bare.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

struct list {
	char **path; /* relative to DIR */
	size_t n, cap;
};

struct reader {
	struct bare_deck *deck;
	const struct list *list;
	int dir;
	size_t max, ring;
	char *bufs;
	size_t done, bytes;
};

static void list_add(struct list *l, const char *folder, const char *name)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 1024;
		l->path = realloc(l->path, l->cap * sizeof(*l->path));
		if (!l->path)
			err(1, "list of files");
	}
	if (asprintf(&l->path[l->n++], "%s/%s", folder, name) < 0)
		err(1, "list of files");
}

static DIR *open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		err(1, "%s", name);
	return d;
}

static void list_folder(struct list *l, int root, const char *folder)
{
	DIR *d = open_dir(root, folder);
	struct dirent *e;

	while ((e = readdir(d)))
		if (e->d_type == DT_REG)
			list_add(l, folder, e->d_name);
	closedir(d);
}

static void list_all(struct list *l, const char *dir)
{
	DIR *d = open_dir(AT_FDCWD, dir);
	struct dirent *e;

	while ((e = readdir(d)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			list_folder(l, dirfd(d), e->d_name);
	closedir(d);
}

static void *work(void *arg)
{
	struct reader *r = arg;
	const uint32_t *at;
	size_t n, bytes = 0; /* r shares its cache line with other threads */

	for (size_t b = 0; (n = bare_deal(r->deck, &at)); b++) {
		char *buf = r->bufs + b % r->ring * r->deck->batch * r->max;

		for (size_t i = 0; i < n; i++) {
			const char *path = r->list->path[at[i]];
			int fd = openat(r->dir, path, O_RDONLY | O_CLOEXEC);
			ssize_t got;

			if (fd < 0)
				err(1, "%s", path);
			got = read(fd, buf + i * r->max, r->max);
			if (got < 0)
				err(1, "%s", path);
			close(fd);
			bytes += (size_t)got;
		}
		r->done += n;
	}
	r->bytes = bytes;
	return NULL;
}

int main(int argc, char **argv)
{
	struct bare_deck deck = { 0 };
	struct list list = { 0 };
	struct reader *r, one = { .deck = &deck, .list = &list, .ring = 4 };
	size_t done = 0, bytes = 0;
	int threads;
	double seconds;

	if (argc < 6 || argc > 7)
		errx(2, "usage: bare_files DIR MAX_BYTES BATCH THREADS "
			"EPOCHS [RING]");
	one.dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (one.dir < 0)
		err(1, "%s", argv[1]);
	one.max = bare_number(argv[2]);
	deck.batch = bare_number(argv[3]);
	threads = bare_threads(argv[4]);
	deck.epochs = bare_number(argv[5]);
	if (argc > 6)
		one.ring = bare_number(argv[6]);
	list_all(&list, argv[1]);
	if (list.n == 0)
		errx(1, "%s: no files in its folders", argv[1]);
	deck.samples = list.n;
	deck.order = bare_order(list.n);

	r = bare_alloc((size_t)threads, sizeof(*r));
	for (int i = 0; i < threads; i++) {
		r[i] = one;
		r[i].bufs = bare_buffer(one.ring * deck.batch * one.max);
	}
	seconds = bare_run(threads, work, r, sizeof(*r));
	for (int i = 0; i < threads; i++) {
		done += r[i].done;
		bytes += r[i].bytes;
	}
	bare_report(done, bytes, threads, seconds);
	return 0;
}
