/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/fetch.h"

#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>

#include "core/futex.h"
#include "core/mem.h"
#include "core/queue.h"

enum {
	AHEAD_MAX = 2048,      /* positions that the fetcher looks ahead */
	BYTES_MAX = 256 << 20, /* and bytes: more does not help */
	OPS = 256,	       /* requests in flight at most */
	THREADS = 64,	       /* of the fallback */
	PATH = 4096,
	FIRST_DEPTH = 16,
	WARM_ENOUGH = 64, /* requests that tell whether storage is warm */
	IDLE_NS = 10 * 1000 * 1000,
	FIRST_GUESS = 128 << 10, /* bytes of a file not seen yet */
	LARGE = 512 << 10,	 /* samples that are not worth a second copy */
};

/* WANTED: empty, AWAITED: pending, and a worker sleeps on it. */
enum entry_state { EMPTY, WANTED, PENDING, AWAITED, READY };
enum window_mode { DIRECT = 1, AHEAD = 2 };

/* A request in flight. */
struct op {
	struct mr_fetched *entry;
	struct mr_buf *buf;
	struct mr_extent at;
	size_t want;
	bool advise; /* large: the kernel is told to read it, nothing more */
	int result;  /* bytes or -errno */
	int parts;   /* completions still to come */
	char path[PATH];
};

struct mr_fetch {
	struct mr_loader *l;
	int mode;
	pthread_t thread;
	atomic_bool running;
	bool has_ring, failed;
	struct io_uring ring;
	pthread_t io[THREADS]; /* fallback: threads that block */
	int ios;
	struct mr_queue todo, done;

	_Atomic uint64_t *window; /* (number + 1) * 4 + mode, by number % */
	uint64_t windows;
	struct mr_fetched *entry; /* by position % entries */
	uint64_t entries;
	struct op *op;
	int free_op[OPS], free_ops;
	struct mr_budget budget;
	struct mr_pool pool;

	struct mr_order_cache order;
	uint64_t at;	       /* next position to think of */
	bool inside;	       /* its window is ours */
	size_t guess;	       /* bytes to ask for when the length is unknown */
	atomic_size_t advised; /* bytes of large samples on their way */
	unsigned in_flight;
	atomic_uint depth;

	atomic_uint wake; /* changes when the fetcher should look again */
	atomic_bool asleep, engaged;
	mr_counter starved; /* times that a worker waited */

	/* adapting the depth */
	uint64_t since_ns, completions, seen_starved;
	double best_rate;
	unsigned best_depth, hold;
	uint64_t warm, submitted; /* completed at once, of those submitted */
};

/* ---- windows ---- */

static enum window_mode settle(struct mr_fetch *f, uint64_t number,
			       enum window_mode mode)
{
	_Atomic uint64_t *w = &f->window[number % f->windows];
	uint64_t v = atomic_load(w), mine = (number + 1) * 4 + mode;

	while (v >> 2 != number + 1)
		if (atomic_compare_exchange_weak(w, &v, mine))
			return mode;
	return (enum window_mode)(v & 3);
}

bool mr_fetch_ahead(struct mr_fetch *f, uint64_t position)
{
	return settle(f, position / MR_FETCH_WINDOW, DIRECT) == AHEAD;
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

void mr_fetch_done(struct mr_fetch *f, struct mr_fetched *got)
{
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

static void finish(struct mr_fetch *f, struct op *op)
{
	f->free_op[f->free_ops++] = (int)(op - f->op);
	f->in_flight--;
	f->completions++;
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

static void complete(struct mr_fetch *f, struct op *op)
{
	struct mr_fetched *e = op->entry;
	bool to_end = op->at.length == MR_TO_END;
	size_t got = op->result > 0 ? (size_t)op->result : 0;

	if (op->advise) {
		finish(f, op);
		leave_to_worker(e);
		return;
	}
	e->error = op->result < 0 ? -op->result : 0;
	e->length = got;
	e->buf = op->buf;
	/* A file that fills the buffer may go on; a short read of a known
	 * length has a reason that the worker will find out. */
	e->retry = !e->error && (to_end ? got == op->want : got < op->want);
	if (to_end && e->retry)
		f->guess = op->want * 2;
	else if (to_end && got + got / 8 > f->guess)
		f->guess = got + got / 4;
	finish(f, op);
	publish(e);
}

/* ---- io_uring ---- */

enum part { OPEN, READ, CLOSE };

/* Opening into a slot of the ring's own table came with Linux 5.15; try it
 * on a file that is always there. */
static bool ring_works(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	int e;

	io_uring_prep_openat_direct(sqe, AT_FDCWD, "/dev/null", O_RDONLY, 0, 0);
	if (io_uring_submit_and_wait(ring, 1) < 0 ||
	    io_uring_peek_cqe(ring, &cqe))
		return false;
	e = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	if (e < 0)
		return false;
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_close_direct(sqe, 0);
	if (io_uring_submit_and_wait(ring, 1) < 0 ||
	    io_uring_peek_cqe(ring, &cqe))
		return false;
	e = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return e >= 0;
}

static bool ring_open(struct mr_fetch *f)
{
	int table[OPS];

	if (getenv("MILLRACE_NO_URING"))
		return false;
	if (io_uring_queue_init(4 * OPS, &f->ring, 0) < 0)
		return false;
	for (int i = 0; i < OPS; i++)
		table[i] = -1;
	if (io_uring_register_files(&f->ring, table, OPS) < 0 ||
	    !ring_works(&f->ring)) {
		io_uring_queue_exit(&f->ring);
		return false;
	}
	return true;
}

static void tag(struct mr_fetch *f, struct io_uring_sqe *sqe, struct op *op,
		enum part part)
{
	op->parts++;
	io_uring_sqe_set_data64(sqe,
				(uint64_t)(op - f->op) << 2 | (uint64_t)part);
}

/* The read, or what stands for it. */
static void prep_bytes(struct io_uring_sqe *sqe, const struct op *op, int fd)
{
	if (op->advise)
		io_uring_prep_fadvise(sqe, fd, op->at.offset, (off_t)op->want,
				      POSIX_FADV_WILLNEED);
	else
		io_uring_prep_read(sqe, fd, op->buf->data, (unsigned)op->want,
				   op->at.offset);
}

/* The queue holds four parts for each request: never full. */
static void ring_submit(struct mr_fetch *f, struct op *op)
{
	unsigned slot = (unsigned)(op - f->op);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&f->ring);

	op->parts = 0;
	op->result = 0;
	if (op->at.fd >= 0) {
		prep_bytes(sqe, op, op->at.fd);
		tag(f, sqe, op, READ);
		return;
	}
	/* Three linked parts; "hard" so that a short read still closes. */
	io_uring_prep_openat_direct(sqe, AT_FDCWD, op->path,
				    O_RDONLY | O_NONBLOCK, 0, slot);
	sqe->flags |= IOSQE_IO_HARDLINK;
	tag(f, sqe, op, OPEN);
	sqe = io_uring_get_sqe(&f->ring);
	prep_bytes(sqe, op, (int)slot);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
	tag(f, sqe, op, READ);
	sqe = io_uring_get_sqe(&f->ring);
	io_uring_prep_close_direct(sqe, slot);
	tag(f, sqe, op, CLOSE);
}

static int ring_reap(struct mr_fetch *f)
{
	struct io_uring_cqe *cqe;
	int n = 0;

	while (io_uring_peek_cqe(&f->ring, &cqe) == 0) {
		struct op *op = &f->op[cqe->user_data >> 2];
		enum part part = (enum part)(cqe->user_data & 3);

		/* The first failure is the reason; closing does not matter. */
		if (part != CLOSE && op->result >= 0 &&
		    (part == READ || cqe->res < 0))
			op->result = cqe->res;
		io_uring_cqe_seen(&f->ring, cqe);
		if (--op->parts == 0) {
			complete(f, op);
			n++;
		}
	}
	return n;
}

static void ring_wait(struct mr_fetch *f)
{
	struct __kernel_timespec t = { 0, IDLE_NS };
	struct io_uring_cqe *cqe;

	io_uring_submit(&f->ring);
	f->warm += (uint64_t)ring_reap(f);
	if (f->in_flight == 0)
		return;
	io_uring_wait_cqe_timeout(&f->ring, &cqe, &t);
	ring_reap(f);
}

/* ---- threads that block, where io_uring is not allowed ---- */

static int read_blocking(const struct op *op)
{
	int fd = op->at.fd, e = 0;
	size_t n = 0;

	if (fd < 0)
		fd = open(op->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (op->advise)
		posix_fadvise(fd, (off_t)op->at.offset, (off_t)op->want,
			      POSIX_FADV_WILLNEED);
	while (n < op->want && !e && !op->advise) {
		ssize_t k = pread(fd, (char *)op->buf->data + n, op->want - n,
				  (off_t)(op->at.offset + n));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			e = errno;
		if (k <= 0)
			break;
		n += (size_t)k;
	}
	if (op->at.fd < 0)
		close(fd);
	return e ? -e : (int)n;
}

static void *io_main(void *arg)
{
	struct mr_fetch *f = arg;
	uint64_t i;

	while (mr_queue_get(&f->todo, &i)) {
		f->op[i].result = read_blocking(&f->op[i]);
		mr_queue_put(&f->done, i);
	}
	return NULL;
}

static bool threads_open(struct mr_fetch *f, struct mr_err *err)
{
	if (mr_queue_init(&f->todo, OPS, err) ||
	    mr_queue_init(&f->done, OPS, err))
		return false;
	while (f->ios < THREADS &&
	       mr_thread_start(&f->io[f->ios], "mr-read", io_main, f) == 0)
		f->ios++;
	return f->ios > 0;
}

static void threads_close(struct mr_fetch *f)
{
	if (f->todo.item)
		mr_queue_close(&f->todo);
	for (int i = 0; i < f->ios; i++)
		pthread_join(f->io[i], NULL);
	mr_queue_fini(&f->todo);
	mr_queue_fini(&f->done);
	f->ios = 0;
}

static void threads_wait(struct mr_fetch *f)
{
	uint64_t i;

	if (f->in_flight && mr_queue_get(&f->done, &i))
		complete(f, &f->op[i]);
}

/* ---- the fetcher ---- */

/* The next position that is ours and has a free entry. */
static bool next_position(struct mr_fetch *f, uint64_t *position,
			  uint64_t *index)
{
	struct mr_loader *l = f->l;
	uint64_t claimed = atomic_load(&l->next);
	uint64_t end = l->end == UINT64_MAX ? UINT64_MAX : l->end * l->rows;

	for (;;) {
		/* Overtaken: begin again ahead of the workers. */
		if (!f->inside && f->at < claimed)
			f->at = mr_round_up(claimed, MR_FETCH_WINDOW);
		if (f->at >= end)
			return false;
		if (!f->inside && f->at > claimed + AHEAD_MAX)
			return false;
		if (!f->inside &&
		    settle(f, f->at / MR_FETCH_WINDOW, AHEAD) != AHEAD) {
			f->at += MR_FETCH_WINDOW;
			continue;
		}
		f->inside = true;
		if (atomic_load(&f->entry[f->at % f->entries].state) > WANTED)
			return false;
		if (mr_loader_sample_at(l, &f->order, f->at, index)) {
			*position = f->at;
			return true;
		}
		if (++f->at % MR_FETCH_WINDOW == 0)
			f->inside = false;
	}
}

static void taken(struct mr_fetch *f)
{
	if (++f->at % MR_FETCH_WINDOW == 0)
		f->inside = false;
}

/* Memory for the bytes of a request; none is needed for a large one, which
 * only counts. MR_ELIMIT: no room now. */
static int make_room(struct mr_fetch *f, struct op *op, struct mr_err *err)
{
	size_t ahead = atomic_load(&f->advised);

	op->advise = op->want > LARGE || op->want > f->budget.max / 4;
	op->buf = NULL;
	if (!op->advise)
		return mr_pool_get(&f->pool, op->want, &op->buf, err);
	if (ahead > 0 && ahead + op->want > BYTES_MAX)
		return MR_ELIMIT;
	atomic_fetch_add(&f->advised, op->want);
	op->entry->advised = op->want;
	return 0;
}

/* Where the sample lies, and room for it. */
static int prepare(struct mr_fetch *f, struct op *op, uint64_t index)
{
	const struct mr_plan *plan = &f->l->plan;
	struct mr_err err;
	int e = plan->source->locate(plan->source_self, index, op->path,
				     sizeof(op->path), &op->at, &err);

	if (e)
		return e == MR_ELIMIT ? MR_EIO : e;
	if (op->at.fd < 0 && op->at.path != op->path)
		snprintf(op->path, sizeof(op->path), "%s", op->at.path);
	op->want = op->at.length == MR_TO_END ? f->guess : op->at.length;
	return make_room(f, op, &err);
}

/* Starts one request; false when there is no position or no room now. */
static bool start_one(struct mr_fetch *f)
{
	struct op *op;
	uint64_t position, index;
	int e;

	if (!next_position(f, &position, &index))
		return false;
	op = &f->op[f->free_op[f->free_ops - 1]];
	op->entry = &f->entry[position % f->entries];
	e = prepare(f, op, index);
	if (e == MR_ELIMIT)
		return false;
	taken(f);
	if (e) { /* whatever it is, the worker will meet it, and report it */
		leave_to_worker(op->entry);
		return true;
	}
	f->free_ops--;
	f->in_flight++;
	f->submitted++;
	set_pending(op->entry);
	if (f->has_ring)
		ring_submit(f, op);
	else
		mr_queue_put(&f->todo, (uint64_t)(op - f->op));
	return true;
}

/*
 * More in flight as long as that gives more samples per second and the
 * workers want them; else back to the depth that was best. Tried again now
 * and then, since storage changes.
 */
static void adapt(struct mr_fetch *f)
{
	unsigned depth = atomic_load(&f->depth),
		 most = f->has_ring ? OPS : (unsigned)f->ios;
	uint64_t now = mr_clock_ns(), starved = mr_counted(&f->starved);
	double rate;

	if (f->completions < 2 * depth || now - f->since_ns < 20000000)
		return;
	rate = (double)f->completions / (double)(now - f->since_ns);
	if (starved > f->seen_starved) {
		if (f->hold > 0) {
			f->hold--;
		} else if (rate > f->best_rate * 1.05) {
			f->best_rate = rate;
			f->best_depth = depth;
			depth = depth * 2 < most ? depth * 2 : most;
		} else {
			depth = f->best_depth;
			f->best_rate *= 0.9;
			f->hold = 16;
		}
	}
	atomic_store(&f->depth, depth);
	f->seen_starved = starved;
	f->since_ns = now;
	f->completions = 0;
}

/* All of the last requests were answered from the page cache. */
static bool storage_is_warm(struct mr_fetch *f)
{
	bool warm;

	if (f->submitted < WARM_ENOUGH)
		return false;
	warm = f->warm * 20 > f->submitted * 19;
	f->submitted = f->warm = 0;
	return warm;
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

	while (!atomic_load(&f->l->stop)) {
		unsigned seen = atomic_load(&f->wake);
		/* A window that was begun is finished in any case: workers
		 * rely on it. */
		bool go = f->inside || atomic_load(&f->engaged);

		while (go && f->in_flight < atomic_load(&f->depth) &&
		       start_one(f))
			;
		if (f->in_flight == 0)
			rest(f, seen);
		else if (f->has_ring)
			ring_wait(f);
		else
			threads_wait(f);
		adapt(f);
		if (f->mode == MR_FETCH_AUTO && f->has_ring &&
		    storage_is_warm(f))
			atomic_store(&f->engaged, false);
	}
	while (f->in_flight) {
		if (f->has_ring)
			ring_wait(f);
		else
			threads_wait(f);
	}
	return NULL;
}

/* Once only, by whoever pokes first. */
static void start_thread(struct mr_fetch *f)
{
	struct mr_err err;

	f->has_ring = ring_open(f);
	if (!f->has_ring && !threads_open(f, &err))
		f->failed = true;
	f->since_ns = mr_clock_ns();
	if (!f->failed &&
	    mr_thread_start(&f->thread, "mr-fetch", fetch_main, f))
		f->failed = true;
	f->running = !f->failed;
}

void mr_fetch_poke(struct mr_fetch *f)
{
	if (f->mode != MR_FETCH_AUTO || atomic_load(&f->engaged))
		return;
	pthread_mutex_lock(&f->l->lock);
	if (!f->running && !f->failed)
		start_thread(f);
	pthread_mutex_unlock(&f->l->lock);
	if (!f->failed) {
		atomic_store(&f->engaged, true);
		wake_fetcher(f);
	}
}

/* ---- life ---- */

static int fetch_alloc(struct mr_fetch *f, struct mr_err *err)
{
	const struct mr_loader *l = f->l;
	/* All positions in work lie within the ring and what is ahead. */
	uint64_t span = l->ring * l->rows + 2 * AHEAD_MAX +
			(uint64_t)l->threads * l->max_chunk;

	/* Workers are never further apart than the ring is long: each has an
	 * entry of its own. */
	f->entries = 1024;
	while (f->entries < l->ring * l->rows)
		f->entries *= 2;
	f->entry = mr_alloc(f->entries, sizeof(*f->entry), err);
	f->windows = 16;
	while (f->windows * MR_FETCH_WINDOW < 2 * span)
		f->windows *= 2;
	f->window = mr_alloc(f->windows, sizeof(*f->window), err);
	f->op = mr_alloc(OPS, sizeof(*f->op), err);
	if (!f->window || !f->op || !f->entry)
		return MR_ENOMEM;
	for (int i = 0; i < OPS; i++)
		f->free_op[f->free_ops++] = i;
	return 0;
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
	f->mode = mode;
	f->guess = FIRST_GUESS;
	f->at = atomic_load(&l->next) / MR_FETCH_WINDOW * MR_FETCH_WINDOW;
	f->best_depth = FIRST_DEPTH;
	atomic_init(&f->depth, FIRST_DEPTH);
	mr_budget_init(&f->budget,
		       l->budget.max / 4 < BYTES_MAX ? l->budget.max / 4 :
						       BYTES_MAX,
		       false);
	mr_pool_init(&f->pool, &f->budget, OPS);
	e = fetch_alloc(f, err);
	if (!e && mode == MR_FETCH_AHEAD) {
		start_thread(f);
		atomic_store(&f->engaged, true);
		if (f->failed)
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
		wake_fetcher(f);
		pthread_join(f->thread, NULL);
	}
	threads_close(f);
	if (f->has_ring)
		io_uring_queue_exit(&f->ring);
	for (uint64_t i = 0; f->entry && i < f->entries; i++)
		mr_buf_unref(f->entry[i].buf);
	free(f->entry);
	mr_pool_fini(&f->pool);
	free(f->window);
	free(f->op);
	free(f);
}

const char *mr_fetch_way(const struct mr_fetch *f, int *depth)
{
	*depth = f && f->running ? (int)atomic_load(&f->depth) : 0;
	if (!f || !f->running)
		return "direct";
	return f->has_ring ? "io_uring" : "threads";
}
