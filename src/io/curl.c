/* SPDX-License-Identifier: Apache-2.0 */
#include "io/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "io/http.h"

enum { IDLE_MAX = 256 };

/*
 * State of the process: a library that is loaded once, and connections that
 * all inputs share, since a data set may have thousands of files on one
 * server.
 */
static struct mr_curl curl;
static char why_not[200];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
	pthread_mutex_t lock;
	int users;
	CURL *idle[IDLE_MAX];
	int n;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- loading ---- */

static bool find(void *lib, const char *name, void *to)
{
	void *at = dlsym(lib, name);

	memcpy(to, &at, sizeof(at));
	if (!at)
		snprintf(why_not, sizeof(why_not), "it has no %s", name);
	return at;
}

static bool find_all(void *lib)
{
	bool ok = true;

#define FIND(name) ok = ok && find(lib, "curl_" #name, &curl.name);
	MR_CURL_FUNCTIONS(FIND)
#undef FIND
	return ok;
}

static void before_fork(void)
{
	pthread_mutex_lock(&pool.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&pool.lock);
}

/* The connections are the parent's. */
static void in_child(void)
{
	pool.n = 0;
	pthread_mutex_unlock(&pool.lock);
}

static void load(void)
{
	void *lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		snprintf(why_not, sizeof(why_not), "%s", dlerror());
		return;
	}
	if (!find_all(lib))
		return;
	if (curl.global_init(CURL_GLOBAL_DEFAULT))
		snprintf(why_not, sizeof(why_not), "it does not start");
	else
		pthread_atfork(before_fork, after_fork, in_child);
}

const struct mr_curl *mr_curl_get(struct mr_err *err)
{
	pthread_once(&once, load);
	if (!*why_not)
		return &curl;
	mr_err_set(err, MR_EUNSUPPORTED,
		   "cannot load libcurl, which URLs need: %s", why_not);
	return NULL;
}

/* ---- handles ---- */

int mr_http_ref(struct mr_err *err)
{
	if (!mr_curl_get(err))
		return MR_EUNSUPPORTED;
	pthread_mutex_lock(&pool.lock);
	pool.users++;
	pthread_mutex_unlock(&pool.lock);
	return 0;
}

void mr_http_unref(void)
{
	CURL *last[IDLE_MAX];
	int n = 0;

	pthread_mutex_lock(&pool.lock);
	if (--pool.users == 0) {
		n = pool.n;
		memcpy(last, pool.idle, sizeof(last));
		pool.n = 0;
	}
	pthread_mutex_unlock(&pool.lock);
	for (int i = 0; i < n; i++)
		curl.easy_cleanup(last[i]);
}

/* The one used last: its connections are the most alive. */
CURL *mr_curl_take(const struct mr_curl *c)
{
	CURL *h = NULL;

	pthread_mutex_lock(&pool.lock);
	if (pool.n)
		h = pool.idle[--pool.n];
	pthread_mutex_unlock(&pool.lock);
	return h ? h : c->easy_init();
}

void mr_curl_give(const struct mr_curl *c, CURL *h)
{
	c->easy_reset(h);
	pthread_mutex_lock(&pool.lock);
	if (pool.n < IDLE_MAX) {
		pool.idle[pool.n++] = h;
		h = NULL;
	}
	pthread_mutex_unlock(&pool.lock);
	if (h)
		c->easy_cleanup(h);
}
