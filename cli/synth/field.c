/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields with natural spectra, by a pyramid: from a few random numbers,
 * double the size by interpolation and add finer noise, until it is large
 * enough. No transform, a few milliseconds each.
 */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "synth/synth.h"

#define N SYNTH_FIELD

static const float slopes[SYNTH_FIELDS] = {
	[SYNTH_WHITE] = 0,     [SYNTH_ROUGH] = 0.7f, [SYNTH_NATURAL] = 1.1f,
	[SYNTH_SMOOTH] = 1.6f, [SYNTH_SOFT] = 2.4f,
};

/* n x n values become 2n x 2n, each a weighted mean (9 3 3 1) of the four
 * nearest; edges wrap. */
static void enlarge(const float *from, float *to, int n)
{
	for (int y = 0; y < 2 * n; y++) {
		const float *near = from + (size_t)(y / 2) * n;
		const float *far =
			from + (size_t)((y / 2 + (y & 1 ? 1 : n - 1)) % n) * n;
		float *out = to + (size_t)y * 2 * n;

		for (int x = 0; x < n; x++) {
			int l = x ? x - 1 : n - 1, r = x + 1 < n ? x + 1 : 0;
			float a = 3 * near[x] + far[x];

			out[2 * x] = (3 * a + 3 * near[l] + far[l]) / 16;
			out[2 * x + 1] = (3 * a + 3 * near[r] + far[r]) / 16;
		}
	}
}

static void quantise(const float *from, struct synth_field *to)
{
	double sum = 0, squares = 0, mean, scale;

	for (int i = 0; i < N * N; i++) {
		sum += from[i];
		squares += (double)from[i] * from[i];
	}
	mean = sum / (N * N);
	scale = SYNTH_FIELD_SD / sqrt(squares / (N * N) - mean * mean);
	for (int i = 0; i < N * N; i++) {
		double v = (from[i] - mean) * scale;

		v = v > INT16_MAX ? INT16_MAX : v < -INT16_MAX ? -INT16_MAX : v;
		to->v[i / N][i % N] = (int16_t)lrint(v);
	}
}

/* a and b hold N * N values each. */
static void make_field(struct synth_rng *rng, float slope, float *a, float *b,
		       struct synth_field *out)
{
	/* An octave of a plane holds four times the frequencies of the one
	 * below it, hence 1 - slope. */
	float amp = 1, ratio = exp2f(1 - slope);
	int n = slope > 0 ? 4 : N;

	memset(a, 0, (size_t)n * n * sizeof(*a));
	for (;;) {
		float *t = a;

		for (int i = 0; i < n * n; i++)
			a[i] += amp * synth_normal(rng);
		if (n == N)
			break;
		enlarge(a, b, n);
		a = b;
		b = t;
		n *= 2;
		amp *= ratio;
	}
	quantise(a, out);
}

struct synth_field *synth_fields_new(uint64_t seed, struct mr_err *err)
{
	struct synth_field *f = mr_alloc(SYNTH_FIELDS, sizeof(*f), err);
	float *a = mr_alloc(2 * N * N, sizeof(*a), err);
	struct synth_rng rng = synth_rng_for(seed, UINT64_MAX);

	if (f && a)
		for (int i = 0; i < SYNTH_FIELDS; i++)
			make_field(&rng, slopes[i], a, a + N * N, &f[i]);
	free(a);
	if (!a) {
		free(f);
		return NULL;
	}
	return f;
}
