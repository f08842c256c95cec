/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as Pillow 9.4 computes them (precompute_coeffs() of its
 * Resample.c), in doubles, then in MR_TAP_BITS bits.
 */
#include <math.h>
#include <string.h>

#include "kernel/resample.h"

enum { MAX_SIZE = 1 << 24, MAX_TAPS = 1 << 26, ONE = 1 << MR_TAP_BITS };

/* One axis: `scale` inputs per output, a filter that reaches `support` inputs
 * to each side and is `stretch` times narrower than its formula. */
struct axis {
	int in;
	double scale, support, stretch;
};

static struct axis axis_of(const struct mr_scale *s)
{
	static const double support[] = { [MR_FILTER_BILINEAR] = 1,
					  [MR_FILTER_BICUBIC] = 2,
					  [MR_FILTER_AREA] = 0.5 };
	double scale = (double)s->in / s->out;
	double wide = s->antialias && scale > 1 ? scale : 1;

	return (struct axis){ s->in, scale, support[s->filter] * wide,
			      1 / wide };
}

static int round_up(int n)
{
	return (n + 3) & ~3;
}

static size_t round_64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static bool in_range(const struct mr_scale *s)
{
	return s->in >= 1 && s->in <= MAX_SIZE && s->out >= 1 &&
	       s->out <= MAX_SIZE && s->first >= 0 && s->count >= 1 &&
	       s->first <= s->out - s->count && s->filter >= 0 &&
	       s->filter <= MR_FILTER_AREA;
}

size_t mr_taps_size(const struct mr_scale *s)
{
	size_t count, taps;
	double most;

	if (!in_range(s))
		return 0;
	count = (size_t)s->count;
	/* one more, as centre +- support are rounded */
	most = ceil(2 * axis_of(s).support) + 1;
	taps = (size_t)round_up(most < s->in ? (int)most : s->in);
	if (taps > MAX_TAPS / count)
		return 0;
	return round_64(count * sizeof(int32_t)) +
	       count * taps * sizeof(int16_t);
}

static inline double centre(const struct axis *a, int i)
{
	return (i + 0.5) * a->scale;
}

static inline int first_input(const struct axis *a, double c)
{
	int x = (int)(c - a->support + 0.5);

	return x < 0 ? 0 : x;
}

static inline int end_input(const struct axis *a, double c)
{
	int x = (int)(c + a->support + 0.5);

	return x > a->in ? a->in : x;
}

/* Finds from, lo, hi and how many taps the longest needs. */
static void find_inputs(struct mr_taps *t, const struct axis *a, int first)
{
	int most = 1;

	t->lo = first_input(a, centre(a, first));
	t->hi = 0;
	for (int i = 0; i < t->count; i++) {
		double c = centre(a, first + i);
		int from = first_input(a, c), end = end_input(a, c);

		t->from[i] = from;
		most = end - from > most ? end - from : most;
		t->hi = end > t->hi ? end : t->hi;
	}
	t->taps = round_up(most);
}

static inline double weigh(enum mr_filter filter, double x)
{
	double d = fabs(x);

	switch (filter) {
	case MR_FILTER_BILINEAR:
		return d < 1 ? 1 - d : 0;
	case MR_FILTER_BICUBIC: /* a = -0.5 */
		if (d < 1)
			return (1.5 * d - 2.5) * d * d + 1;
		return d < 2 ? (((d - 5) * d + 8) * d - 4) * -0.5 : 0;
	default:
		return x > -0.5 && x <= 0.5;
	}
}

/* The input `from` + k against the centre c. The area filter's borders are
 * often exactly on an input: only Pillow's own order of operations falls on
 * its side of them. */
static inline double weight_at(const struct axis *a, enum mr_filter filter,
			       double c, int from, int k)
{
	return weigh(filter, (k + from - c + 0.5) * a->stretch);
}

/*
 * The sums of weights are rounded, not the weights: so they end at exactly 1,
 * and a thousand equal weights get their share each, where the rest of
 * rounding them one by one would all fall on one input.
 */
static inline void weights(const struct axis *a, enum mr_filter filter,
			   double c, int from, int n, int16_t *w)
{
	double sum = 0, so_far = 0x1p20 + 0.5, one; /* > 0, for the cast */
	int done = 1 << 20;

	for (int k = 0; k < n; k++)
		sum += weight_at(a, filter, c, from, k);
	if (!(sum > 0)) { /* rounding has put all inputs just outside */
		w[n / 2] = ONE;
		return;
	}
	one = ONE / sum;
	for (int k = 0; k < n; k++) {
		int now;

		so_far += weight_at(a, filter, c, from, k) * one;
		now = (int)so_far;
		w[k] = (int16_t)(now - done);
		done = now;
	}
}

static inline void find_weights(struct mr_taps *t, const struct axis *a,
				int first, enum mr_filter filter)
{
	/* so that no tap lies more than 3 inputs past hi */
	int last = t->hi + 3 - t->taps;

	for (int i = 0; i < t->count; i++) {
		double c = centre(a, first + i);
		int from = t->from[i], n = end_input(a, c) - from;
		int16_t *w = t->weight + (ptrdiff_t)i * t->taps;

		if (from > last) {
			t->from[i] = last;
			w += from - last;
		}
		weights(a, filter, c, from, n, w);
	}
}

void mr_taps_make(struct mr_taps *t, const struct mr_scale *s, void *mem)
{
	struct axis a = axis_of(s);
	size_t head = round_64((size_t)s->count * sizeof(int32_t));

	t->count = s->count;
	t->from = mem;
	t->weight = (int16_t *)((char *)mem + head);
	find_inputs(t, &a, s->first);
	memset(t->weight, 0,
	       (size_t)t->count * (size_t)t->taps * sizeof(*t->weight));
	switch (s->filter) { /* a copy of the loop for each */
	case MR_FILTER_BILINEAR:
		find_weights(t, &a, s->first, MR_FILTER_BILINEAR);
		break;
	case MR_FILTER_BICUBIC:
		find_weights(t, &a, s->first, MR_FILTER_BICUBIC);
		break;
	case MR_FILTER_AREA:
		find_weights(t, &a, s->first, MR_FILTER_AREA);
		break;
	}
}
