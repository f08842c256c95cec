/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 9639. Nothing is believed: bits behind the end of the file are 0, a
 * position behind it is found out when the frame is done, every loop ends with
 * the block, and samples that do not fit their bits are refused. So sums of
 * the predictors that fit 32 bits for samples in range were right whenever the
 * samples came out in range.
 */
#include "op/flacframe.h"

#include <string.h>

#include "core/le.h"
#include "kernel/cpu.h"

#define INLINE static inline __attribute__((always_inline))

enum {
	ORDER_MAX = 32,
	/* of a residual: its lower bits, and all of it with its sign */
	RICE_BITS = 24,
	RICE_MAX = 1 << 26,
};

/* ---- bits, the highest first ---- */

struct bits {
	const uint8_t *b;
	size_t n;
	size_t at;    /* the byte that is taken next; may lie behind the end */
	uint64_t acc; /* what was taken, from the top */
	unsigned have;
};

static uint64_t load_tail(const struct bits *s)
{
	uint8_t last[8] = { 0 };

	if (s->at < s->n)
		memcpy(last, s->b + s->at, s->n - s->at);
	return __builtin_bswap64(mr_le64(last));
}

/* 56 bits at least. */
INLINE void refill(struct bits *s)
{
	uint64_t next = s->at + 8 <= s->n ?
				__builtin_bswap64(mr_le64(s->b + s->at)) :
				load_tail(s);

	s->acc |= next >> s->have;
	s->at += (63 - s->have) >> 3;
	s->have |= 56;
}

INLINE void skip(struct bits *s, unsigned n)
{
	s->acc <<= n;
	s->have -= n;
}

/* n: 0 to 32 */
INLINE uint32_t take(struct bits *s, unsigned n)
{
	uint32_t v;

	if (s->have < 32)
		refill(s);
	v = (uint32_t)(s->acc >> 1 >> (63 - n));
	skip(s, n);
	return v;
}

/* n: 1 to 32, the first of them the sign */
INLINE int32_t take_signed(struct bits *s, unsigned n)
{
	uint32_t v = take(s, n) << (32 - n);

	return (int32_t)v >> (32 - n);
}

/* Zeros up to a one, which goes, too. Ends behind the end of the file, where
 * no one comes any more, at the limit. */
INLINE uint32_t take_unary(struct bits *s, uint32_t limit)
{
	uint32_t q = 0;
	unsigned zeros;

	if (s->have < 32)
		refill(s);
	while (__builtin_expect(!(s->acc >> (64 - 32)), 0) && q < limit) {
		q += 32;
		skip(s, 32);
		refill(s);
	}
	zeros = (unsigned)__builtin_clzll(s->acc | 1u);
	if (zeros > 31)
		return limit + 1;
	skip(s, zeros + 1);
	return q + zeros;
}

static size_t bits_taken(const struct bits *s)
{
	return s->at * 8 - s->have;
}

/* ---- checksums ---- */

uint8_t mr_flac_crc8(const uint8_t *b, size_t n)
{
	unsigned c = 0;

	for (size_t i = 0; i < n; i++) {
		c ^= b[i];
		for (int k = 0; k < 8; k++)
			c = c & 0x80 ? (c << 1 ^ 7) & 0xff : c << 1;
	}
	return (uint8_t)c;
}

void mr_flac_crc_init(struct mr_flac_crc *c)
{
	for (unsigned i = 0; i < 256; i++) {
		unsigned v = i << 8;

		for (int k = 0; k < 8; k++)
			v = v & 0x8000 ? v << 1 ^ 0x8005 : v << 1;
		c->of[0][i] = (uint16_t)v;
	}
	for (unsigned i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++) {
			unsigned v = c->of[k - 1][i];

			c->of[k][i] = (uint16_t)(v << 8 ^ c->of[0][v >> 8]);
		}
}

uint16_t mr_flac_crc16(const struct mr_flac_crc *c, const uint8_t *b, size_t n)
{
	unsigned v = 0;

	for (; n >= 8; n -= 8, b += 8)
		v = c->of[7][b[0] ^ v >> 8] ^ c->of[6][b[1] ^ (v & 0xff)] ^
		    c->of[5][b[2]] ^ c->of[4][b[3]] ^ c->of[3][b[4]] ^
		    c->of[2][b[5]] ^ c->of[1][b[6]] ^ c->of[0][b[7]];
	for (; n; n--, b++)
		v = (v << 8 & 0xffff) ^ c->of[0][v >> 8 ^ *b];
	return (uint16_t)v;
}

/* ---- the head ---- */

enum { INDEPENDENT, LEFT_SIDE, SIDE_RIGHT, MID_SIDE };

struct head {
	uint32_t samples;
	uint64_t number;
	bool varies;
	int stereo; /* one of the above */
};

/* As UTF-8 has numbers, up to 36 bits. */
static bool coded_number(struct bits *s, uint64_t *v)
{
	uint32_t first = take(s, 8), ones = 0;

	while (ones < 8 && first & 0x80u >> ones)
		ones++;
	if (ones == 1 || ones == 8)
		return false;
	*v = ones ? first & (0x7fu >> ones) : first;
	for (uint32_t i = 1; i < ones; i++) {
		uint32_t next = take(s, 8);

		if (next >> 6 != 2)
			return false;
		*v = *v << 6 | (next & 0x3f);
	}
	return true;
}

static uint32_t block_size(struct bits *s, unsigned code)
{
	if (code == 1)
		return 192;
	if (code == 6 || code == 7)
		return take(s, code == 6 ? 8 : 16) + 1;
	return code < 6 ? 576u << (code - 2) : 256u << (code - 8);
}

/* 0: as the file's head says; -1: not to be known. */
static int64_t sample_rate(struct bits *s, unsigned code)
{
	static const int32_t usual[] = { 0,	88200, 176400, 192000,
					 8000,	16000, 22050,  24000,
					 32000, 44100, 48000,  96000 };

	if (code < 12)
		return usual[code];
	if (code == 15)
		return -1;
	return code == 12 ? take(s, 8) * (int64_t)1000 :
	       code == 13 ? take(s, 16) :
			    take(s, 16) * (int64_t)10;
}

static bool read_head(struct bits *s, const struct mr_flac_form *form,
		      struct head *h)
{
	static const uint8_t bits[] = { 0, 8, 12, 0, 16, 20, 24, 0 };
	unsigned sync = take(s, 16), block = take(s, 4), rate = take(s, 4);
	unsigned channels = take(s, 4), size = take(s, 3), zero = take(s, 1);
	int64_t hz;
	size_t end;

	if (sync >> 1 != 0xfff8 >> 1 || !block || zero || channels > 10)
		return false;
	h->varies = sync & 1;
	h->stereo = channels < 8 ? INDEPENDENT : (int)channels - 7;
	if ((h->stereo ? 2 : (int)channels + 1) != form->channels)
		return false;
	if (size && bits[size] != form->bits)
		return false;
	if (!coded_number(s, &h->number))
		return false;
	h->samples = block_size(s, block);
	hz = sample_rate(s, rate);
	if (hz && hz != form->rate)
		return false;
	end = bits_taken(s) / 8;
	return end < s->n && mr_flac_crc8(s->b, end) == take(s, 8);
}

/* ---- residuals ---- */

/* One at any place. */
INLINE bool rice_one(struct bits *s, unsigned k, int32_t *x)
{
	/* so that the value fits 32 bits */
	uint32_t limit = RICE_MAX >> k, q = take_unary(s, limit), v;

	if (q > limit)
		return false;
	v = q << k | take(s, k);
	*x = (int32_t)(v >> 1 ^ -(v & 1));
	return true;
}

/* The next one of 56 bits that are there; its length. */
INLINE unsigned rice_next(uint64_t *acc, unsigned k, int32_t *x)
{
	unsigned zeros = (unsigned)__builtin_clzll(*acc | 1);
	uint64_t after = *acc << zeros << 1;
	uint32_t v = zeros << k | (uint32_t)(after >> 1 >> (63 - k));

	*acc = after << k;
	*x = (int32_t)(v >> 1 ^ -(v & 1));
	return zeros + 1 + k;
}

/*
 * Two at a time, without a branch that depends on their lengths unless they
 * are long: what is guessed wrong costs more than all the rest.
 */
INLINE bool rice(struct bits *s, unsigned k, int32_t *x, size_t n)
{
	struct bits r = *s;

	for (size_t i = 0; i < n;) {
		if (n - i >= 2 && r.at + 8 <= r.n) {
			uint64_t acc;
			unsigned length;

			refill(&r);
			acc = r.acc;
			length = rice_next(&acc, k, x + i);
			length += rice_next(&acc, k, x + i + 1);
			if (__builtin_expect(length <= 56, 1)) {
				r.acc = acc;
				r.have -= length;
				i += 2;
				continue;
			}
		}
		if (!rice_one(&r, k, x + i++))
			return false;
	}
	*s = r;
	return true;
}

static bool rice_plain(struct bits *s, unsigned k, int32_t *x, size_t n)
{
	return rice(s, k, x, n);
}

#if defined(__x86_64__)
/* Every CPU with AVX2 has these. */
__attribute__((target("bmi2,lzcnt"))) static bool
rice_bmi2(struct bits *s, unsigned k, int32_t *x, size_t n)
{
	return rice(s, k, x, n);
}
#endif

static bool rices(struct bits *s, unsigned k, int32_t *x, size_t n)
{
#if defined(__x86_64__)
	if (mr_cpu_avx2())
		return rice_bmi2(s, k, x, n);
#endif
	return rice_plain(s, k, x, n);
}

static void raw(struct bits *s, unsigned bits, int32_t *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = bits ? take_signed(s, bits) : 0;
}

/* ---- predictors ---- */

/* Of each sample by those before it, the last one first. */
struct predictor {
	unsigned order;
	int32_t c[ORDER_MAX];
	int shift;
	bool wide; /* sums may need more than 32 bits */
};

/* bits: of the samples */
static void measure(struct predictor *p, unsigned bits)
{
	uint32_t sum = 0;

	for (unsigned k = 0; k < p->order; k++)
		sum += (uint32_t)(p->c[k] < 0 ? -p->c[k] : p->c[k]);
	p->wide = sum >> (32 - bits);
}

/* The last sample, which is waited for, stays in a register. `order` is known
 * when this is compiled. */
INLINE void narrow(const struct predictor *p, unsigned order, int32_t *x,
		   size_t n)
{
	uint32_t last = (uint32_t)x[-1];

	for (size_t i = 0; i < n; i++, x++) {
		uint32_t sum = 0;

#pragma GCC unroll 32
		for (unsigned k = order - 1; k > 0; k--)
			sum += (uint32_t)p->c[k] * (uint32_t)x[-1 - (int)k];
		sum += (uint32_t)p->c[0] * last;
		last = (uint32_t)*x + (uint32_t)((int32_t)sum >> p->shift);
		*x = (int32_t)last;
	}
}

static void wide(const struct predictor *p, int32_t *x, size_t n)
{
	for (size_t i = 0; i < n; i++, x++) {
		int64_t sum = 0;

		for (unsigned k = 0; k < p->order; k++)
			sum += (int64_t)p->c[k] * x[-1 - (int)k];
		*x = (int32_t)((uint32_t)*x + (uint32_t)(sum >> p->shift));
	}
}

#define NARROW(k)                   \
	case k:                     \
		narrow(p, k, x, n); \
		break;

/* n residuals become samples, where they lie. */
static void predict(const struct predictor *p, int32_t *x, size_t n)
{
	switch (p->wide ? ORDER_MAX : p->order) {
	case 0:
		break;
		NARROW(1)
		NARROW(2)
		NARROW(3)
		NARROW(4)
		NARROW(5)
		NARROW(6)
		NARROW(7)
		NARROW(8)
		NARROW(9)
		NARROW(10)
		NARROW(11)
		NARROW(12)
	default:
		wide(p, x, n);
	}
}

/* x[order] to x[n - 1]: in partitions, each with bits of its own. */
static bool samples(struct bits *s, const struct predictor *p, int32_t *x,
		    size_t n)
{
	unsigned method = take(s, 2), parts = take(s, 4);
	unsigned width = method ? 5 : 4;
	size_t each = n >> parts, at = p->order;

	if (method > 1 || each << parts != n || each < at)
		return false;
	for (size_t end = each; end <= n; end += each) {
		unsigned k = take(s, width);

		if (bits_taken(s) > s->n * 8)
			return false;
		if (k == (1u << width) - 1)
			raw(s, take(s, 5), x + at, end - at);
		else if (k > RICE_BITS || !rices(s, k, x + at, end - at))
			return false;
		at = end;
	}
	predict(p, x + p->order, n - p->order);
	return true;
}

/* ---- subframes: a channel each ---- */

/* All of n samples have no more than these bits. */
static bool in_range(const int32_t *x, size_t n, unsigned bits)
{
	uint32_t all = 0;

	for (size_t i = 0; i < n; i++)
		all |= (uint32_t)(x[i] ^ x[i] >> 31);
	return !(all >> (bits - 1));
}

/* The first samples are there as they are. */
static bool warm_up(struct bits *s, const struct predictor *p, unsigned bits,
		    int32_t *x, size_t n)
{
	if (p->order > n)
		return false;
	raw(s, bits, x, p->order);
	return true;
}

static bool read_fixed(struct bits *s, unsigned order, unsigned bits,
		       int32_t *x, size_t n)
{
	static const struct predictor fixed[] = {
		{ .order = 0 },
		{ .order = 1, .c = { 1 } },
		{ .order = 2, .c = { 2, -1 } },
		{ .order = 3, .c = { 3, -3, 1 } },
		{ .order = 4, .c = { 4, -6, 4, -1 } },
	};
	const struct predictor *p = &fixed[order];

	return warm_up(s, p, bits, x, n) && samples(s, p, x, n) &&
	       in_range(x, n, bits);
}

static bool read_linear(struct bits *s, unsigned order, unsigned bits,
			int32_t *x, size_t n)
{
	struct predictor p = { .order = order };
	unsigned precision;

	if (!warm_up(s, &p, bits, x, n))
		return false;
	precision = take(s, 4) + 1;
	p.shift = take_signed(s, 5);
	if (precision == 16 || p.shift < 0)
		return false;
	for (unsigned k = 0; k < order; k++)
		p.c[k] = take_signed(s, precision);
	measure(&p, bits);
	return samples(s, &p, x, n) && in_range(x, n, bits);
}

static bool read_constant(struct bits *s, unsigned bits, int32_t *x, size_t n)
{
	int32_t v = take_signed(s, bits);

	for (size_t i = 0; i < n; i++)
		x[i] = v;
	return true;
}

static bool read_verbatim(struct bits *s, unsigned bits, int32_t *x, size_t n)
{
	raw(s, bits, x, n);
	return true;
}

static bool read_channel(struct bits *s, unsigned bits, int32_t *x, size_t n)
{
	unsigned zero = take(s, 1), kind = take(s, 6), wasted = 0;
	bool ok = false;

	if (zero)
		return false;
	if (take(s, 1))
		wasted = take_unary(s, bits) + 1;
	if (wasted >= bits)
		return false;
	bits -= wasted;
	if (kind == 0)
		ok = read_constant(s, bits, x, n);
	else if (kind == 1)
		ok = read_verbatim(s, bits, x, n);
	else if (kind >= 8 && kind <= 12)
		ok = read_fixed(s, kind - 8, bits, x, n);
	else if (kind >= 32)
		ok = read_linear(s, kind - 31, bits, x, n);
	for (size_t i = 0; ok && wasted && i < n; i++)
		x[i] = (int32_t)((uint32_t)x[i] << wasted);
	return ok;
}

/* ---- the frame ---- */

static void unite(int stereo, int32_t *a, int32_t *b, size_t n)
{
	if (stereo == LEFT_SIDE)
		for (size_t i = 0; i < n; i++)
			b[i] = a[i] - b[i];
	else if (stereo == SIDE_RIGHT)
		for (size_t i = 0; i < n; i++)
			a[i] += b[i];
	else
		for (size_t i = 0; i < n; i++) {
			int32_t side = b[i];
			int32_t mid = a[i] * 2 + (side & 1);

			a[i] = (mid + side) >> 1;
			b[i] = (mid - side) >> 1;
		}
}

/* Whether a channel is the difference of two, which has a bit more. */
static bool is_side(int stereo, int channel)
{
	return stereo && channel == (stereo == SIDE_RIGHT ? 0 : 1);
}

bool mr_flac_frame(const uint8_t *b, size_t n, const struct mr_flac_form *form,
		   const struct mr_flac_crc *crc, int32_t *const *plane,
		   size_t room, struct mr_flac_frame *out)
{
	struct bits s = { .b = b, .n = n };
	struct head h;
	size_t end;

	if (!read_head(&s, form, &h) || h.samples > room)
		return false;
	for (int c = 0; c < form->channels; c++)
		if (!read_channel(&s,
				  (unsigned)form->bits + is_side(h.stereo, c),
				  plane[c], h.samples))
			return false;
	if (take(&s, -bits_taken(&s) & 7)) /* up to a whole byte */
		return false;
	end = bits_taken(&s) / 8;
	if (end > n || n - end < 2 ||
	    mr_flac_crc16(crc, b, end) != (b[end] << 8 | b[end + 1]))
		return false;
	if (h.stereo)
		unite(h.stereo, plane[0], plane[1], h.samples);
	*out = (struct mr_flac_frame){ .bytes = end + 2,
				       .samples = h.samples,
				       .number = h.number,
				       .varies = h.varies };
	return true;
}
