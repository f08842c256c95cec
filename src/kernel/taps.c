/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights as Pillow 9.4 computes them (precompute_coeffs() of its
 * Resample.c), in doubles, then in MR_TAP_BITS bits.
 */
#include <math.h>
#include <string.h>

#include "kernel/resample.h"

enum {
	MAX_SIZE = 1 << 24,
	MAX_TAPS = 1 << 26, /* in all */
	ONE = 1 << MR_TAP_BITS,
	LIFT = 1 << 20, /* keeps sums positive, so that a cast rounds down */
	BLOCK = 16,
	FEW = 16
};

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

/* For an input that the filter reaches. Without branches: they would be hard to
 * foresee, and keep compilers from taking several at a time. */
static inline double weigh(enum mr_filter filter, double x)
{
	double d = fabs(x), near = 1 - d;

	near = near > 0 ? near : 0;
	switch (filter) {
	case MR_FILTER_BILINEAR:
		return near;
	case MR_FILTER_BICUBIC: /* a = -0.5: outside, and what inside adds */
		return (((d - 5) * d + 8) * d - 4) * -0.5 +
		       near * near * (1 - 2 * near);
	default:
		return (x > -0.5 ? 1.0 : 0.0) * (x <= 0.5 ? 1.0 : 0.0);
	}
}

/* Of input x. The area filter's borders are often exactly on an input: only
 * Pillow's own order of operations falls on its side of them. */
static inline double weight_at(const struct axis *a, enum mr_filter filter,
			       double c, double x)
{
	return weigh(filter, (x - c + 0.5) * a->stretch);
}

/*
 * The sums of weights are rounded, not the weights: so they end at exactly 1,
 * and a thousand equal weights get their share each, where the rest of
 * rounding them one by one would all fall on one input. No sum is 0: the
 * input nearest to the centre always counts.
 */
static inline void long_weights(const struct axis *a, enum mr_filter filter,
				int i, int16_t *w)
{
	double c = centre(a, i), sum = 0, so_far = LIFT + 0.5, one;
	int from = first_input(a, c), end = end_input(a, c), done = LIFT;

	for (int x = from; x < end; x++)
		sum += weight_at(a, filter, c, x);
	one = ONE / sum;
	for (int x = from; x < end; x++) {
		int now;

		so_far += weight_at(a, filter, c, x) * one;
		now = (int)so_far;
		*w++ = (int16_t)(now - done);
		done = now;
	}
}

/* The same for BLOCK outputs from i on of FEW taps at most, as loops over the
 * outputs: those, a compiler can turn into vectors. After the last one, it
 * comes again: past it there may be no inputs. */
static inline void block_weights(const struct axis *a, enum mr_filter filter,
				 int i, int last, int taps, int w[FEW][BLOCK])
{
	double c[BLOCK], from[BLOCK], end[BLOCK], v[FEW][BLOCK];
	double sum[BLOCK] = { 0 }, one[BLOCK], so_far[BLOCK];
	int done[BLOCK];

	for (int j = 0; j < BLOCK; j++) {
		c[j] = centre(a, i + j < last ? i + j : last);
		from[j] = first_input(a, c[j]);
		end[j] = end_input(a, c[j]);
	}
	for (int k = 0; k < taps; k++)
		for (int j = 0; j < BLOCK; j++) {
			double x = from[j] + k;
			double y = weight_at(a, filter, c[j], x);

			v[k][j] = x < end[j] ? y : 0;
			sum[j] += v[k][j];
		}
	for (int j = 0; j < BLOCK; j++) {
		one[j] = ONE / sum[j];
		so_far[j] = LIFT + 0.5;
		done[j] = LIFT;
	}
	for (int k = 0; k < taps; k++)
		for (int j = 0; j < BLOCK; j++) {
			int now;

			so_far[j] += v[k][j] * one[j];
			now = (int)so_far[j];
			w[k][j] = now - done[j];
			done[j] = now;
		}
}

static inline void find_weights(struct mr_taps *t, const struct axis *a,
				int first, enum mr_filter filter)
{
	int16_t *to = t->weight;
	int w[FEW][BLOCK];

	if (t->taps > FEW) {
		memset(to, 0, (size_t)t->count * (size_t)t->taps * sizeof(*to));
		for (int i = 0; i < t->count; i++, to += t->taps)
			long_weights(a, filter, first + i, to);
		return;
	}
	for (int i = 0; i < t->count; i += BLOCK) {
		block_weights(a, filter, first + i, first + t->count - 1,
			      t->taps, w);
		for (int j = 0; j < BLOCK && i + j < t->count; j++)
			for (int k = 0; k < t->taps; k++)
				*to++ = (int16_t)w[k][j];
	}
}

/* So that no tap lies more than 3 inputs past hi, some begin earlier. */
static void shift_last(struct mr_taps *t)
{
	int last = t->hi + 3 - t->taps;

	for (int i = t->count - 1; i >= 0 && t->from[i] > last; i--) {
		int16_t *w = t->weight + (ptrdiff_t)i * t->taps;
		int by = t->from[i] - last;

		memmove(w + by, w, (size_t)(t->taps - by) * sizeof(*w));
		memset(w, 0, (size_t)by * sizeof(*w));
		t->from[i] = last;
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
	shift_last(t);
}
