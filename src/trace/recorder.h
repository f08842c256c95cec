/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: a thread that takes the spans out of all threads' rings and
 * writes them to a file. Memory is bounded: a ring that is full loses spans,
 * which are counted and told. When the file cannot be written any more, the
 * recording ends, and what is recorded goes on.
 */
#ifndef MR_TRACE_RECORDER_H
#define MR_TRACE_RECORDER_H

#include "core/clock.h"
#include "trace/mrt.h"

struct mr_recorder;

/* Makes the file and starts the thread. `threads` is how many will come,
 * which share the memory for rings; the clock must outlive the recorder. */
int mr_recorder_new(struct mr_recorder **r, const char *path,
		    const struct mr_mrt_header *header,
		    const struct mr_clock *clock, int threads,
		    struct mr_err *err);

/* A ring for a thread, as long as the recorder lives; NULL and *err when
 * there is no memory. */
struct mr_ring *mr_recorder_ring(struct mr_recorder *r, struct mr_err *err);
/* The calling thread is the one of that ring. */
void mr_recorder_thread(struct mr_recorder *r, const struct mr_ring *g,
			const char *role, const char *name);

/* A chunk as it is, by any thread. False when it could not be written, which
 * ends the recording. */
bool mr_recorder_chunk(struct mr_recorder *r, const char *kind, uint32_t thread,
		       const void *data, size_t size);
/*
 * Something else that the recorder's thread looks at, every so many ns and a
 * last time when it is closed: look() may write chunks. It must outlive the
 * recorder.
 */
struct mr_tap {
	void (*look)(struct mr_tap *t, bool last);
	void *self;
	uint64_t every;
	/* the recorder's */
	uint64_t due;
	struct mr_tap *next;
};

void mr_recorder_tap(struct mr_recorder *r, struct mr_tap *t);

/* The name of a step. */
void mr_recorder_name(struct mr_recorder *r, uint8_t step, const char *name);

/* The name of a sample, as snprintf() into buf. */
typedef size_t (*mr_key_fn)(const void *self, uint64_t sample, char *buf,
			    size_t cap);

/* Writes what is left, with the names of the slowest samples by key() (or
 * NULL), and closes; NULL is allowed. No thread may use a ring any more. */
void mr_recorder_close(struct mr_recorder *r, mr_key_fn key, const void *self,
		       struct mr_recorded *out);

#endif
