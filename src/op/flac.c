/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as nearly all are go through flacframe.c; what it does not take, and
 * all that is damaged, through libFLAC from the beginning. The checksum of
 * each frame is looked at; the MD5 sum of the whole is not: it would cost as
 * much as the decoding.
 */
#include <FLAC/stream_decoder.h>

#include "core/mem.h"
#include "op/flacframe.h"
#include "op/sound.h"

struct mr_flac {
	FLAC__StreamDecoder *d;
	bool initialised;
	const uint8_t *bytes;
	size_t n, at;
	size_t end; /* of the last good frame */
	struct mr_sound s;
	unsigned bits, block; /* of a sample; samples of a frame at most */
	bool head;	      /* STREAMINFO was there */
	int calls;	      /* of on_frame() for the frame at hand */
	uint64_t first;	      /* its number says how many samples go before */
	struct mr_pcm *to;    /* while decoding */
	struct mr_err *err;   /* for callbacks */
	int failed;	      /* what they set it to */

	/* for frames as they usually are */
	struct mr_flac_crc crc;
	int32_t *planes;
	size_t planes_cap;
};

/* ---- where frames begin ---- */

/* Bytes of a frame's head, without its checksum; 0: it is none. */
static size_t head_size(const uint8_t *b, size_t n)
{
	unsigned block = b[2] >> 4, rate = b[2] & 15, ones = 0;
	size_t size;

	if (b[0] != 0xff || (b[1] & 0xfe) != 0xf8 || !block || rate == 15 ||
	    b[3] >> 4 > 10 || b[3] & 1)
		return 0;
	while (ones < 8 && b[4] & 0x80u >> ones)
		ones++;
	size = 4 + (ones ? ones : 1); /* the number, as UTF-8 */
	size += block == 6 ? 1 : block == 7 ? 2 : 0;
	size += rate == 12 ? 1 : rate == 13 || rate == 14 ? 2 : 0;
	return ones == 1 || ones == 8 || size >= n ? 0 : size;
}

/* Does another frame begin behind the one that is not whole? Then it is not
 * the end that is missing. */
static bool goes_on(const struct mr_flac *f)
{
	for (size_t at = f->end + 2; at + 5 < f->n; at++) {
		const uint8_t *b = f->bytes + at;
		size_t size = head_size(b, f->n - at);

		if (size && mr_flac_crc8(b, size) == b[size])
			return true;
	}
	return false;
}

/* ---- what libFLAC calls ---- */

static FLAC__StreamDecoderReadStatus
on_read(const FLAC__StreamDecoder *d, FLAC__byte *to, size_t *n, void *data)
{
	struct mr_flac *f = data;
	size_t left = f->n - f->at;

	(void)d;
	if (*n > left)
		*n = left;
	if (!*n)
		return FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM;
	memcpy(to, f->bytes + f->at, *n);
	f->at += *n;
	return FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

static FLAC__StreamDecoderTellStatus on_tell(const FLAC__StreamDecoder *d,
					     FLAC__uint64 *at, void *data)
{
	(void)d;
	*at = ((const struct mr_flac *)data)->at;
	return FLAC__STREAM_DECODER_TELL_STATUS_OK;
}

static void on_metadata(const FLAC__StreamDecoder *d,
			const FLAC__StreamMetadata *m, void *data)
{
	const FLAC__StreamMetadata_StreamInfo *i = &m->data.stream_info;
	struct mr_flac *f = data;

	(void)d;
	if (m->type != FLAC__METADATA_TYPE_STREAMINFO || f->head)
		return;
	f->head = true;
	f->bits = i->bits_per_sample;
	f->block = i->max_blocksize;
	f->s = (struct mr_sound){
		.samples = i->total_samples ? (int64_t)i->total_samples : -1,
		.most = -1,
		.rate = i->sample_rate,
		.channels = (int)i->channels,
	};
}

static void on_error(const FLAC__StreamDecoder *d,
		     FLAC__StreamDecoderErrorStatus status, void *data)
{
	static const char *const why[] = {
		"what should be a frame is none",
		"a frame's head is corrupt",
		"a frame's checksum is wrong",
		"a frame needs a newer decoder",
		"metadata is corrupt",
	};
	struct mr_flac *f = data;

	(void)d;
	if (f->failed)
		return;
	f->failed = mr_err_set(
		f->err, MR_EDATA, "FLAC: %s%s, at byte %zu, after %zu samples",
		f->at < f->n || goes_on(f) ? "" : "truncated, or corrupt: ",
		status < MR_COUNT(why) ? why[status] : "error", f->end,
		f->to ? f->to->used : 0);
}

/*
 * Frames are numbered. Where some are missing the library gives silence
 * instead, in a call of its own, and says nothing.
 */
static bool in_order(struct mr_flac *f, const FLAC__FrameHeader *h)
{
	uint64_t number = h->number.sample_number;

	if (h->number_type != FLAC__FRAME_NUMBER_TYPE_SAMPLE_NUMBER)
		return true;
	if (!f->to->used)
		f->first = number;
	if (!f->calls++ && number == f->first + f->to->used)
		return true;
	f->failed = mr_err_set(
		f->err, MR_EDATA,
		"FLAC: frames are missing or not in order, at byte %zu, after "
		"%zu samples",
		f->end, f->to->used);
	return false;
}

static FLAC__StreamDecoderWriteStatus on_frame(const FLAC__StreamDecoder *d,
					       const FLAC__Frame *frame,
					       const FLAC__int32 *const *plane,
					       void *data)
{
	const FLAC__FrameHeader *h = &frame->header;
	struct mr_flac *f = data;
	void *to;

	(void)d;
	if (f->failed || !f->to)
		return FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
	if (h->channels != (unsigned)f->s.channels ||
	    h->bits_per_sample != f->bits ||
	    h->sample_rate != (uint64_t)f->s.rate) {
		f->failed = mr_err_set(
			f->err, MR_EDATA,
			"FLAC: %u channels of %u bits at %u Hz after %zu "
			"samples, and %d of %u at %lld before",
			h->channels, h->bits_per_sample, h->sample_rate,
			f->to->used, f->s.channels, f->bits,
			(long long)f->s.rate);
		return FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
	}
	if (!in_order(f, h))
		return FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
	to = mr_pcm_room(f->to, h->blocksize, f->err);
	if (!to) {
		f->failed = f->err->code;
		return FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
	}
	mr_pcm_ints(plane, 1, f->s.channels, (int)f->bits, h->blocksize,
		    f->to->as, to);
	return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

/* ---- */

int mr_flac_new(struct mr_flac **f, struct mr_err *err)
{
	*f = mr_alloc(1, sizeof(**f), err);
	if (!*f)
		return MR_ENOMEM;
	mr_flac_crc_init(&(*f)->crc);
	(*f)->d = FLAC__stream_decoder_new();
	if ((*f)->d)
		return 0;
	free(*f);
	*f = NULL;
	return mr_err_set(err, MR_ENOMEM, "FLAC: out of memory");
}

void mr_flac_free(struct mr_flac *f)
{
	if (!f)
		return;
	FLAC__stream_decoder_delete(f->d);
	free(f->planes);
	free(f);
}

/* From the second file on the decoder keeps its buffers. */
static bool begin(struct mr_flac *f)
{
	if (f->initialised)
		return FLAC__stream_decoder_reset(f->d);
	f->initialised = FLAC__stream_decoder_init_stream(
				 f->d, on_read, NULL, on_tell, NULL, NULL,
				 on_frame, on_metadata, on_error,
				 f) == FLAC__STREAM_DECODER_INIT_STATUS_OK;
	return f->initialised;
}

/* Why libFLAC would not go on. */
static int stopped(struct mr_flac *f, struct mr_err *err)
{
	FLAC__StreamDecoderState s = FLAC__stream_decoder_get_state(f->d);

	if (f->failed)
		return f->failed;
	if (s == FLAC__STREAM_DECODER_MEMORY_ALLOCATION_ERROR)
		return mr_err_set(err, MR_ENOMEM, "FLAC: out of memory");
	if (s == FLAC__STREAM_DECODER_END_OF_STREAM)
		return mr_err_set(err, MR_EDATA,
				  "FLAC: truncated: it ends at byte %zu", f->n);
	return mr_err_set(err, MR_EDATA, "FLAC: stopped at byte %zu: %s", f->at,
			  FLAC__StreamDecoderStateString[s]);
}

int mr_flac_start(struct mr_flac *f, const uint8_t *bytes, size_t n,
		  struct mr_sound *s, struct mr_err *err)
{
	FLAC__uint64 at;

	f->bytes = bytes;
	f->n = n;
	f->at = mr_id3_size(bytes, n);
	f->end = f->at;
	f->head = false;
	f->to = NULL;
	f->err = err;
	f->failed = 0;
	if (!begin(f))
		return mr_err_set(err, MR_ENOMEM, "FLAC: out of memory");
	if (!FLAC__stream_decoder_process_until_end_of_metadata(f->d) ||
	    f->failed)
		return stopped(f, err);
	if (!f->head)
		return mr_err_set(err, MR_EDATA,
				  "FLAC: truncated: no stream information in "
				  "%zu bytes",
				  n);
	if (FLAC__stream_decoder_get_decode_position(f->d, &at))
		f->end = (size_t)at;
	*s = f->s;
	return 0;
}

static bool ended(const struct mr_flac *f)
{
	FLAC__StreamDecoderState s = FLAC__stream_decoder_get_state(f->d);

	return s == FLAC__STREAM_DECODER_END_OF_STREAM;
}

static bool next_frame(struct mr_flac *f)
{
	FLAC__uint64 at;

	f->calls = 0;
	if (!FLAC__stream_decoder_process_single(f->d))
		return false;
	if (!ended(f) && FLAC__stream_decoder_get_decode_position(f->d, &at))
		f->end = (size_t)at;
	return true;
}

/* Of a file whose head has no number of samples: what is left may be a tag,
 * but not a frame that has begun. */
static bool cut(const struct mr_flac *f)
{
	const uint8_t *b = f->bytes + f->end;

	return f->n - f->end >= 2 && b[0] == 0xff && (b[1] & 0xfe) == 0xf8;
}

/* The samples end before they should. */
static int not_whole(const struct mr_flac *f, size_t samples,
		     struct mr_err *err)
{
	if (f->end == f->n)
		return mr_err_set(err, MR_EDATA,
				  "FLAC: truncated: it ends at byte %zu, after "
				  "%zu of %lld samples",
				  f->n, samples, (long long)f->s.samples);
	return mr_err_set(
		err, MR_EDATA,
		"FLAC: %s: the frame at byte %zu of %zu is not whole, "
		"after %zu samples",
		goes_on(f) ? "corrupt" : "truncated, or corrupt", f->end, f->n,
		samples);
}

/* ---- frames as they usually are ---- */

/* Room for a block of each channel; false: there is none. */
static bool make_planes(struct mr_flac *f, int32_t *plane[MR_FLAC_CHANNELS])
{
	size_t channels = (size_t)f->s.channels;
	struct mr_err ignored;

	if (f->bits > MR_FLAC_BITS || channels > MR_FLAC_CHANNELS ||
	    !f->block ||
	    mr_grow(&f->planes, &f->planes_cap, channels * f->block,
		    sizeof(*f->planes), SIZE_MAX, &ignored))
		return false;
	for (size_t c = 0; c < channels; c++)
		plane[c] = f->planes + c * f->block;
	return true;
}

/* Frames count themselves, or their samples. `used` samples and `frames`
 * whole ones lie between the first and this one. */
static bool follows(const struct mr_flac_frame *first,
		    const struct mr_flac_frame *x, uint64_t frames, size_t used)
{
	if (x->varies != first->varies)
		return false;
	if (x->varies)
		return x->number == first->number + used;
	return x->number == first->number + frames &&
	       used == frames * first->samples;
}

/* All samples that the head claims; false: libFLAC is to look at it. */
static bool decode_usual(struct mr_flac *f, struct mr_pcm *to)
{
	struct mr_flac_form form = { f->s.channels, (int)f->bits, f->s.rate };
	int32_t *plane[MR_FLAC_CHANNELS];
	struct mr_flac_frame first = { 0 }, x;
	size_t at = f->end, claim = (size_t)f->s.samples;
	struct mr_err ignored;

	if (f->s.samples < 0 || !make_planes(f, plane))
		return false;
	for (uint64_t frames = 0; to->used < claim; frames++) {
		void *room;

		if (!mr_flac_frame(f->bytes + at, f->n - at, &form, &f->crc,
				   plane, f->block, &x))
			return false;
		if (!frames)
			first = x;
		if (!follows(&first, &x, frames, to->used) ||
		    x.samples > claim - to->used)
			return false;
		room = mr_pcm_room(to, x.samples, &ignored);
		if (!room)
			return false;
		mr_pcm_ints((const int32_t *const *)plane, 1, form.channels,
			    form.bits, x.samples, to->as, room);
		at += x.bytes;
	}
	return true;
}

int mr_flac_decode(struct mr_flac *f, struct mr_pcm *to, struct mr_err *err)
{
	int64_t claim = f->s.samples;
	bool ok = true;

	if (decode_usual(f, to))
		return 0;
	to->used = 0;
	f->to = to;
	f->err = err;
	/* Tags may follow the last frame. */
	while (ok && !f->failed && !ended(f) &&
	       (claim < 0 || to->used < (size_t)claim))
		ok = next_frame(f);
	f->to = NULL;
	if (!ok || f->failed)
		return stopped(f, err);
	if (claim < 0 ? !cut(f) : to->used == (size_t)claim)
		return 0;
	return not_whole(f, to->used, err);
}
