/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/reader.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/mem.h"
#include "io/input.h"
#include "pipe/runs.h"

enum { WAIT_NS = 10 * 1000 * 1000 };

#define HERE ((uint64_t)-1) /* where the last read of a file ended */

static void finish(struct mr_reader *r, struct mr_request *q)
{
	r->in_flight--;
	r->done(r->data, q);
}

/* ---- holding back what a shaper says is not there yet ---- */

/* Does the page cache have it? Else *bytes becomes what it does not have. */
static bool is_cached(const struct mr_reader *r, const struct mr_request *q,
		      uint64_t *bytes)
{
	*bytes = q->result > 0 ? (uint64_t)q->result : 0;
	if (!q->run || *bytes < q->at.length)
		return mr_shape_cached(r->shape, mr_shape_key(&q->at, q->path),
				       *bytes);
	*bytes = mr_shape_missing(r->shape, &q->at, q->run->piece,
				  q->run->samples);
	return !*bytes;
}

static void finish_or_hold(struct mr_reader *r, struct mr_request *q)
{
	uint64_t n;

	if (r->shape && !is_cached(r, q, &n))
		mr_held_put(&r->held, mr_shape_due(r->shape, q->issued, n),
			    (unsigned)(q - r->request));
	else
		finish(r, q);
}

static void release_held(struct mr_reader *r)
{
	uint64_t now;
	unsigned who;

	if (!r->held.n)
		return;
	now = atomic_load(&r->hurry) ? UINT64_MAX - 1 : mr_clock_ns();
	while (mr_held_take(&r->held, now, &who))
		finish(r, &r->request[who]);
}

/* How long to wait for the kernel: until the next is due, at most. */
static long long wait_ns(const struct mr_reader *r)
{
	uint64_t due = mr_held_next(&r->held), now;

	if (due == UINT64_MAX)
		return WAIT_NS;
	now = mr_clock_ns();
	if (due <= now)
		return 0;
	return due - now < WAIT_NS ? (long long)(due - now) : WAIT_NS;
}

void mr_reader_hurry(struct mr_reader *r)
{
	atomic_store(&r->hurry, true);
}

/* ---- io_uring ---- */

enum part { OPEN, READ, END, CLOSE };

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

static bool ring_open(struct mr_reader *r)
{
	int table[MR_READER_MAX];

	if (getenv("MILLRACE_NO_URING"))
		return false;
	if (io_uring_queue_init(4 * MR_READER_MAX, &r->ring, 0) < 0)
		return false;
	for (int i = 0; i < MR_READER_MAX; i++)
		table[i] = -1;
	if (io_uring_register_files(&r->ring, table, MR_READER_MAX) < 0 ||
	    !ring_works(&r->ring)) {
		io_uring_queue_exit(&r->ring);
		return false;
	}
	return true;
}

static void tag(struct mr_reader *r, struct io_uring_sqe *sqe,
		struct mr_request *q, enum part part)
{
	q->parts++;
	io_uring_sqe_set_data64(sqe, (uint64_t)(q - r->request) << 2 |
					     (uint64_t)part);
}

/* The read, or what stands for it. */
static void prep_bytes(struct io_uring_sqe *sqe, const struct mr_request *q,
		       int fd)
{
	if (q->advise)
		io_uring_prep_fadvise(sqe, fd, q->at.offset, (off_t)q->want,
				      POSIX_FADV_WILLNEED);
	else
		io_uring_prep_read(sqe, fd, q->buf->data, (unsigned)q->want,
				   q->at.offset);
}

/*
 * A read may end before the file does: at a bad sector, or where the file
 * system gives less at a time. One more byte is asked for, from where it
 * ended: that there is none is the proof.
 */
static void prep_end(struct mr_reader *r, struct io_uring_sqe *sqe, int fd)
{
	io_uring_prep_read(sqe, fd, &r->beyond, 1, HERE);
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
}

/* The queue holds four parts for each request: never full. */
static void ring_submit(struct mr_reader *r, struct mr_request *q)
{
	unsigned slot = (unsigned)(q - r->request);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	bool to_end = q->at.length == MR_TO_END && !q->advise;

	q->parts = 0;
	q->result = 0;
	q->goes_on = false;
	if (q->at.fd >= 0) {
		prep_bytes(sqe, q, q->at.fd);
		tag(r, sqe, q, READ);
		return;
	}
	/* Linked parts; "hard" so that a short read still closes. */
	io_uring_prep_openat_direct(sqe, AT_FDCWD, q->path,
				    O_RDONLY | O_NONBLOCK, 0, slot);
	sqe->flags |= IOSQE_IO_HARDLINK;
	tag(r, sqe, q, OPEN);
	sqe = io_uring_get_sqe(&r->ring);
	prep_bytes(sqe, q, (int)slot);
	if (to_end)
		sqe->off = HERE;
	sqe->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
	tag(r, sqe, q, READ);
	if (to_end) {
		sqe = io_uring_get_sqe(&r->ring);
		prep_end(r, sqe, (int)slot);
		tag(r, sqe, q, END);
	}
	sqe = io_uring_get_sqe(&r->ring);
	io_uring_prep_close_direct(sqe, slot);
	tag(r, sqe, q, CLOSE);
}

static unsigned ring_reap(struct mr_reader *r)
{
	struct io_uring_cqe *cqe;
	unsigned n = 0;

	while (io_uring_peek_cqe(&r->ring, &cqe) == 0) {
		struct mr_request *q = &r->request[cqe->user_data >> 2];
		enum part part = (enum part)(cqe->user_data & 3);

		/* The first failure is the reason; closing does not matter. */
		if (part == END)
			q->goes_on = cqe->res != 0;
		else if (part != CLOSE && q->result >= 0 &&
			 (part == READ || cqe->res < 0))
			q->result = cqe->res;
		io_uring_cqe_seen(&r->ring, cqe);
		if (--q->parts == 0) {
			finish_or_hold(r, q);
			n++;
		}
	}
	release_held(r);
	return n;
}

static unsigned ring_wait(struct mr_reader *r)
{
	struct __kernel_timespec t = { 0 };
	struct io_uring_cqe *cqe;
	unsigned at_once;

	io_uring_submit(&r->ring);
	at_once = ring_reap(r);
	if (r->in_flight == 0)
		return at_once;
	t.tv_nsec = wait_ns(r);
	io_uring_wait_cqe_timeout(&r->ring, &cqe, &t);
	ring_reap(r);
	return at_once;
}

/* ---- threads that block, where io_uring is not allowed or of no use ---- */

/* What it was that failed, the worker finds out by itself. */
static int read_remote(const struct mr_reader *r, const struct mr_request *q)
{
	struct mr_patience p = { .stop = r->stop };
	struct mr_err err;

	if (mr_input_read_patiently(q->at.input, q->buf->data, q->want,
				    q->at.offset, &p, &err))
		return -EIO;
	return (int)q->want;
}

static int read_blocking(const struct mr_request *q)
{
	int fd = q->at.fd, e = 0;
	size_t n = 0;

	if (fd < 0)
		fd = open(q->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (q->advise)
		posix_fadvise(fd, (off_t)q->at.offset, (off_t)q->want,
			      POSIX_FADV_WILLNEED);
	while (n < q->want && !e && !q->advise) {
		ssize_t k = pread(fd, (char *)q->buf->data + n, q->want - n,
				  (off_t)(q->at.offset + n));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			e = errno;
		if (k <= 0)
			break;
		n += (size_t)k;
	}
	if (q->at.fd < 0)
		close(fd);
	return e ? -e : (int)n;
}

static void *io_main(void *arg)
{
	struct mr_reader *r = arg;
	uint64_t i;

	while (mr_queue_get(&r->todo, &i)) {
		struct mr_request *q = &r->request[i];
		uint64_t late = 0, n;

		q->result = q->at.input ? read_remote(r, q) : read_blocking(q);
		if (r->shape && !is_cached(r, q, &n))
			mr_shape_wait(r->shape, q->issued, n, &late, &r->hurry);
		mr_queue_put(&r->finished, i);
	}
	return NULL;
}

/* One more, when all are at work. */
static void add_thread(struct mr_reader *r)
{
	if (r->no_more || r->threads == MR_READER_THREADS ||
	    r->in_flight <= (unsigned)r->threads)
		return;
	r->no_more =
		mr_thread_start(&r->thread[r->threads], "mr-read", io_main, r);
	r->threads += !r->no_more;
}

static int threads_open(struct mr_reader *r, struct mr_err *err)
{
	int e = mr_queue_init(&r->todo, MR_READER_MAX, err);

	if (!e)
		e = mr_queue_init(&r->finished, MR_READER_MAX, err);
	if (!e && !mr_thread_start(&r->thread[0], "mr-read", io_main, r))
		r->threads = 1;
	if (r->threads)
		return 0; /* others join it when they are needed */
	return mr_err_set(err, MR_ESTATE, "cannot start a thread that reads");
}

static void threads_close(struct mr_reader *r)
{
	if (r->todo.item)
		mr_queue_close(&r->todo);
	for (int i = 0; i < r->threads; i++)
		pthread_join(r->thread[i], NULL);
	mr_queue_fini(&r->todo);
	mr_queue_fini(&r->finished);
	r->threads = 0;
}

static void threads_wait(struct mr_reader *r)
{
	uint64_t i;

	if (r->in_flight && mr_queue_get(&r->finished, &i))
		finish(r, &r->request[i]);
}

/* ---- either ---- */

int mr_reader_init(struct mr_reader *r,
		   void (*done)(void *data, struct mr_request *r), void *data,
		   bool remote, const atomic_bool *stop, struct mr_err *err)
{
	*r = (struct mr_reader){ .done = done, .data = data, .stop = stop };
	r->request = mr_alloc(MR_READER_MAX, sizeof(*r->request), err);
	if (!r->request)
		return MR_ENOMEM;
	r->has_ring = !remote && ring_open(r);
	return r->has_ring ? 0 : threads_open(r, err);
}

void mr_reader_fini(struct mr_reader *r)
{
	threads_close(r);
	if (r->has_ring)
		io_uring_queue_exit(&r->ring);
	r->has_ring = false;
	free(r->request);
	r->request = NULL;
}

unsigned mr_reader_most(const struct mr_reader *r)
{
	if (r->has_ring)
		return MR_READER_MAX;
	return r->no_more ? (unsigned)r->threads : MR_READER_THREADS;
}

void mr_reader_submit(struct mr_reader *r, struct mr_request *q)
{
	r->in_flight++;
	if (r->shape)
		q->issued = mr_clock_ns();
	if (r->has_ring) {
		ring_submit(r, q);
		return;
	}
	add_thread(r);
	mr_queue_put(&r->todo, (uint64_t)(q - r->request));
}

unsigned mr_reader_wait(struct mr_reader *r)
{
	if (r->has_ring)
		return ring_wait(r);
	threads_wait(r);
	return 0;
}
