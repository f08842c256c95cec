/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: threads that claim runs of positions, with one atomic operation
 * for about half a millisecond of work, and take each sample of the run all
 * the way (sample.c) before the next.
 */
#include "pipe/worker.h"

#include <signal.h>

#include "core/futex.h"
#include "core/mem.h"
#include "pipe/after.h"
#include "pipe/part.h"
#include "pipe/record.h"
#include "trace/counters.h"

enum {
	CLAIM_NS = 500 * 1000, /* a claim should cover about this much work */
	CHEAP_NS = 20 * 1000,  /* samples below are timed one in STRIDE */
	STRIDE = 8,
	BRIEF_NS = 500 * 1000, /* batches below share wake-ups, which come */
	OWED_NS = 400 * 1000,  /* at most about this late */
	/* Of a sample in memory, what is asked for before its turn: more would
	 * be in the way of the one at hand. */
	ASK_BYTES = 512,
	/* Ragged batches up to this are one claim: joining costs more than
	 * waiting. */
	WHOLE_NS = 100 * 1000 * 1000,
	/* Storage that delays each sample so much, and takes such a part of the
	 * time (one in so many), in so many of the last 8 claims, is worth
	 * reading ahead, which costs a few percent. */
	SLOW_NS = 50 * 1000,
	SLOW_PART = 10,
	SLOW_CLAIMS = 4,
	SLOW_CACHED = 2, /* of the last 64, with a cache */
};

/* ---- measuring ---- */

static double cpu_ns(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1e9 +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1e3;
}

/* Where most samples come from the cache, the few others may be all that is
 * waited for. */
static bool is_slow(const struct mr_worker *w)
{
	return __builtin_popcountll(w->slow & 0xff) >= SLOW_CLAIMS ||
	       (w->l->cache && __builtin_popcountll(w->slow) >= SLOW_CACHED);
}

/*
 * The time that a claim's work took by itself: what the thread had of the
 * CPU, and what it slept in reads, which is the storage's doing. The rest of
 * `ns` the system gave to others; a wall clock alone would take a busy
 * machine for slow storage.
 */
static double own_time(struct mr_worker *w, double ns, uint64_t samples)
{
	struct rusage now;
	double cpu, off, slept, taken, blocked = 0;

	if (getrusage(RUSAGE_THREAD, &now) != 0)
		return ns;
	cpu = cpu_ns(&now) - cpu_ns(&w->before);
	off = ns - cpu;
	slept = (double)(now.ru_nvcsw - w->before.ru_nvcsw - w->sleeps);
	taken = (double)(now.ru_nivcsw - w->before.ru_nivcsw);
	w->before = now;
	if (slept > 0 && off > 0)
		blocked = off * slept / (slept + taken);
	mr_count(&w->stats->blocked, (uint64_t)(blocked / w->ns_per_tick));
	w->slow = w->slow << 1 | (blocked > SLOW_NS * (double)samples &&
				  blocked > ns / SLOW_PART);
	if (w->l->fetch && is_slow(w))
		mr_fetch_poke(w->l->fetch, w->guess);
	return cpu + blocked < ns ? cpu + blocked : ns;
}

/* ---- claims ---- */

/* Wakes the consumer, if that was put off. */
static void pay_wake(struct mr_worker *w)
{
	if (w->owed)
		mr_futex_wake(&w->owed->state, 1);
	w->owed = NULL;
}

/* Waits until batch s may be worked on; false when the loader stops. */
static bool pass_gate(struct mr_worker *w, uint64_t s)
{
	struct mr_loader *l = w->l;
	uint64_t t0;

	if (s < atomic_load_explicit(&l->limit, memory_order_acquire))
		return !atomic_load_explicit(&l->stop, memory_order_relaxed);
	pay_wake(w);
	t0 = mr_clock_tick(&l->clock);
	for (;;) {
		unsigned seen = atomic_load(&l->gate);

		if (atomic_load(&l->stop) || s < atomic_load(&l->limit))
			break;
		w->sleeps++;
		atomic_fetch_add(&l->waiting, 1);
		mr_futex_wait(&l->gate, seen, -1);
		atomic_fetch_sub(&l->waiting, 1);
	}
	w->wait_out += mr_clock_tick(&l->clock) - t0;
	mr_record(l, w->ring, MR_SPAN_WAIT_OUT, t0, s, 0);
	return !atomic_load(&l->stop);
}

static struct mr_run *begin_run(struct mr_batch *b, uint32_t row, uint32_t rows)
{
	struct mr_run *run;

	if (!b->run)
		return NULL;
	run = &b->run[atomic_fetch_add(&b->runs, 1)];
	memset(run, 0, sizeof(*run));
	run->first = row;
	run->rows = rows;
	return run;
}

/* How large rows of ragged fields are, for the next runs. */
static void learn_sizes(struct mr_loader *l, const struct mr_run *run)
{
	for (int r = 0; r < l->plan.ragged; r++) {
		uint64_t old = mr_counted(&l->row_mean[r]);
		uint64_t now = run->used[r] / run->rows;

		atomic_store_explicit(&l->row_mean[r],
				      old ? (7 * old + now) / 8 : now,
				      memory_order_relaxed);
	}
}

static void finish(struct mr_worker *w, struct mr_batch *b, uint64_t s)
{
	uint64_t t0 = mr_record_now(w->l, w->ring), bytes;

	mr_batch_finish(b, &w->l->pool);
	if (w->ring)
		mr_record(w->l, w->ring, MR_SPAN_COLLATE, t0, s,
			  mr_batch_payload(b));
	if (w->l->plan.afters)
		mr_after_run(w, b, s);
	if (!w->ring)
		return;
	bytes = mr_batch_payload(b);
	mr_record(w->l, w->ring, MR_SPAN_BATCH, b->begun, s, bytes);
}

/*
 * Some rows of a batch are done; who does the last of all finishes it. A
 * consumer that sleeps on it is woken, for batches that take next to no time
 * a little later: one wake-up, which costs as much as some of them, then
 * serves for several.
 */
static void end_run(struct mr_worker *w, struct mr_slot *slot, uint64_t s,
		    uint32_t rows)
{
	struct mr_loader *l = w->l;

	if (atomic_fetch_sub(&slot->left, rows) != rows)
		return;
	finish(w, atomic_load(&slot->batch), s);
	if (atomic_exchange(&slot->state, MR_SLOT_READY) != MR_SLOT_AWAITED)
		return;
	w->owed = slot;
	w->owed_at = mr_clock_tick(&l->clock);
	if (w->sample_ns * (double)l->rows > BRIEF_NS)
		pay_wake(w);
}

/* The bytes of a sample that are read ahead; NULL when the loader stops. */
static struct mr_fetched *await_bytes(struct mr_worker *w, uint64_t s,
				      uint64_t position)
{
	uint64_t before = w->wait_in, t0 = mr_record_now(w->l, w->ring);
	struct mr_fetched *got;

	pay_wake(w);
	got = mr_fetch_get(w->l->fetch, position, &w->wait_in, &w->sleeps);
	if (w->wait_in > before)
		mr_record(w->l, w->ring, MR_SPAN_WAIT_IN, t0, s, 0);
	return got;
}

/* Which sample a row has. */
static uint64_t sample_of(struct mr_worker *w, const struct mr_batch *b,
			  uint32_t row)
{
	return mr_order_at(&w->l->order, &w->order, b->epoch,
			   b->number * w->l->rows + row);
}

/* The next sample lies elsewhere in memory, where the CPU would not look for it
 * by itself: its first bytes are on their way while this one is copied. */
static void ask_for(struct mr_worker *w, uint64_t index)
{
	const struct mr_plan *p = &w->l->plan;
	struct mr_extent x = { 0 };
	struct mr_err ignored;

	if (mr_part_locate(p, index, w->path, sizeof(w->path), &x, &ignored) ||
	    !x.mapped)
		return;
	for (size_t i = 0; i < x.length && i < ASK_BYTES; i += 64)
		__builtin_prefetch((const char *)x.mapped + i);
}

static bool do_run(struct mr_worker *w, uint64_t s, uint32_t first,
		   uint32_t end)
{
	struct mr_loader *l = w->l;
	struct mr_slot *slot = &l->slot[s % l->ring];
	struct mr_row r = { .b = mr_loader_enter(l, s, w->number), .slot = s };
	uint64_t position = s * l->rows + first, until = 0, next;
	bool ahead = false;
	bool asks = l->plan.source->locate && mr_part_maps(&l->plan);

	if (!r.b) { /* no memory: the consumer finds no batch, and says so */
		atomic_store(&slot->state, MR_SLOT_READY);
		mr_futex_wake(&slot->state, 1);
		return false;
	}
	r.run = begin_run(r.b, first, end - first);
	next = sample_of(w, r.b, first);
	for (r.at = first; r.at < end; r.at++, position++) {
		struct mr_fetched *got = NULL;

		r.index = next;
		if (r.at + 1 < end) {
			next = sample_of(w, r.b, r.at + 1);
			if (asks)
				ask_for(w, next);
		}
		if (l->fetch && position >= until)
			ahead = mr_fetch_ahead(l->fetch, &w->order, position,
					       &until);
		if (ahead) {
			got = await_bytes(w, s, position);
			if (!got)
				return false;
		}
		mr_sample_row(w, &r, got);
		if (got)
			mr_fetch_done(l->fetch, got, w->bytes);
		if (atomic_load_explicit(&l->stop, memory_order_relaxed))
			return false;
	}
	if (r.run)
		learn_sizes(l, r.run);
	end_run(w, slot, s, end - first);
	return true;
}

/* Positions [p, p + n): split at the batches' borders. */
static bool do_claim(struct mr_worker *w, uint64_t p, uint64_t n,
		     uint64_t *samples)
{
	struct mr_loader *l = w->l;

	while (n) {
		uint64_t s = p / l->rows, row = p % l->rows;
		uint64_t part = l->rows - row < n ? l->rows - row : n;
		uint32_t have, end;

		if (s >= l->end)
			return false;
		have = mr_loader_rows(l, s);
		end = row + part < have ? (uint32_t)(row + part) : have;
		if (row < end) {
			if (!pass_gate(w, s) ||
			    !do_run(w, s, (uint32_t)row, end))
				return false;
			*samples += end - row;
		}
		p += part;
		n -= part;
	}
	return true;
}

/* Adds the claim's ticks to the counters. Of cheap samples only some were
 * timed: their share stands for all. */
static void account(struct mr_worker *w, uint64_t ticks, uint64_t samples)
{
	struct mr_thread_stats *st = w->stats;
	uint64_t waits = w->wait_in + w->wait_out + w->after;
	double scale = w->timed ? (double)samples / w->timed : 0;
	double parts = 0, work = ticks > waits ? (double)(ticks - waits) : 0;

	for (int k = 0; k < w->l->pipeline->n; k++)
		parts += (double)w->ticks[k] * scale;
	if (parts > work && parts > 0)
		scale *= work / parts;
	for (int k = 0; k < w->l->pipeline->n; k++) {
		uint64_t t = (uint64_t)((double)w->ticks[k] * scale);

		mr_count(&st->step[k].ticks, t);
		mr_count(k ? &st->steps : &st->fetch, t);
		w->ticks[k] = 0;
	}
	mr_count(&st->busy, ticks);
	mr_count(&st->wait_in, w->wait_in);
	mr_count(&st->wait_out, w->wait_out);
	mr_count(&st->samples, samples);
}

/*
 * The next claim covers about CLAIM_NS, by what samples cost of late, and is
 * at most twice as large as this one: where cheap samples (in the cache) and
 * dear ones are mixed, a large claim holds up those who wait for its first
 * batch.
 */
static void adapt(struct mr_worker *w, uint64_t ticks, uint64_t samples)
{
	uint64_t waits = w->wait_in + w->wait_out, most;
	double ns;

	if (!samples || ticks <= waits)
		return;
	ns = (double)(ticks - waits) * w->ns_per_tick;
	ns = own_time(w, ns, samples) / (double)samples;
	w->sample_ns = w->sample_ns > 0 ? 0.75 * w->sample_ns + 0.25 * ns : ns;
	w->stride = ns < CHEAP_NS && !w->ring ? STRIDE : 1;
	if (w->counters)
		mr_counters_pace(w->counters, w->sample_ns);
	most = 2 * w->chunk < w->l->max_chunk ? 2 * w->chunk : w->l->max_chunk;
	ns = w->sample_ns;
	w->chunk =
		ns * (double)most < CLAIM_NS ? most : (uint64_t)(CLAIM_NS / ns);
	if (w->chunk < w->l->min_chunk)
		w->chunk = w->l->min_chunk;
	if (w->stride > w->chunk)
		w->stride = 1;
}

/* Positions of a claim that begins at p. */
static uint64_t claim_size(const struct mr_worker *w, uint64_t p)
{
	const struct mr_loader *l = w->l;
	uint64_t all, share, n = w->chunk, to_border = l->rows - p % l->rows;

	/* Near the end, smaller claims let all threads finish together. */
	if (l->end != UINT64_MAX) {
		all = l->end * l->rows;
		share = p < all ? (all - p) / (2 * (uint64_t)l->threads) : 0;
		if (share < n)
			n = share > l->min_chunk ? share : l->min_chunk;
	}
	/* A ragged batch by one worker needs no joining; but not at the cost
	 * of threads that find nothing to do, and not before it is known that
	 * the storage is not slow: that shows after some claims. */
	if (l->plan.ragged && w->sample_ns > 0 &&
	    w->sample_ns * (double)to_border <= WHOLE_NS &&
	    (l->threads == 1 ||
	     atomic_load_explicit(&l->depth, memory_order_relaxed) >
		     (unsigned)l->threads))
		n = to_border;
	return n;
}

/* One atomic operation per claim, not per sample. */
static uint64_t claim(struct mr_worker *w, uint64_t *n)
{
	struct mr_loader *l = w->l;
	uint64_t p = atomic_load_explicit(&l->next, memory_order_relaxed);

	do {
		*n = claim_size(w, p);
	} while (!atomic_compare_exchange_weak(&l->next, &p, p + *n));
	return p;
}

static void *worker_main(void *arg)
{
	struct mr_worker *w = arg;
	struct mr_loader *l = w->l;
	uint64_t t0 = mr_clock_tick(&l->clock);
	bool go = true;

	w->sampled = mr_record_thread(l, w->ring, "worker", w->number + 1);
	w->counters = mr_counting_thread(l->counting, w->ring);
	w->ns_per_tick = mr_clock_ns_per_tick(&l->clock);
	getrusage(RUSAGE_THREAD, &w->before);
	while (go && !atomic_load_explicit(&l->stop, memory_order_relaxed)) {
		uint64_t n, samples = 0, t1, p = claim(w, &n);

		w->wait_in = w->wait_out = w->after = w->timed = 0;
		w->sleeps = 0;
		go = do_claim(w, p, n, &samples);
		t1 = mr_clock_tick(&l->clock);
		mr_record(l, w->ring, MR_SPAN_WORK, t0, p / l->rows, 0);
		if (w->owed &&
		    (double)(t1 - w->owed_at) * w->ns_per_tick > OWED_NS)
			pay_wake(w);
		account(w, t1 - t0, samples);
		adapt(w, t1 - t0, samples);
		t0 = t1;
	}
	pay_wake(w);
	mr_counters_stop(w->counters);
	return NULL;
}

/* ---- life ---- */

int mr_thread_start(pthread_t *t, const char *name, void *(*main)(void *),
		    void *arg)
{
	sigset_t all, old;
	int e;

	/* Signals are the program's business: its own threads take them. Those
	 * that a thread brings upon itself cannot be put off. */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(t, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!e)
		pthread_setname_np(*t, name);
	return e;
}

/* A source, or a step's prepared set. */
static const struct mr_source *source_at(const struct mr_plan *p, int stage)
{
	return stage == 0	      ? p->source :
	       stage == p->part.stage ? p->part.source :
					NULL;
}

/* State that the source (stage 0) and the steps keep for this thread. */
static int make_locals(struct mr_worker *w, struct mr_err *err)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->pipeline->n; i++) {
		const struct mr_op *op = p->pipeline->stage[i].op;
		const struct mr_source *s = source_at(p, i);
		size_t bytes = s ? s->local : op->local;

		if (!bytes)
			continue;
		w->local[i] = mr_alloc(1, bytes, err);
		if (!w->local[i])
			return MR_ENOMEM;
	}
	return 0;
}

static void drop_locals(struct mr_worker *w)
{
	const struct mr_plan *p = &w->l->plan;

	for (int i = 0; i < p->pipeline->n; i++) {
		const struct mr_op *op = p->pipeline->stage[i].op;
		const struct mr_source *s = source_at(p, i);
		void (*drop)(void *) = s ? s->drop : op->drop;

		if (w->local[i] && drop)
			drop(w->local[i]);
		free(w->local[i]);
		w->local[i] = NULL;
	}
}

int mr_worker_renew_locals(struct mr_worker *w)
{
	drop_locals(w);
	return make_locals(w, &w->err);
}

int mr_workers_start(struct mr_loader *l, struct mr_err *err)
{
	l->worker = mr_alloc((size_t)l->threads, sizeof(*l->worker), err);
	if (!l->worker)
		return MR_ENOMEM;
	atomic_store(&l->stop, false);
	for (int i = 0; i < l->threads; i++) {
		struct mr_worker *w = &l->worker[i];
		int e;

		w->l = l;
		w->number = i;
		w->stats = &l->stats[i];
		w->chunk = l->min_chunk;
		w->stride = 1;
		w->guess = 64 << 10;
		mr_arena_init(&w->scratch, l->sample_max);
		e = make_locals(w, err);
		if (!e)
			e = mr_record_ring(l, &w->ring, err);
		if (e)
			return e;
		e = mr_thread_start(&w->thread, "mr-worker", worker_main, w);
		if (e)
			return mr_err_set(err, MR_ESTATE,
					  "cannot start thread %d of %d: %s",
					  i + 1, l->threads, strerror(e));
		w->joinable = true;
	}
	return 0;
}

void mr_workers_stop(struct mr_loader *l)
{
	atomic_store(&l->stop, true);
	atomic_fetch_add(&l->gate, 1);
	mr_futex_wake(&l->gate, INT_MAX);
	for (int i = 0; l->worker && i < l->threads; i++) {
		struct mr_worker *w = &l->worker[i];

		if (w->joinable)
			pthread_join(w->thread, NULL);
		for (int f = 0; f <= MR_MAX_FIELDS; f++) {
			mr_buf_unref(w->area[f][0]);
			mr_buf_unref(w->area[f][1]);
		}
		if (w->l)
			drop_locals(w);
		mr_arena_fini(&w->scratch);
	}
	free(l->worker);
	l->worker = NULL;
}
