/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic: made-up samples at memory speed, for experiments. */
#include <stdio.h>

#include "core/clock.h"
#include "core/rng.h"
#include "source/source.h"

struct synthetic {
	struct mr_ints shape;
	enum mr_dtype dtype;
	int64_t count;
	double cost;
	int64_t classes;
	size_t bytes; /* of a sample */
};

static const struct mr_param params[] = {
	MR_INTS(struct synthetic, shape, "224,224,3", 1, 1e12,
		"of a sample, such as 224,224,3"),
	MR_DTYPE(struct synthetic, dtype, "u8", "type of the elements"),
	MR_INT(struct synthetic, count, "10000", 1, 1e15, "samples"),
	MR_TIME(struct synthetic, cost, "0", 0, 3600,
		"processor time that each sample takes, such as 50us"),
	MR_INT(struct synthetic, classes, "10", 1, 1e15,
	       "labels go from 0 to this, less one"),
	MR_PARAM_END
};

static int open_synthetic(void *self, const struct mr_source_env *env,
			  struct mr_err *err)
{
	struct synthetic *s = self;
	int64_t n;

	(void)env;
	if (s->shape.n >= MR_MAX_DIMS)
		return mr_err_set(err, MR_EINVAL,
				  "shape: %d dimensions; a sample has at most "
				  "%d, since batches add one",
				  s->shape.n, MR_MAX_DIMS - 1);
	if (!mr_shape_elements(s->shape.v, s->shape.n, s->dtype, &n))
		return mr_err_set(err, MR_EINVAL,
				  "shape: a sample of that shape does not fit "
				  "in memory");
	s->bytes = (size_t)n * mr_dtype_size(s->dtype);
	return 0;
}

static void close_synthetic(void *self)
{
	(void)self;
}

static uint64_t count(const void *self)
{
	return (uint64_t)((const struct synthetic *)self)->count;
}

static void fields(const void *self, struct mr_fields *out)
{
	const struct synthetic *s = self;

	out->n = 0;
	mr_fields_add(out, "data", s->dtype, s->shape.n, s->shape.v);
	mr_fields_add(out, "label", MR_I64, 0, NULL);
}

/*
 * Eight bytes of a sample: a Weyl sequence, folded. Not random numbers, but
 * no two samples look alike, and compilers make vectors of it.
 */
static inline uint64_t word_at(uint64_t seed, uint64_t i)
{
	uint64_t x = seed + i * 0x9e3779b97f4a7c15ULL;

	return x ^ x >> 29;
}

static void fill_bits(uint64_t seed, uint64_t mask, unsigned char *to,
		      size_t bytes)
{
	size_t words = bytes / 8;
	uint64_t w;

	for (size_t i = 0; i < words; i++) {
		w = word_at(seed, i) & mask;
		memcpy(to + 8 * i, &w, 8);
	}
	w = word_at(seed, words) & mask;
	memcpy(to + 8 * words, &w, bytes % 8);
}

/* Mantissas of random bits in [1, 2), less one. In 32 bits, since that makes
 * twice as many per vector. */
static void fill_f32(uint64_t seed, unsigned char *to, size_t n)
{
	uint32_t from = (uint32_t)(seed ^ seed >> 32);

	for (size_t i = 0; i < n; i++) {
		uint32_t x = from + (uint32_t)i * 0x9e3779b9u;
		uint32_t bits = (x ^ x >> 15) >> 9 | 0x3f800000;
		float v;

		memcpy(&v, &bits, 4);
		v -= 1;
		memcpy(to + 4 * i, &v, 4);
	}
}

static void fill_f64(uint64_t seed, unsigned char *to, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t bits = word_at(seed, i) >> 12 | 0x3ff0000000000000ULL;
		double v;

		memcpy(&v, &bits, 8);
		v -= 1;
		memcpy(to + 8 * i, &v, 8);
	}
}

static void fill(const struct synthetic *s, uint64_t index, void *to)
{
	/* All bits of a half that leave it positive and below one. */
	const uint64_t half = 0x3bff3bff3bff3bffULL;
	uint64_t seed = mr_mix64(index + 1);

	switch (s->dtype) {
	case MR_F16:
		fill_bits(seed, half, to, s->bytes);
		break;
	case MR_F32:
		fill_f32(seed, to, s->bytes / 4);
		break;
	case MR_F64:
		fill_f64(seed, to, s->bytes / 8);
		break;
	default:
		fill_bits(seed, UINT64_MAX, to, s->bytes);
		break;
	}
}

/* The thread's own time: on a machine that is shared, or with more threads
 * than cores, the clock on the wall would let samples get cheaper. */
static double cpu_seconds(void)
{
	return (double)mr_clock_cpu_ns() * 1e-9;
}

static int load(const struct mr_load *ld, struct mr_tensor *f)
{
	const struct synthetic *s = ld->self;
	double end = s->cost > 0 ? cpu_seconds() + s->cost : 0;
	int e = mr_load_i64(ld, 1, (int64_t)(ld->index % (uint64_t)s->classes),
			    f);

	f[0].data = e ? NULL : ld->room(ld, 0, s->bytes);
	if (!f[0].data)
		return ld->err->code;
	fill(s, ld->index, f[0].data);
	while (end > 0 && cpu_seconds() < end)
		;
	return 0;
}

static size_t key(const void *self, uint64_t index, char *buf, size_t cap)
{
	(void)self;
	return (size_t)snprintf(buf, cap, "%llu", (unsigned long long)index);
}

static uint64_t fingerprint(const void *self)
{
	const struct synthetic *s = self;
	uint64_t h = mr_mix64((uint64_t)s->count) + (uint64_t)s->dtype;

	h = mr_mix64(h) + (uint64_t)s->classes;
	for (int i = 0; i < s->shape.n; i++)
		h = mr_mix64(h) + (uint64_t)s->shape.v[i];
	return mr_mix64(h);
}

const struct mr_source mr_source_synthetic = {
	.name = "synthetic",
	.help = "made-up samples, for experiments; as if they were read "
		"where --storage imitates one",
	.flags = MR_SOURCE_MADE,
	.size = sizeof(struct synthetic),
	.params = params,
	.open = open_synthetic,
	.close = close_synthetic,
	.count = count,
	.fields = fields,
	.load = load,
	.key = key,
	.fingerprint = fingerprint,
};
