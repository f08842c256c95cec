/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that make the data, and the one that watches them. */
#include <pthread.h>
#include <time.h>

#include "cli.h"
#include "core/mem.h"
#include "synth/synth.h"

struct crew {
	struct synth *s;
	uint64_t n;
	int (*make)(void *data, int worker, uint64_t i, struct mr_err *err);
	void *data;
	atomic_ullong next, done;
	atomic_bool stop;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t change;
	int working;
	struct mr_err err; /* the first */
};

struct member {
	struct crew *crew;
	int number;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct member *m = arg;
	struct crew *c = m->crew;
	struct mr_err err = { 0 };
	int e = 0;

	while (!e && !atomic_load(&c->stop)) {
		uint64_t i = atomic_fetch_add(&c->next, 1);

		if (i >= c->n)
			break;
		e = c->make(c->data, m->number, i, &err);
		if (!e)
			atomic_fetch_add(&c->done, 1);
	}
	pthread_mutex_lock(&c->lock);
	if (e) {
		atomic_store(&c->stop, true);
		if (!c->err.code)
			c->err = err;
	}
	c->working--;
	pthread_cond_signal(&c->change);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* Until all have finished: draw the progress, look for signals. */
static void watch(struct crew *c, double samples)
{
	struct cli_progress progress;

	cli_progress_start(&progress, "synth", samples);
	pthread_mutex_lock(&c->lock);
	while (c->working) {
		struct timespec t;

		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 50000000;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&c->change, &c->lock, &t);
		if (cli_stopped())
			atomic_store(&c->stop, true);
		pthread_mutex_unlock(&c->lock);
		cli_progress_show(&progress, (double)atomic_load(&c->done) /
						     (double)c->n * samples);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	cli_progress_end(&progress);
}

int synth_each(struct synth *s, uint64_t n, double samples,
	       int (*make)(void *data, int worker, uint64_t i,
			   struct mr_err *err),
	       void *data, struct mr_err *err)
{
	struct crew c = { .s = s, .n = n, .make = make, .data = data };
	struct member *m = mr_alloc((size_t)s->threads, sizeof(*m), err);
	int started = 0, e = 0;

	if (!m)
		return MR_ENOMEM;
	pthread_mutex_init(&c.lock, NULL);
	pthread_cond_init(&c.change, NULL);
	pthread_mutex_lock(&c.lock);
	for (; started < s->threads; started++) {
		m[started].crew = &c;
		m[started].number = started;
		e = pthread_create(&m[started].thread, NULL, work, &m[started]);
		if (e)
			break;
		c.working++;
	}
	pthread_mutex_unlock(&c.lock);
	if (started) /* fewer threads than asked for will do */
		watch(&c, samples);
	for (int i = 0; i < started; i++)
		pthread_join(m[i].thread, NULL);
	pthread_cond_destroy(&c.change);
	pthread_mutex_destroy(&c.lock);
	free(m);
	if (!started)
		return mr_err_set(err, MR_ENOMEM, "cannot start a thread: %s",
				  strerror(e));
	if (c.err.code) {
		*err = c.err;
		return err->code;
	}
	s->stopped = s->stopped || atomic_load(&c.done) < n;
	return 0;
}
