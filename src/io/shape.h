/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shaper: makes reads as slow as some storage, for what-if and for tests,
 * without root. The read itself is done at once; the model says when its
 * bytes may be had, and whoever reads waits until then.
 *
 * A request waits for its turn among `iops` per second, then for `latency`;
 * then its bytes come, `stream` per second at most, and all requests together
 * `bw` per second. What of one request waits does not hold up the turns of
 * those after it. There is no credit for idle time.
 *
 * With `cache`, as if a page cache of that size stood before it, which evicts
 * what was used longest ago: what it would hold is not delayed.
 */
#ifndef MR_IO_SHAPE_H
#define MR_IO_SHAPE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/err.h"
#include "io/lru.h"
#include "millrace/plugin.h"

/* What a storage can do; 0: no limit. */
struct mr_profile {
	uint64_t bw, stream; /* bytes/s: in total, of one request */
	double latency;	     /* seconds until the first byte */
	double iops;	     /* requests/s */
	uint64_t cache;	     /* bytes of a page cache before it; 0: none */
};

/*
 * A preset (hdd ssd nvme ceph-hdd s3), or `bw=200M,latency=5ms,...`, or a
 * preset and then what differs from it, or comes with it: `hdd,cache=2G`.
 * MR_EINVAL naming the part that is wrong, and the nearest right name.
 */
int mr_profile_parse(struct mr_profile *p, const char *text,
		     struct mr_err *err);

/* The i-th preset's name; NULL past the end. */
const char *mr_profile_name(size_t i);

/* Bytes per second that a profile allows for such requests, with any number
 * in flight; 0 when it sets no limit. */
double mr_profile_allows(const struct mr_profile *p, uint64_t requests,
			 uint64_t bytes);

struct mr_shape {
	struct mr_profile p;
	pthread_mutex_t lock;
	uint64_t born;		   /* times below are from here on */
	double next_io, next_byte; /* ns: when the next may begin */
	uint64_t requests, bytes;
	atomic_bool paused; /* by mr_shape_pause() */
	struct mr_lru cache;
	uint64_t hits, hit_bytes;
};

/* now: CLOCK_MONOTONIC's, as all times here. */
void mr_shape_init(struct mr_shape *s, const struct mr_profile *p,
		   uint64_t now);
void mr_shape_fini(struct mr_shape *s);

/* When a request of so many bytes that began at `issued` is done. Any
 * thread may call; those who ask first are served first. */
uint64_t mr_shape_due(struct mr_shape *s, uint64_t issued, uint64_t bytes);

/*
 * The same for a thread that reads by itself: sleeps until then. *late is
 * the thread's own, 0 at first: by how much it woke too late, which the next
 * request is given back, so that sleeps that are never exact do not make the
 * storage slower than it is. Wakes up soon after *stop is set.
 */
void mr_shape_wait(struct mr_shape *s, uint64_t issued, uint64_t bytes,
		   uint64_t *late, const atomic_bool *stop);

/*
 * Would a request be answered by the page cache, so that it needs no wait?
 * Counts it then; else what it read enters the cache, and the caller asks when
 * it is due. key: by mr_shape_key(). Any thread may call.
 */
bool mr_shape_cached(struct mr_shape *s, uint64_t key, uint64_t bytes);

/* Of the bytes of an extent, by file and offset; path: of a file that is not
 * open. */
uint64_t mr_shape_key(const struct mr_extent *x, const char *path);

/* A sample in a request for several: where it begins in the file. */
struct mr_piece {
	uint64_t offset, bytes;
};

/*
 * The same of a request for n neighbours in an open file. Each is known by
 * itself, so that it makes no difference with which others it was read.
 * Returns the bytes that the storage is to be asked for; 0: there is no wait.
 */
uint64_t mr_shape_missing(struct mr_shape *s, const struct mr_extent *x,
			  const struct mr_piece *piece, unsigned n);

/*
 * Between a pause and its end there are no limits: requests are due at once,
 * and are not counted as asked of the storage. The page cache goes on. For
 * whoever fills a cache first, which is not what is to be measured. Any thread
 * may call; a request that waits already is not hurried.
 */
void mr_shape_pause(struct mr_shape *s, bool pause);

/* What was asked of the storage so far. */
void mr_shape_count(struct mr_shape *s, uint64_t *requests, uint64_t *bytes);
/* And what the page cache answered: requests as a whole, and all bytes. */
void mr_shape_hits(struct mr_shape *s, uint64_t *requests, uint64_t *bytes);

#endif
