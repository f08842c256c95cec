/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reader: many requests for bytes in flight together. By io_uring, with
 * open, read and close linked; where that is not allowed, and for files on
 * servers, by threads that block. One thread at a time may call; done() is
 * called by it, inside mr_reader_wait().
 */
#ifndef MR_PIPE_READER_H
#define MR_PIPE_READER_H

#include <liburing.h>

#include "core/buf.h"
#include "core/queue.h"
#include "pipe/held.h"
#include "pipe/loader.h"

enum { MR_READER_MAX = MR_HELD_MAX, MR_READER_THREADS = 256 };

struct mr_request {
	struct mr_fetched *entry; /* the caller's, one of both */
	struct mr_run_read *run;
	struct mr_buf *buf; /* where the bytes go */
	struct mr_extent at;
	size_t want;
	bool advise;	 /* the kernel is told to read it, nothing more */
	bool goes_on;	 /* to the end of a file: which is not yet there */
	int result;	 /* bytes or -errno */
	int parts;	 /* completions still to come */
	uint64_t issued; /* when, for the shaper */
	uint64_t sent;	 /* ticks, and which sample: for the trace */
	uint64_t index, position;
	char path[4096]; /* opened when at.fd is -1 */
};

struct mr_reader {
	struct mr_request *request; /* MR_READER_MAX */
	unsigned in_flight;
	void (*done)(void *data, struct mr_request *r);
	void *data;
	bool has_ring;
	struct io_uring ring;
	char beyond; /* the ends of files */
	pthread_t thread[MR_READER_THREADS];
	int threads;  /* as many as were needed so far */
	bool no_more; /* the system gives no further one */
	struct mr_queue todo, finished;
	const atomic_bool *stop; /* ends requests to servers when it is set */
	struct mr_shape *shape;	 /* or NULL; set before the first submit */
	struct mr_held held;	 /* done, but by the shaper not yet */
	atomic_bool hurry;	 /* nobody waits for them any more */
};

/* remote: requests may be for files on servers, which only threads can
 * read. On failure there is still something to fini. */
int mr_reader_init(struct mr_reader *r,
		   void (*done)(void *data, struct mr_request *r), void *data,
		   bool remote, const atomic_bool *stop, struct mr_err *err);
/* Nothing may be in flight. Also for one that was only zeroed. */
void mr_reader_fini(struct mr_reader *r);

/* Requests that it makes sense to have in flight. */
unsigned mr_reader_most(const struct mr_reader *r);

void mr_reader_submit(struct mr_reader *r, struct mr_request *q);
/* Waits until some are done, or a little while. Returns how many were done
 * at once, which is what the page cache can do. */
unsigned mr_reader_wait(struct mr_reader *r);
/* What is in flight is no longer needed: nothing is held back from now on.
 * Any thread may call. */
void mr_reader_hurry(struct mr_reader *r);

#endif
