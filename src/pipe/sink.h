/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of a field go: a row of the batch, the end of a run of
 * ragged rows, or one of the worker's two areas for that field.
 */
#ifndef MR_PIPE_SINK_H
#define MR_PIPE_SINK_H

#include "pipe/worker.h"

struct mr_sink {
	const struct mr_row *row;
	int field, out; /* out: the output field, or -1 */
	bool begins;	/* only the beginning of out: a last step packs the
			 * rest behind it */
};

/* Room for so many bytes, of which `written` are there already and stay; may
 * be called again for more. NULL: w->err says why. */
void *mr_sink_reserve(struct mr_worker *w, const struct mr_sink *s,
		      size_t bytes, size_t written);

/* The sink holds the tensor t now. */
void mr_sink_settle(struct mr_worker *w, const struct mr_sink *s,
		    const struct mr_tensor *t);

/* Sets w->err: a sample needs more than the memory budget allows. */
int mr_too_large(struct mr_worker *w, size_t bytes);

#endif
