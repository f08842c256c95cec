/* SPDX-License-Identifier: Apache-2.0 */
#include "io/shape.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/param.h"

enum {
	SLICE_NS = 20 * 1000 * 1000, /* a sleep looks at `stop` so often */
	LATE_NS = 5 * 1000 * 1000,   /* lateness that is made up for */
};

/* ---- profiles ---- */

/* Where the figures come from is in docs/storage.md. */
static const struct {
	const char *name;
	struct mr_profile p;
} presets[] = {
	{ "hdd", { 200000000, 200000000, 12e-3, 170, 0 } },
	{ "ssd", { 560000000, 0, 100e-6, 94000, 0 } },
	{ "nvme", { 6500000000, 0, 85e-6, 900000, 0 } },
	{ "ceph-hdd", { 910000000, 219000000, 10e-3, 1600, 0 } },
	{ "s3", { 1250000000, 90000000, 30e-3, 5500, 0 } },
};

#define P struct mr_profile

static const struct mr_param params[] = {
	MR_SIZE(P, bw, "0", 0, 1e18, "bytes per second in total"),
	MR_SIZE(P, stream, "0", 0, 1e18, "bytes per second of one request"),
	MR_TIME(P, latency, "0", 0, 3600, "time until the first byte"),
	MR_REAL(P, iops, "0", 0, 1e12, "requests per second"),
	MR_SIZE(P, cache, "0", 0, 1e18, "bytes of a page cache before it"),
	MR_PARAM_END
};

const char *mr_profile_name(size_t i)
{
	return i < MR_COUNT(presets) ? presets[i].name : NULL;
}

static const char *preset_at(size_t i, const void *data)
{
	(void)data;
	return presets[i].name;
}

static int wrong_name(const char *word, const char *text, const char *near,
		      struct mr_err *err)
{
	return mr_err_set(err, MR_EINVAL,
			  "storage=%s: unknown '%s'%s%s%s want hdd, ssd, nvme, "
			  "ceph-hdd or s3, or limits such as "
			  "bw=200M,latency=5ms,iops=150,stream=100M, or both: "
			  "s3,latency=80ms",
			  text, word, near ? "; did you mean '" : ";",
			  near ? near : "", near ? "'?" : "");
}

static int set_preset(struct mr_profile *p, const char *word, const char *text,
		      struct mr_err *err)
{
	for (size_t i = 0; i < MR_COUNT(presets); i++) {
		if (strcmp(presets[i].name, word) != 0)
			continue;
		*p = presets[i].p;
		return 0;
	}
	return wrong_name(word, text,
			  mr_nearest(word, MR_COUNT(presets), preset_at, NULL),
			  err);
}

static int set_limit(struct mr_profile *p, char *word, const char *text,
		     struct mr_err *err)
{
	char *value = strchr(word, '=');
	const struct mr_param *param;
	int e;

	if (!value)
		return mr_err_set(err, MR_EINVAL,
				  "storage=%s: '%s' is no limit; a preset "
				  "comes first, and limits have a value: "
				  "latency=5ms",
				  text, word);
	*value++ = 0;
	param = mr_param_find(params, word);
	if (!param)
		return wrong_name(word, text, mr_param_nearest(params, word),
				  err);
	e = mr_param_set(param, p, value, NULL, err);
	if (e)
		mr_err_prefix(err, "storage=%s: ", text);
	return e;
}

int mr_profile_parse(struct mr_profile *p, const char *text, struct mr_err *err)
{
	struct mr_profile got = { 0 };
	const char *s = text;

	for (;;) {
		size_t n = strcspn(s, ",");
		char word[64];
		int e;

		if (n >= sizeof(word))
			return mr_err_set(err, MR_EINVAL,
					  "storage=%s: '%.20s...' is too long",
					  text, s);
		memcpy(word, s, n);
		word[n] = 0;
		e = s == text && !strchr(word, '=') ?
			    set_preset(&got, word, text, err) :
			    set_limit(&got, word, text, err);
		if (e)
			return e;
		if (!s[n])
			break;
		s += n + 1;
	}
	*p = got;
	return 0;
}

double mr_profile_allows(const struct mr_profile *p, uint64_t requests,
			 uint64_t bytes)
{
	double by_bytes = p->bw ? (double)bytes / (double)p->bw : 0;
	double by_turns = p->iops > 0 ? (double)requests / p->iops : 0;
	double s = by_bytes > by_turns ? by_bytes : by_turns;

	return s > 0 ? (double)bytes / s : 0;
}

/* ---- the model ---- */

void mr_shape_init(struct mr_shape *s, const struct mr_profile *p, uint64_t now)
{
	/* Times are kept from here on: a double then has them to a fraction
	 * of a nanosecond, however long the machine has been up. */
	*s = (struct mr_shape){ .p = *p, .born = now };
	pthread_mutex_init(&s->lock, NULL);
	mr_lru_init(&s->cache, p->cache);
}

void mr_shape_fini(struct mr_shape *s)
{
	pthread_mutex_destroy(&s->lock);
	mr_lru_fini(&s->cache);
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

uint64_t mr_shape_due(struct mr_shape *s, uint64_t issued, uint64_t bytes)
{
	double t = issued > s->born ? (double)(issued - s->born) : 0, done;
	double n = (double)bytes * 1e9;

	if (atomic_load_explicit(&s->paused, memory_order_relaxed))
		return issued;
	pthread_mutex_lock(&s->lock);
	s->requests++;
	s->bytes += bytes;
	if (s->p.iops > 0) {
		t = later(t, s->next_io);
		s->next_io = t + 1e9 / s->p.iops;
	}
	t += s->p.latency * 1e9;
	done = t;
	if (s->p.stream)
		done += n / (double)s->p.stream;
	if (s->p.bw) {
		s->next_byte = later(t, s->next_byte) + n / (double)s->p.bw;
		done = later(done, s->next_byte);
	}
	pthread_mutex_unlock(&s->lock);
	return s->born + (uint64_t)done;
}

void mr_shape_pause(struct mr_shape *s, bool pause)
{
	atomic_store(&s->paused, pause);
}

void mr_shape_count(struct mr_shape *s, uint64_t *requests, uint64_t *bytes)
{
	pthread_mutex_lock(&s->lock);
	*requests = s->requests;
	*bytes = s->bytes;
	pthread_mutex_unlock(&s->lock);
}

/* ---- the page cache ---- */

uint64_t mr_shape_key(const struct mr_extent *x, const char *path)
{
	uint64_t file = x->input   ? (uint64_t)(uintptr_t)x->input :
			x->fd >= 0 ? (uint64_t)x->fd :
				     XXH3_64bits(path, strlen(path));

	return XXH3_64bits_withSeed(&x->offset, sizeof(x->offset), file);
}

bool mr_shape_cached(struct mr_shape *s, uint64_t key, uint64_t bytes)
{
	bool hit;

	if (!s->p.cache)
		return false;
	pthread_mutex_lock(&s->lock);
	hit = mr_lru_touch(&s->cache, key, bytes);
	s->hits += hit;
	s->hit_bytes += hit ? bytes : 0;
	pthread_mutex_unlock(&s->lock);
	return hit;
}

uint64_t mr_shape_missing(struct mr_shape *s, const struct mr_extent *x,
			  const struct mr_piece *piece, unsigned n)
{
	struct mr_extent at = *x;
	uint64_t bytes = 0;
	unsigned held = 0;

	if (!s->p.cache)
		return x->length;
	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < n; i++) {
		at.offset = piece[i].offset;
		if (!mr_lru_touch(&s->cache, mr_shape_key(&at, ""),
				  piece[i].bytes))
			continue;
		bytes += piece[i].bytes;
		held++;
	}
	s->hits += held == n;
	s->hit_bytes += bytes;
	pthread_mutex_unlock(&s->lock);
	return held == n ? 0 : x->length - bytes;
}

void mr_shape_hits(struct mr_shape *s, uint64_t *requests, uint64_t *bytes)
{
	pthread_mutex_lock(&s->lock);
	*requests = s->hits;
	*bytes = s->hit_bytes;
	pthread_mutex_unlock(&s->lock);
}

/* ---- waiting ---- */

/* Returns when it woke. */
static uint64_t sleep_until(uint64_t due, const atomic_bool *stop)
{
	uint64_t now = mr_clock_ns();

	while (now < due && !atomic_load_explicit(stop, memory_order_relaxed)) {
		uint64_t to = due - now < SLICE_NS ? due : now + SLICE_NS;
		struct timespec t = { .tv_sec = (time_t)(to / 1000000000),
				      .tv_nsec = (long)(to % 1000000000) };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		now = mr_clock_ns();
	}
	return now;
}

void mr_shape_wait(struct mr_shape *s, uint64_t issued, uint64_t bytes,
		   uint64_t *late, const atomic_bool *stop)
{
	uint64_t due = mr_shape_due(s, issued - *late, bytes);
	uint64_t now = mr_clock_ns(), most = *late;

	/* Only oversleeping is given back; time that the thread spent on
	 * something else, or that the real read took, is its own. */
	if (now < due) {
		now = sleep_until(due, stop);
		most = LATE_NS;
	}
	*late = now > due ? now - due : 0;
	if (*late > most)
		*late = most;
}
