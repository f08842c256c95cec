/* SPDX-License-Identifier: Apache-2.0 */
#include "core/crew.h"

#include <pthread.h>
#include <stdatomic.h>

struct crew {
	int (*job)(void *arg, size_t i, struct mr_err *err);
	void *arg;
	size_t n;
	_Atomic size_t next;
	atomic_bool failed;
	pthread_mutex_t lock;
	size_t first; /* that failed, and its error */
	struct mr_err err;
};

static void report(struct crew *c, size_t i, const struct mr_err *err)
{
	pthread_mutex_lock(&c->lock);
	if (i < c->first) {
		c->first = i;
		c->err = *err;
	}
	pthread_mutex_unlock(&c->lock);
	c->failed = true;
}

static void *work(void *arg)
{
	struct crew *c = arg;
	struct mr_err err;
	size_t i;

	while (!c->failed && (i = atomic_fetch_add(&c->next, 1)) < c->n)
		if (c->job(c->arg, i, &err))
			report(c, i, &err);
	return NULL;
}

int mr_crew_run(int threads, size_t n,
		int (*job)(void *arg, size_t i, struct mr_err *err), void *arg,
		struct mr_err *err)
{
	struct crew c = { .job = job,
			  .arg = arg,
			  .n = n,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .first = SIZE_MAX };
	pthread_t helper[MR_CREW_MAX];
	int k = 0;

	while (k + 1 < threads && k + 1 < MR_CREW_MAX && (size_t)k + 1 < n &&
	       !pthread_create(&helper[k], NULL, work, &c))
		k++;
	work(&c);
	while (k > 0)
		pthread_join(helper[--k], NULL);
	if (!c.failed)
		return 0;
	*err = c.err;
	return err->code;
}
