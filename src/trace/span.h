/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans: what a thread did from when to when. Each thread writes its own into
 * a ring; the recorder's thread takes them out and writes the file
 * (docs/trace-format.md).
 */
#ifndef MR_TRACE_SPAN_H
#define MR_TRACE_SPAN_H

#include "core/counter.h"
#include "core/futex.h"

/* Values are those of the file. */
enum mr_span_kind {
	MR_SPAN_BATCH = 1,
	MR_SPAN_SAMPLE,
	MR_SPAN_STEP,
	MR_SPAN_FETCH,
	MR_SPAN_WAIT_IN,
	MR_SPAN_WAIT_OUT,
	MR_SPAN_COLLATE,
	MR_SPAN_NEXT,
	MR_SPAN_CONSUME,
	MR_SPAN_WORK,
	MR_SPAN_PIN,
	MR_SPAN_START,
	MR_SPAN_KINDS, /* that are shown; this one is for samples of functions
			* alone: */
	MR_SPAN_TURN = MR_SPAN_KINDS,
	/* flags */
	MR_SPAN_LAID = 0x40, /* its place is not exact, its duration is */
	MR_SPAN_FAILED = 0x80,
};

#define MR_NO_SAMPLE ((uint64_t)1 << 48)
#define MR_NO_BATCH  UINT64_MAX

/* Times in ticks. */
struct mr_span {
	uint64_t start, end;
	uint64_t sample, batch;
	uint32_t bytes;
	uint8_t kind, step;
};

/* One writer, the thread it belongs to, and one reader, the recorder's. */
struct mr_ring {
	/* the writer's */
	_Alignas(64) uint64_t put;
	uint64_t taken_seen;
	mr_counter lost;
	struct mr_span *span;
	uint64_t size; /* a power of two */
	atomic_uint *poke, *asleep;
	/* both sides' */
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
	/* the recorder's */
	_Alignas(64) struct mr_ring *next;
	uint32_t number;
	uint64_t lost_told;
	uint64_t ready; /* spans from the front that have memory */
};

static inline uint32_t mr_span_bytes(uint64_t bytes)
{
	return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* A span that finds no room is lost, and counted. */
static inline void mr_ring_put(struct mr_ring *r, const struct mr_span *s)
{
	uint64_t at = r->put;

	if (at - r->taken_seen == r->size) {
		r->taken_seen =
			atomic_load_explicit(&r->tail, memory_order_acquire);
		if (at - r->taken_seen == r->size) {
			mr_count(&r->lost, 1);
			return;
		}
	}
	r->span[at & (r->size - 1)] = *s;
	r->put = ++at;
	atomic_store_explicit(&r->head, at, memory_order_release);
	/* The recorder looks by itself now and then; a ring that fills fast
	 * calls it. */
	if ((at & (r->size / 4 - 1)) == 0 && atomic_load(r->asleep)) {
		atomic_fetch_add(r->poke, 1);
		mr_futex_wake(r->poke, 1);
	}
}

#endif
