/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MP3 by libmp3lame, which is loaded when it is asked for: nothing else needs
 * an encoder, and most machines that play sound have it. Its interface has
 * been the same since 2008; what we use of it is written down here.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "synth/encode.h"

#define LIBRARY "libmp3lame.so.0"

struct lame; /* the library's own */

enum { MONO = 3, KILOBITS = 64, QUALITY = 7 };

static struct {
	struct lame *(*init)(void);
	int (*set_in_samplerate)(struct lame *l, int hz);
	int (*set_num_channels)(struct lame *l, int n);
	int (*set_mode)(struct lame *l, int mode);
	int (*set_brate)(struct lame *l, int kilobits);
	int (*set_quality)(struct lame *l, int quality);
	int (*init_params)(struct lame *l);
	int (*encode_buffer)(struct lame *l, const int16_t *left,
			     const int16_t *right, int n, uint8_t *to,
			     int room);
	int (*encode_flush)(struct lame *l, uint8_t *to, int room);
	int (*close)(struct lame *l);
} lame;

static bool find(void *lib, const char *name, void *to)
{
	char whole[64];
	void *at;

	snprintf(whole, sizeof(whole), "lame_%s", name);
	at = dlsym(lib, whole);
	memcpy(to, &at, sizeof(at));
	return at;
}

/* Before the threads begin; it stays loaded. */
int encode_mp3_available(struct mr_err *err)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool ok = lib;

#define FIND(name) ok = ok && find(lib, #name, &lame.name)
	FIND(init);
	FIND(set_in_samplerate);
	FIND(set_num_channels);
	FIND(set_mode);
	FIND(set_brate);
	FIND(set_quality);
	FIND(init_params);
	FIND(encode_buffer);
	FIND(encode_flush);
	FIND(close);
#undef FIND
	if (ok)
		return 0;
	return mr_err_set(err, MR_EUNSUPPORTED,
			  "mp3 needs %s, the encoder; install it (Debian: apt "
			  "install libmp3lame0), or make flac",
			  LIBRARY);
}

static bool start(struct lame *l, int rate)
{
	return lame.set_in_samplerate(l, rate) == 0 &&
	       lame.set_num_channels(l, 1) == 0 &&
	       lame.set_mode(l, MONO) == 0 &&
	       lame.set_brate(l, KILOBITS) == 0 &&
	       lame.set_quality(l, QUALITY) == 0 && lame.init_params(l) == 0;
}

int encode_mp3(const int16_t *x, size_t n, int rate, struct encoded *out,
	       struct mr_err *err)
{
	size_t room = n + n / 2 + 7200; /* as its manual says, and to flush */
	struct lame *l;
	int a = -1, b = -1, e;

	if (room > INT32_MAX)
		return mr_err_set(err, MR_ELIMIT, "a clip is too long");
	e = mr_grow(&out->data, &out->cap, room, 1, SIZE_MAX, err);
	if (e)
		return e;
	l = lame.init();
	if (!l)
		return mr_err_nomem(err, room);
	if (start(l, rate))
		a = lame.encode_buffer(l, x, x, (int)n, out->data, (int)room);
	if (a >= 0)
		b = lame.encode_flush(l, out->data + a, (int)room - a);
	lame.close(l);
	if (b < 0)
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "libmp3lame does not encode (%d)",
				  a < 0 ? a : b);
	out->size = (size_t)(a + b);
	return 0;
}
