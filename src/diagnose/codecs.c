/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "diagnose/codecs.h"
#include "diagnose/phases.h"
#include "kernel/shuffle.h"

#define AT_ONCE 1e12 /* bytes/s */

enum {
	ENOUGH = 4, /* samples, which may take longer */
	TIMES = 3,  /* that each is unpacked */
};

/* The field with the most bytes, which is the one worth packing. */
static const struct mr_field *largest(const struct mr_batch *b)
{
	const struct mr_field *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < mr_batch_fields(b); i++) {
		const struct mr_field *f = mr_batch_field(b, i);
		size_t n = mr_dtype_size(f->tensor.dtype);

		for (int k = 0; k < f->tensor.ndim; k++)
			n *= (size_t)f->tensor.shape[k];
		if (n > most) {
			most = n;
			best = f;
		}
	}
	return best;
}

/* The bytes of sample i. */
static const void *bytes_of(const struct mr_field *f, uint64_t count,
			    uint64_t i, size_t *n)
{
	size_t size = mr_dtype_size(f->tensor.dtype), row = size;

	if (f->offsets) {
		*n = (size_t)(f->offsets[i + 1] - f->offsets[i]) * size;
		return (char *)f->tensor.data + (size_t)f->offsets[i] * size;
	}
	for (int k = 1; k < f->tensor.ndim; k++)
		row *= (size_t)f->tensor.shape[k];
	*n = i < count ? row : 0;
	return (char *)f->tensor.data + i * row;
}

/* Room that is kept, and touched before: fresh memory costs more than
 * unpacking into it. */
static void *room(struct mr_codec_trial *t, int i, size_t n)
{
	if (t->cap[i] < n) {
		size_t cap = n + n / 2;

		free(t->room[i]);
		t->room[i] = malloc(cap);
		t->cap[i] = t->room[i] ? cap : 0;
		if (t->room[i])
			memset(t->room[i], 1, cap);
	}
	return t->room[i];
}

static double since(uint64_t t0)
{
	return (double)(mr_clock_ns() - t0) / 1e9;
}

static double cpu_since(uint64_t t0)
{
	return (double)(mr_clock_cpu_ns() - t0) / 1e9;
}

/* Seconds of the CPU, of three tries the one in the middle: a few samples are
 * all there is time for, and one hiccup would be all that they tell. */
static bool time_unpack(struct mr_codec_trial *t, const void *from,
			size_t packed, void *back, void *mixed, size_t n,
			size_t width, double *seconds)
{
	double took[TIMES], low, high;
	struct mr_err err;

	for (int i = 0; i < TIMES; i++) {
		uint64_t t0 = mr_clock_cpu_ns();

		if (t->c->unpack(&t->unpack_state, from, packed, back, n, &err))
			return false;
		if (t->shuffle)
			mr_unshuffle(mixed, back, n / width, width);
		took[i] = cpu_since(t0);
	}
	low = fmin(took[0], took[1]);
	high = fmax(took[0], took[1]);
	*seconds = fmax(low, fmin(high, took[2]));
	return true;
}

/* Packs one sample, unpacks it, and adds it up; false when it cannot. */
static bool try_one(struct mr_codec_trial *t, const void *data, size_t n,
		    size_t width)
{
	size_t cap = t->c->bound(n), packed = 0;
	void *to = room(t, 0, cap + 1), *back = room(t, 1, n + 1);
	void *mixed = t->shuffle ? room(t, 2, n + 1) : NULL;
	uint64_t t0 = mr_clock_cpu_ns();
	double unpack;
	struct mr_err err;

	if (!to || !back || (t->shuffle && !mixed))
		return false;
	if (t->shuffle) {
		mr_shuffle(mixed, data, n / width, width);
		data = mixed;
	}
	if (t->c->pack(&t->pack_state, t->level, data, n, to, cap, &packed,
		       &err))
		return false;
	t->pack += cpu_since(t0);
	if (packed >= n) { /* is stored as it is */
		t->plain += (double)n;
		t->packed += (double)n;
		return true;
	}
	if (!time_unpack(t, to, packed, back, mixed, n, width, &unpack))
		return false;
	t->unpack += unpack;
	t->plain += (double)n;
	t->packed += (double)packed;
	return true;
}

bool mr_codec_try(struct mr_codec_trial *t, const struct mr_batch *b,
		  double seconds)
{
	const struct mr_field *f = largest(b);
	uint64_t start = mr_clock_ns();
	size_t width = f ? mr_dtype_size(f->tensor.dtype) : 1;
	bool good = f && (width > 1 || !t->shuffle);

	for (uint64_t i = 0; good && i < mr_batch_count(b); i++) {
		size_t n;
		const void *data = bytes_of(f, mr_batch_count(b), i, &n);

		/* The first has to make room, and states. */
		if (i == 1 && since(start) < seconds)
			t->plain = t->packed = t->pack = t->unpack = 0;
		if (i && since(start) >= (i < ENOUGH ? 4 * seconds : seconds))
			break;
		good = !n || try_one(t, data, n, width);
	}
	if (t->c->drop_pack)
		t->c->drop_pack(t->pack_state);
	if (t->c->drop_unpack)
		t->c->drop_unpack(t->unpack_state);
	for (int i = 0; i < 3; i++)
		free(t->room[i]);
	return good && t->packed > 0;
}

void mr_phase_codecs(struct mr_diagnosis *d, const struct mr_batch *b,
		     double seconds)
{
	for (size_t i = 0; mr_codecs[i]; i++) {
		struct mr_codec_trial t = { .c = mr_codecs[i] };
		struct mr_diag_codec *to = &d->codec[d->codecs];

		if (d->codecs == MR_DIAG_CODECS || !strcmp(t.c->name, "none") ||
		    !mr_codec_try(&t, b, seconds))
			continue;
		d->codecs++;
		snprintf(to->name, sizeof(to->name), "%s", t.c->name);
		to->ratio = t.plain / t.packed;
		/* What does not pack is stored as it is. */
		to->unpack = t.unpack > 0 ? t.plain / t.unpack : AT_ONCE;
	}
}
