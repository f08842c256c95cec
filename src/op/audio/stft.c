/* SPDX-License-Identifier: Apache-2.0 */
/* stft: sound becomes a spectrogram, magnitudes of frames, as tf.abs() of
 * tf.signal.stft() gives them. */
#include <pthread.h>

#include <fftw3.h>

#include "op/frames.h"

struct stft {
	const char *frame_text, *step_text;
	int64_t fft, rate;
	size_t frame, step; /* samples */
	double *window, *window_i16;
	fftw_plan plan;
};

static const struct mr_param params[] = {
	{ "frame", MR_P_TEXT, offsetof(struct stft, frame_text), "20ms", 0, 0,
	  NULL, "length of a frame, in samples or ms, which need rate=" },
	{ "step", MR_P_TEXT, offsetof(struct stft, step_text), "10ms", 0, 0,
	  NULL, "from frame to frame, in samples or ms" },
	MR_INT(struct stft, fft, "1024", 2, 1 << 20,
	       "length of the transform, of which fft/2 + 1 values come out; "
	       "frames are filled up with 0"),
	MR_INT(struct stft, rate, "0", 0, 1e9,
	       "the sound's, Hz; needed when frame or step are in ms"),
	MR_PARAM_END
};

/* FFTW makes and destroys plans by one thread at a time; their use is free. */
static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

static int length(const struct stft *s, const char *name, const char *text,
		  size_t *out, struct mr_err *err)
{
	char *end;
	double v = strtod(text, &end);
	double unit = !strcmp(end, "ms") ? 1e-3 : !strcmp(end, "s") ? 1 : 0;

	if (end == text || (*end && unit == 0))
		return mr_err_set(err, MR_EINVAL,
				  "stft: %s=%s: want a number of samples, or "
				  "of ms as in %s=20ms",
				  name, text, name);
	if (unit > 0 && !s->rate)
		return mr_err_set(err, MR_EINVAL,
				  "stft: %s=%s needs rate=, the sound's "
				  "samples per second",
				  name, text);
	if (unit > 0)
		v *= unit * (double)s->rate;
	if (!(v >= 0.5) || v > 1 << 30)
		return mr_err_set(err, MR_EINVAL,
				  "stft: %s=%s: %g samples; want 1 or more",
				  name, text, v);
	*out = (size_t)(v + 0.5);
	return 0;
}

/*
 * Without measuring: which algorithm is the fastest is not the same in each
 * run, and so would be the last bits of what comes out.
 */
static int make_plan(struct stft *s, struct mr_err *err)
{
	size_t n = (size_t)s->fft;
	double *in = mr_alloc_aligned(n * sizeof(*in), err);
	double *out = in ? mr_alloc_aligned((n + 2) * sizeof(*out), err) : NULL;

	if (out) {
		pthread_mutex_lock(&planning);
		s->plan = fftw_plan_dft_r2c_1d((int)n, in, (fftw_complex *)out,
					       FFTW_ESTIMATE);
		pthread_mutex_unlock(&planning);
	}
	free(in);
	free(out);
	if (!out)
		return MR_ENOMEM;
	return s->plan ? 0 :
			 mr_err_set(err, MR_ENOMEM, "stft: no plan for fft=%zu",
				    n);
}

static int open(void *self, struct mr_err *err)
{
	struct stft *s = self;
	int e = length(s, "frame", s->frame_text, &s->frame, err);

	if (!e)
		e = length(s, "step", s->step_text, &s->step, err);
	if (e)
		return e;
	if (s->frame > (size_t)s->fft)
		return mr_err_set(err, MR_EINVAL,
				  "stft: frames of %zu samples do not fit into "
				  "fft=%lld; raise it",
				  s->frame, (long long)s->fft);
	s->window = mr_alloc(s->frame, sizeof(double), err);
	s->window_i16 =
		s->window ? mr_alloc(s->frame, sizeof(double), err) : NULL;
	if (!s->window_i16)
		return MR_ENOMEM;
	mr_hann(s->window, s->frame, 1);
	mr_hann(s->window_i16, s->frame, 1.0 / 32768);
	return make_plan(s, err);
}

static void close(void *self)
{
	struct stft *s = self;

	free(s->window);
	free(s->window_i16);
	if (!s->plan)
		return;
	pthread_mutex_lock(&planning);
	fftw_destroy_plan(s->plan);
	pthread_mutex_unlock(&planning);
}

static int64_t frames(const struct stft *s, int64_t samples)
{
	int64_t frame = (int64_t)s->frame;

	return samples < frame ? 0 : 1 + (samples - frame) / (int64_t)s->step;
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct stft *s = self;
	int64_t n = in->shape[0];

	if ((in->dtype != MR_I16 && in->dtype != MR_F32) || in->ndim != 1)
		return mr_op_refuse("stft", in,
				    "it wants sound of one channel, i16[?] or "
				    "f32[?]",
				    err);
	*out = (struct mr_spec){
		MR_F32, 2, { n < 0 ? MR_ANY : frames(s, n), s->fft / 2 + 1 }
	};
	return 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	out->shape[0] = frames(cx->self, in->shape[0]);
	return 0;
}

/* ---- frames ---- */

/* The thread's own: a frame, 0 behind its window, and its spectrum. */
struct local {
	double *x, *z;
};

static void drop(void *local)
{
	struct local *l = local;

	free(l->x);
	free(l->z);
}

static int prepare(const struct stft *s, struct local *l, struct mr_err *err)
{
	size_t n = (size_t)s->fft;

	if (!l->x)
		l->x = mr_alloc_aligned(n * sizeof(*l->x), err);
	if (l->x && !l->z)
		l->z = mr_alloc_aligned((n + 2) * sizeof(*l->z), err);
	return l->z ? 0 : MR_ENOMEM;
}

/* An r2c transform leaves its input as it is, and so the zeros in it. */
static void transform(const struct stft *s, const struct local *l,
		      const struct mr_tensor *in, size_t frame)
{
	size_t at = frame * s->step;

	if (in->dtype == MR_I16)
		mr_window_i16((const int16_t *)in->data + at, s->window_i16,
			      s->frame, l->x);
	else
		mr_window_f32((const float *)in->data + at, s->window, s->frame,
			      l->x);
	fftw_execute_dft_r2c(s->plan, l->x, (fftw_complex *)l->z);
}

static int make(const struct mr_opctx *cx, const struct mr_tensor *in,
		size_t at, size_t n, const struct mr_columns *want, float *dst)
{
	const struct stft *s = cx->self;
	const struct local *l = cx->local;
	size_t values = (size_t)s->fft / 2 + 1;
	int e = prepare(s, cx->local, cx->err);

	if (!e)
		e = mr_rate_check(cx, "stft", s->rate);
	if (e)
		return e;
	for (size_t i = 0; i < n; i++, dst += values) {
		transform(s, l, in, at + i);
		mr_magnitude(l->z + 2 * want->first, want->count,
			     dst + want->first);
	}
	return 0;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	struct mr_columns all = { 0, (size_t)out->shape[1] };

	return make(cx, in, 0, (size_t)out->shape[0], &all, out->data);
}

static const struct mr_frames_op frames_op = { .make = make };

const struct mr_op mr_op_stft = {
	.name = "stft",
	.help = "sound to a spectrogram, frames x (fft/2 + 1) magnitudes, f32; "
		"i16 is scaled to -1..1",
	.size = sizeof(struct stft),
	.params = params,
	.open = open,
	.close = close,
	.infer = infer,
	.shape = shape,
	.run = run,
	.local = sizeof(struct local),
	.drop = drop,
	.frames = &frames_op,
};
