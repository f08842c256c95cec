/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "diagnose/phases.h"
#include "store/codec.h"

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

struct trial {
	const struct mr_codec *c;
	void *pack, *unpack;
	double plain, packed, seconds;
};

/* Packs one sample, unpacks it, and adds it up; false when it cannot. */
static bool try_one(struct trial *t, const void *data, size_t n)
{
	size_t cap = t->c->bound(n), packed = 0;
	void *to = malloc(cap ? cap : 1), *back = malloc(n ? n : 1);
	struct mr_err err;
	uint64_t t0;
	bool good = to && back &&
		    !t->c->pack(&t->pack, 0, data, n, to, cap, &packed, &err);

	if (good) {
		t0 = mr_clock_ns();
		good = !t->c->unpack(&t->unpack, to, packed, back, n, &err);
		t->seconds += (double)(mr_clock_ns() - t0) / 1e9;
		t->plain += (double)n;
		t->packed += (double)packed;
	}
	free(to);
	free(back);
	return good;
}

static void try_codec(struct mr_diagnosis *d, const struct mr_codec *c,
		      const struct mr_field *f, uint64_t count, double seconds)
{
	struct trial t = { .c = c };
	uint64_t until = mr_clock_ns() + (uint64_t)(seconds * 1e9);

	for (uint64_t i = 0; i < count && mr_clock_ns() < until; i++) {
		size_t n;
		const void *data = bytes_of(f, count, i, &n);

		if (n && !try_one(&t, data, n))
			break;
	}
	if (c->drop_pack)
		c->drop_pack(t.pack);
	if (c->drop_unpack)
		c->drop_unpack(t.unpack);
	if (t.packed > 0 && t.seconds > 0) {
		struct mr_diag_codec *to = &d->codec[d->codecs++];

		snprintf(to->name, sizeof(to->name), "%s", c->name);
		to->ratio = t.plain / t.packed;
		to->unpack = t.plain / t.seconds;
	}
}

void mr_phase_codecs(struct mr_diagnosis *d, const struct mr_batch *b,
		     double seconds)
{
	const struct mr_field *f = largest(b);

	for (size_t i = 0; f && mr_codecs[i]; i++)
		if (d->codecs < MR_DIAG_CODECS &&
		    strcmp(mr_codecs[i]->name, "none") != 0)
			try_codec(d, mr_codecs[i], f, mr_batch_count(b),
				  seconds);
}
