/* SPDX-License-Identifier: Apache-2.0 */
/* rms: the root of the mean square of each period. */
#include <math.h>

#include "kernel/signal.h"
#include "op/signal.h"

struct rms {
	int64_t period;
};

static const struct mr_param params[] = {
	MR_INT(struct rms, period, "128", 1, 1e12,
	       "samples of a period, along the last axis; those at the end "
	       "that do not fill one are left out"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct rms *s = self;
	int64_t n = in->ndim ? mr_signal_length(in) : 0, periods = MR_ANY;

	if (!in->ndim)
		return mr_op_refuse("rms", in, "it wants a signal", err);
	if (n != MR_ANY &&
	    mr_signal_periods("rms", n, s->period, &periods, err))
		return err->code = MR_ETYPE;
	*out = *in;
	out->dtype = MR_F64;
	out->shape[out->ndim - 1] = periods;
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct rms *s = cx->self;
	int last = in->ndim - 1;

	memcpy(out->shape, in->shape, sizeof(out->shape));
	return mr_signal_periods("rms", in->shape[last], s->period,
				 &out->shape[last], cx->err);
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct rms *s = cx->self;
	size_t n = (size_t)in->shape[in->ndim - 1];
	size_t period = (size_t)s->period, periods = n / period;
	size_t rows = (size_t)mr_tensor_elements(out) / periods;
	const double *x = mr_signal_f64(cx, in);
	double *to = out->data;

	if (!x)
		return cx->err->code;
	for (size_t r = 0; r < rows; r++, x += n)
		for (size_t k = 0; k < periods; k++)
			*to++ = sqrt(mr_squares(x + k * period, period) /
				     (double)period);
	return 0;
}

const struct mr_op mr_op_rms = {
	.name = "rms",
	.help = "the root of the mean square of each period, f64",
	.size = sizeof(struct rms),
	.params = params,
	.infer = infer,
	.shape = shape,
	.run = run,
};
