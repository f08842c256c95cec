/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decode_audio and the formats' decoders say to each other: a decoder is
 * started on the bytes of a file and says what they claim to be; then it
 * decodes all of them into a struct mr_pcm. A decoder is one thread's, is kept
 * from file to file, and may be started again at any time.
 */
#ifndef MR_OP_SOUND_H
#define MR_OP_SOUND_H

#include "kernel/pcm.h"
#include "op/op.h"

/* What a file's head says. */
struct mr_sound {
	int64_t samples; /* of each channel; -1: seen only by decoding */
	int64_t most;	 /* then: no more than so many, or -1 */
	int64_t rate;	 /* per second */
	int channels;	 /* 1 to MR_PCM_CHANNELS */
};

/*
 * Where samples go, of type and channels as `as` says. Either room for a
 * known number, or memory of a decoder that grows and is kept.
 */
struct mr_pcm {
	struct mr_pcm_as as;
	int channels; /* that leave: 1 for mono */
	void *data;
	size_t used; /* samples of all channels */
	size_t cap;  /* bytes */
	size_t max;  /* 0: does not grow; else up to so many bytes */
};

/* Bytes of a sample of all channels. */
size_t mr_pcm_size(const struct mr_pcm *p);
/* Where the next n samples go, which are then counted as used; NULL: *err
 * says why. Memory that grows is malloc()ed. */
void *mr_pcm_room(struct mr_pcm *p, size_t n, struct mr_err *err);

/* Bytes of the ID3v2 tags in front; 0 when there is none. */
size_t mr_id3_size(const uint8_t *bytes, size_t n);

/* ---- FLAC, by libFLAC ---- */

struct mr_flac;

int mr_flac_new(struct mr_flac **f, struct mr_err *err);
void mr_flac_free(struct mr_flac *f); /* NULL is allowed */
int mr_flac_start(struct mr_flac *f, const uint8_t *bytes, size_t n,
		  struct mr_sound *s, struct mr_err *err);
int mr_flac_decode(struct mr_flac *f, struct mr_pcm *to, struct mr_err *err);

/* ---- MP3, by libmpg123 ---- */

struct mr_mp3;

int mr_mp3_new(struct mr_mp3 **m, struct mr_pcm_as as, struct mr_err *err);
void mr_mp3_free(struct mr_mp3 *m); /* NULL is allowed */
/* s->samples is -1 at all times: a head's claim is checked by decoding. s->most
 * is what the frames' heads, one behind the other, add up to. */
int mr_mp3_start(struct mr_mp3 *m, const uint8_t *bytes, size_t n,
		 struct mr_sound *s, struct mr_err *err);
/* lenient: over bytes that are no frame, and a last frame that is not whole */
int mr_mp3_decode(struct mr_mp3 *m, bool lenient, struct mr_pcm *to,
		  struct mr_err *err);

/* What the MPEG audio frames in n bytes have of samples at most, when nothing
 * else but a tag at the end is among them; else -1. */
int64_t mr_mpeg_samples(const uint8_t *bytes, size_t n);

/* ---- WAV ---- */

struct mr_wav {
	const uint8_t *data; /* in the file */
	struct mr_sound s;
	int bytes; /* of a number */
	bool real;
};

int mr_wav_start(struct mr_wav *w, const uint8_t *bytes, size_t n,
		 struct mr_err *err);
int mr_wav_decode(const struct mr_wav *w, struct mr_pcm *to,
		  struct mr_err *err);

#endif
