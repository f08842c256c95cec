/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps on signals share: time is the last axis. */
#ifndef MR_OP_SIGNAL_H
#define MR_OP_SIGNAL_H

#include "op/op.h"

/* Samples of a signal, or MR_ANY. */
int64_t mr_signal_length(const struct mr_spec *s);

/*
 * The tensor's numbers as f64: its own where it is that, else converted into
 * scratch memory. NULL: *cx->err says why.
 */
const double *mr_signal_f64(const struct mr_opctx *cx,
			    const struct mr_tensor *t);

/* Periods of a signal of n samples; an error when there is not one. */
int mr_signal_periods(const char *step, int64_t n, int64_t period, int64_t *out,
		      struct mr_err *err);

/* ---- window and random_window ---- */

struct mr_cut {
	int64_t size;
	bool pad;
};

int mr_cut_infer(const char *step, const struct mr_cut *c,
		 const struct mr_spec *in, struct mr_spec *out,
		 struct mr_err *err);
/* For signals of several rows whose number is open. */
int mr_cut_shape(const struct mr_cut *c, const struct mr_tensor *in,
		 struct mr_tensor *out);
/* Samples [at, at + size) of each row; what lies beyond the end is 0. */
void mr_cut_run(const struct mr_cut *c, const struct mr_tensor *in, int64_t at,
		struct mr_tensor *out);
/* The last place where a window may begin; an error when there is none. */
int mr_cut_last(const struct mr_cut *c, const struct mr_tensor *in,
		int64_t *last, struct mr_err *err);

#endif
