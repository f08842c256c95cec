/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "core/le.h"
#include "op/sound.h"

enum {
	PCM = 1,
	REAL = 3,
	EXTENSIBLE = 0xfffe,
	BLOCK = 1024, /* numbers at a time, in the L1 cache */
};

/* Finds chunk `id` from *at on; its bytes are [*at, *at + *size). size is cut
 * where the file ends, and *whole says whether it was. */
static bool find(const uint8_t *b, size_t n, const char *id, size_t *at,
		 size_t *size, uint32_t *claim)
{
	while (n - *at >= 8) {
		uint64_t length = mr_le32(b + *at + 4);
		bool found = !memcmp(b + *at, id, 4);

		*at += 8;
		if (found) {
			*claim = (uint32_t)length;
			*size = length < n - *at ? length : n - *at;
			return true;
		}
		length += length & 1;
		if (length > n - *at)
			return false;
		*at += length;
	}
	return false;
}

static int unsupported(unsigned tag, unsigned bits, struct mr_err *err)
{
	return mr_err_set(err, MR_EDATA,
			  "WAV: format 0x%04x with %u bits is not supported; "
			  "want PCM of 8, 16, 24 or 32 bits, or float of 32 or "
			  "64",
			  tag, bits);
}

static int read_format(struct mr_wav *w, const uint8_t *f, size_t n,
		       struct mr_err *err)
{
	unsigned tag, channels, align, bits;

	if (n < 16)
		return mr_err_set(err, MR_EDATA,
				  "WAV: chunk 'fmt ' has %zu bytes, want 16",
				  n);
	tag = mr_le16(f);
	channels = mr_le16(f + 2);
	align = mr_le16(f + 12);
	bits = mr_le16(f + 14);
	if (tag == EXTENSIBLE && n >= 26)
		tag = mr_le16(f + 24);
	if (!channels || channels > MR_PCM_CHANNELS)
		return mr_err_set(err, MR_EDATA,
				  "WAV: %u channels; want 1 to %d", channels,
				  MR_PCM_CHANNELS);
	if (!mr_le32(f + 4))
		return mr_err_set(err, MR_EDATA, "WAV: 0 samples per second");
	w->real = tag == REAL;
	w->bytes = (int)(bits + 7) / 8;
	w->s.channels = (int)channels;
	w->s.rate = mr_le32(f + 4);
	if (w->real ? bits != 32 && bits != 64 :
		      tag != PCM || bits < 1 || bits > 32)
		return unsupported(tag, bits, err);
	if (align != channels * (unsigned)w->bytes)
		return mr_err_set(err, MR_EDATA,
				  "WAV: %u bytes for %u channels of %u bits",
				  align, channels, bits);
	return 0;
}

/* Of a program that was stopped before it wrote the length: behind a chunk
 * without bytes there is something that is no chunk. */
static bool unfinished(const uint8_t *b, size_t n, size_t at, size_t size)
{
	uint32_t claim;

	if (size || n - at < 8)
		return false;
	while (n - at >= 8) {
		claim = mr_le32(b + at + 4);
		if (claim > n - at - 8)
			return true;
		at += 8 + (size_t)claim;
		at += claim & 1 && at < n;
	}
	return false;
}

/* A program that writes to a pipe does not know the length. SoX then says as
 * many whole frames as there are in 0x7ffff000 bytes. */
static bool is_open(uint32_t claim, size_t frame)
{
	return claim == UINT32_MAX || claim == 0x7ffff000 - 0x7ffff000 % frame;
}

int mr_wav_start(struct mr_wav *w, const uint8_t *b, size_t n,
		 struct mr_err *err)
{
	size_t at = 12, size, frame;
	uint32_t claim;
	int e;

	if (n < 12 || !find(b, n, "fmt ", &at, &size, &claim))
		return mr_err_set(err, MR_EDATA,
				  "WAV: no chunk 'fmt ' in %zu bytes", n);
	e = read_format(w, b + at, size, err);
	if (e)
		return e;
	at = 12;
	if (!find(b, n, "data", &at, &size, &claim))
		return mr_err_set(err, MR_EDATA,
				  "WAV: no chunk 'data' in %zu bytes", n);
	frame = (size_t)w->bytes * (size_t)w->s.channels;
	if (claim > size && !is_open(claim, frame))
		return mr_err_set(err, MR_EDATA,
				  "WAV: truncated: %zu of %lu bytes of sound",
				  size, (unsigned long)claim);
	if (unfinished(b, n, at, size))
		return mr_err_set(err, MR_EDATA,
				  "WAV: its head says that there is no sound, "
				  "and %zu bytes follow: its writer has not "
				  "finished it",
				  n - at);
	w->data = b + at;
	w->s.samples = (int64_t)(size / frame);
	return 0;
}

static void block(const struct mr_wav *w, const uint8_t *from, size_t n,
		  struct mr_pcm_as as, void *to)
{
	int channels = w->s.channels;
	const int32_t *plane[MR_PCM_CHANNELS];
	int32_t ints[BLOCK];
	double reals[BLOCK];
	size_t numbers = n * (size_t)channels;

	if (!w->real && w->bytes == 2 && !as.f32 &&
	    (channels == 1 || !as.mono)) {
		mr_pcm_unpack_i16(from, numbers, to);
		return;
	}
	if (w->real) {
		mr_pcm_unpack_reals(from, w->bytes, numbers, reals);
		mr_pcm_reals(reals, channels, n, as, to);
		return;
	}
	for (int c = 0; c < channels; c++)
		plane[c] = ints + c;
	mr_pcm_unpack(from, w->bytes, numbers, ints);
	mr_pcm_ints(plane, (size_t)channels, channels, 8 * w->bytes, n, as, to);
}

int mr_wav_decode(const struct mr_wav *w, struct mr_pcm *to, struct mr_err *err)
{
	size_t n = (size_t)w->s.samples, most = BLOCK / (size_t)w->s.channels;
	size_t frame = (size_t)w->bytes * (size_t)w->s.channels;

	for (size_t i = 0; i < n; i += most) {
		size_t k = n - i < most ? n - i : most;
		void *room = mr_pcm_room(to, k, err);

		if (!room)
			return err->code;
		block(w, w->data + i * frame, k, to->as, room);
	}
	return 0;
}
