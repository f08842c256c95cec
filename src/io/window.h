/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-ahead for whoever indexes a remote input: the headers of a tar file
 * or a table of offsets are read in small pieces, one after the other, and a
 * request for each would take a round trip each.
 */
#ifndef MR_IO_WINDOW_H
#define MR_IO_WINDOW_H

#include <pthread.h>

#include "io/remote.h"

struct mr_window {
	pthread_mutex_t lock;
	atomic_bool filled;
	uint8_t *data;
	size_t cap, n;
	uint64_t at; /* data[0 .. n) are the bytes from here */
};

void mr_window_init(struct mr_window *w);
void mr_window_fini(struct mr_window *w);

/* As mr_remote_read(), by way of the window where that is of use. */
int mr_window_read(struct mr_window *w, const struct mr_remote *r, void *to,
		   size_t n, uint64_t offset, struct mr_err *err);

/* Give the memory back: what comes now is samples. Cheap when there is
 * none. */
void mr_window_drop(struct mr_window *w);

#endif
