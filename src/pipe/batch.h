/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch while it is filled, and after. Rows are positions: each is
 * written by one worker; a row may stay empty when its sample is bad.
 *
 * Dense fields have a buffer with a place for each row. Of ragged fields,
 * each run of rows that one worker claims goes end to end into a buffer of
 * its own; when a single run covers the batch, that buffer becomes the
 * batch's without a copy.
 */
#ifndef MR_PIPE_BATCH_H
#define MR_PIPE_BATCH_H

#include "core/buf.h"
#include "pipe/plan.h"

struct mr_loader;

/* Rows [first, first + rows) by one worker. */
struct mr_run {
	uint32_t first, rows;
	struct mr_buf *buf[MR_MAX_FIELDS]; /* by number of the ragged field */
	size_t used[MR_MAX_FIELDS];
};

/* A sample that failed; text and key are in one allocation with it. */
struct mr_bad_row {
	struct mr_bad_row *next;
	uint32_t row;
	int code;
	struct mr_bad bad;
};

struct mr_batch {
	atomic_int refs;
	struct mr_loader *loader;
	struct mr_batch *next; /* in the loader's list of free ones */
	int worker;	       /* that began it last */
	const struct mr_plan *plan;

	uint64_t epoch, number;
	uint32_t rows, max_rows; /* positions; samples are `count` */
	uint64_t count;
	uint64_t begun;	 /* ticks, of a batch that is traced */
	uint64_t *index; /* by row */
	uint8_t *good;	 /* by row */
	struct mr_field field[MR_MAX_FIELDS];
	/* by output field, then those of steps after `batch` */
	struct mr_buf *buf[MR_MAX_BUFS];
	int64_t *offsets[MR_MAX_FIELDS], *shapes[MR_MAX_FIELDS]; /* ragged */

	struct mr_run *run;
	uint32_t max_runs;
	atomic_uint runs;
	_Atomic(struct mr_bad_row *) bad;
	atomic_bool nomem;    /* memory ran out: no sample's fault */
	struct mr_err failed; /* code != 0: could not be finished */
};

int mr_batch_new(struct mr_batch **out, const struct mr_plan *plan,
		 struct mr_pool *pool, uint32_t max_runs, struct mr_err *err);
void mr_batch_free(struct mr_batch *b); /* NULL is allowed */

/* Make it empty, for `rows` positions. */
void mr_batch_begin(struct mr_batch *b, uint64_t epoch, uint64_t number,
		    uint32_t rows);

/* The address of a row of a dense output field. */
static inline void *mr_batch_row(struct mr_batch *b, int field, uint32_t row)
{
	return (char *)b->buf[field]->data +
	       b->plan->out[field].row_bytes * row;
}

/* Collate: close gaps, join or pad ragged fields, set the public fields.
 * Called once all rows are done; failure is left in b->failed. */
void mr_batch_finish(struct mr_batch *b, struct mr_pool *pool);

/* Record a bad sample. Out of memory, also for the record itself, is the
 * whole batch's failure. */
void mr_batch_add_bad(struct mr_batch *b, uint32_t row,
		      const struct mr_bad *bad, int code);

/* Bytes that its buffers hold. */
size_t mr_batch_memory(const struct mr_batch *b);
/* Bytes of its samples. */
uint64_t mr_batch_payload(const struct mr_batch *b);

#endif
