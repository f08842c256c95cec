/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/codecs.h"

#include <math.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "kernel/shuffle.h"
#include "store/codec.h"

enum {
	SIDE = 256, /* pixels */
	TILE = 32,
	IMAGE = SIDE * SIDE * 3,
	SIGNAL = 64 * 1024, /* floats */
};

/* ---- data ---- */

/* Smooth shades; half of it, in tiles, with noise, as photos have it where
 * they are not flat. */
static void make_image(uint8_t *p)
{
	for (uint64_t i = 0; i < IMAGE; i++) {
		uint64_t c = i % 3, x = i / 3 % SIDE, y = i / 3 / SIDE;
		bool flat = mr_mix64(x / TILE + y / TILE * SIDE + 1) & 1;
		double v = 128 + 70 * sin((double)x * 0.012 + (double)c) +
			   40 * cos((double)y * 0.009 - (double)c);

		if (!flat)
			v += (double)(mr_mix64(i + 1) % 3);
		*p++ = (uint8_t)v;
	}
}

/* A slow wave with a ripple of a few of its last bits. */
static void make_signal(float *p)
{
	for (int i = 0; i < SIGNAL; i++) {
		double noise = (double)(mr_mix64((uint64_t)i + 1) % 1024);

		p[i] = (float)(230 * sin(i * 0.00314) + noise / 4096);
	}
}

static const struct kind {
	const char *name;
	size_t bytes, element; /* > 1: its bytes are shuffled */
} kinds[] = {
	{ "image_u8", IMAGE, 1 },
	{ "signal_f32", SIGNAL * sizeof(float), sizeof(float) },
};

/* ---- one codec, one kind ---- */

struct bench {
	const struct mr_codec *codec;
	const struct kind *kind;
	char *data, *mixed, *packed, *back;
	size_t cap, size;    /* of packed */
	void *pack, *unpack; /* the codec's states */
};

static int pack_once(struct bench *b, struct mr_err *err)
{
	const struct kind *k = b->kind;
	const char *from = b->data;

	if (k->element > 1) {
		mr_shuffle(b->mixed, from, k->bytes / k->element, k->element);
		from = b->mixed;
	}
	return b->codec->pack(&b->pack, b->codec->def, from, k->bytes,
			      b->packed, b->cap, &b->size, err);
}

static int unpack_once(struct bench *b, struct mr_err *err)
{
	const struct kind *k = b->kind;
	char *to = k->element > 1 ? b->mixed : b->back;
	int e = b->codec->unpack(&b->unpack, b->packed, b->size, to, k->bytes,
				 err);

	if (!e && k->element > 1)
		mr_unshuffle(b->back, to, k->bytes / k->element, k->element);
	return e;
}

/* Bytes per second, of the fastest time: on a busy machine the others had a
 * part of the rest. */
static int repeat(struct bench *b, int (*once)(struct bench *, struct mr_err *),
		  double seconds, double *rate, struct mr_err *err)
{
	uint64_t was = mr_clock_ns(), now = was, best = UINT64_MAX;
	uint64_t until = was + (uint64_t)(seconds * 1e9);

	do {
		int e = once(b, err);

		if (e)
			return e;
		now = mr_clock_ns();
		best = now - was < best ? now - was : best;
		was = now;
	} while (now < until);
	*rate = (double)b->kind->bytes / (double)(best ? best : 1) * 1e9;
	return 0;
}

static int measure(struct bench *b, double seconds, struct mr_codec_speed *s,
		   struct mr_err *err)
{
	double pack, unpack;
	int e;

	b->cap = b->codec->bound(b->kind->bytes);
	b->packed = mr_alloc(b->cap, 1, err);
	if (!b->packed)
		return MR_ENOMEM;
	e = repeat(b, pack_once, seconds, &pack, err);
	if (!e)
		e = repeat(b, unpack_once, seconds, &unpack, err);
	if (!e && memcmp(b->back, b->data, b->kind->bytes) != 0)
		e = mr_err_set(err, MR_EDATA,
			       "%s: gives back other bytes than it was given",
			       b->codec->name);
	if (!e) {
		s->pack = pack;
		s->unpack = unpack;
		s->ratio = (double)b->kind->bytes / (double)b->size;
	}
	if (b->codec->drop_pack)
		b->codec->drop_pack(b->pack);
	if (b->codec->drop_unpack)
		b->codec->drop_unpack(b->unpack);
	free(b->packed);
	return e;
}

/* ---- all ---- */

/* memory: three times the bytes of a kind. */
static int measure_kind(struct mr_codec_speeds *c, const struct kind *k,
			char *memory, double seconds, struct mr_watch *w,
			struct mr_err *err)
{
	for (size_t i = 0; mr_codecs[i] && c->n < MR_CODEC_SPEEDS; i++) {
		struct mr_codec_speed *s = &c->speed[c->n++];
		struct bench b = { .codec = mr_codecs[i],
				   .kind = k,
				   .data = memory,
				   .mixed = memory + k->bytes,
				   .back = memory + 2 * k->bytes };

		*s = (struct mr_codec_speed){ .codec = mr_codecs[i]->name,
					      .data = k->name,
					      .ratio = NAN,
					      .pack = NAN,
					      .unpack = NAN };
		if (measure(&b, seconds, s, err))
			snprintf(s->reason, sizeof(s->reason), "%.110s",
				 err->text);
		if (mr_watch_look(w))
			return mr_watch_stopped(w, err);
	}
	return 0;
}

int mr_codecs_measure(struct mr_codec_speeds *c, double seconds,
		      struct mr_watch *w, struct mr_err *err)
{
	size_t most = kinds[0].bytes > kinds[1].bytes ? kinds[0].bytes :
							kinds[1].bytes;
	char *memory = mr_alloc_aligned(3 * most, err);
	int e = memory ? 0 : MR_ENOMEM;

	c->n = 0;
	w->what = "codecs";
	for (size_t i = 0; i < MR_COUNT(kinds) && !e; i++) {
		if (i == 0)
			make_image((uint8_t *)memory);
		else
			make_signal((float *)(void *)memory);
		e = measure_kind(c, &kinds[i], memory, seconds, w, err);
	}
	free(memory);
	return e;
}
