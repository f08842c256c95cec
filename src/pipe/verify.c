/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify: all checksums of a prepared set. Shards are shared out among
 * threads, each of which reads its own from end to end in large pieces.
 */
#include <pthread.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/hash.h"
#include "core/mem.h"
#include "pipe/loader.h"
#include "store/set.h"

enum { PIECE = 8 << 20, LOOK_MS = 100 };

struct check {
	struct mr_set set;
	struct mr_verify_report *report;
	_Atomic uint64_t next;	  /* shard */
	_Atomic uint64_t samples; /* done */
	atomic_bool stop;
	atomic_int running;
	pthread_mutex_t lock; /* of the report and err */
	struct mr_err err;    /* the first that kept us from reading */
};

static void found(struct check *c, const char *text)
{
	pthread_mutex_lock(&c->lock);
	c->report->damaged++;
	if (c->report->found)
		c->report->found(c->report->data, text);
	pthread_mutex_unlock(&c->lock);
}

/* ---- one shard ---- */

struct window {
	struct mr_input *in;
	uint8_t *buf;
	size_t cap, have;
	uint64_t at; /* of the first byte */
};

/* Bytes [offset, offset + n) are in memory; NULL: err. */
static const uint8_t *look(struct window *w, uint64_t offset, size_t n,
			   uint64_t end, struct mr_err *err)
{
	size_t want = n > PIECE ? n : PIECE;

	if (offset >= w->at && offset + n <= w->at + w->have)
		return w->buf + (offset - w->at);
	if (want > end - offset)
		want = (size_t)(end - offset);
	w->have = 0;
	if (mr_grow(&w->buf, &w->cap, want, 1, SIZE_MAX, err) ||
	    mr_input_read(w->in, w->buf, want, offset, err))
		return NULL;
	w->at = offset;
	w->have = want;
	return w->buf;
}

static void report_sample(struct check *c, uint64_t index, const char *why)
{
	char key[512], place[4400], text[5200];

	mr_set_key(&c->set, index, key, sizeof(key));
	mr_set_place(&c->set, index, place, sizeof(place));
	snprintf(text, sizeof(text), "%s, %s: %s", place, key, why);
	found(c, text);
}

static int check_keys(struct check *c, const struct mr_set_shard *sh,
		      struct window *w, struct mr_err *err)
{
	const uint8_t *p =
		look(w, sh->keys_at, sh->keys, sh->keys_at + sh->keys, err);
	char text[4400];

	if (!p)
		return err->code;
	if (XXH3_64bits(p, sh->keys) == sh->keys_checksum)
		return 0;
	snprintf(text, sizeof(text),
		 "%s: damaged keys (bytes %llu to %llu): names of samples in "
		 "messages may be wrong",
		 mr_input_path(sh->input), (unsigned long long)sh->keys_at,
		 (unsigned long long)(sh->keys_at + sh->keys - 1));
	found(c, text);
	return 0;
}

static int check_shard(struct check *c, uint64_t k, struct window *w,
		       struct mr_err *err)
{
	const struct mr_set_shard *sh = &c->set.shard[k];
	const struct mr_meta *m = &c->set.meta;
	uint64_t first, count, bad = 0;
	XXH3_state_t *all = XXH3_createState();
	int e = all ? 0 : mr_err_nomem(err, 0);

	if (all)
		XXH3_64bits_reset(all);
	w->in = sh->input;
	w->have = 0;
	mr_shard_range(m->samples, m->shards, k, &first, &count);
	for (uint64_t i = first; i < first + count && !e; i++) {
		struct mr_shard_entry x;
		const uint8_t *p;

		if (atomic_load(&c->stop))
			break;
		mr_set_find(&c->set, i, &x);
		bad += x.bad;
		XXH3_64bits_update(all,
				   c->set.entries + i * MR_SHARD_ENTRY + 16, 8);
		p = look(w, x.offset, x.length, mr_input_size(sh->input), err);
		if (!p)
			e = err->code;
		else if (XXH3_64bits(p, x.length) != x.checksum)
			report_sample(c, i,
				      "damaged: its checksum does not match");
		atomic_fetch_add(&c->samples, 1);
	}
	if (!e && !atomic_load(&c->stop) &&
	    XXH3_64bits_digest(all) != m->shard[k].records) {
		char text[4400];

		snprintf(text, sizeof(text),
			 "%s: its records are not those that meta.json names",
			 mr_input_path(sh->input));
		found(c, text);
	}
	XXH3_freeState(all);
	if (!e)
		e = check_keys(c, sh, w, err);
	pthread_mutex_lock(&c->lock);
	c->report->bad += bad;
	pthread_mutex_unlock(&c->lock);
	return e;
}

/* ---- all ---- */

static void *check_some(void *arg)
{
	struct check *c = arg;
	struct window w = { 0 };
	struct mr_err err;

	while (!atomic_load(&c->stop)) {
		uint64_t k = atomic_fetch_add(&c->next, 1);

		if (k >= c->set.meta.shards)
			break;
		if (!check_shard(c, k, &w, &err))
			continue;
		pthread_mutex_lock(&c->lock);
		if (!c->err.code)
			c->err = err;
		pthread_mutex_unlock(&c->lock);
		atomic_store(&c->stop, true);
	}
	free(w.buf);
	atomic_fetch_sub(&c->running, 1);
	return NULL;
}

/* The calling thread shows the progress. */
static int check_all(struct check *c, int threads, struct mr_err *err)
{
	struct mr_verify_report *r = c->report;
	pthread_t *t = mr_alloc((size_t)threads, sizeof(*t), err);
	bool stopped = false;
	int n = 0;

	if (!t)
		return MR_ENOMEM;
	for (; n < threads && (uint64_t)n < c->set.meta.shards; n++) {
		atomic_fetch_add(&c->running, 1);
		if (mr_thread_start(&t[n], "mr-verify", check_some, c)) {
			atomic_fetch_sub(&c->running, 1);
			break;
		}
	}
	if (!n) {
		atomic_fetch_add(&c->running, 1);
		check_some(c);
	}
	while (atomic_load(&c->running)) {
		struct timespec nap = { 0, LOOK_MS * 1000000 / 10 };

		nanosleep(&nap, NULL);
		stopped = r->progress &&
			  r->progress(r->data, atomic_load(&c->samples),
				      c->set.meta.samples);
		if (stopped)
			atomic_store(&c->stop, true);
	}
	while (n > 0)
		pthread_join(t[--n], NULL);
	free(t);
	r->samples = atomic_load(&c->samples);
	r->complete = !c->err.code && r->samples == c->set.meta.samples;
	if (c->err.code)
		*err = c->err;
	return c->err.code;
}

int mr_verify(const char *dir, int threads, struct mr_verify_report *report,
	      struct mr_err *err)
{
	struct mr_options opt = { .threads = threads };
	struct check c = { .report = report,
			   .lock = PTHREAD_MUTEX_INITIALIZER };
	int e;

	threads = mr_loader_threads(&opt);
	report->samples = report->bad = report->shards = report->bytes = 0;
	report->damaged = 0;
	report->complete = false;
	e = mr_set_open(&c.set, dir, threads, false, err);
	if (!e) {
		report->shards = c.set.meta.shards;
		for (uint64_t i = 0; i < c.set.meta.shards; i++)
			report->bytes += c.set.meta.shard[i].bytes;
		e = check_all(&c, threads, err);
	} else if (e == MR_EDATA) {
		report->damaged = 1;
	}
	if (!e && report->damaged)
		e = mr_err_set(err, MR_EDATA,
			       "%s: %llu of %llu samples or "
			       "indices are damaged; prepare the set again",
			       dir, (unsigned long long)report->damaged,
			       (unsigned long long)report->samples);
	mr_set_close(&c.set);
	return e;
}
