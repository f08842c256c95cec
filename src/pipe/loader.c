/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader at work: batches out of the ring in order, and what may be known
 * of it meanwhile. How it is opened is in open.c, what a worker does with a
 * sample in sample.c.
 */
#include "pipe/loader.h"

#include <stdio.h>
#include <unistd.h>

#include "cache/ram.h"
#include "core/futex.h"
#include "core/mem.h"
#include "pipe/cached.h"
#include "pipe/fetch.h"
#include "pipe/record.h"

enum {
	BAD_KEPT = 10000,
	SPIN = 200, /* looks at a slot before sleeping */
	LOOK = 8,   /* free batches that are looked at for one's own */
};

/* ---- positions ---- */

uint32_t mr_loader_rows(const struct mr_loader *l, uint64_t s)
{
	uint64_t left = l->epoch_samples - s % l->epoch_batches * l->rows;

	return (uint32_t)(left < l->rows ? left : l->rows);
}

bool mr_loader_sample_at(const struct mr_loader *l, struct mr_order_cache *c,
			 uint64_t position, uint64_t *index)
{
	uint64_t s = position / l->rows, row = position % l->rows;

	if (row >= mr_loader_rows(l, s))
		return false;
	*index = mr_order_at(&l->order, c, s / l->epoch_batches,
			     s % l->epoch_batches * l->rows + row);
	return true;
}

/* ---- batches come and go ---- */

/* Batch s is open for work; it has no memory yet. */
static void arm(struct mr_loader *l, uint64_t s)
{
	struct mr_slot *slot = &l->slot[s % l->ring];

	atomic_store(&slot->batch, NULL);
	atomic_store(&slot->left, mr_loader_rows(l, s));
	atomic_store_explicit(&slot->state, MR_SLOT_BUSY, memory_order_release);
}

/* An empty batch: one that came back, or a new one. The worker's own of last
 * time, if it is among the first, since its memory is in that core's cache.
 * Under the lock. */
static struct mr_batch *obtain(struct mr_loader *l, int worker)
{
	struct mr_batch **at = &l->free_batches, *b;

	for (int i = 0; i < LOOK && *at && (*at)->worker != worker; i++)
		at = &(*at)->next;
	if (!*at || (*at)->worker != worker)
		at = &l->free_batches;
	b = *at;
	if (b) {
		*at = b->next;
	} else {
		if (mr_batch_new(&b, &l->plan, &l->pool, MR_RUNS + 2,
				 &l->broken))
			return NULL;
		b->loader = l;
	}
	b->worker = worker;
	atomic_store(&b->refs, 1);
	return b;
}

struct mr_batch *mr_loader_enter(struct mr_loader *l, uint64_t s, int worker)
{
	struct mr_slot *slot = &l->slot[s % l->ring];
	struct mr_batch *b =
		atomic_load_explicit(&slot->batch, memory_order_acquire);

	if (b)
		return b;
	pthread_mutex_lock(&l->lock);
	b = atomic_load(&slot->batch);
	if (!b && !l->broken.code) {
		b = obtain(l, worker);
		if (b)
			mr_batch_begin(b, s / l->epoch_batches,
				       s % l->epoch_batches,
				       mr_loader_rows(l, s));
		if (b && l->recorder)
			b->begun = mr_clock_tick(&l->clock);
		atomic_store_explicit(&slot->batch, b, memory_order_release);
	}
	pthread_mutex_unlock(&l->lock);
	return b;
}

static void loader_unref(struct mr_loader *l)
{
	if (atomic_fetch_sub(&l->refs, 1) > 1)
		return;
	while (l->free_batches) {
		struct mr_batch *b = l->free_batches;

		l->free_batches = b->next;
		mr_batch_free(b);
	}
	mr_pool_fini(&l->pool);
	mr_pipeline_free(l->pipeline);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

void mr_batch_ref(struct mr_batch *b)
{
	atomic_fetch_add(&b->refs, 1);
}

/* Back to the loader if it fits into the budget again, else freed. */
void mr_batch_release(struct mr_batch *b)
{
	struct mr_loader *l;
	size_t used;

	if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
		return;
	l = b->loader;
	/* After a fork a lock may be held by a thread that is not there. */
	if (l->pid != getpid())
		return;
	used = atomic_load(&l->budget.used);
	if (used + mr_batch_memory(b) <= l->budget.max) {
		for (int i = 0; i < l->plan.bufs; i++)
			mr_buf_reclaim(b->buf[i]);
		pthread_mutex_lock(&l->lock);
		b->next = l->free_batches;
		l->free_batches = b;
		pthread_mutex_unlock(&l->lock);
	} else {
		mr_batch_free(b);
	}
	loader_unref(l);
}

/* ---- starting and stopping ---- */

/* Whether the sizes of batches show only when they are made. */
static bool varies(const struct mr_loader *l)
{
	return l->plan.ragged || l->plan.afters;
}

/* Batches that are enough for no worker to wait for another. Large ones, whose
 * memory costs time as well: one for each worker, and two. */
static unsigned enough(const struct mr_loader *l)
{
	unsigned few = (unsigned)l->threads + 2;
	bool large = varies(l) && atomic_load(&l->batch_max) >= MR_STOCK;

	return large && few < l->wanted_ring ? few : l->wanted_ring;
}

/* Batches that may be in work ahead of `head`: all of the ring, or fewer
 * when ragged or packed batches turn out large. */
static unsigned depth(const struct mr_loader *l)
{
	size_t most = atomic_load(&l->batch_max);
	unsigned want = enough(l);
	uint64_t fit;

	if (!varies(l))
		return l->ring;
	if (!most)
		return l->ring < 2 ? l->ring : 2;
	if (want > l->ring)
		want = l->ring;
	/* Half for batches in work (runs and their joined copy), the rest for
	 * those that are ready or with the user, areas, and fetch. */
	fit = l->budget.max / 2 / most;
	if (atomic_load(&l->budget.used) > l->budget.max || fit < 1)
		fit = 1;
	return fit < want ? (unsigned)fit : want;
}

static void publish_limit(struct mr_loader *l)
{
	unsigned ahead = depth(l);
	uint64_t limit = l->head + ahead, old = atomic_load(&l->limit);

	atomic_store_explicit(&l->depth, ahead, memory_order_relaxed);

	if (limit > l->end)
		limit = l->end;
	if (limit > old)
		atomic_store_explicit(&l->limit, limit, memory_order_release);
}

static void wake_workers(struct mr_loader *l)
{
	l->since_wake = 0;
	atomic_fetch_add(&l->gate, 1);
	if (atomic_load(&l->waiting))
		mr_futex_wake(&l->gate, INT_MAX);
}

static int start(struct mr_loader *l, struct mr_err *err)
{
	struct mr_fetch *fetch = NULL;
	int e = 0;

	atomic_store(&l->next, l->head * l->rows);
	atomic_store(&l->limit, l->head);
	atomic_store(&l->stop, false);
	l->broken.code = 0;
	for (uint64_t s = l->head; s < l->head + l->ring; s++)
		arm(l, s);
	if (l->cache)
		mr_ram_settle(l->cache);
	if (l->plan.source->locate && l->opt.fetch != MR_FETCH_DIRECT)
		e = mr_fetch_new(&fetch, l, l->opt.fetch, err);
	pthread_mutex_lock(&l->lock);
	l->fetch = fetch;
	pthread_mutex_unlock(&l->lock);
	publish_limit(l);
	if (!mr_counted(&l->start_ns))
		mr_count(&l->start_ns, mr_clock_ns());
	if (!e)
		e = mr_workers_start(l, err);
	l->started = true;
	return e;
}

/* Stops the threads; batches in the ring go back. */
static void halt(struct mr_loader *l)
{
	struct mr_fetch *fetch;

	if (!l->started)
		return;
	mr_workers_stop(l);
	pthread_mutex_lock(&l->lock);
	fetch = l->fetch;
	l->fetch = NULL;
	pthread_mutex_unlock(&l->lock);
	mr_fetch_free(fetch);
	for (unsigned i = 0; i < l->ring; i++) {
		mr_batch_free(atomic_load(&l->slot[i].batch));
		atomic_store(&l->slot[i].batch, NULL);
	}
	l->started = false;
}

void mr_loader_close_traced(struct mr_loader *l, struct mr_recorded *out)
{
	memset(out, 0, sizeof(*out));
	if (l)
		l->recorded = out;
	mr_loader_close(l);
}

void mr_loader_close(struct mr_loader *l)
{
	if (!l)
		return;
	/* A forked child has none of the threads, and locks in any state:
	 * leaving the memory alone is all that is safe. */
	if (l->pid != getpid())
		return;
	halt(l);
	mr_record_close(l);
	for (size_t i = 0; i < l->bads; i++)
		free(l->bad[i]);
	free(l->bad);
	free(l->slot);
	if (l->shape)
		mr_shape_fini(l->shape);
	free(l->shape);
	l->shape = NULL;
	mr_cached_close(l);
	free(l->storage);
	l->storage = NULL;
	mr_unmap(l->stats, (size_t)l->threads * sizeof(*l->stats));
	l->slot = NULL;
	l->stats = NULL;
	loader_unref(l);
}

/* ---- the consumer's side ---- */

/* The bad rows of a batch, in the order of rows, join the loader's list.
 * Returns the first of them that was kept, or NULL. */
static const struct mr_bad_row *collect_bad(struct mr_loader *l,
					    struct mr_batch *b)
{
	struct mr_bad_row *r = atomic_exchange(&b->bad, NULL), *sorted = NULL;
	size_t before = l->bads;

	while (r) {
		struct mr_bad_row *next = r->next, **at = &sorted;

		while (*at && (*at)->row < r->row)
			at = &(*at)->next;
		r->next = *at;
		*at = r;
		r = next;
	}
	while (sorted) {
		r = sorted;
		sorted = r->next;
		mr_count(&l->bad_samples, 1);
		if (l->bads < BAD_KEPT &&
		    mr_grow(&l->bad, &l->bad_cap, l->bads + 1, sizeof(*l->bad),
			    BAD_KEPT, &b->failed) == 0)
			l->bad[l->bads++] = r;
		else
			free(r);
	}
	return l->bads > before ? l->bad[before] : NULL;
}

/* "key: step: reason", each said once. */
static int fail_sample(struct mr_loader *l, const struct mr_bad_row *r,
		       struct mr_err *err)
{
	const struct mr_bad *bad = &r->bad;
	bool named = strncmp(bad->reason, bad->key, strlen(bad->key)) == 0;

	mr_err_set(&l->failed, r->code, "%s%s%s%s%s", named ? "" : bad->key,
		   named ? "" : ": ",
		   strcmp(bad->step, "read") ? bad->step : "",
		   strcmp(bad->step, "read") ? ": " : "", bad->reason);
	if (err)
		*err = l->failed;
	return r->code;
}

static int fail(struct mr_loader *l, const struct mr_err *why,
		struct mr_err *err)
{
	l->failed = *why;
	if (err)
		*err = *why;
	return why->code;
}

/* Waits for the batch at the head; false when the time is up. */
static bool await(struct mr_loader *l, struct mr_slot *slot, int timeout_ms)
{
	uint64_t t0, now, deadline;
	bool ready;

	for (int i = 0; i < SPIN; i++)
		if (atomic_load_explicit(&slot->state, memory_order_acquire) ==
		    MR_SLOT_READY)
			return true;
	/* Whoever sleeps at the gate may be the one we wait for. */
	if (l->since_wake)
		wake_workers(l);
	t0 = mr_clock_ns();
	deadline = t0 + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000;
	for (;;) {
		unsigned s = MR_SLOT_BUSY;

		now = mr_clock_ns();
		atomic_compare_exchange_strong(&slot->state, &s,
					       MR_SLOT_AWAITED);
		ready = atomic_load(&slot->state) == MR_SLOT_READY;
		if (ready || (timeout_ms >= 0 && now >= deadline))
			break;
		mr_futex_wait(&slot->state, MR_SLOT_AWAITED,
			      timeout_ms < 0 ? -1 : (int64_t)(deadline - now));
	}
	now = mr_clock_ns();
	mr_count(&l->wait_ns, now - t0);
	/* Time that passed in vain, too, is of the run: the workers' counters
	 * go on in it. */
	if (!ready)
		mr_count(&l->end_ns, now - mr_counted(&l->end_ns));
	return ready;
}

/* Takes the head out of the ring; its place is for the next batch. */
static int take_head(struct mr_loader *l, struct mr_batch **out,
		     struct mr_err *err)
{
	struct mr_batch *b = atomic_load(&l->slot[l->head % l->ring].batch);
	size_t bytes;

	if (!b) {
		pthread_mutex_lock(&l->lock);
		*err = l->broken;
		pthread_mutex_unlock(&l->lock);
		return err->code;
	}
	bytes = mr_batch_memory(b);
	if (bytes > atomic_load(&l->batch_max))
		atomic_store(&l->batch_max, bytes);
	for (int i = 0; i < l->plan.bufs; i++)
		if (b->buf[i])
			mr_buf_lend(b->buf[i]);
	atomic_fetch_add(&l->refs, 1);
	arm(l, l->head + l->ring);
	l->head++;
	mr_count(&l->done, 1);
	publish_limit(l);
	/* Not for each batch of a long stock: a wake-up costs more than some
	 * batches do. */
	if (++l->since_wake > atomic_load(&l->depth) / 4)
		wake_workers(l);
	*out = b;
	return 0;
}

static int deliver(struct mr_loader *l, struct mr_batch *b, struct mr_err *err)
{
	const struct mr_bad_row *first;
	uint64_t now = mr_clock_ns();

	first = collect_bad(l, b);
	if (b->failed.code)
		return fail(l, &b->failed, err);
	if (l->opt.on_error == MR_ON_ERROR_STOP && first)
		return fail_sample(l, first, err);
	if (b->count == 0)
		return MR_AGAIN;
	if (!mr_counted(&l->first_ns))
		mr_count(&l->first_ns, now);
	mr_count(&l->end_ns, now - mr_counted(&l->end_ns));
	mr_count(&l->batches, 1);
	mr_count(&l->samples, b->count);
	mr_count(&l->bytes_out, mr_batch_payload(b));
	return 0;
}

static int usable(struct mr_loader *l, struct mr_err *err)
{
	struct mr_err why;

	if (l->pid != getpid())
		return mr_err_set(err, MR_ESTATE,
				  "this loader was opened in process %d and "
				  "does not survive fork(); open one in this "
				  "process",
				  (int)l->pid);
	if (l->failed.code)
		return fail(l, &l->failed, err);
	if (!l->started && start(l, &why))
		return fail(l, &why, err);
	return 0;
}

int mr_loader_wait(struct mr_loader *l, struct mr_batch **out, int timeout_ms,
		   struct mr_err *err)
{
	uint64_t until = timeout_ms < 0 ?
				 UINT64_MAX :
				 mr_clock_ns() + (uint64_t)timeout_ms * 1000000;
	struct mr_batch *b = NULL;
	struct mr_err why;
	int e = usable(l, err);

	if (e)
		return e;
	for (;;) {
		if (l->head / l->epoch_batches > l->ended) {
			l->ended++;
			return MR_END;
		}
		if (l->head >= l->end)
			return MR_END;
		mr_record_ask(l);
		if (!await(l, &l->slot[l->head % l->ring], timeout_ms))
			return MR_AGAIN;
		if (take_head(l, &b, &why))
			return fail(l, &why, err);
		mr_record_got(l, b, l->head - 1);
		e = deliver(l, b, err);
		if (e == 0) {
			*out = b;
			return 0;
		}
		mr_batch_release(b);
		if (e < 0) {
			/* A checkpoint taken now has this batch yet to come. */
			l->head--;
			return e;
		}
		/* It was empty, all of its samples being bad; so may the next
		 * ones be, for a long time. */
		if (mr_clock_ns() >= until)
			return MR_AGAIN;
	}
}

int mr_loader_next(struct mr_loader *l, struct mr_batch **b, struct mr_err *err)
{
	return mr_loader_wait(l, b, -1, err);
}

/* ---- where it stands ---- */

void mr_loader_state(const struct mr_loader *l, struct mr_state *st)
{
	*st = (struct mr_state){
		.epoch = l->head / l->epoch_batches,
		.batch = l->head % l->epoch_batches,
		.seed = l->opt.seed,
		.samples = l->plan.samples,
		.pipeline = l->identity,
		.rank = l->opt.rank,
		.ranks = l->opt.ranks,
	};
}

int mr_loader_seek(struct mr_loader *l, const struct mr_state *st,
		   struct mr_err *err)
{
	if (l->pid != getpid())
		return usable(l, err);
	if (st->pipeline != l->identity)
		return mr_err_set(err, MR_EINVAL,
				  "the checkpoint belongs to another pipeline "
				  "or order; resume with the same text and "
				  "--order");
	if (st->samples != l->plan.samples)
		return mr_err_set(err, MR_EINVAL,
				  "the data set had %llu samples at the "
				  "checkpoint and has %llu now",
				  (unsigned long long)st->samples,
				  (unsigned long long)l->plan.samples);
	if (st->rank != l->opt.rank || st->ranks != l->opt.ranks)
		return mr_err_set(err, MR_EINVAL,
				  "the checkpoint is rank %lld/%lld's, this "
				  "is %lld/%lld",
				  (long long)st->rank, (long long)st->ranks,
				  (long long)l->opt.rank,
				  (long long)l->opt.ranks);
	if (st->batch > l->epoch_batches ||
	    st->epoch > UINT64_MAX / 4 / l->epoch_batches / l->rows)
		return mr_err_set(err, MR_EINVAL,
				  "the checkpoint is at batch %llu of epoch "
				  "%llu; an epoch has %llu, and there are not "
				  "that many epochs",
				  (unsigned long long)st->batch,
				  (unsigned long long)st->epoch,
				  (unsigned long long)l->epoch_batches);
	halt(l);
	l->opt.seed = l->order.seed = st->seed;
	l->head = st->epoch * l->epoch_batches + st->batch;
	mr_count(&l->done, l->head - mr_counted(&l->done));
	l->ended = st->epoch;
	l->failed.code = 0;
	return 0;
}

uint64_t mr_loader_epoch_samples(const struct mr_loader *l)
{
	return l->epoch_samples;
}

uint64_t mr_loader_epoch_batches(const struct mr_loader *l)
{
	return l->epoch_batches;
}

uint64_t mr_loader_dataset_samples(const struct mr_loader *l)
{
	return l->plan.samples;
}

const char *mr_loader_class(const struct mr_loader *l, uint64_t label)
{
	const struct mr_source *s = l->plan.source;

	return s->class_name ? s->class_name(l->plan.source_self, label) : NULL;
}

bool mr_loader_bad(const struct mr_loader *l, size_t i, struct mr_bad *bad)
{
	if (i >= l->bads)
		return false;
	*bad = l->bad[i]->bad;
	return true;
}

static void storage_stats(struct mr_loader *l, struct mr_stats *st)
{
	const struct mr_profile *p = l->shape ? &l->shape->p : NULL;
	uint64_t bytes;

	st->storage.profile = l->storage;
	st->cold.files = l->cold.files;
	st->cold.bytes = l->cold.bytes;
	st->cold.stayed = l->cold.stayed;
	st->cold.unknown = l->cold.unknown;
	if (!p)
		return;
	mr_shape_count(l->shape, &st->storage.requests, &bytes);
	mr_shape_hits(l->shape, &st->storage.cache_hits,
		      &st->storage.cache_bytes);
	st->storage.cache = p->cache;
	st->storage.bw = (double)p->bw;
	st->storage.stream = (double)p->stream;
	st->storage.latency = p->latency;
	st->storage.iops = p->iops;
	st->storage.mb_per_s =
		mr_profile_allows(p, st->storage.requests, bytes) / 1e6;
}

void mr_loader_stats(struct mr_loader *l, struct mr_stats *st)
{
	uint64_t now = mr_clock_ns(), start = mr_counted(&l->start_ns);
	uint64_t end = mr_counted(&l->end_ns), first = mr_counted(&l->first_ns);
	struct mr_stats_input in = {
		.thread = l->stats,
		.threads = l->threads,
		.clock = &l->clock,
		.start_ns = start ? start : now,
		.end_ns = start && end ? end : now,
		.steps = l->pipeline->n - (l->plan.batched ? 1 : 0),
		.consumer_ns = mr_counted(&l->wait_ns),
		.shallow = depth(l) < enough(l),
	};

	in.name[0] = "read";
	for (int i = 1; i < in.steps; i++) {
		/* `batch` is no step here: those after it take its place, and
		 * are done anew in each epoch as random ones are */
		bool after = i >= in.steps - l->plan.afters;
		const struct mr_stage *s = &l->pipeline->stage[i + after];

		in.name[i] = s->name;
		in.random[i] = after || s->op->flags & MR_OP_RANDOM;
	}
	*st = (struct mr_stats){
		.samples = mr_counted(&l->samples),
		.batches = mr_counted(&l->batches),
		.epochs = mr_counted(&l->done) / l->epoch_batches,
		.bytes_out = mr_counted(&l->bytes_out),
		.bad_samples = mr_counted(&l->bad_samples),
		.memory_peak = atomic_load(&l->budget.peak),
	};
	pthread_mutex_lock(&l->lock);
	st->fetch = mr_fetch_way(l->fetch, &st->fetch_depth);
	pthread_mutex_unlock(&l->lock);
	if (first)
		st->first_batch_ms = (double)(first - l->open_ns) / 1e6;
	storage_stats(l, st);
	mr_cached_stats(l, st);
	mr_stats_fill(st, &in);
}

const char *mr_version(void)
{
	return MR_VERSION;
}
