/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe/order.h"

#include "core/rng.h"
#include "millrace/millrace.h"

enum {
	ROUNDS = 8,
	GROUP = 8, /* block order: blocks whose samples are mixed */
};

#define CHOICE 0x63686f696365ULL

/* ---- permutation: a Feistel network, walked until inside [0, n) ---- */

const char *const mr_order_names[] = { "shuffle", "sequential", "block", NULL };

void mr_perm_init(struct mr_perm *p, uint64_t n, uint64_t key)
{
	/* Halves of fewer bits mix too little: some orders of five samples
	 * would be almost twice as likely as others. */
	unsigned bits = 8;

	while (bits < 64 && n > 1ull << bits)
		bits++;
	p->n = n;
	p->high = bits / 2;
	p->low = bits - p->high;
	for (unsigned i = 0; i < ROUNDS; i++)
		p->key[i] = mr_mix64(key + (i + 1) * 0x9e3779b97f4a7c15ULL);
}

static uint64_t scramble(uint64_t x, uint64_t key)
{
	x = (x + key) * 0xd6e8feb86659fd93ULL;
	x ^= x >> 29;
	return (x * 0xd6e8feb86659fd93ULL) >> 32;
}

uint64_t mr_perm_at(const struct mr_perm *p, uint64_t i)
{
	uint64_t low_mask = (1ull << p->low) - 1;
	uint64_t high_mask = (1ull << p->high) - 1;

	do {
		uint64_t low = i & low_mask, high = i >> p->low;

		for (unsigned r = 0; r < ROUNDS; r += 2) {
			high ^= scramble(low, p->key[r]) & high_mask;
			low ^= scramble(high, p->key[r + 1]) & low_mask;
		}
		i = high << p->low | low;
	} while (i >= p->n);
	return i;
}

/* ---- ranks ---- */

uint64_t mr_order_length(const struct mr_order *o)
{
	uint64_t global = o->batch * o->ranks;
	uint64_t full = o->n / global, rest = o->n % global;
	uint64_t tail = rest / o->ranks + (o->rank < rest % o->ranks);

	return full * o->batch + (o->drop_last ? 0 : tail);
}

static uint64_t global_position(const struct mr_order *o, uint64_t at)
{
	uint64_t global = o->batch * o->ranks;
	uint64_t full = o->n / global, rest = o->n % global;
	uint64_t step = at / o->batch, i = at % o->batch;
	uint64_t base = rest / o->ranks, extra = rest % o->ranks;

	if (o->ranks == 1)
		return at;
	if (step < full)
		return step * global + o->rank * o->batch + i;
	return full * global + o->rank * base +
	       (o->rank < extra ? o->rank : extra) + i;
}

/* ---- orders ---- */

static uint64_t epoch_key(const struct mr_order *o, uint64_t epoch)
{
	return mr_mix64(o->seed ^ 0x6d696c6c72616365ULL) ^
	       mr_mix64(epoch + 1) * 0x9e3779b97f4a7c15ULL;
}

static void cache_epoch(const struct mr_order *o, struct mr_order_cache *c,
			uint64_t epoch)
{
	uint64_t key = epoch_key(o, epoch);

	if (o->kind == MR_ORDER_BLOCK) {
		struct mr_rng r = mr_rng_for(key, 0, 0, 0);

		c->turn = mr_rng_below(&r, o->n);
		mr_perm_init(&c->all, o->n / o->block, key);
	} else {
		mr_perm_init(&c->all, o->n, key);
	}
	if (o->of)
		mr_perm_init(&c->choice, o->of, mr_mix64(o->seed ^ CHOICE));
	c->epoch = epoch;
	c->valid = true;
	c->group_valid = false;
}

/*
 * Whole blocks in random order; the samples of GROUP blocks that follow one
 * another are mixed. What does not fill a block comes last; since the set is
 * turned by a random number first, these are other samples in each epoch.
 */
static uint64_t block_at(const struct mr_order *o, struct mr_order_cache *c,
			 uint64_t at)
{
	uint64_t blocks = o->n / o->block, span = GROUP * o->block;
	uint64_t group = at / span, in = at % span;
	uint64_t left = blocks - group * GROUP;

	if (at >= blocks * o->block)
		return (at + c->turn) % o->n;
	if (!c->group_valid || c->group != group) {
		uint64_t n = (left < GROUP ? left : GROUP) * o->block;

		mr_perm_init(&c->inner, n,
			     epoch_key(o, c->epoch) + mr_mix64(~group));
		c->group = group;
		c->group_valid = true;
	}
	in = mr_perm_at(&c->inner, in);
	at = mr_perm_at(&c->all, group * GROUP + in / o->block) * o->block +
	     in % o->block;
	return (at + c->turn) % o->n;
}

uint64_t mr_order_at(const struct mr_order *o, struct mr_order_cache *c,
		     uint64_t epoch, uint64_t at)
{
	uint64_t g = global_position(o, at);

	if (o->kind == MR_ORDER_SEQUENTIAL)
		return g;
	if (!c->valid || c->epoch != epoch)
		cache_epoch(o, c, epoch);
	if (o->kind == MR_ORDER_BLOCK)
		return block_at(o, c, g);
	g = mr_perm_at(&c->all, g);
	return o->of ? mr_perm_at(&c->choice, g) : g;
}

uint64_t mr_order_chosen(const struct mr_order *o, struct mr_order_cache *c,
			 uint64_t i)
{
	if (!o->of || o->kind != MR_ORDER_SHUFFLE)
		return i;
	if (!c->valid)
		cache_epoch(o, c, 0);
	return mr_perm_at(&c->choice, i);
}

/* ---- runs ---- */

uint64_t mr_order_span(const struct mr_order *o)
{
	return GROUP * o->block;
}

/* Of n samples of the turned set, from `turned` on, the part with `index`:
 * some may lie at the set's end and some at its beginning. */
static void unturn(const struct mr_order *o, const struct mr_order_cache *c,
		   uint64_t turned, uint64_t n, uint64_t index,
		   struct mr_stretch *s)
{
	uint64_t first = (turned + c->turn) % o->n, to_end = o->n - first;

	s->first = first;
	s->count = n;
	if (n > to_end && index >= first) {
		s->count = to_end;
	} else if (n > to_end) {
		s->first = 0;
		s->count = n - to_end;
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool mr_order_run(const struct mr_order *o, struct mr_order_cache *c,
		  uint64_t epoch, uint64_t at, uint64_t index, uint64_t n,
		  struct mr_stretch *s)
{
	uint64_t turned, span = mr_order_span(o);
	uint64_t whole = o->n / o->block * o->block;

	if (o->kind == MR_ORDER_SEQUENTIAL) {
		s->first = index - index % n;
		s->count = least(n, o->n - s->first);
		s->end = s->first + s->count;
		return s->count > 1;
	}
	if (o->kind != MR_ORDER_BLOCK)
		return false;
	if (!c->valid || c->epoch != epoch)
		cache_epoch(o, c, epoch);
	turned = (index + o->n - c->turn) % o->n;
	turned -= turned % n;
	unturn(o, c, turned, least(n, o->n - turned), index, s);
	s->end = at < whole ? least((at / span + 1) * span, whole) : o->n;
	return s->count > 1;
}
