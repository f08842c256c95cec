/* SPDX-License-Identifier: Apache-2.0 */
/* The cache in memory: what goes in comes out, it is full when nothing more
 * fits, and threads that meet at a sample miss it once. */
#include "scratch.h"

#include <pthread.h>
#include <sched.h>

#include "cache/ram.h"
#include "core/clock.h"
#include "core/mem.h"

/* Sound of any length, under the id 3, and a label, under the id 1. */
static const struct mr_fields two = {
	.n = 2,
	.item = { { "sound", { MR_F32, 2, { MR_ANY, 2 } }, 3 },
		  { "label", { MR_I64, 0, { 0 } }, 1 } },
};

/* 100 bytes: 192 in the cache. */
static const struct mr_fields one = {
	.n = 1,
	.item = { { "data", { MR_U8, 1, { 100 } }, 0 } },
};

/* Bytes of any number. */
static const struct mr_fields any = {
	.n = 1,
	.item = { { "data", { MR_U8, 1, { MR_ANY } }, 0 } },
};

static struct mr_ram cache_of(size_t size, uint64_t samples,
			      const struct mr_fields *fields)
{
	struct mr_ram c;
	struct mr_err err;

	if (mr_ram_open(&c, size, samples, fields, &err))
		fail_msg("%s", err.text);
	return c;
}

/* n bytes that tell the sample. */
static struct mr_tensor sample_of(uint64_t index, size_t n, uint8_t *room)
{
	struct mr_tensor t = { MR_U8, 1, { (int64_t)n }, room };

	for (size_t i = 0; i < n; i++)
		room[i] = (uint8_t)(index * 31 + index / 200 + i);
	return t;
}

static bool add(struct mr_ram *c, uint64_t index, size_t n)
{
	static uint8_t room[100000];
	struct mr_tensor t = sample_of(index, n, room), out;
	int64_t rate = 0;

	assert_int_equal(mr_ram_get(c, index, &out, &rate), MR_RAM_YOURS);
	return mr_ram_put(c, index, &t, &rate);
}

static enum mr_ram_found look(struct mr_ram *c, uint64_t index)
{
	struct mr_tensor out;
	int64_t rate;

	return mr_ram_get(c, index, &out, &rate);
}

/* ---- one thread ---- */

static void test_a_sample_comes_back_as_it_was_put(void **state)
{
	struct mr_ram c = cache_of(1 << 20, 10, &two);
	float sound[50][2];
	int64_t label = -7, rate[4] = { 0, 0, 0, 16000 };
	struct mr_tensor in[4] = { [3] = { MR_F32, 2, { 50, 2 }, sound },
				   [1] = { MR_I64, 0, { 0 }, &label } };
	struct mr_tensor out[4] = { 0 };

	(void)state;
	for (int i = 0; i < 50; i++)
		sound[i][0] = sound[i][1] = (float)i;
	for (uint64_t i = 0; i < 10; i++) {
		in[3].shape[0] = (int64_t)i * 5;
		label = (int64_t)i - 7;
		assert_int_equal(mr_ram_get(&c, i, out, rate), MR_RAM_YOURS);
		assert_true(mr_ram_put(&c, i, in, rate));
	}
	for (uint64_t i = 0; i < 10; i++) {
		int64_t r[4] = { 1, 1, 1, 1 };

		assert_int_equal(mr_ram_get(&c, i, out, r), MR_RAM_HELD);
		assert_int_equal(out[3].shape[0], i * 5);
		assert_int_equal(out[3].shape[1], 2);
		assert_int_equal(out[3].dtype, MR_F32);
		assert_memory_equal(out[3].data, sound, i * 40);
		assert_int_equal(*(int64_t *)out[1].data, (int)i - 7);
		assert_int_equal(out[1].ndim, 0);
		assert_int_equal(r[3], 16000);
		assert_int_equal(r[1], 0);
		assert_int_equal(r[0], 1);
		if (i > 1)
			assert_int_equal((uintptr_t)out[3].data % MR_ALIGN, 0);
	}
	assert_int_equal(c.held, 10);
	assert_false(c.full);
	mr_ram_close(&c);
}

static void test_it_fills_to_the_last_byte(void **state)
{
	size_t each = mr_ram_sample(&one);
	struct mr_ram c = cache_of(7 * each, 20, &one);

	(void)state;
	assert_int_equal(each, 192);
	for (uint64_t i = 0; i < 7; i++)
		assert_true(add(&c, i, 100));
	assert_false(c.full);
	assert_int_equal(c.used, c.size);
	for (uint64_t i = 7; i < 20; i++)
		assert_false(add(&c, i, 100));
	assert_true(c.full);
	assert_int_equal(c.used, c.size);
	assert_int_equal(c.held, 7);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(look(&c, i),
				 i < 7 ? MR_RAM_HELD : MR_RAM_REFUSED);
	mr_ram_close(&c);
}

static void test_one_byte_less_is_a_sample_less(void **state)
{
	struct mr_ram c = cache_of(7 * mr_ram_sample(&one) - 1, 20, &one);

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(add(&c, i, 100), i < 6);
	assert_int_equal(c.held, 6);
	mr_ram_close(&c);
}

static void test_what_is_too_large_leaves_room_for_smaller_ones(void **state)
{
	struct mr_ram c = cache_of(1 << 16, 5, &any);

	(void)state;
	assert_int_equal(mr_ram_sample(&any), 0);
	assert_false(add(&c, 0, 70000)); /* larger than all of it */
	assert_int_equal(c.used, 0);
	assert_true(add(&c, 1, 60000));
	assert_false(add(&c, 2, 6000));
	assert_true(add(&c, 3, 3000));
	assert_true(add(&c, 4, 0));
	assert_int_equal(look(&c, 0), MR_RAM_REFUSED);
	assert_int_equal(look(&c, 2), MR_RAM_REFUSED);
	assert_int_equal(look(&c, 3), MR_RAM_HELD);
	assert_int_equal(look(&c, 4), MR_RAM_HELD);
	assert_int_equal(c.held, 3);
	mr_ram_close(&c);
}

static void test_a_sample_is_made_by_one_at_a_time(void **state)
{
	struct mr_ram c = cache_of(4096, 2, &one);

	(void)state;
	assert_int_equal(look(&c, 1), MR_RAM_YOURS);
	assert_int_equal(look(&c, 1), MR_RAM_BUSY);
	assert_int_equal(look(&c, 0), MR_RAM_YOURS);
	mr_ram_drop(&c, 1); /* it failed */
	assert_true(add(&c, 1, 100));
	assert_int_equal(look(&c, 1), MR_RAM_HELD);
	assert_int_equal(look(&c, 0), MR_RAM_BUSY);
	mr_ram_close(&c);
}

static void test_who_reads_ahead_reads_what_is_missing_once(void **state)
{
	struct mr_ram c = cache_of(4096, 30, &one);

	(void)state;
	assert_int_equal(mr_ram_ask(&c, 0), MR_RAM_READ);
	assert_int_equal(mr_ram_ask(&c, 0), MR_RAM_LATER);
	mr_ram_unask(&c, 0);
	assert_int_equal(mr_ram_ask(&c, 0), MR_RAM_READ);
	assert_int_equal(look(&c, 0), MR_RAM_YOURS);
	mr_ram_unask(&c, 0); /* too late: it is being made */
	assert_int_equal(mr_ram_ask(&c, 0), MR_RAM_LATER);
	mr_ram_drop(&c, 0);
	assert_int_equal(mr_ram_ask(&c, 0), MR_RAM_READ);
	assert_false(mr_ram_holds(&c, 0));
	assert_true(add(&c, 0, 100));
	assert_int_equal(mr_ram_ask(&c, 0), MR_RAM_SKIP);
	assert_true(mr_ram_holds(&c, 0));
	for (uint64_t i = 1; i < 30; i++)
		add(&c, i, 100);
	/* what does not fit is read in each epoch */
	assert_int_equal(mr_ram_ask(&c, 29), MR_RAM_READ);
	assert_int_equal(mr_ram_ask(&c, 29), MR_RAM_READ);
	mr_ram_close(&c);
}

static void test_what_was_on_its_way_is_forgotten_by_settling(void **state)
{
	struct mr_ram c = cache_of(4096, 4, &one);

	(void)state;
	mr_ram_ask(&c, 0);
	assert_int_equal(look(&c, 1), MR_RAM_YOURS);
	assert_true(add(&c, 2, 100));
	mr_ram_settle(&c);
	assert_int_equal(mr_ram_ask(&c, 0), MR_RAM_READ);
	assert_int_equal(look(&c, 1), MR_RAM_YOURS);
	assert_int_equal(look(&c, 2), MR_RAM_HELD);
	mr_ram_close(&c);
}

static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long all, now = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &all, &now), 2);
	fclose(f);
	return now * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_a_large_cache_of_a_large_set_opens_at_once(void **state)
{
	size_t before = resident();
	uint64_t best = UINT64_MAX;
	struct mr_ram c;

	(void)state;
	for (int i = 0; i < 5; i++) {
		uint64_t t = mr_clock_ns();

		c = cache_of((size_t)8 << 30, 1000000, &any);
		t = mr_clock_ns() - t;
		best = t < best ? t : best;
		if (i < 4)
			mr_ram_close(&c);
	}
	assert_true(best < 100 * 1000000ull);
	assert_true(resident() < before + ((size_t)100 << 20));
	mr_ram_settle(&c);
	assert_true(resident() < before + ((size_t)100 << 20));
	mr_ram_close(&c);
}

/* ---- several threads ---- */

enum { THREADS = 4, SAMPLES = 3000, EPOCHS = 4 };

struct together {
	struct mr_ram c;
	atomic_uint next; /* position over all epochs */
	atomic_uint hits, misses, failed;
	atomic_bool wrong;
};

static size_t size_of(uint64_t index)
{
	return index * 7919 % 500;
}

static bool is_sample(const struct mr_tensor *t, uint64_t index)
{
	uint8_t want[500];
	size_t n = size_of(index);

	sample_of(index, n, want);
	return t->shape[0] == (int64_t)n && !memcmp(t->data, want, n);
}

static void visit(struct together *s, uint64_t index, uint64_t position)
{
	struct mr_tensor in, out;
	enum mr_ram_found found;
	uint8_t room[500];
	int64_t rate = 0;

	while ((found = mr_ram_get(&s->c, index, &out, &rate)) == MR_RAM_BUSY)
		sched_yield();
	atomic_fetch_add(found == MR_RAM_HELD ? &s->hits : &s->misses, 1);
	if (found == MR_RAM_HELD && !is_sample(&out, index))
		atomic_store(&s->wrong, true);
	if (found != MR_RAM_YOURS)
		return;
	if (position % 100 == 7) { /* now and then, one fails */
		atomic_fetch_add(&s->failed, 1);
		mr_ram_drop(&s->c, index);
		return;
	}
	in = sample_of(index, size_of(index), room);
	mr_ram_put(&s->c, index, &in, &rate);
}

static void *worker(void *arg)
{
	struct together *s = arg;
	unsigned p;

	while ((p = atomic_fetch_add(&s->next, 1)) < SAMPLES * EPOCHS) {
		uint64_t epoch = p / SAMPLES, at = p % SAMPLES;

		/* another order in each epoch: 3000 and 7, 11... are coprime */
		visit(s, (at * (7 + 4 * (epoch % 2)) + epoch) % SAMPLES, p);
	}
	return NULL;
}

static void meet(struct together *s, size_t size)
{
	pthread_t t[THREADS];

	memset(s, 0, sizeof(*s));
	s->c = cache_of(size, SAMPLES, &any);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, worker, s), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_false(s->wrong);
	assert_int_equal(s->hits + s->misses, SAMPLES * EPOCHS);
}

static void test_threads_miss_each_sample_once(void **state)
{
	struct together *s = mr_alloc_aligned(sizeof(*s), NULL);

	(void)state;
	meet(s, 4 << 20);
	assert_int_equal(s->c.held, SAMPLES);
	assert_int_equal(s->misses, SAMPLES + s->failed);
	assert_false(s->c.full);
	mr_ram_close(&s->c);
	free(s);
}

static void test_threads_fill_it_and_find_what_fits(void **state)
{
	struct together *s = mr_alloc_aligned(sizeof(*s), NULL);
	uint64_t used = 0, held = 0;

	(void)state;
	meet(s, 400000);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		struct mr_tensor t;
		int64_t rate;

		if (mr_ram_get(&s->c, i, &t, &rate) != MR_RAM_HELD)
			continue;
		assert_true(is_sample(&t, i));
		held++;
		used += mr_round_up(MR_ALIGN + size_of(i), MR_ALIGN);
	}
	assert_true(s->c.full);
	assert_int_equal(held, s->c.held);
	assert_true(held > 900 && held < 2000);
	/* small fields have less of a head, none more */
	assert_true(s->c.used <= used && s->c.used > used - 64 * held);
	assert_in_range(s->c.size - s->c.used, 0, 64);
	mr_ram_close(&s->c);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sample_comes_back_as_it_was_put),
		cmocka_unit_test(test_it_fills_to_the_last_byte),
		cmocka_unit_test(test_one_byte_less_is_a_sample_less),
		cmocka_unit_test(
			test_what_is_too_large_leaves_room_for_smaller_ones),
		cmocka_unit_test(test_a_sample_is_made_by_one_at_a_time),
		cmocka_unit_test(
			test_who_reads_ahead_reads_what_is_missing_once),
		cmocka_unit_test(
			test_what_was_on_its_way_is_forgotten_by_settling),
		cmocka_unit_test(
			test_a_large_cache_of_a_large_set_opens_at_once),
		cmocka_unit_test(test_threads_miss_each_sample_once),
		cmocka_unit_test(test_threads_fill_it_and_find_what_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
