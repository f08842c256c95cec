/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sample stands at which position of an epoch: a function of the
 * seed, computed in O(1) memory, the same for every thread and run.
 */
#ifndef MR_PIPE_ORDER_H
#define MR_PIPE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* The names of enum mr_order_kind, for users; ends with NULL. */
extern const char *const mr_order_names[];

/* A permutation of [0, n), fixed by a key. */
struct mr_perm {
	uint64_t n;
	unsigned low, high; /* bits of the two halves */
	uint64_t key[8];
};

void mr_perm_init(struct mr_perm *p, uint64_t n, uint64_t key);
uint64_t mr_perm_at(const struct mr_perm *p, uint64_t i);

/*
 * Each rank takes its run of `batch` samples out of every global batch of
 * batch x ranks, so that the set of a global batch depends on the seed
 * alone; the rest at the end is shared out evenly.
 */
struct mr_order {
	int kind; /* enum mr_order_kind */
	uint64_t n, seed, block;
	uint64_t rank, ranks, batch;
	bool drop_last;
	uint64_t of; /* the n are a choice of so many; 0: they are all. Where
		      * the order is not shuffled, it is the first n */
};

/* Samples of an epoch on this rank. */
uint64_t mr_order_length(const struct mr_order *o);

/* What a thread keeps between calls, so that keys are not made each time.
 * Start from { 0 }. */
struct mr_order_cache {
	bool valid;
	uint64_t epoch, group;
	bool group_valid;
	uint64_t turn;		   /* block order: the set is turned by it */
	struct mr_perm all, inner; /* samples or blocks; within a group */
	struct mr_perm choice;
};

/* The sample at position `at` of this rank's epoch. */
uint64_t mr_order_at(const struct mr_order *o, struct mr_order_cache *c,
		     uint64_t epoch, uint64_t at);

/* Number i of the samples that the order chooses, in no order. */
uint64_t mr_order_chosen(const struct mr_order *o, struct mr_order_cache *c,
			 uint64_t i);

/* Of block order: positions whose samples are mixed among one another. */
uint64_t mr_order_span(const struct mr_order *o);

/* A run of neighbours in the data set that stand close together. */
struct mr_stretch {
	uint64_t first; /* sample */
	uint64_t count;
	uint64_t end; /* from this position of the epoch on, none does */
};

/*
 * The run of n samples, or fewer at the end of the set, that `index`, which
 * stands at `at`, belongs to; n must divide the blocks of block order. For one
 * rank. False when it belongs to none: in shuffled order, or alone.
 */
bool mr_order_run(const struct mr_order *o, struct mr_order_cache *c,
		  uint64_t epoch, uint64_t at, uint64_t index, uint64_t n,
		  struct mr_stretch *s);

#endif
