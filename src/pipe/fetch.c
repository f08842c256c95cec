/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/fetch.h"

#include <stdio.h>
#include <sys/stat.h>

#include "cache/ram.h"
#include "core/futex.h"
#include "core/mem.h"
#include "pipe/depth.h"
#include "pipe/part.h"
#include "pipe/reader.h"
#include "pipe/record.h"
#include "pipe/runs.h"

enum {
	WINDOW = 64,	  /* positions that are decided upon together; */
	FINE = 8,	  /* fewer at first, since a worker that finds the */
	FINE_UNTIL = 256, /* storage slow has to finish its window alone */
	AHEAD_MAX = 2048, /* positions that the fetcher looks ahead */
	BYTES_MAX = 256 << 20, /* and bytes: more does not help */
	WARM_ENOUGH = 64,      /* requests that tell whether storage is warm */
	IDLE_NS = 10 * 1000 * 1000,
	LEAST_GUESS = 16 << 10, /* bytes of a file not seen yet */
	LARGE = 512 << 10,	/* samples that are not worth a second copy */
	ENTRIES = 1024,		/* positions that may be in flight, or more */
	TOO_LARGE = 4,		/* a request takes so much of the bytes */
};

/* WANTED: empty, AWAITED: pending, and a worker sleeps on it. */
enum entry_state { EMPTY, WANTED, PENDING, AWAITED, READY };
enum window_mode { DIRECT = 1, AHEAD = 2 };

struct mr_fetch {
	struct mr_loader *l;
	int mode;
	bool remote; /* files on servers: always read ahead */
	pthread_t thread;
	atomic_bool running;
	bool failed;
	struct mr_reader reader;
	struct mr_ring *ring; /* of the trace, or NULL */

	_Atomic uint64_t *window; /* (number + 1) * 4 + mode, by number % */
	uint64_t windows;
	uint64_t behind; /* positions before the last claim still in work */
	struct mr_fetched *entry; /* by position % entries */
	uint64_t entries;
	int free[MR_READER_MAX], frees; /* requests, by number */
	struct mr_budget budget;
	struct mr_pool pool;

	struct mr_runs runs;
	struct mr_order_cache order;
	uint64_t origin;       /* the first position of all */
	uint64_t at;	       /* next position to think of */
	uint64_t until;	       /* those before, from `at` on, are ours */
	atomic_size_t guess;   /* bytes to ask for when the length is unknown */
	atomic_size_t advised; /* bytes of large samples on their way */
	struct mr_depth depth;

	atomic_uint wake; /* changes when the fetcher should look again */
	atomic_bool asleep, engaged;
	atomic_bool slow;	   /* the storage does not answer at once */
	_Atomic uint64_t promised; /* positions below may be the fetcher's */
	mr_counter starved;	   /* times that a worker waited */

	uint64_t warm, submitted; /* completed at once, of those submitted */
};

/* ---- windows ---- */

/* The number of a position's window, and where the next one begins. */
static uint64_t window_of(const struct mr_fetch *f, uint64_t position,
			  uint64_t *until)
{
	uint64_t p = position - f->origin, size = FINE, first = 0, number = 0;

	if (p >= FINE_UNTIL) {
		size = WINDOW;
		first = FINE_UNTIL;
		number = FINE_UNTIL / FINE;
	}
	*until = position + size - (p - first) % size;
	return number + (p - first) / size;
}

static enum window_mode settle(struct mr_fetch *f, uint64_t number,
			       enum window_mode mode)
{
	_Atomic uint64_t *w = &f->window[number % f->windows];
	uint64_t v = atomic_load(w), mine = (number + 1) * 4 + mode;

	while (v >> 2 < number + 1)
		if (atomic_compare_exchange_weak(w, &v, mine))
			return mode;
	/* All are past that one where a later one has its place. */
	return v >> 2 == number + 1 ? (enum window_mode)(v & 3) : DIRECT;
}

/* Are all samples of a position's window in the cache? Then nothing is to be
 * read for it. */
static bool is_held(const struct mr_fetch *f, struct mr_order_cache *c,
		    uint64_t position, uint64_t until)
{
	const struct mr_loader *l = f->l;
	uint64_t fine = position - f->origin < FINE_UNTIL, index;

	if (!l->cache)
		return false;
	for (uint64_t p = until - (fine ? FINE : WINDOW); p < until; p++)
		if (mr_loader_sample_at(l, c, p, &index) &&
		    !mr_ram_holds(l->cache, index))
			return false;
	return true;
}

static bool is_settled(const struct mr_fetch *f, uint64_t number)
{
	return atomic_load(&f->window[number % f->windows]) >> 2 == number + 1;
}

bool mr_fetch_ahead(struct mr_fetch *f, struct mr_order_cache *c,
		    uint64_t position, uint64_t *until)
{
	uint64_t number = window_of(f, position, until), last;

	if (!atomic_load_explicit(&f->slow, memory_order_relaxed) ||
	    (!is_settled(f, number) && is_held(f, c, position, *until)))
		return settle(f, number, DIRECT) == AHEAD;
	if (settle(f, number, AHEAD) == DIRECT)
		return false;
	/* The fetcher must come to it even if it stops before. */
	last = atomic_load(&f->promised);
	while (position >= last &&
	       !atomic_compare_exchange_weak(&f->promised, &last, position + 1))
		;
	return true;
}

/* ---- files of unknown length ---- */

/* The first file stands for those not seen yet. */
static void first_guess(struct mr_fetch *f, const char *path)
{
	struct stat st;
	size_t n = LEAST_GUESS;

	if (!stat(path, &st) && (size_t)st.st_size > n)
		n = (size_t)st.st_size + (size_t)st.st_size / 4;
	atomic_store(&f->guess, n);
}

/*
 * A file had n bytes. Small guesses cover the largest file, since memory for
 * them is cheap; beyond LARGE about one file in 40 may be longer, so that a
 * few huge ones do not make all others dear.
 */
static void learn_length(struct mr_fetch *f, size_t n)
{
	size_t guess = atomic_load(&f->guess), now = guess;

	if (n + n / 8 > guess && n <= LARGE)
		now = n + n / 4;
	else if (n > guess)
		now = n + n / 8 < guess * 3 / 2 ? n + n / 8 : guess * 3 / 2;
	else if (guess > LARGE)
		now = guess - guess / 100;
	if (now < guess && now < n + n / 8)
		now = n + n / 8;
	if (now != guess)
		atomic_store(&f->guess, now);
}

/* ---- the workers' side ---- */

static void wake_fetcher(struct mr_fetch *f)
{
	atomic_fetch_add(&f->wake, 1);
	if (atomic_load(&f->asleep))
		mr_futex_wake(&f->wake, 1);
}

struct mr_fetched *mr_fetch_get(struct mr_fetch *f, uint64_t position,
				uint64_t *waited, long *sleeps)
{
	struct mr_fetched *e = &f->entry[position % f->entries];
	struct mr_clock *clock = &f->l->clock;
	unsigned s = atomic_load_explicit(&e->state, memory_order_acquire);
	uint64_t t0;

	if (s == READY)
		return e;
	t0 = mr_clock_tick(clock);
	mr_count(&f->starved, 1);
	while ((s = atomic_load(&e->state)) != READY) {
		unsigned asleep = s <= WANTED ? WANTED : AWAITED;

		if (atomic_load(&f->l->stop))
			break;
		if (s != asleep &&
		    !atomic_compare_exchange_strong(&e->state, &s, asleep))
			continue;
		++*sleeps;
		if (asleep == WANTED) /* not even asked for yet */
			wake_fetcher(f);
		mr_futex_wait(&e->state, asleep, IDLE_NS);
	}
	*waited += mr_clock_tick(clock) - t0;
	return s == READY ? e : NULL;
}

void mr_fetch_done(struct mr_fetch *f, struct mr_fetched *got, size_t bytes)
{
	if (got->retry && got->to_end)
		learn_length(f, bytes);
	mr_buf_unref(got->buf);
	got->buf = NULL;
	atomic_fetch_sub(&f->advised, got->advised);
	got->advised = 0;
	atomic_store(&got->state, EMPTY);
	wake_fetcher(f);
}

/* ---- completion ---- */

static void publish(struct mr_fetched *e)
{
	unsigned before = atomic_exchange(&e->state, READY);

	if (before == WANTED || before == AWAITED)
		mr_futex_wake(&e->state, INT_MAX);
}

/* Asked for; who slept on it still does. */
static void set_pending(struct mr_fetched *e)
{
	unsigned s = EMPTY;

	if (!atomic_compare_exchange_strong(&e->state, &s, PENDING))
		atomic_store(&e->state, AWAITED);
}

/* The worker reads by itself, or finds the error. */
static void leave_to_worker(struct mr_fetched *e)
{
	e->error = 0;
	e->retry = true;
	e->buf = NULL;
	e->length = 0;
	publish(e);
}

/* A sample of a run that has been read. */
static void give(struct mr_run_read *run, const struct mr_run_waiter *w)
{
	struct mr_fetched *e = w->entry;

	if (run->state == MR_RUN_FAILED) {
		leave_to_worker(e);
		return;
	}
	mr_buf_ref(run->buf);
	e->error = 0;
	e->retry = false;
	e->buf = run->buf;
	e->data = (uint8_t *)run->buf->data + (w->offset - run->at.offset);
	e->length = w->length;
	publish(e);
}

/* What could not be read as a whole, the workers read one by one. */
static void complete_run(struct mr_fetch *f, struct mr_request *q)
{
	struct mr_run_read *run = q->run;
	unsigned n = run->waiters;
	bool whole = q->result >= 0 && (uint64_t)q->result == run->at.length;

	run->state = whole ? MR_RUN_DONE : MR_RUN_FAILED;
	run->waiters = 0;
	for (unsigned i = 0; i < n; i++)
		give(run, &run->waiter[i]);
	if (!run->left)
		mr_runs_drop(&f->runs, run);
}

static void record(struct mr_fetch *f, const struct mr_request *q, size_t bytes)
{
	const struct mr_loader *l = f->l;

	if (f->ring)
		mr_ring_put(f->ring,
			    &(struct mr_span){
				    .start = q->sent,
				    .end = mr_clock_tick(&l->clock),
				    .sample = q->index,
				    .batch = q->position / l->rows,
				    .bytes = mr_span_bytes(bytes),
				    .kind = (uint8_t)(MR_SPAN_FETCH |
						      (q->result < 0 ?
							       MR_SPAN_FAILED :
							       0)) });
}

static void complete(void *data, struct mr_request *q)
{
	struct mr_fetch *f = data;
	struct mr_fetched *e = q->entry;
	bool to_end = q->at.length == MR_TO_END;
	size_t got = q->result > 0 ? (size_t)q->result : 0;

	f->free[f->frees++] = (int)(q - f->reader.request);
	f->depth.completions++;
	record(f, q, got);
	if (q->run) {
		complete_run(f, q);
		return;
	}
	if (q->advise) {
		leave_to_worker(e);
		return;
	}
	e->error = q->result < 0 ? -q->result : 0;
	e->length = got;
	e->buf = q->buf;
	e->data = q->buf->data;
	/* A file that fills the buffer may go on, too; a short read of a known
	 * length has a reason that the worker will find out. */
	e->retry = !e->error &&
		   (to_end ? q->goes_on || got == q->want : got < q->want);
	if (e->error && q->at.input) /* an errno does not tell enough */
		e->retry = true;
	if (to_end && !e->retry)
		learn_length(f, got);
	else if (to_end && q->want * 2 > atomic_load(&f->guess))
		atomic_store(&f->guess, q->want * 2); /* at least */
	publish(e);
}

/* ---- the fetcher ---- */

/*
 * Is the window at f->at ours? Else goes on to the next. Those that workers
 * have claimed and not come to are left to them when the storage answers at
 * once. None is passed without being settled: a worker must not wait for one
 * behind us.
 */
static bool take_window(struct mr_fetch *f, uint64_t claimed)
{
	enum window_mode mode =
		f->at >= claimed || atomic_load(&f->slow) ? AHEAD : DIRECT;
	uint64_t until, number = window_of(f, f->at, &until);

	if (mode == AHEAD && is_held(f, &f->order, f->at, until))
		mode = DIRECT;
	if (settle(f, number, mode) == AHEAD)
		f->until = until;
	else
		f->at = until;
	return f->at < f->until;
}

/* The next position that is ours and has a free entry. */
static bool next_position(struct mr_fetch *f, uint64_t *position,
			  uint64_t *index)
{
	struct mr_loader *l = f->l;
	uint64_t claimed = atomic_load(&l->next);
	uint64_t end = l->end == UINT64_MAX ? UINT64_MAX : l->end * l->rows;

	for (;;) {
		bool inside = f->at < f->until;

		if (!inside && f->at + f->behind < claimed)
			f->at = claimed - f->behind; /* all before is settled */
		if (f->at >= end)
			return false;
		if (!inside && f->at > claimed + AHEAD_MAX)
			return false;
		if (!inside && !take_window(f, claimed))
			continue;
		if (atomic_load(&f->entry[f->at % f->entries].state) > WANTED)
			return false;
		if (mr_loader_sample_at(l, &f->order, f->at, index)) {
			*position = f->at;
			return true;
		}
		f->at++;
	}
}

/* Memory for the bytes of a request; none is needed for a large one, which
 * only counts. MR_ELIMIT: no room now. */
static int make_room(struct mr_fetch *f, struct mr_request *q,
		     struct mr_err *err)
{
	size_t ahead = atomic_load(&f->advised);

	/* A shaper must know how much was read, and so must a server. */
	q->advise = q->want > f->budget.max / TOO_LARGE ||
		    (q->want > LARGE && !f->l->shape && !q->at.input);
	q->buf = NULL;
	if (q->at.input && (q->advise || !f->remote))
		return MR_EUNSUPPORTED; /* left to the worker */
	if (!q->advise)
		return mr_pool_get(&f->pool, q->want, &q->buf, err);
	if (ahead > 0 && ahead + q->want > BYTES_MAX)
		return MR_ELIMIT;
	atomic_fetch_add(&f->advised, q->want);
	q->entry->advised = q->want;
	return 0;
}

/* Bytes to ask for, of a file whose length is not known. A large one is only
 * advised on, for which a guess is good enough; but not under a shaper, which
 * has attributes for nothing: there it is one byte more than there are. */
static size_t unknown_length(struct mr_fetch *f, const char *path)
{
	struct stat st;

	if (!atomic_load(&f->guess))
		first_guess(f, path);
	if (f->l->shape && !stat(path, &st) && st.st_size > LARGE)
		return (size_t)st.st_size + 1;
	return atomic_load(&f->guess);
}

/* Where the sample lies, and room for it. */
static int prepare(struct mr_fetch *f, struct mr_request *q, uint64_t index)
{
	struct mr_err err;
	int e;

	q->at = (struct mr_extent){ 0 };
	e = mr_part_locate(&f->l->plan, index, q->path, sizeof(q->path), &q->at,
			   &err);
	if (e)
		return e == MR_ELIMIT ? MR_EIO : e;
	if (q->at.fd < 0 && q->at.path != q->path)
		snprintf(q->path, sizeof(q->path), "%s", q->at.path);
	q->entry->to_end = q->at.length == MR_TO_END;
	q->want = q->entry->to_end ? unknown_length(f, q->path) : q->at.length;
	return make_room(f, q, &err);
}

static void submit(struct mr_fetch *f, struct mr_request *q, uint64_t position,
		   uint64_t index)
{
	f->frees--;
	f->submitted++;
	q->sent = mr_record_now(f->l, f->ring);
	q->position = position;
	q->index = index;
	mr_reader_submit(&f->reader, q);
}

enum in_run { ALONE, IN_RUN, NO_ROOM };

/* The next position by the run that its sample belongs to, if it has one: no
 * request at all where that run is there or on its way. */
static enum in_run start_in_run(struct mr_fetch *f, uint64_t position,
				uint64_t index)
{
	struct mr_request *q = &f->reader.request[f->free[f->frees - 1]];
	struct mr_run_waiter w = { .entry = &f->entry[position % f->entries] };
	struct mr_run_read *run;
	struct mr_extent x;
	struct mr_err err;
	bool fresh;

	run = mr_runs_get(&f->runs, position, index, &x, &fresh);
	if (!run)
		return ALONE;
	if (fresh && mr_pool_get(&f->pool, run->at.length, &run->buf, &err)) {
		mr_runs_drop(&f->runs, run);
		return err.code == MR_ELIMIT ? NO_ROOM : ALONE;
	}
	f->at++;
	w.entry->to_end = false;
	w.offset = x.offset;
	w.length = x.length;
	run->left -= run->left > 0;
	if (run->state != MR_RUN_PENDING) {
		give(run, &w);
		if (!run->left)
			mr_runs_drop(&f->runs, run);
		return IN_RUN;
	}
	set_pending(w.entry);
	run->waiter[run->waiters++] = w;
	if (!fresh)
		return IN_RUN;
	q->entry = NULL;
	q->run = run;
	q->at = run->at;
	q->want = run->at.length;
	q->buf = run->buf;
	q->advise = false;
	submit(f, q, position, index);
	return IN_RUN;
}

/*
 * Runs keep their memory until the last of their samples is asked for, which
 * may be this one: when a worker waits for it, it must not wait for memory.
 */
static bool give_up_room(struct mr_fetch *f, uint64_t position)
{
	struct mr_fetched *e = &f->entry[position % f->entries];

	if (f->runs.samples < 2 || atomic_load(&e->state) != WANTED)
		return false;
	f->at++;
	leave_to_worker(e);
	return true;
}

/* Starts one request, or settles that none is needed; false when there is no
 * room now. */
static bool start_at(struct mr_fetch *f, uint64_t position, uint64_t index)
{
	struct mr_request *q;
	int e;

	if (f->runs.samples > 1) {
		enum in_run r = start_in_run(f, position, index);

		if (r != ALONE)
			return r == IN_RUN || give_up_room(f, position);
	}
	q = &f->reader.request[f->free[f->frees - 1]];
	q->entry = &f->entry[position % f->entries];
	q->run = NULL;
	e = prepare(f, q, index);
	if (e == MR_ELIMIT)
		return give_up_room(f, position);
	f->at++;
	/* Whatever is wrong, the worker will meet it, and report it; and
	 * under a shaper what has no room is his to wait for. */
	if (e || (q->advise && f->l->shape)) {
		leave_to_worker(q->entry);
		return true;
	}
	set_pending(q->entry);
	submit(f, q, position, index);
	return true;
}

/* A sample that is in the cache is not read. One that may be there soon, since
 * an earlier position has it, is waited for: workers come to that one first. */
static bool start_or_skip(struct mr_fetch *f, uint64_t position, uint64_t index)
{
	struct mr_fetched *e = &f->entry[position % f->entries];
	struct mr_ram *cache = f->l->cache;
	bool started;

	switch (mr_ram_ask(cache, index)) {
	case MR_RAM_LATER:
		return false;
	case MR_RAM_SKIP:
		f->at++;
		e->to_end = false;
		leave_to_worker(e);
		return true;
	case MR_RAM_READ:
		break;
	}
	started = start_at(f, position, index);
	if (!started)
		mr_ram_unask(cache, index);
	return started;
}

/* The next position; false when there is none, or no room now. */
static bool start_one(struct mr_fetch *f)
{
	uint64_t position, index;

	if (!next_position(f, &position, &index))
		return false;
	return f->l->cache ? start_or_skip(f, position, index) :
			     start_at(f, position, index);
}

/* Were all of the last requests answered from the page cache? Then workers
 * read as well; or alone, if that is left to us. */
static void judge_storage(struct mr_fetch *f)
{
	bool warm;

	if (f->submitted < WARM_ENOUGH)
		return;
	warm = !f->l->shape && !f->remote && f->warm * 20 > f->submitted * 19;
	f->submitted = f->warm = 0;
	if (warm && f->mode == MR_FETCH_AUTO)
		atomic_store(&f->engaged, false);
	atomic_store(&f->slow, !warm && atomic_load(&f->engaged));
}

static void rest(struct mr_fetch *f, unsigned seen)
{
	atomic_store(&f->asleep, true);
	mr_futex_wait(&f->wake, seen, IDLE_NS);
	atomic_store(&f->asleep, false);
}

static void *fetch_main(void *arg)
{
	struct mr_fetch *f = arg;

	mr_record_thread(f->l, f->ring, "fetch", 0);
	while (!atomic_load(&f->l->stop)) {
		unsigned seen = atomic_load(&f->wake);
		/* A window that was begun is finished in any case: workers
		 * rely on it. */
		bool go = f->at < f->until || atomic_load(&f->engaged) ||
			  f->at < atomic_load(&f->promised);

		while (go && f->reader.in_flight < atomic_load(&f->depth.now) &&
		       start_one(f))
			;
		mr_runs_expire(&f->runs, f->at);
		mr_depth_filled(&f->depth, f->reader.in_flight);
		if (f->reader.in_flight == 0)
			rest(f, seen);
		else
			f->warm += mr_reader_wait(&f->reader);
		mr_depth_adapt(&f->depth, mr_clock_ns(), f->reader.in_flight,
			       mr_reader_most(&f->reader),
			       mr_counted(&f->starved));
		judge_storage(f);
	}
	while (f->reader.in_flight)
		mr_reader_wait(&f->reader);
	return NULL;
}

/* Once only, by whoever pokes first. */
static void start_thread(struct mr_fetch *f)
{
	struct mr_err err;

	f->failed = mr_reader_init(&f->reader, complete, f, f->remote,
				   &f->l->stop, &err) != 0;
	f->reader.shape = f->l->shape;
	if (!f->failed &&
	    mr_thread_start(&f->thread, "mr-fetch", fetch_main, f))
		f->failed = true;
	f->running = !f->failed;
}

void mr_fetch_poke(struct mr_fetch *f, size_t length)
{
	size_t none = 0;

	if (f->mode != MR_FETCH_AUTO || atomic_load(&f->engaged))
		return;
	pthread_mutex_lock(&f->l->lock);
	if (!f->running && !f->failed)
		start_thread(f);
	pthread_mutex_unlock(&f->l->lock);
	if (!f->failed) {
		atomic_compare_exchange_strong(&f->guess, &none, length);
		atomic_store(&f->engaged, true);
		atomic_store(&f->slow, true);
		wake_fetcher(f);
	}
}

/* ---- life ---- */

/* By its first sample: a data set has all its files in one kind of place. */
static bool remote(const struct mr_source *s, const void *self)
{
	struct mr_extent x = { 0 };
	struct mr_err err;
	char path[4096];

	return !s->locate(self, 0, path, sizeof(path), &x, &err) && x.input;
}

bool mr_fetch_remote(const struct mr_loader *l)
{
	const struct mr_plan *p = &l->plan;

	return (p->samples && remote(p->source, p->source_self)) ||
	       (p->part.samples && remote(p->part.source, p->part.self));
}

static int fetch_alloc(struct mr_fetch *f, struct mr_err *err)
{
	const struct mr_loader *l = f->l;
	/* All positions in work lie within the ring, the claims that wait for
	 * it, and what is ahead. */
	uint64_t claim = l->max_chunk > l->rows ? l->max_chunk : l->rows, span;

	f->behind = l->ring * l->rows + (uint64_t)l->threads * claim;
	span = f->behind + 2 * AHEAD_MAX;
	/* Workers are never further apart than the ring is long: each has an
	 * entry of its own. */
	f->entries = ENTRIES;
	while (f->entries < l->ring * l->rows)
		f->entries *= 2;
	f->entry = mr_alloc(f->entries, sizeof(*f->entry), err);
	f->windows = 16;
	while (f->windows * FINE < 2 * FINE_UNTIL ||
	       f->windows * WINDOW < 2 * span)
		f->windows *= 2;
	f->window = mr_alloc(f->windows, sizeof(*f->window), err);
	for (int i = 0; i < MR_READER_MAX; i++)
		f->free[f->frees++] = i;
	return f->window && f->entry ? 0 : MR_ENOMEM;
}

size_t mr_fetch_bytes(size_t memory)
{
	return memory / 4 < BYTES_MAX ? memory / 4 : BYTES_MAX;
}

double mr_fetch_depth(const struct mr_fetch_load *l)
{
	double room = (double)mr_fetch_bytes(l->memory), depth, ahead;

	if (l->requests >= 1 && l->bytes > room / TOO_LARGE)
		return 0;
	depth = room * l->requests / l->bytes;
	ahead = l->ring < ENTRIES ? ENTRIES : (double)l->ring;
	if (ahead > AHEAD_MAX)
		ahead = AHEAD_MAX;
	/* The first samples of a group ask for all of its runs. */
	ahead = (ahead + (double)l->span / 2) * l->requests;
	if (depth > ahead)
		depth = ahead;
	return depth > MR_READER_MAX ? MR_READER_MAX : depth > 1 ? depth : 1;
}

int mr_fetch_new(struct mr_fetch **out, struct mr_loader *l, int mode,
		 struct mr_err *err)
{
	struct mr_fetch *f = mr_alloc_aligned(sizeof(*f), err);
	int e;

	*out = NULL;
	if (!f)
		return MR_ENOMEM;
	f->l = l;
	atomic_init(&f->guess, l->file_guess);
	f->mode = mode;
	f->remote = mr_fetch_remote(l);
	f->at = f->origin = atomic_load(&l->next);
	mr_depth_init(&f->depth, mr_clock_ns());
	mr_budget_init(&f->budget, mr_fetch_bytes(l->budget.max), false);
	mr_pool_init(&f->pool, &f->budget, MR_READER_MAX);
	mr_runs_init(&f->runs, l, f->budget.max);
	e = fetch_alloc(f, err);
	if (!e)
		e = mr_record_ring(l, &f->ring, err);
	if (!e && (mode == MR_FETCH_AHEAD || f->remote)) {
		/* Before a worker comes and takes it. */
		atomic_store(&f->slow, true);
		take_window(f, f->at);
		start_thread(f);
		atomic_store(&f->engaged, !f->failed);
		atomic_store(&f->slow, !f->failed);
		if (f->failed && mode == MR_FETCH_AHEAD)
			e = mr_err_set(err, MR_ESTATE,
				       "cannot start the fetch threads: %s",
				       strerror(errno));
	}
	if (e) {
		mr_fetch_free(f);
		return e;
	}
	*out = f;
	return 0;
}

void mr_fetch_free(struct mr_fetch *f)
{
	if (!f)
		return;
	if (f->running) {
		mr_reader_hurry(&f->reader);
		wake_fetcher(f);
		pthread_join(f->thread, NULL);
	}
	f->l->file_guess = atomic_load(&f->guess);
	mr_reader_fini(&f->reader);
	mr_runs_fini(&f->runs);
	for (uint64_t i = 0; f->entry && i < f->entries; i++)
		mr_buf_unref(f->entry[i].buf);
	free(f->entry);
	mr_pool_fini(&f->pool);
	free(f->window);
	free(f);
}

const char *mr_fetch_way(const struct mr_fetch *f, int *depth)
{
	*depth = f && f->running ? (int)atomic_load(&f->depth.now) : 0;
	if (!f || !f->running)
		return "direct";
	return f->reader.has_ring ? "io_uring" : "threads";
}
