/* SPDX-License-Identifier: Apache-2.0 */
/* mel: the frequencies of a spectrogram gathered into bins, as TensorFlow's
 * linear_to_mel_weight_matrix does. */
#include "op/frames.h"

struct mel {
	int64_t bins;
	double fmin, fmax;
	int64_t rate;
};

/* What a thread keeps: the weights for spectra of `inputs` values, which are
 * known when the first one comes. */
struct local {
	size_t inputs;
	struct mr_band *band;
	float *weight;
	struct mr_columns want;
};

static const struct mr_param params[] = {
	MR_INT(struct mel, bins, "80", 1, 4096, "how many come out"),
	MR_REAL(struct mel, fmin, "125", 0, 1e9, "lower end, Hz"),
	MR_REAL(struct mel, fmax, "3800", 0, 1e9, "upper end, Hz"),
	MR_INT(struct mel, rate, NULL, 1, 1e9, "the sound's, Hz"), MR_PARAM_END
};

static int open(void *self, struct mr_err *err)
{
	const struct mel *m = self;

	if (m->fmin < m->fmax && m->fmax <= (double)m->rate / 2)
		return 0;
	return mr_err_set(err, MR_EINVAL,
			  "mel: from fmin=%g to fmax=%g at rate=%lld; want "
			  "fmin < fmax, and no more than half the rate",
			  m->fmin, m->fmax, (long long)m->rate);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct mel *m = self;

	if (in->dtype != MR_F32 || in->ndim != 2 || in->shape[1] < 2 ||
	    in->shape[1] > 1 << 20)
		return mr_op_refuse("mel", in,
				    "it wants frames x frequencies in f32, as "
				    "stft gives them",
				    err);
	*out = *in;
	out->shape[1] = m->bins;
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	(void)cx;
	out->shape[0] = in->shape[0];
	return 0;
}

static void drop(void *local)
{
	struct local *l = local;

	free(l->band);
	free(l->weight);
}

static int make_weights(const struct mel *m, struct local *l, size_t inputs,
			struct mr_err *err)
{
	size_t bins = (size_t)m->bins, n;

	l->band = mr_alloc(bins, sizeof(*l->band), err);
	if (!l->band)
		return MR_ENOMEM;
	n = mr_mel_bands(inputs, bins, (double)m->rate, m->fmin, m->fmax,
			 l->band, NULL);
	l->weight = mr_alloc(n, sizeof(*l->weight), err);
	if (!l->weight)
		return MR_ENOMEM;
	mr_mel_bands(inputs, bins, (double)m->rate, m->fmin, m->fmax, l->band,
		     l->weight);
	l->want = mr_bands_columns(l->band, bins);
	l->inputs = inputs;
	return 0;
}

static int prepare(const struct mr_opctx *cx, size_t inputs)
{
	const struct mel *m = cx->self;
	struct local *l = cx->local;
	int e = mr_rate_check(cx, "mel", m->rate);

	if (e || l->inputs == inputs)
		return e;
	drop(l);
	*l = (struct local){ 0 };
	return make_weights(m, l, inputs, cx->err);
}

static int needs(const struct mr_opctx *cx, size_t inputs,
		 struct mr_columns *want)
{
	const struct local *l = cx->local;
	int e = prepare(cx, inputs);

	if (!e)
		*want = l->want;
	return e;
}

/* ---- rows ---- */

static int map(const struct mr_opctx *cx, const float *src, size_t inputs,
	       size_t n, float *dst)
{
	const struct mel *m = cx->self;
	const struct local *l = cx->local;
	int e = prepare(cx, inputs);

	if (!e)
		mr_bands_apply(l->band, (size_t)m->bins, l->weight, src, inputs,
			       n, dst);
	return e;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	return map(cx, in->data, (size_t)in->shape[1], (size_t)in->shape[0],
		   out->data);
}

static const struct mr_frames_op frames_op = { .map = map, .needs = needs };

const struct mr_op mr_op_mel = {
	.name = "mel",
	.help = "a spectrogram's frequencies into mel bins (HTK), f32",
	.size = sizeof(struct mel),
	.params = params,
	.open = open,
	.infer = infer,
	.shape = shape,
	.run = run,
	.local = sizeof(struct local),
	.drop = drop,
	.frames = &frames_op,
};
