/* SPDX-License-Identifier: Apache-2.0 */
/* decode_audio: FLAC, MP3 and WAV bytes become samples of sound. */
#include "op/sound.h"

enum { I16, F32 };
static const char *const types[] = { "i16", "f32", NULL };

enum { MONO, KEEP };
static const char *const channel_words[] = { "mono", "keep", NULL };

struct decode_audio {
	int dtype, channels;
	int64_t rate;
	bool lenient;
};

enum format { FLAC, MP3, WAV };

/* What a thread keeps. */
struct local {
	struct mr_flac *flac;
	struct mr_mp3 *mp3;
	struct mr_wav wav;
	enum format format;
	struct mr_sound sound;
	/* of files whose number of samples only decoding tells */
	struct mr_pcm own;
};

static const struct mr_param params[] = {
	MR_ENUM(struct decode_audio, dtype, "i16", types,
		"i16: the upper 16 bits; f32: -1 to 1, all bits"),
	MR_ENUM(struct decode_audio, channels, "mono", channel_words,
		"mono: one dimension, the mean of the channels; keep: samples "
		"x channels"),
	MR_INT(struct decode_audio, rate, "0", 0, 1e9,
	       "samples per second that files must have: others are bad "
	       "samples; 0: any"),
	MR_BOOL(struct decode_audio, lenient, "no",
		"MP3: go over bytes that are no frame, and take a last frame "
		"that is not whole, as players do"),
	MR_PARAM_END
};

static int infer(const void *self, const struct mr_spec *in,
		 struct mr_spec *out, struct mr_err *err)
{
	const struct decode_audio *d = self;

	if (in->dtype != MR_U8 || in->ndim != 1)
		return mr_op_refuse("decode_audio", in,
				    "it wants the bytes of a file, u8[?]", err);
	*out = (struct mr_spec){ d->dtype == F32 ? MR_F32 : MR_I16,
				 d->channels == KEEP ? 2 : 1,
				 { MR_ANY, MR_ANY } };
	return 0;
}

static void drop(void *local)
{
	struct local *l = local;

	mr_flac_free(l->flac);
	mr_mp3_free(l->mp3);
	free(l->own.data);
}

/* ---- which format ---- */

static int unknown(const uint8_t *b, size_t n, struct mr_err *err)
{
	if (!n)
		return mr_err_set(err, MR_EDATA, "the file is empty");
	if (n >= 4 && !memcmp(b, "OggS", 4))
		return mr_err_set(err, MR_EDATA,
				  "Ogg is not supported; convert it to FLAC");
	if (n >= 4 && (!memcmp(b, "RF64", 4) || !memcmp(b, "RIFX", 4)))
		return mr_err_set(err, MR_EDATA,
				  "%.4s is not supported; convert it to WAV or "
				  "FLAC",
				  (const char *)b);
	return mr_err_set(err, MR_EDATA,
			  "neither FLAC, MP3 nor WAV: it begins with %02x "
			  "%02x %02x %02x",
			  b[0], n > 1 ? b[1] : 0, n > 2 ? b[2] : 0,
			  n > 3 ? b[3] : 0);
}

static int find_format(const uint8_t *b, size_t n, enum format *f,
		       struct mr_err *err)
{
	size_t tag = mr_id3_size(b, n);

	if (tag && tag == n)
		return mr_err_set(err, MR_EDATA,
				  "truncated: nothing follows the ID3 tag in "
				  "%zu bytes",
				  n);
	if (n - tag >= 4 && !memcmp(b + tag, "fLaC", 4))
		*f = FLAC;
	else if (n >= 12 && !memcmp(b, "RIFF", 4) && !memcmp(b + 8, "WAVE", 4))
		*f = WAV;
	else if (tag || (n >= 2 && b[0] == 0xff && (b[1] & 0xe0) == 0xe0))
		*f = MP3;
	else
		return unknown(b, n, err);
	return 0;
}

/* ---- one file ---- */

static struct mr_pcm_as as(const struct decode_audio *d)
{
	return (struct mr_pcm_as){ d->dtype == F32, d->channels == MONO };
}

static int start(const struct mr_opctx *cx, const struct mr_tensor *in)
{
	const struct decode_audio *d = cx->self;
	struct local *l = cx->local;
	size_t n = mr_tensor_bytes(in);
	int e = find_format(in->data, n, &l->format, cx->err);

	if (e)
		return e;
	if (l->format == WAV) {
		e = mr_wav_start(&l->wav, in->data, n, cx->err);
		l->sound = l->wav.s;
	} else if (l->format == FLAC) {
		e = l->flac ? 0 : mr_flac_new(&l->flac, cx->err);
		if (!e)
			e = mr_flac_start(l->flac, in->data, n, &l->sound,
					  cx->err);
	} else {
		e = l->mp3 ? 0 : mr_mp3_new(&l->mp3, as(d), cx->err);
		if (!e)
			e = mr_mp3_start(l->mp3, in->data, n, &l->sound,
					 cx->err);
	}
	if (!e && cx->rate)
		*cx->rate = l->sound.rate;
	if (!e && d->rate && d->rate != l->sound.rate)
		e = mr_err_set(cx->err, MR_EDATA,
			       "%lld samples per second, and rate=%lld is "
			       "wanted; `resample` instead of rate= converts "
			       "it, --on-error skip leaves it out",
			       (long long)l->sound.rate, (long long)d->rate);
	return e;
}

static int decode(const struct mr_opctx *cx, struct mr_pcm *to)
{
	const struct decode_audio *d = cx->self;
	struct local *l = cx->local;

	switch (l->format) {
	case WAV:
		return mr_wav_decode(&l->wav, to, cx->err);
	case FLAC:
		return mr_flac_decode(l->flac, to, cx->err);
	default:
		return mr_mp3_decode(l->mp3, d->lenient, to, cx->err);
	}
}

/* Where a file says how many samples it has, or how many at most, they are
 * decoded to where they belong. What a lenient decoder finds nobody knows. */
static int64_t room(const struct mr_opctx *cx)
{
	const struct decode_audio *d = cx->self;
	const struct local *l = cx->local;

	return l->sound.samples < 0 && !d->lenient ? l->sound.most :
						     l->sound.samples;
}

/* A claim is believed as far as the memory goes; else all is decoded now. */
static int shape(const struct mr_opctx *cx, const struct mr_tensor *in,
		 struct mr_tensor *out)
{
	const struct decode_audio *d = cx->self;
	struct local *l = cx->local;
	struct mr_pcm *own = &l->own;
	int e = start(cx, in);

	if (e)
		return e;
	own->as = as(d);
	own->channels = own->as.mono ? 1 : l->sound.channels;
	out->shape[1] = l->sound.channels;
	out->shape[0] = room(cx);
	if (out->shape[0] < 0) {
		own->used = 0;
		own->max = cx->limit;
		e = decode(cx, own);
		out->shape[0] = (int64_t)own->used;
	} else if ((uint64_t)out->shape[0] > cx->limit / mr_pcm_size(own)) {
		e = mr_err_set(cx->err, MR_ELIMIT,
			       "%lld samples need more than the %zu bytes that "
			       "a sample may take; raise --memory",
			       (long long)out->shape[0], cx->limit);
	}
	return e;
}

static int run(const struct mr_opctx *cx, const struct mr_tensor *in,
	       struct mr_tensor *out)
{
	struct local *l = cx->local;
	struct mr_pcm to = l->own;
	int64_t n = room(cx);
	int e;

	(void)in;
	if (n < 0) {
		if (to.used)
			memcpy(out->data, to.data, mr_tensor_bytes(out));
		return 0;
	}
	to.data = out->data;
	to.used = 0;
	to.cap = (size_t)n * mr_pcm_size(&to);
	to.max = 0;
	e = decode(cx, &to);
	if (l->sound.samples < 0)
		out->shape[0] = (int64_t)to.used;
	return e;
}

const struct mr_op mr_op_decode_audio = {
	.name = "decode_audio",
	.help = "FLAC, MP3 or WAV bytes to samples of sound, i16 or f32",
	.flags = MR_OP_RATE,
	.size = sizeof(struct decode_audio),
	.params = params,
	.infer = infer,
	.shape = shape,
	.run = run,
	.local = sizeof(struct local),
	.drop = drop,
	.gives = "audio",
};
