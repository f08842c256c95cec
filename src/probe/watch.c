/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/watch.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "core/clock.h"

enum { LOOK_NS = 20 * 1000 * 1000 };

void mr_watch_init(struct mr_watch *w, double seconds)
{
	*w = (struct mr_watch){ .what = "",
				.start = mr_clock_ns(),
				.seconds = seconds };
}

bool mr_watch_look(struct mr_watch *w)
{
	double past = (double)(mr_clock_ns() - w->start) / 1e9;
	double done = w->seconds > 0 ? past / w->seconds : 0;

	if (w->progress && w->progress(w->data, w->what, done < 1 ? done : 1))
		atomic_store(&w->stop, true);
	return atomic_load(&w->stop);
}

int mr_watch_stopped(const struct mr_watch *w, struct mr_err *err)
{
	if (!atomic_load(&w->stop))
		return 0;
	return mr_err_set(err, MR_ESTATE, "stopped while measuring: %s",
			  w->what);
}

struct thread {
	pthread_t id;
	void (*work)(void *arg, int i);
	void *arg;
	int i;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	t->work(t->arg, t->i);
	return NULL;
}

/* Signals are for the threads of the program. */
static int start(struct thread *t)
{
	sigset_t all, old;
	int e;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	e = pthread_create(&t->id, NULL, thread_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e;
}

static void join(struct mr_watch *w, struct thread *t)
{
	struct timespec until;

	do {
		mr_watch_look(w);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(t->id, NULL, &until));
}

int mr_watch_run(struct mr_watch *w, int threads,
		 void (*work)(void *arg, int i), void *arg, struct mr_err *err)
{
	struct thread t[MR_WATCH_THREADS];
	int n = 0, e = 0;

	assert(threads >= 1 && threads <= MR_WATCH_THREADS);
	for (; n < threads && !e; n += !e) {
		t[n] = (struct thread){ .work = work, .arg = arg, .i = n };
		e = start(&t[n]);
	}
	for (int i = 0; i < n; i++)
		join(w, &t[i]);
	if (!e)
		return 0;
	return mr_err_set(err, MR_ELIMIT,
			  "cannot start thread %d of %d: %s; see `ulimit -u` "
			  "and the cgroup's pids.max",
			  n + 1, threads, strerror(e));
}
