/* SPDX-License-Identifier: Apache-2.0 */
#include "synth/encode.h"

#include <string.h>

#include <FLAC/stream_encoder.h>

#include "core/mem.h"

static int put(struct encoded *out, const void *data, size_t n,
	       struct mr_err *err)
{
	int e = mr_grow(&out->data, &out->cap, out->at + n, 1, SIZE_MAX, err);

	if (e)
		return e;
	memcpy(out->data + out->at, data, n);
	out->at += n;
	if (out->size < out->at)
		out->size = out->at;
	return 0;
}

/* ---- WAV ---- */

static void le(uint8_t *to, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(v >> 8 * i);
}

int encode_wav(const int16_t *x, size_t n, int rate, struct encoded *out,
	       struct mr_err *err)
{
	uint8_t head[44] = "RIFF----WAVEfmt ";
	uint32_t bytes = (uint32_t)(2 * n);
	int e;

	le(head + 4, bytes + 36, 4);
	le(head + 16, 16, 4);
	le(head + 20, 1, 2); /* plain numbers */
	le(head + 22, 1, 2); /* channel */
	le(head + 24, (uint32_t)rate, 4);
	le(head + 28, (uint32_t)rate * 2, 4);
	le(head + 32, 2, 2);
	le(head + 34, 16, 2);
	memcpy(head + 36, "data", 4);
	le(head + 40, bytes, 4);
	e = put(out, head, sizeof(head), err);
	for (size_t i = 0; i < n && !e; i++) {
		uint8_t b[2];

		le(b, (uint16_t)x[i], 2);
		e = put(out, b, 2, err);
	}
	return e;
}

/* ---- FLAC ---- */

struct flac {
	struct encoded *out;
	struct mr_err *err;
};

static FLAC__StreamEncoderWriteStatus flac_write(const FLAC__StreamEncoder *f,
						 const FLAC__byte *data,
						 size_t n, uint32_t samples,
						 uint32_t frame, void *arg)
{
	struct flac *g = arg;

	(void)f;
	(void)samples;
	(void)frame;
	return put(g->out, data, n, g->err) ?
		       FLAC__STREAM_ENCODER_WRITE_STATUS_FATAL_ERROR :
		       FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

/* At the end the header is written again, with what is then known. */
static FLAC__StreamEncoderSeekStatus flac_seek(const FLAC__StreamEncoder *f,
					       FLAC__uint64 at, void *arg)
{
	struct flac *g = arg;

	(void)f;
	g->out->at = at;
	return FLAC__STREAM_ENCODER_SEEK_STATUS_OK;
}

static FLAC__StreamEncoderTellStatus flac_tell(const FLAC__StreamEncoder *f,
					       FLAC__uint64 *at, void *arg)
{
	const struct flac *g = arg;

	(void)f;
	*at = g->out->at;
	return FLAC__STREAM_ENCODER_TELL_STATUS_OK;
}

static bool flac_start(FLAC__StreamEncoder *f, int rate, size_t n,
		       struct flac *g)
{
	return FLAC__stream_encoder_set_channels(f, 1) &&
	       FLAC__stream_encoder_set_bits_per_sample(f, 16) &&
	       FLAC__stream_encoder_set_sample_rate(f, (uint32_t)rate) &&
	       FLAC__stream_encoder_set_compression_level(f, 5) &&
	       FLAC__stream_encoder_set_total_samples_estimate(f, n) &&
	       FLAC__stream_encoder_init_stream(f, flac_write, flac_seek,
						flac_tell, NULL, g) ==
		       FLAC__STREAM_ENCODER_INIT_STATUS_OK;
}

static bool flac_feed(FLAC__StreamEncoder *f, const int16_t *x, size_t n)
{
	enum { BLOCK = 4096 };
	FLAC__int32 block[BLOCK];

	for (size_t at = 0; at < n; at += BLOCK) {
		size_t m = n - at < BLOCK ? n - at : BLOCK;

		for (size_t i = 0; i < m; i++)
			block[i] = x[at + i];
		if (!FLAC__stream_encoder_process_interleaved(f, block,
							      (uint32_t)m))
			return false;
	}
	return true;
}

int encode_flac(const int16_t *x, size_t n, int rate, struct encoded *out,
		struct mr_err *err)
{
	FLAC__StreamEncoder *f = FLAC__stream_encoder_new();
	struct flac g = { out, err };
	bool ok;

	if (!f)
		return mr_err_nomem(err, n);
	ok = flac_start(f, rate, n, &g) && flac_feed(f, x, n);
	ok = FLAC__stream_encoder_finish(f) && ok;
	if (!ok && !err->code)
		mr_err_set(err, MR_ENOMEM, "libFLAC: %s",
			   FLAC__stream_encoder_get_resolved_state_string(f));
	FLAC__stream_encoder_delete(f);
	return ok ? 0 : err->code;
}
