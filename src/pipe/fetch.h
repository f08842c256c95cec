/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetch: reads samples ahead of the workers, in the order that the seed
 * fixes, with as many requests in flight as the storage rewards. Used when
 * the storage is slow; warm data is read by the workers themselves. Small
 * samples are read into buffers; for large ones the kernel is asked to have
 * them in the page cache by the time that a worker reads them to where they
 * belong, which saves a copy.
 *
 * Positions are decided upon in windows: whoever comes first to a window
 * settles it with one compare-and-swap. The fetcher takes it for itself; so
 * does a worker while storage answers at once, and else leaves it to the
 * fetcher, which waits for many at a time.
 */
#ifndef MR_PIPE_FETCH_H
#define MR_PIPE_FETCH_H

#include "pipe/loader.h"

/* What was read for one position. */
struct mr_fetched {
	atomic_uint state;
	int error;	     /* errno, or 0 */
	bool retry;	     /* the worker must read it itself */
	struct mr_buf *buf;  /* holds the bytes, which lie */
	const uint8_t *data; /* here */
	size_t length;
	size_t advised; /* bytes that the kernel was asked to read */
	bool to_end;	/* its length was not known */
};

/* mode: enum mr_fetch_mode. Its thread starts when it is first needed. */
int mr_fetch_new(struct mr_fetch **f, struct mr_loader *l, int mode,
		 struct mr_err *err);
/* Waits for what is in flight. NULL is allowed. */
void mr_fetch_free(struct mr_fetch *f);

/* Worker: is the window of this position read ahead? Settles it; *until is
 * the first position after it. c: the worker's own. */
bool mr_fetch_ahead(struct mr_fetch *f, struct mr_order_cache *c,
		    uint64_t position, uint64_t *until);

/*
 * Worker: the bytes of a position read ahead; waits for them, adding the
 * ticks to *waited and the number of waits to *sleeps. NULL when the loader
 * stops. Give it back when the sample is through, with the bytes that it
 * turned out to have.
 */
struct mr_fetched *mr_fetch_get(struct mr_fetch *f, uint64_t position,
				uint64_t *waited, long *sleeps);
void mr_fetch_done(struct mr_fetch *f, struct mr_fetched *got, size_t bytes);

/* Worker: reads have been slow; start reading ahead (mode auto only). length:
 * of the files seen lately, where the source does not tell. */
void mr_fetch_poke(struct mr_fetch *f, size_t length);

/* Bytes that it may hold, of so many that a loader has. */
size_t mr_fetch_bytes(size_t memory);

/* What a loader reads: samples of `bytes` bytes by `requests` requests each,
 * of which `span` are mixed (block order; else 0), with so much memory and so
 * many samples in its ring. */
struct mr_fetch_load {
	size_t memory;
	uint64_t ring, span;
	double bytes, requests;
};

/* Requests in flight, at most. 0: samples of an imitated storage are too large,
 * and left to the workers. */
double mr_fetch_depth(const struct mr_fetch_load *l);

/* Are the source's files on a server? */
bool mr_fetch_remote(const struct mr_loader *l);

/* "direct" when it never ran, else the way it reads; and the depth. */
const char *mr_fetch_way(const struct mr_fetch *f, int *depth);

#endif
