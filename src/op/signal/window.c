/* SPDX-License-Identifier: Apache-2.0 */
/* window: a given part of a longer signal. */
#include "op/signal.h"

struct window {
	struct mr_cut cut;
	int64_t at;
};

static const struct mr_param params[] = {
	{ "size", MR_P_INT, offsetof(struct window, cut.size), NULL, 1, 1e12,
	  NULL, "its samples, along the last axis" },
	MR_INT(struct window, at, "0", -1, 1e15,
	       "the sample it begins with; -1: so that it is in the middle"),
	{ "pad", MR_P_BOOL, offsetof(struct window, cut.pad), "no", 0, 0, NULL,
	  "fill up signals that are shorter with 0; else they are an error" },
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct window *w = self;

	return mr_cut_infer("window", &w->cut, in, out, err);
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct window *w = cx->self;

	return mr_cut_shape(&w->cut, in, out);
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct window *w = cx->self;
	int64_t last, at = w->at, n = in->shape[in->ndim - 1];
	int e = mr_cut_last(&w->cut, in, &last, cx->err);

	if (e)
		return e;
	if (at < 0)
		at = last / 2;
	if (at > last && !w->cut.pad)
		return mr_err_set(cx->err, MR_EDATA,
				  "a window of %lld from sample %lld ends "
				  "beyond the signal's %lld; pad=yes fills up "
				  "with 0",
				  (long long)w->cut.size, (long long)at,
				  (long long)n);
	mr_cut_run(&w->cut, in, at < n ? at : n, out);
	return 0;
}

const struct mr_op mr_op_window = {
	.name = "window",
	.help = "a given part of a longer signal, along the last axis; one "
		"sample stays one (hdf5 window=N makes many of a file)",
	.size = sizeof(struct window),
	.params = params,
	.infer = infer,
	.shape = shape,
	.run = run,
};
