/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate: voltage and current as they were measured become volts and
 * amperes, two rows of f64. The measuring device's offset, which drifts, is
 * the mean of the voltage over each period, linearly interpolated.
 */
#include <math.h>
#include <stdio.h>

#include "kernel/signal.h"
#include "op/signal.h"

enum offset { CENTRE, SPREAD, NONE };

struct calibrate {
	int64_t period;
	int offset;
	const char *voltage, *current, *factor;
	struct mr_reals scale;
};

static const char *const offsets[] = { "centre", "spread", "no", NULL };

static const struct mr_param params[] = {
	MR_INT(struct calibrate, period, "128", 1, 1e12,
	       "samples of a period; a last one that is shorter counts as one"),
	MR_ENUM(struct calibrate, offset, "centre", offsets,
		"what is subtracted: the voltage's mean over each period, "
		"interpolated between these means, of which each stands in the "
		"centre of its period; before the first and after the last it "
		"stays as they are. spread: they stand at even distances from "
		"the first sample to the last, as in the code published with "
		"CREAM. no: nothing"),
	MR_TEXT(struct calibrate, voltage, "voltage",
		"the field; its offset / sqrt(2) is the current's"),
	MR_TEXT(struct calibrate, current, "",
		"the field; empty: the first whose name begins with current"),
	MR_TEXT(struct calibrate, factor, "calibration_factor",
		"both are multiplied by fields of this name, such as "
		"voltage_calibration_factor, which hdf5 "
		"attributes=calibration_factor gives"),
	MR_REALS(struct calibrate, scale, "", -1e300, 1e300,
		 "instead of these fields, two numbers: VOLTS,AMPERES for a "
		 "step of the measured values"),
	MR_PARAM_END
};

static int open(void *self, struct mr_err *err)
{
	const struct calibrate *c = self;

	if (c->scale.n == 0 || c->scale.n == 2)
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "calibrate: scale= has %d numbers; want two, of "
			  "voltage and current",
			  c->scale.n);
}

/* ---- which fields ---- */

static int find(const struct mr_fields *fs, const char *name)
{
	for (int i = 0; i < fs->n; i++)
		if (!strcmp(fs->item[i].name, name))
			return i;
	return -1;
}

static int find_current(const struct mr_fields *fs)
{
	for (int i = 0; i < fs->n; i++)
		if (!strncmp(fs->item[i].name, "current", 7))
			return i;
	return -1;
}

static int no_field(const struct mr_fields *fs, const char *name,
		    const char *param, struct mr_err *err)
{
	char have[256] = "";

	for (int i = 0; i < fs->n; i++) {
		size_t at = strlen(have);

		snprintf(have + at, sizeof(have) - at, " %s", fs->item[i].name);
	}
	return mr_err_set(err, MR_ETYPE,
			  "calibrate: no field '%s' here; name it with %s=; "
			  "there are:%s",
			  name, param, have);
}

static int choose_signals(const struct calibrate *c, const struct mr_fields *fs,
			  struct mr_inputs *to, struct mr_err *err)
{
	int v = find(fs, c->voltage);
	int i = *c->current ? find(fs, c->current) : find_current(fs);
	const struct mr_spec *a, *b;

	if (v < 0)
		return no_field(fs, c->voltage, "voltage", err);
	if (i < 0)
		return no_field(fs, *c->current ? c->current : "current",
				"current", err);
	a = &fs->item[v].spec;
	b = &fs->item[i].spec;
	if (a->ndim != 1)
		return mr_op_refuse("calibrate", a,
				    "the voltage must be a signal, [N], as "
				    "hdf5 window=N gives it",
				    err);
	if (v == i || b->ndim != 1 || a->shape[0] != b->shape[0])
		return mr_op_refuse("calibrate", b,
				    "the current must be another signal, as "
				    "long as the voltage",
				    err);
	*to = (struct mr_inputs){ .n = 2, .at = { v, i } };
	to->out = (struct mr_spec){ MR_F64, 2, { 2, a->shape[0] } };
	if (find(fs, "signal") < 0)
		snprintf(to->name, sizeof(to->name), "signal");
	return 0;
}

/* The factor that belongs to field f. */
static int choose_factor(const struct calibrate *c, const struct mr_fields *fs,
			 int f, struct mr_inputs *to, struct mr_err *err)
{
	char name[256];
	int k;

	snprintf(name, sizeof(name), "%s_%s", fs->item[f].name, c->factor);
	k = find(fs, name);
	if (k < 0)
		return mr_err_set(err, MR_ETYPE,
				  "calibrate: no field '%s' here; let the "
				  "source read it: hdf5 ... attributes=%s; or "
				  "say what a step of the values is worth: "
				  "scale=VOLTS,AMPERES (1,1: nothing to "
				  "multiply)",
				  name, c->factor);
	if (fs->item[k].spec.dtype != MR_F64 || fs->item[k].spec.ndim)
		return mr_op_refuse("calibrate", &fs->item[k].spec,
				    "a factor is one number, f64", err);
	to->at[to->n++] = k;
	return 0;
}

static int choose(const void *self, const struct mr_fields *fs,
		  struct mr_inputs *to, struct mr_err *err)
{
	const struct calibrate *c = self;
	int e = choose_signals(c, fs, to, err);

	if (!e && !c->scale.n)
		e = choose_factor(c, fs, to->at[0], to, err);
	if (!e && !c->scale.n)
		e = choose_factor(c, fs, to->at[1], to, err);
	return e;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	(void)cx;
	out->shape[1] = in->shape[0];
	return 0;
}

/* ---- the work ---- */

/* Of both signals. */
struct work {
	const struct mr_tensor *in[2];
	const double *f64[2]; /* of those that are not i16 */
	double scale[2];
	double *out[2];
	size_t n, period;
	size_t means;
	double *mean; /* of the voltage over each period */
};

/* Samples [from, to) of both, less a line that is y at sample x. */
static void level(const struct work *w, size_t from, size_t to, double x,
		  double y, double slope)
{
	for (int k = 0; k < 2 && from < to; k++) {
		double share = k ? M_SQRT1_2 : 1;
		struct mr_slant s = { y * share, slope * share,
				      (double)from - x, w->scale[k] };

		if (w->f64[k])
			mr_level(w->f64[k] + from, to - from, &s,
				 w->out[k] + from);
		else
			mr_level_i16((const int16_t *)w->in[k]->data + from,
				     to - from, &s, w->out[k] + from);
	}
}

/* The last period may be shorter. */
static size_t period_length(const struct work *w, size_t k)
{
	size_t left = w->n - k * w->period;

	return left < w->period ? left : w->period;
}

/* Where the k-th mean stands. */
static double place(const struct work *w, enum offset offset, size_t k)
{
	double step;

	if (offset == CENTRE)
		return (double)(k * w->period) +
		       (double)(period_length(w, k) - 1) / 2;
	if (w->means < 2)
		return 0;
	step = (double)(w->n - 1) / (double)(w->means - 1);
	return k + 1 < w->means ? floor((double)k * step + 1) - 1 :
				  (double)(w->n - 1);
}

static void take_means(const struct work *w, enum offset offset)
{
	for (size_t k = 0; k < w->means; k++) {
		size_t at = k * w->period, n = period_length(w, k);
		double sum =
			w->f64[0] ?
				mr_sum(w->f64[0] + at, n) :
				mr_sum_i16((const int16_t *)w->in[0]->data + at,
					   n);

		/* the published code fills the last period up with 0 */
		w->mean[k] = sum / (double)(offset == SPREAD ? w->period : n);
	}
}

static void subtract(const struct work *w, enum offset offset)
{
	double x0 = place(w, offset, 0);
	size_t from = (size_t)ceil(x0);

	level(w, 0, from, 0, w->mean[0], 0);
	for (size_t k = 0; k + 1 < w->means; k++) {
		double x1 = place(w, offset, k + 1);
		size_t to = (size_t)ceil(x1);

		if (to > from)
			level(w, from, to, x0, w->mean[k],
			      (w->mean[k + 1] - w->mean[k]) / (x1 - x0));
		x0 = x1;
		from = to;
	}
	level(w, from, w->n, 0, w->mean[w->means - 1], 0);
}

static int begin(const struct mr_opctx *cx, const struct mr_tensor *const *in,
		 struct work *w)
{
	const struct calibrate *c = cx->self;

	for (int k = 0; k < 2; k++) {
		w->in[k] = in[k];
		w->scale[k] = c->scale.n ? c->scale.v[k] :
					   *(const double *)in[k + 2]->data;
		if (in[k]->dtype != MR_I16 &&
		    !(w->f64[k] = mr_signal_f64(cx, in[k])))
			return cx->err->code;
	}
	if (in[0]->shape[0] != in[1]->shape[0])
		return mr_err_set(cx->err, MR_EDATA,
				  "%lld samples of voltage, %lld of current",
				  (long long)in[0]->shape[0],
				  (long long)in[1]->shape[0]);
	w->means = (w->n + w->period - 1) / w->period;
	w->mean = mr_arena_take(cx->scratch, w->means * sizeof(*w->mean));
	return w->mean ? 0 :
			 mr_err_set(cx->err, MR_ELIMIT,
				    "no memory for the means of %zu periods; "
				    "raise --memory",
				    w->means);
}

static int merge(const struct mr_opctx *cx, const struct mr_tensor *const *in,
		 struct mr_tensor *out)
{
	const struct calibrate *c = cx->self;
	size_t n = (size_t)in[0]->shape[0];
	double *to = out->data;
	struct work w = { .out = { to, to + n },
			  .n = n,
			  .period = (size_t)c->period };
	int e = begin(cx, in, &w);

	if (e || !n)
		return e;
	if (c->offset == NONE) {
		level(&w, 0, n, 0, 0, 0);
		return 0;
	}
	take_means(&w, c->offset);
	subtract(&w, c->offset);
	return 0;
}

const struct mr_op mr_op_calibrate = {
	.name = "calibrate",
	.help = "voltage and current as measured, two fields, become one of "
		"volts and amperes, `signal` f64[2,N]: less their drifting "
		"offset, times their factors",
	.size = sizeof(struct calibrate),
	.params = params,
	.open = open,
	.choose = choose,
	.shape = shape,
	.merge = merge,
};
