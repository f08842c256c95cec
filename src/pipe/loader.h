/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader's insides, shared by loader.c (the ring and the consumer's
 * side), worker.c (claims), sample.c (the way of a sample) and fetch.c
 * (reading ahead).
 *
 * Positions. All epochs form one line of positions: batch s has positions
 * [s * rows, (s + 1) * rows), an epoch a whole number of batches; positions
 * past the end of an epoch's last batch are empty. Workers claim runs of
 * positions with one atomic operation. A batch may be worked on when its number
 * is below `limit`, which the consumer raises as it takes batches out.
 */
#ifndef MR_PIPE_LOADER_H
#define MR_PIPE_LOADER_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "io/evict.h"
#include "io/shape.h"
#include "pipe/batch.h"
#include "pipe/order.h"
#include "pipe/plan.h"
#include "trace/stats.h"

struct mr_fetch;
struct mr_ram;
struct mr_counting;
struct mr_recorder;
struct mr_sampler;
struct mr_ring;

/* A place in the ring: batch s is at s % ring. The memory comes with the
 * first worker that enters it: the buffer that was released last, which is
 * still in the CPU's cache, however long the ring is. */
struct mr_slot {
	_Alignas(64) atomic_uint state;	  /* enum mr_slot_state */
	atomic_uint left;		  /* rows not done yet */
	_Atomic(struct mr_batch *) batch; /* NULL until somebody enters */
};

enum {
	MR_RUNS = 256,
	MR_MADE_AHEAD = 64,
	MR_STOCK = 16 << 20, /* bytes of small batches that may be ready */
};
enum mr_slot_state { MR_SLOT_BUSY, MR_SLOT_READY, MR_SLOT_AWAITED };

struct mr_loader {
	struct mr_options opt;
	struct mr_pipeline *pipeline;
	struct mr_plan plan;
	struct mr_order order;
	struct mr_budget budget;
	struct mr_pool pool;
	size_t sample_max;	/* bytes that one field of a sample may have */
	uint64_t identity;	/* of pipeline and order, for checkpoints */
	struct mr_shape *shape; /* NULL: the storage as it is */
	/* with it, when made-up samples were begun, by position */
	mr_counter made[MR_MADE_AHEAD];
	struct mr_ram *cache; /* NULL: none in the pipeline */

	uint64_t rows; /* of a full batch */
	uint64_t epoch_samples, epoch_batches;
	uint64_t end; /* batches of all epochs; UINT64_MAX: no end */

	/* the ring */
	struct mr_slot *slot;
	unsigned ring, wanted_ring;
	_Alignas(64) _Atomic uint64_t next; /* first position not claimed */
	_Alignas(64) _Atomic uint64_t limit;
	atomic_uint gate;    /* changes when limit has been raised */
	atomic_uint waiting; /* workers asleep at the gate */
	atomic_bool stop;
	atomic_uint depth;	 /* batches that may be in work at once */
	atomic_size_t batch_max; /* bytes of the largest batch so far */
	mr_counter row_mean[MR_MAX_FIELDS]; /* bytes, of ragged fields */
	/* Positions of a claim. Batches with ragged fields are made of at
	 * most MR_RUNS runs, so that claims are not too small. */
	unsigned min_chunk, max_chunk;

	/* the consumer's */
	_Alignas(64) uint64_t head; /* the next batch to deliver */
	uint64_t ended;		    /* epochs whose end was told */
	unsigned since_wake;
	struct mr_err failed;
	uint64_t open_ns;
	struct mr_bad_row **bad; /* in the order of delivery */
	size_t bads, bad_cap;
	/* Read by whoever asks for the stats. */
	mr_counter done; /* equals head */
	mr_counter samples, batches, bytes_out, bad_samples;
	mr_counter start_ns, end_ns, first_ns, wait_ns;

	/* the trace, if there is one; times in ticks */
	struct mr_recorder *recorder;
	struct mr_counting *counting;
	struct mr_sampler *sampler;
	struct mr_ring *ring_of_consumer;
	struct mr_recorded *recorded;	/* where to tell how it went, or NULL */
	uint64_t asked, got, got_batch; /* the consumer's: 0 is not yet */

	/* threads */
	int threads;
	bool started;
	pid_t pid;
	struct mr_worker *worker;
	struct mr_thread_stats *stats;
	struct mr_clock clock;
	size_t file_guess; /* bytes of a file, that a fetch before learnt */
	struct mr_fetch *fetch; /* NULL when the source cannot be located */
	char *storage;		/* the text of the shaper's profile */
	struct mr_evicted cold;

	/* batches outside the ring */
	pthread_mutex_t lock;
	struct mr_batch *free_batches;
	struct mr_err broken; /* why a batch could not be made */
	atomic_int refs;      /* 1 + batches with the user */
};

/* Worker threads that these options ask for. */
int mr_loader_threads(const struct mr_options *opt);

/* As mr_loader_open_with(), with an edit, or NULL. */
int mr_loader_open_edited(struct mr_loader **l, const char *pipeline,
			  const struct mr_options *opt,
			  const struct mr_edit *edit, struct mr_err *err);

/*
 * How much of the first so many samples of the (chosen) data set is in the
 * page cache, by the kernel's word. MR_EUNSUPPORTED when it does not say:
 * files of others, on servers, or none at all.
 */
int mr_loader_resident(struct mr_loader *l, uint64_t samples, uint64_t *bytes,
		       uint64_t *resident);

/* Rows of batch s that hold samples. */
uint32_t mr_loader_rows(const struct mr_loader *l, uint64_t s);

/* The sample at a position; false when the position is empty. */
bool mr_loader_sample_at(const struct mr_loader *l, struct mr_order_cache *c,
			 uint64_t position, uint64_t *index);

/* The batch of slot s % ring, made when it is the first time; NULL when
 * there is no memory for it (l->broken says so). Any worker may call, by its
 * number. */
struct mr_batch *mr_loader_enter(struct mr_loader *l, uint64_t s, int worker);

/* A thread that takes no signals; 0 or an errno. */
int mr_thread_start(pthread_t *t, const char *name, void *(*main)(void *),
		    void *arg);

/* Worker threads: start them all, stop and join them all. */
int mr_workers_start(struct mr_loader *l, struct mr_err *err);
void mr_workers_stop(struct mr_loader *l);

#endif
