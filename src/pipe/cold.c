/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --cold: the files that a source's samples lie in leave the page cache.
 * First a list of the files, by one sample of each; then several threads,
 * since opening a million files takes its time.
 */
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "pipe/loader.h"
#include "pipe/part.h"

enum { THREADS = 8, TELL_MS = 20 };

/* ---- which files ---- */

/* Hashes of paths that were seen: open addressing, 0 is empty. */
struct seen {
	uint64_t *hash;
	size_t cap, n;
};

static bool put_hash(struct seen *s, uint64_t h)
{
	size_t i = h & (s->cap - 1);

	while (s->hash[i] && s->hash[i] != h)
		i = (i + 1) & (s->cap - 1);
	if (s->hash[i])
		return false;
	s->hash[i] = h;
	s->n++;
	return true;
}

static int grow(struct seen *s, struct mr_err *err)
{
	struct seen more = { .cap = s->cap ? 2 * s->cap : 1024 };

	if (2 * s->n < s->cap)
		return 0;
	more.hash = mr_alloc(more.cap, sizeof(*more.hash), err);
	if (!more.hash)
		return MR_ENOMEM;
	for (size_t i = 0; i < s->cap; i++)
		if (s->hash[i])
			put_hash(&more, s->hash[i]);
	free(s->hash);
	*s = more;
	return 0;
}

struct files {
	struct mr_loader *l;
	bool all; /* of a source that reads them by itself: all it has */
	uint64_t *sample; /* else one of each file */
	size_t n, cap;
	_Atomic uint64_t next;
	pthread_mutex_t lock;
	struct mr_evicted sum;
};

static int path_of(const struct mr_loader *l, uint64_t index, char *buf,
		   size_t cap, const char **path)
{
	struct mr_extent x = { 0 };
	struct mr_err err;
	int e = mr_part_locate(&l->plan, index, buf, cap, &x, &err);

	*path = x.path;
	return e;
}

static int add_file(struct files *f, struct seen *s, uint64_t index,
		    const char *path, struct mr_err *err)
{
	uint64_t h = XXH3_64bits(path, strlen(path)) | 1;
	int e = grow(s, err);

	if (e || !put_hash(s, h))
		return e;
	e = mr_grow(&f->sample, &f->cap, f->n + 1, sizeof(*f->sample),
		    f->l->plan.samples, err);
	if (!e)
		f->sample[f->n++] = index;
	return e;
}

/* A sample that cannot be located is bad, which is not to be said here. */
static int list_files(struct files *f, struct mr_err *err)
{
	char path[2][4096] = { "", "" };
	struct mr_order_cache order = { 0 };
	struct seen seen = { 0 };
	int e = 0;

	for (uint64_t i = 0; !e && i < f->l->order.n; i++) {
		char *buf = path[i & 1], *last = path[~i & 1];
		uint64_t sample = mr_order_chosen(&f->l->order, &order, i);
		const char *at;

		if (path_of(f->l, sample, buf, sizeof(path[0]), &at)) {
			*buf = 0;
			continue;
		}
		if (at != buf)
			strncpy(buf, at, sizeof(path[0]) - 1);
		if (strcmp(buf, last) != 0)
			e = add_file(f, &seen, sample, buf, err);
	}
	free(seen.hash);
	return e;
}

/* ---- eviction ---- */

static void *evict_main(void *arg)
{
	struct files *f = arg;
	const struct mr_source *source = f->l->plan.source;
	const void *self = f->l->plan.source_self;
	struct mr_evicted sum = { 0 };
	char buf[4096];
	const char *path;
	uint64_t i;

	while ((i = atomic_fetch_add(&f->next, 1)) < f->n) {
		if (f->all)
			mr_evict_file(source->file(self, i), &sum);
		else if (!path_of(f->l, f->sample[i], buf, sizeof(buf), &path))
			mr_evict_file(path, &sum);
	}
	pthread_mutex_lock(&f->lock);
	f->sum.files += sum.files;
	f->sum.bytes += sum.bytes;
	f->sum.stayed += sum.stayed;
	f->sum.unknown += sum.unknown;
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static void evict_all(struct files *f,
		      void (*tell)(void *data, uint64_t done, uint64_t files),
		      void *data)
{
	const struct timespec while_ = { 0, TELL_MS * 1000000L };
	pthread_t thread[THREADS];
	int n = 0;

	while (n < THREADS && (size_t)n * 16 < f->n &&
	       !mr_thread_start(&thread[n], "mr-evict", evict_main, f))
		n++;
	if (!n)
		evict_main(f);
	while (tell && atomic_load(&f->next) < f->n) {
		tell(data, atomic_load(&f->next), f->n);
		nanosleep(&while_, NULL);
	}
	while (n > 0)
		pthread_join(thread[--n], NULL);
}

int mr_loader_evict(struct mr_loader *l,
		    void (*tell)(void *data, uint64_t done, uint64_t files),
		    void *data, struct mr_err *err)
{
	struct files f = { .l = l };
	uint64_t start = mr_clock_ns();
	int e = 0;

	if (!l->plan.source->locate && !l->plan.source->file)
		return 0;
	pthread_mutex_init(&f.lock, NULL);
	f.all = !l->plan.source->locate;
	while (f.all && l->plan.source->file(l->plan.source_self, f.n))
		f.n++;
	if (!f.all)
		e = list_files(&f, err);
	if (!e)
		evict_all(&f, tell, data);
	l->cold = f.sum;
	/* The first batch is not late by this. */
	l->open_ns += mr_clock_ns() - start;
	pthread_mutex_destroy(&f.lock);
	free(f.sample);
	return e;
}

/* ---- what is in memory ---- */

int mr_loader_resident(struct mr_loader *l, uint64_t samples, uint64_t *bytes,
		       uint64_t *resident)
{
	const struct mr_plan *p = &l->plan;
	struct mr_order_cache order = { 0 };
	struct mr_err err;
	char buf[4096];

	*bytes = *resident = 0;
	if (!p->source->locate)
		return MR_EUNSUPPORTED;
	for (uint64_t i = 0; i < l->order.n && i < samples; i++) {
		struct mr_extent x = { 0 };

		if (!mr_part_locate(p, mr_order_chosen(&l->order, &order, i),
				    buf, sizeof(buf), &x, &err) &&
		    mr_resident_extent(x.path, x.offset, x.length, bytes,
				       resident))
			return MR_EUNSUPPORTED;
	}
	return *bytes ? 0 : MR_EUNSUPPORTED;
}
