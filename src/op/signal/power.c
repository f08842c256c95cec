/* SPDX-License-Identifier: Apache-2.0 */
/* power: of voltage and current, period by period: power, RMS current and
 * the cumulated deviation of the latter. */
#include <math.h>

#include "kernel/signal.h"
#include "op/signal.h"

enum kind { ACTIVE, REACTIVE };

struct power {
	int64_t period;
	int kind;
};

static const char *const kinds[] = { "active", "reactive", NULL };

static const struct mr_param params[] = {
	MR_INT(struct power, period, "128", 1, 1e12,
	       "samples of a period; those at the end that do not fill one are "
	       "left out"),
	MR_ENUM(struct power, kind, "active", kinds,
		"of the first row: active, mean(v i); reactive, "
		"sqrt(S^2 - P^2) with S = Vrms Irms"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct power *p = self;
	int64_t periods = MR_ANY;

	if (in->ndim != 2 || in->shape[0] != 2)
		return mr_op_refuse("power", in,
				    "it wants voltage and current in two rows, "
				    "[2,N]; `calibrate` makes that of two "
				    "fields",
				    err);
	if (in->shape[1] != MR_ANY &&
	    mr_signal_periods("power", in->shape[1], p->period, &periods, err))
		return err->code = MR_ETYPE;
	*out = (struct mr_spec){ MR_F64, 2, { 3, periods } };
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct power *p = cx->self;

	return mr_signal_periods("power", in->shape[1], p->period,
				 &out->shape[1], cx->err);
}

/* What rounding makes of 0 may be negative; NaN stays NaN. */
static double root(double x)
{
	return x < 0 ? 0 : sqrt(x);
}

static double power_of(const struct mr_products *s, enum kind kind, double n)
{
	double p = s->vi / n, apparent;

	if (kind == ACTIVE)
		return p;
	apparent = sqrt(s->vv / n) * sqrt(s->ii / n);
	p = fabs(p);
	return root((apparent - p) * (apparent + p));
}

static void cumulate(const double *rms, size_t n, double *to)
{
	double mean = mr_sum(rms, n) / (double)n, sum = 0;

	for (size_t k = 0; k < n; k++) {
		sum += rms[k] - mean;
		to[k] = sum;
	}
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct power *p = cx->self;
	size_t n = (size_t)in->shape[1], period = (size_t)p->period;
	size_t periods = n / period;
	const double *v = mr_signal_f64(cx, in), *i;
	double *to = out->data;

	if (!v)
		return cx->err->code;
	i = v + n;
	for (size_t k = 0; k < periods; k++) {
		struct mr_products s;

		mr_products(v + k * period, i + k * period, period, &s);
		to[k] = power_of(&s, p->kind, (double)period);
		to[periods + k] = sqrt(s.ii / (double)period);
	}
	cumulate(to + periods, periods, to + 2 * periods);
	return 0;
}

const struct mr_op mr_op_power = {
	.name = "power",
	.help = "of voltage and current, [2,N]: for each period its power, its "
		"RMS current, and cumsum(Irms - mean(Irms)), f64[3,N/period]",
	.size = sizeof(struct power),
	.params = params,
	.infer = infer,
	.shape = shape,
	.run = run,
};
