/* SPDX-License-Identifier: Apache-2.0 */
#include "op/signal.h"

#include "kernel/convert.h"

int64_t mr_signal_length(const struct mr_spec *s)
{
	return s->shape[s->ndim - 1];
}

const double *mr_signal_f64(const struct mr_opctx *cx,
			    const struct mr_tensor *t)
{
	size_t n = (size_t)mr_tensor_elements(t);
	double *to;

	if (t->dtype == MR_F64)
		return t->data;
	to = mr_arena_take(cx->scratch, n * sizeof(*to));
	if (!to) {
		mr_err_set(cx->err, MR_ELIMIT,
			   "no memory for a signal of %zu samples as f64; "
			   "raise --memory",
			   n);
		return NULL;
	}
	mr_convert(t->data, t->dtype, to, MR_F64, n);
	return to;
}

int mr_signal_periods(const char *step, int64_t n, int64_t period, int64_t *out,
		      struct mr_err *err)
{
	if (n < period)
		return mr_err_set(err, MR_EDATA,
				  "%s: the signal has %lld samples, less than "
				  "a period of %lld; take longer windows, or "
				  "set period=",
				  step, (long long)n, (long long)period);
	*out = n / period;
	return 0;
}

/* ---- window and random_window ---- */

static int too_short(const char *step, int64_t n, const struct mr_cut *c,
		     struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "%s%sthe signal has %lld samples, less than %lld; "
			  "pad=yes fills up with 0",
			  step, *step ? ": " : "", (long long)n,
			  (long long)c->size);
}

int mr_cut_infer(const char *step, const struct mr_cut *c,
		 const struct mr_spec *in, struct mr_spec *out,
		 struct mr_err *err)
{
	int64_t n = in->ndim ? mr_signal_length(in) : 0;

	if (!in->ndim)
		return mr_op_refuse(step, in, "it wants a signal", err);
	if (n != MR_ANY && n < c->size && !c->pad) {
		too_short(step, n, c, err);
		return err->code = MR_ETYPE;
	}
	*out = *in;
	out->shape[out->ndim - 1] = c->size;
	return 0;
}

int mr_cut_shape(const struct mr_cut *c, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	memcpy(out->shape, in->shape, sizeof(out->shape));
	out->shape[out->ndim - 1] = c->size;
	return 0;
}

int mr_cut_last(const struct mr_cut *c, const struct mr_tensor *in,
		int64_t *last, struct mr_err *err)
{
	int64_t n = in->shape[in->ndim - 1];

	if (n < c->size && !c->pad)
		return too_short("", n, c, err);
	*last = n < c->size ? 0 : n - c->size;
	return 0;
}

void mr_cut_run(const struct mr_cut *c, const struct mr_tensor *in, int64_t at,
		struct mr_tensor *out)
{
	size_t width = mr_dtype_size(in->dtype);
	size_t n = (size_t)in->shape[in->ndim - 1], size = (size_t)c->size;
	size_t rows = (size_t)mr_tensor_elements(out) / size;
	size_t have = n - (size_t)at < size ? n - (size_t)at : size;
	const char *from = in->data;
	char *to = out->data;

	for (size_t r = 0; r < rows; r++, to += size * width) {
		memcpy(to, from + (r * n + (size_t)at) * width, have * width);
		memset(to + have * width, 0, (size - have) * width);
	}
}
