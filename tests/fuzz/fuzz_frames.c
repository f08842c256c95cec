/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resample, stft, mel and log with any parameters, on any numbers. 21 bytes
 * are the parameters (see struct want), the rest is sound. Outputs have the
 * length that was promised and not a byte more, what frames give joined is
 * what they give alone, and a resampler that is kept gives what it gave before
 * others came between.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/le.h"
#include "core/mem.h"
#include "core/param.h"
#include "op/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const struct mr_op mr_op_resample, mr_op_stft, mr_op_mel, mr_op_log;

#define MUST(ok)                                                \
	do {                                                    \
		if (!(ok)) {                                    \
			fprintf(stderr, "not true: %s\n", #ok); \
			abort();                                \
		}                                               \
	} while (0)

enum { HEAD = 21, OUT_MAX = 1 << 22 };

struct want {
	bool f32, best;
	unsigned channels, frame, step, fft, bins, low, high;
	unsigned long from, to;
};

/* A step with its parameters and a thread's state. */
struct rig {
	const struct mr_op *op;
	void *self, *local;
	bool open;
	struct mr_arena strings;
};

static void rig_new(struct rig *g, const struct mr_op *op)
{
	*g = (struct rig){ .op = op };
	g->self = calloc(1, op->size);
	g->local = calloc(1, op->local ? op->local : 1);
	mr_arena_init(&g->strings, 4096);
	mr_param_defaults(op->params, g->self);
}

/* False: the value is refused, with a reason. */
static bool rig_text(struct rig *g, const char *name, const char *text)
{
	struct mr_err err = { 0 };

	if (!mr_param_set(mr_param_find(g->op->params, name), g->self, text,
			  &g->strings, &err))
		return true;
	MUST(err.text[0]);
	return false;
}

static bool rig_set(struct rig *g, const char *name, unsigned long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", value);
	return rig_text(g, name, text);
}

static bool rig_open(struct rig *g)
{
	struct mr_err err = { 0 };

	g->open = true;
	if (!g->op->open || !g->op->open(g->self, &err))
		return true;
	MUST(err.text[0]);
	return false;
}

static void rig_free(struct rig *g)
{
	if (g->open && g->op->close)
		g->op->close(g->self);
	if (g->op->drop)
		g->op->drop(g->local);
	mr_arena_fini(&g->strings);
	free(g->self);
	free(g->local);
}

static struct mr_opctx context(const struct rig *g, struct mr_err *err,
			       int64_t *rate)
{
	return (struct mr_opctx){ .self = g->self,
				  .local = g->local,
				  .limit = OUT_MAX,
				  .err = err,
				  .rate = rate };
}

/* What the step makes of *in, in memory of just that size; false: refused. */
static bool rig_run(const struct rig *g, const struct mr_tensor *in,
		    int64_t *rate, struct mr_tensor *out)
{
	struct mr_err err = { 0 };
	struct mr_opctx cx = context(g, &err, rate);
	struct mr_spec is = { in->dtype, in->ndim, { MR_ANY, MR_ANY } }, spec;
	int64_t elements;
	int e;

	*out = (struct mr_tensor){ 0 };
	if (in->ndim == 2)
		is.shape[1] = in->shape[1];
	if (g->op->infer(g->self, &is, &spec, &err))
		return false;
	*out = mr_tensor_of(&spec);
	e = 0;
	if (g->op->shape)
		e = g->op->shape(&cx, in, out);
	else
		memcpy(out->shape, in->shape, sizeof(out->shape));
	out->data = NULL;
	if (e ||
	    !mr_shape_elements(out->shape, out->ndim, out->dtype, &elements) ||
	    mr_tensor_bytes(out) > OUT_MAX)
		return false;
	out->data = malloc(mr_tensor_bytes(out) + !elements);
	e = g->op->run(&cx, in, out);
	MUST(e <= 0 && (!e || err.text[0]));
	if (e)
		free(out->data);
	if (e)
		out->data = NULL;
	return !e;
}

/* ---- the steps ---- */

static void resample(const struct want *w, const struct mr_tensor *in)
{
	static struct rig kept;
	static unsigned long kept_to;
	static bool kept_best;
	struct rig fresh;
	struct mr_tensor a, b;
	int64_t rate = (int64_t)w->from, same = rate;
	bool ok;

	rig_new(&fresh, &mr_op_resample);
	MUST(rig_text(&fresh, "quality", w->best ? "best" : "high"));
	if (!rig_set(&fresh, "rate", w->to)) {
		rig_free(&fresh);
		return;
	}
	if (!kept.self || kept_to != w->to || kept_best != w->best) {
		if (kept.self)
			rig_free(&kept);
		rig_new(&kept, &mr_op_resample);
		MUST(rig_set(&kept, "rate", w->to));
		MUST(rig_text(&kept, "quality", w->best ? "best" : "high"));
		kept_to = w->to;
		kept_best = w->best;
	}
	ok = rig_run(&fresh, in, &rate, &a);
	MUST(ok == rig_run(&kept, in, &same, &b));
	if (ok) {
		MUST(rate == (int64_t)w->to && a.shape[0] == b.shape[0]);
		MUST(!memcmp(a.data, b.data, mr_tensor_bytes(&a)));
	}
	free(a.data);
	free(b.data);
	rig_free(&fresh);
}

/* Which bits a number has that is none is up to the CPU. */
static bool same(const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof(*a)) != 0 &&
		    !(isnan(a[i]) && isnan(b[i])))
			return false;
	return true;
}

/* Rows of the first two steps, a strip at a time. */
static void joined(const struct rig *stft, const struct rig *mel,
		   const struct mr_tensor *in, const struct mr_tensor *want,
		   size_t values)
{
	struct mr_err err = { 0 };
	struct mr_opctx a = context(stft, &err, NULL);
	struct mr_opctx b = context(mel, &err, NULL);
	size_t bins = (size_t)want->shape[1], rows = (size_t)want->shape[0];
	float *strip = malloc(values * MR_STRIP * sizeof(float));
	float *out = malloc(bins * MR_STRIP * sizeof(float));
	struct mr_columns c;

	MUST(!mr_op_mel.frames->needs(&b, values, &c));
	MUST(c.first + c.count <= values);
	for (size_t at = 0; at < rows; at += MR_STRIP) {
		size_t n = rows - at < MR_STRIP ? rows - at : MR_STRIP;

		memset(strip, 0xff, values * MR_STRIP * sizeof(float));
		MUST(!mr_op_stft.frames->make(&a, in, at, n, &c, strip));
		MUST(!mr_op_mel.frames->map(&b, strip, values, n, out));
		MUST(same(out, (const float *)want->data + at * bins,
			  n * bins));
	}
	free(strip);
	free(out);
}

static void spectrum(const struct want *w, const struct mr_tensor *in)
{
	struct rig stft, mel, log;
	struct mr_tensor a = { 0 }, b = { 0 }, c = { 0 };

	rig_new(&stft, &mr_op_stft);
	rig_new(&mel, &mr_op_mel);
	rig_new(&log, &mr_op_log);
	if (rig_set(&stft, "frame", w->frame) &&
	    rig_set(&stft, "step", w->step) && rig_set(&stft, "fft", w->fft) &&
	    rig_set(&mel, "bins", w->bins) && rig_set(&mel, "fmin", w->low) &&
	    rig_set(&mel, "fmax", w->high) && rig_set(&mel, "rate", w->from) &&
	    rig_open(&stft) && rig_open(&mel) && rig_run(&stft, in, NULL, &a) &&
	    rig_run(&mel, &a, NULL, &b) && rig_run(&log, &b, NULL, &c))
		joined(&stft, &mel, in, &b, (size_t)a.shape[1]);
	free(a.data);
	free(b.data);
	free(c.data);
	rig_free(&stft);
	rig_free(&mel);
	rig_free(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct want w;
	struct mr_tensor in = { .ndim = 1 };
	size_t number, n;

	if (size < HEAD)
		return 0;
	w = (struct want){
		.f32 = data[0] & 1,
		.best = data[0] & 2,
		.channels = data[0] >> 2 & 7,
		.frame = mr_le16(data + 1),
		.step = mr_le16(data + 3),
		.fft = mr_le16(data + 5) % 4100,
		.bins = mr_le16(data + 7) % 600,
		.low = mr_le16(data + 9),
		.high = mr_le16(data + 11),
		.from = mr_le32(data + 13),
		.to = mr_le32(data + 17),
	};
	number = w.f32 ? 4 : 2;
	in.dtype = w.f32 ? MR_F32 : MR_I16;
	n = (size - HEAD) / number;
	in.shape[0] = (int64_t)n;
	in.data = malloc(n * number + !n);
	memcpy(in.data, data + HEAD, n * number);
	spectrum(&w, &in);
	if (w.channels > 1) {
		in.ndim = 2;
		in.shape[0] = (int64_t)(n / w.channels);
		in.shape[1] = w.channels;
	}
	resample(&w, &in);
	free(in.data);
	return 0;
}
