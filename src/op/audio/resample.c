/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resample: sound at another rate, without what the new rate cannot carry.
 *
 * libsoxr does the work: beside libsamplerate it takes 1/15 of the time at
 * equal quality and gives as many samples as it should. It is fed in blocks,
 * so that its own memory stays small however long the sound is.
 */
#include <soxr.h>

#include "op/op.h"

enum { HIGH, BEST };
static const char *const qualities[] = { "high", "best", NULL };

enum {
	BLOCK = 4096, /* samples of all channels */
	KEPT = 4,     /* resamplers, for sounds of as many kinds in turn */
	CHANNELS = 64,
	FACTOR = 256,	    /* up or down */
	RATE_MAX = 1 << 24, /* Hz */
};

struct resample {
	int64_t rate, from;
	int quality;
};

/* What a thread keeps: resamplers, which are cleared for each sound. The
 * library makes its filters anew then, which takes about 0.05 ms. */
struct kind {
	int64_t from;
	unsigned channels;
	enum mr_dtype dtype;
};

struct local {
	struct kind kind[KEPT];
	soxr_t soxr[KEPT];
	unsigned next; /* to be given up for another kind */
};

static const struct mr_param params[] = {
	MR_INT(struct resample, rate, NULL, 1, RATE_MAX,
	       "samples per second that come out"),
	MR_INT(struct resample, from, "0", 0, RATE_MAX,
	       "samples per second that go in; 0: as decode_audio found them, "
	       "each sound its own"),
	MR_ENUM(struct resample, quality, "high", qualities,
		"high: errors and aliases below -115 dB up to 0.91 of the "
		"lower rate's half; best: -140 dB, f32 only"),
	MR_PARAM_END
};

/* The nearest number to n * to / from; halves go up. n < 2^38 and rates up to
 * 2^24 fit. */
static int64_t length(int64_t n, int64_t from, int64_t to)
{
	if (n > INT64_MAX / 2 / to - 1)
		return INT64_MAX;
	return (2 * n * to + from) / (2 * from);
}

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct resample *r = self;

	if ((in->dtype != MR_I16 && in->dtype != MR_F32) ||
	    (in->ndim != 1 && in->ndim != 2) ||
	    (in->ndim == 2 && in->shape[1] > CHANNELS))
		return mr_op_refuse("resample", in,
				    "it wants sound, i16 or f32, samples or "
				    "samples x channels, as decode_audio gives "
				    "it",
				    err);
	*out = *in;
	if (in->shape[0] != MR_ANY)
		out->shape[0] = r->from ?
					length(in->shape[0], r->from, r->rate) :
					MR_ANY;
	return 0;
}

/* ---- one sound ---- */

static int check_rates(const struct mr_opctx *cx, int64_t from)
{
	const struct resample *r = cx->self;

	if (!from)
		return mr_err_set(cx->err, MR_EDATA,
				  "the sound's rate is not known here, where "
				  "no decode_audio comes before; say "
				  "resample from=RATE");
	if (r->from && cx->rate && *cx->rate && *cx->rate != r->from)
		return mr_err_set(cx->err, MR_EDATA,
				  "%lld samples per second, and resample was "
				  "told from=%lld; without from= it takes what "
				  "comes",
				  (long long)*cx->rate, (long long)r->from);
	if (from > RATE_MAX || from > r->rate * FACTOR ||
	    r->rate > from * FACTOR)
		return mr_err_set(cx->err, MR_EDATA,
				  "from %lld to %lld samples per second: want "
				  "a factor of %d at most, and at most %d",
				  (long long)from, (long long)r->rate, FACTOR,
				  RATE_MAX);
	return 0;
}

static int64_t rate_of(const struct mr_opctx *cx)
{
	const struct resample *r = cx->self;

	return r->from ? r->from : cx->rate ? *cx->rate : 0;
}

static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct resample *r = cx->self;
	int64_t from = rate_of(cx);
	int e = check_rates(cx, from);

	if (e)
		return e;
	out->shape[0] = length(in->shape[0], from, r->rate);
	if (in->ndim == 2 && (in->shape[1] < 1 || in->shape[1] > CHANNELS))
		return mr_err_set(cx->err, MR_EDATA,
				  "%lld channels; want 1 to %d",
				  (long long)in->shape[1], CHANNELS);
	out->shape[1] = in->shape[1];
	return 0;
}

static void drop(void *local)
{
	struct local *l = local;

	for (int i = 0; i < KEPT; i++)
		soxr_delete(l->soxr[i]); /* NULL is allowed */
}

static soxr_t make(const struct resample *r, const struct kind *k,
		   soxr_error_t *why)
{
	/* Else frequencies from a half on are 0.01 dB too weak. */
	static const unsigned long flat =
		SOXR_ROLLOFF_NONE | SOXR_HI_PREC_CLOCK;
	static const unsigned long recipe[] = {
		[HIGH] = SOXR_HQ, [BEST] = SOXR_VHQ
	};
	soxr_datatype_t type =
		k->dtype == MR_I16 ? SOXR_INT16_I : SOXR_FLOAT32_I;
	soxr_io_spec_t io = soxr_io_spec(type, type);
	soxr_quality_spec_t q = soxr_quality_spec(recipe[r->quality], flat);
	soxr_runtime_spec_t one = soxr_runtime_spec(1);

	/* Its seed is the time of day: not the same in each run. */
	io.flags |= SOXR_NO_DITHER;
	return soxr_create((double)k->from, (double)r->rate, k->channels, why,
			   &io, &q, &one);
}

/* One that is ready for a new sound. */
static soxr_t get(const struct mr_opctx *cx, const struct kind *k)
{
	struct local *l = cx->local;
	soxr_error_t why = NULL;
	unsigned i;

	for (i = 0; i < KEPT; i++)
		if (l->soxr[i] && l->kind[i].from == k->from &&
		    l->kind[i].channels == k->channels &&
		    l->kind[i].dtype == k->dtype)
			break;
	if (i < KEPT) {
		why = soxr_clear(l->soxr[i]);
	} else {
		i = l->next++ % KEPT;
		soxr_delete(l->soxr[i]);
		l->kind[i] = *k;
		l->soxr[i] = make(cx->self, k, &why);
	}
	if (!why && l->soxr[i])
		return l->soxr[i];
	soxr_delete(l->soxr[i]);
	l->soxr[i] = NULL;
	mr_err_set(cx->err, MR_ENOMEM, "resample: %s",
		   why ? why : "out of memory");
	return NULL;
}

/* All of the sound; NULL at the end makes the library give what it holds. */
static int convert(const struct mr_opctx *cx, soxr_t s,
		   const struct mr_tensor *in, struct mr_tensor *out,
		   size_t size)
{
	size_t n = (size_t)in->shape[0], room = (size_t)out->shape[0];
	const char *from = in->data;
	char *to = out->data;
	size_t at = 0, used = 0, took, gave;

	while (used < room) {
		size_t k = n - at < BLOCK ? n - at : BLOCK;
		soxr_error_t why =
			soxr_process(s, k ? from + at * size : NULL, k, &took,
				     to + used * size, room - used, &gave);

		if (why)
			return mr_err_set(cx->err, MR_ENOMEM, "resample: %s",
					  why);
		took = k ? took : 0;
		at += took;
		used += gave;
		if (!gave && !took)
			break;
	}
	memset(to + used * size, 0, (room - used) * size);
	return 0;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	const struct resample *r = cx->self;
	struct kind k = { rate_of(cx),
			  in->ndim == 2 ? (unsigned)in->shape[1] : 1,
			  in->dtype };
	size_t size = mr_dtype_size(in->dtype) * k.channels;
	int e = check_rates(cx, k.from);
	soxr_t s;

	if (e)
		return e;
	if (cx->rate)
		*cx->rate = r->rate;
	if (k.from == r->rate) {
		if (in->shape[0])
			memcpy(out->data, in->data, mr_tensor_bytes(in));
		return 0;
	}
	s = get(cx, &k);
	return s ? convert(cx, s, in, out, size) : cx->err->code;
}

const struct mr_op mr_op_resample = {
	.name = "resample",
	.help = "sound at another rate, band-limited; n samples become n * "
		"rate "
		"/ from, rounded to the nearest number",
	.flags = MR_OP_RATE,
	.size = sizeof(struct resample),
	.params = params,
	.infer = infer,
	.shape = shape,
	.run = run,
	.local = sizeof(struct local),
	.drop = drop,
};
