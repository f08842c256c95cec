/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library reads from memory as from a file that it can seek in, so that
 * it finds tags and the encoder's delay (gapless) as its own command does.
 * It goes over whatever it does not understand; that a frame does not begin
 * where the one before ended is noticed here.
 */
#include <stdio.h>

#include <mpg123.h>

#include "op/sound.h"

struct mr_mp3 {
	mpg123_handle *h;
	struct mr_pcm_as as;
	const uint8_t *bytes;
	size_t n, at;
	struct mr_sound s;
	size_t claim; /* samples, as an encoder's first frame says; or 0 */
};

/* ---- a file in memory ---- */

static ssize_t on_read(void *data, void *to, size_t n)
{
	struct mr_mp3 *m = data;

	if (n > m->n - m->at)
		n = m->n - m->at;
	memcpy(to, m->bytes + m->at, n);
	m->at += n;
	return (ssize_t)n;
}

static off_t on_seek(void *data, off_t offset, int whence)
{
	struct mr_mp3 *m = data;
	off_t from = whence == SEEK_SET ? 0 :
		     whence == SEEK_CUR ? (off_t)m->at :
					  (off_t)m->n;

	if (offset < -from || offset > (off_t)m->n - from)
		return -1;
	m->at = (size_t)(from + offset);
	return from + offset;
}

/* ---- */

static int set_up(mpg123_handle *h, struct mr_pcm_as as)
{
	long flags = MPG123_QUIET | MPG123_GAPLESS | MPG123_SKIP_ID3V2;
	int encoding = as.f32 ? MPG123_ENC_FLOAT_32 : MPG123_ENC_SIGNED_16;
	int channels = as.mono ? MPG123_MONO : MPG123_MONO | MPG123_STEREO;
	const long *rates;
	size_t n;
	int e;

	if (as.mono) /* before synthesis, which is half the work */
		flags |= MPG123_MONO_MIX;
	mpg123_rates(&rates, &n);
	e = mpg123_param(h, MPG123_ADD_FLAGS, flags, 0);
	if (!e)
		e = mpg123_param(h, MPG123_INDEX_SIZE, 0, 0);
	if (!e)
		e = mpg123_format_none(h);
	for (size_t i = 0; !e && i < n; i++)
		e = mpg123_format(h, rates[i], channels, encoding);
	return e ? e : mpg123_replace_reader_handle(h, on_read, on_seek, NULL);
}

int mr_mp3_new(struct mr_mp3 **out, struct mr_pcm_as as, struct mr_err *err)
{
	struct mr_mp3 *m = mr_alloc(1, sizeof(*m), err);
	int e = MPG123_OUT_OF_MEM;

	if (!m)
		return MR_ENOMEM;
	m->as = as;
	m->h = mpg123_new(NULL, &e);
	if (m->h)
		e = set_up(m->h, as);
	if (!m->h || e) {
		mr_mp3_free(m);
		return mr_err_set(err, MR_ENOMEM, "MP3: no decoder: %s",
				  mpg123_plain_strerror(e));
	}
	*out = m;
	return 0;
}

void mr_mp3_free(struct mr_mp3 *m)
{
	if (!m)
		return;
	mpg123_delete(m->h); /* NULL is allowed */
	free(m);
}

static int failed(struct mr_mp3 *m, struct mr_err *err)
{
	int code = mpg123_errcode(m->h);

	if (code == MPG123_OUT_OF_MEM)
		return mr_err_set(err, MR_ENOMEM, "MP3: out of memory");
	if (code == MPG123_LSEEK_FAILED || m->at == m->n)
		return mr_err_set(err, MR_EDATA,
				  "MP3: truncated: no whole frame up to its "
				  "end at byte %zu",
				  m->n);
	if (code == MPG123_RESYNC_FAIL)
		return mr_err_set(err, MR_EDATA,
				  "MP3: corrupt: no frame in the bytes before "
				  "%zu of %zu; lenient=yes takes what comes "
				  "before",
				  m->at, m->n);
	return mr_err_set(err, MR_EDATA, "MP3: %s, before byte %zu of %zu",
			  code ? mpg123_plain_strerror(code) : "no frame",
			  m->at, m->n);
}

/*
 * Whether the first frame is Xing's or LAME's, with the number of frames: then
 * the library's length is what that says. Its place is behind the side
 * information, which has 9, 17 or 32 bytes.
 */
static bool has_info(const uint8_t *b, size_t n)
{
	static const size_t side[] = { 9, 17, 32 };

	for (size_t i = 0; i < MR_COUNT(side); i++) {
		size_t at = 4 + side[i];

		if (n < at + 12)
			return false;
		if (!memcmp(b + at, "Xing", 4) || !memcmp(b + at, "Info", 4))
			return b[at + 7] & 1 && memcmp(b + at + 8, "\0\0\0", 4);
	}
	return false;
}

int mr_mp3_start(struct mr_mp3 *m, const uint8_t *bytes, size_t n,
		 struct mr_sound *s, struct mr_err *err)
{
	size_t tag = mr_id3_size(bytes, n);
	int channels, encoding;
	long rate;

	m->bytes = bytes;
	m->n = n;
	m->at = 0;
	if (mpg123_open_handle(m->h, m) ||
	    mpg123_getformat(m->h, &rate, &channels, &encoding))
		return failed(m, err);
	*s = (struct mr_sound){ .samples = -1,
				.most = mr_mpeg_samples(bytes + tag, n - tag),
				.rate = rate,
				.channels = channels };
	m->s = *s;
	m->claim = 0;
	if (has_info(bytes + tag, n - tag) && mpg123_length(m->h) > 0)
		m->claim = (size_t)mpg123_length(m->h);
	return 0;
}

static int add(const void *sound, size_t bytes, struct mr_pcm *to,
	       struct mr_err *err)
{
	size_t n = bytes / mr_pcm_size(to);
	void *room = mr_pcm_room(to, n, err);

	if (!room)
		return err->code;
	memcpy(room, sound, bytes);
	return 0;
}

static int new_format(struct mr_mp3 *m, const struct mr_pcm *to,
		      struct mr_err *err)
{
	int channels, encoding;
	long rate;

	if (mpg123_getformat(m->h, &rate, &channels, &encoding))
		return failed(m, err);
	if (rate == m->s.rate && channels == m->s.channels)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "MP3: %d channels at %ld Hz after %zu samples, and "
			  "%d at %lld before",
			  channels, rate, to->used, m->s.channels,
			  (long long)m->s.rate);
}

/* Where the frame that was just decoded lies; *next: where it ends, and on
 * entry where the one before ended, or 0. */
static int check_frame(struct mr_mp3 *m, size_t *next, struct mr_err *err)
{
	struct mpg123_frameinfo info;
	size_t at = (size_t)mpg123_framepos(m->h);

	if (mpg123_info(m->h, &info))
		return failed(m, err);
	if (*next && at > *next)
		return mr_err_set(err, MR_EDATA,
				  "MP3: corrupt: the %zu bytes at %zu are no "
				  "frame; lenient=yes goes over them",
				  at - *next, *next);
	*next = at + (size_t)info.framesize;
	if (*next <= m->n)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "MP3: truncated: the frame at %zu has %zu of %d "
			  "bytes; lenient=yes takes it as it is",
			  at, m->n - at, info.framesize);
}

/* What is left behind the last frame: a tag, but not the head of another. */
static int check_rest(const struct mr_mp3 *m, size_t at, struct mr_err *err)
{
	if (m->n < at + 2 || m->bytes[at] != 0xff ||
	    (m->bytes[at + 1] & 0xe0) != 0xe0)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "MP3: truncated: the frame at %zu has only %zu "
			  "bytes; lenient=yes leaves it out",
			  at, m->n - at);
}

static int complete(const struct mr_mp3 *m, size_t end, const struct mr_pcm *to,
		    struct mr_err *err)
{
	if (!to->used)
		return mr_err_set(err, MR_EDATA,
				  "MP3: no frame of sound in %zu bytes", m->n);
	if (!m->claim)
		return check_rest(m, end, err);
	if (to->used >= m->claim)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "MP3: truncated: %zu of %zu samples in %zu bytes; "
			  "lenient=yes takes what there is",
			  to->used, m->claim, m->n);
}

int mr_mp3_decode(struct mr_mp3 *m, bool lenient, struct mr_pcm *to,
		  struct mr_err *err)
{
	size_t next = 0;
	int e = 0, code = MPG123_OK;

	while (!e && code != MPG123_DONE) {
		unsigned char *sound = NULL;
		size_t bytes = 0;
		off_t frame;

		code = mpg123_decode_frame(m->h, &frame, &sound, &bytes);
		if (code == MPG123_NEW_FORMAT)
			e = new_format(m, to, err);
		else if (code != MPG123_OK && code != MPG123_DONE)
			return lenient && to->used ? 0 : failed(m, err);
		if (!e && bytes)
			e = add(sound, bytes, to, err);
		if (!e && !lenient && bytes)
			e = check_frame(m, &next, err);
	}
	return e || lenient ? e : complete(m, next, to, err);
}
