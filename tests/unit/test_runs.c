/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of neighbours: which the order brings close together, and how they are
 * kept and dropped. */
#include "scratch.h"

#include "core/mem.h"
#include "pipe/runs.h"

/* ---- the order ---- */

static void check_order(const struct mr_order *o, uint64_t epoch, uint64_t n)
{
	struct mr_order_cache at = { 0 }, c = { 0 };
	uint64_t *last = calloc(o->n, sizeof(*last)); /* position + 1 */
	uint64_t *end = calloc(o->n, sizeof(*end));
	uint64_t *run = calloc(o->n, sizeof(*run)); /* its first sample + 1 */
	uint64_t alone = 0, runs = 0;

	for (uint64_t i = 0; i < o->n; i++) {
		uint64_t index = mr_order_at(o, &at, epoch, i);
		struct mr_stretch s;

		assert_int_equal(last[index], 0);
		last[index] = i + 1;
		if (!mr_order_run(o, &c, epoch, i, index, n, &s)) {
			alone++;
			continue;
		}
		runs += !run[s.first];
		assert_true(s.first <= index && index < s.first + s.count);
		assert_true(s.count <= n && s.first + s.count <= o->n);
		assert_true(i < s.end && s.end <= o->n);
		/* Each sample is of one run, whoever asks. */
		for (uint64_t k = s.first; k < s.first + s.count; k++) {
			assert_true(!run[k] || run[k] == s.first + 1);
			run[k] = s.first + 1;
			assert_true(!end[k] || end[k] == s.end);
			end[k] = s.end;
		}
	}
	for (uint64_t i = 0; i < o->n; i++)
		assert_true(!end[i] || last[i] <= end[i]);
	/* As few as there can be: one more lies across the end of the set, and
	 * has a part at either side. */
	if (n > 1)
		assert_true(runs + alone <= (o->n + n - 1) / n + 1);
	free(last);
	free(end);
	free(run);
}

static void test_runs_hold_their_samples_until_their_end(void **state)
{
	uint64_t seed = 4;

	(void)state;
	for (int r = 0; r < 300; r++) {
		struct mr_order o = { .kind = r % 2 ? MR_ORDER_BLOCK :
						      MR_ORDER_SEQUENTIAL,
				      .n = 1 + draw(&seed) % 700,
				      .seed = draw(&seed),
				      .ranks = 1,
				      .batch = 1 + draw(&seed) % 9 };
		uint64_t most, n;

		o.block = 1 + draw(&seed) % (o.n < 70 ? o.n : 70);
		most = o.kind == MR_ORDER_BLOCK ? o.block : 40;
		n = 1 + draw(&seed) % most;
		while (o.kind == MR_ORDER_BLOCK && o.block % n)
			n--;
		check_order(&o, draw(&seed) % 5, n);
	}
}

static void test_shuffled_order_has_no_runs(void **state)
{
	struct mr_order o = { .kind = MR_ORDER_SHUFFLE,
			      .n = 100,
			      .block = 10,
			      .ranks = 1,
			      .batch = 4 };
	struct mr_order_cache c = { 0 };
	struct mr_stretch s;

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		assert_false(mr_order_run(&o, &c, 0, i, i, 10, &s));
}

/* ---- keeping them ---- */

/* A source of records end to end; `hole` lies elsewhere. */
struct fake {
	uint64_t size, hole, bad;
};

static int locate(const void *self, uint64_t index, char *buf, size_t cap,
		  struct mr_extent *e, struct mr_err *err)
{
	const struct fake *f = self;

	(void)buf;
	(void)cap;
	if (index == f->bad)
		return mr_err_set(err, MR_EDATA, "bad");
	*e = (struct mr_extent){ .fd = 3,
				 .offset = index * f->size +
					   (index == f->hole ? 1 << 30 : 0),
				 .length = f->size };
	return 0;
}

static const struct mr_source source = { .locate = locate };

static struct mr_loader *fake_loader(const struct fake *f, int kind, uint64_t n)
{
	struct mr_loader *l = mr_alloc_aligned(sizeof(*l), NULL);

	l->plan.source = &source;
	l->plan.source_self = f;
	l->plan.samples = n;
	l->rows = 4;
	l->epoch_batches = (n + 3) / 4;
	l->order = (struct mr_order){ .kind = kind,
				      .n = n,
				      .seed = 1,
				      .block = 32,
				      .ranks = 1,
				      .batch = 4 };
	return l;
}

static int count_runs(const struct mr_runs *r)
{
	int n = 0;

	for (int i = 0; i < MR_RUN_BUCKETS; i++)
		for (const struct mr_run_read *x = r->bucket[i]; x; x = x->next)
			n++;
	return n;
}

static void test_runs_are_made_where_they_pay(void **state)
{
	struct fake f = { 1000, UINT64_MAX, UINT64_MAX };
	struct mr_loader *l = fake_loader(&f, MR_ORDER_BLOCK, 1000);
	struct mr_runs r;

	(void)state;
	mr_runs_init(&r, l, 64 << 20);
	assert_int_equal(r.samples, 32); /* blocks are whole runs */
	mr_runs_init(&r, l, 500000);	 /* a group does not fit */
	assert_true(r.samples < 2);
	l->order.ranks = 2;
	mr_runs_init(&r, l, 64 << 20);
	assert_true(r.samples < 2);
	l->order.ranks = 1;
	l->order.kind = MR_ORDER_SHUFFLE;
	mr_runs_init(&r, l, 64 << 20);
	assert_true(r.samples < 2);
	l->order.kind = MR_ORDER_SEQUENTIAL;
	mr_runs_init(&r, l, 64 << 20);
	assert_int_equal(r.samples, MR_RUN_SAMPLES);
	f.size = 2 << 20; /* each is a request worth making */
	mr_runs_init(&r, l, 64 << 20);
	assert_true(r.samples < 2);
	l->plan.samples = l->order.n = 1;
	mr_runs_init(&r, l, 64 << 20);
	assert_true(r.samples < 2);
	free(l);
}

/* Two epochs, from the middle of the first: each run is new once in each, and
 * none stays. */
static void walk(struct mr_loader *l, struct mr_runs *r, uint64_t from)
{
	struct mr_order_cache c = { 0 };
	uint64_t all = l->epoch_batches * l->rows;
	uint64_t fresh_runs = 0, covered = 0;

	for (uint64_t at = from; at < 2 * all; at++) {
		struct mr_run_read *run;
		struct mr_extent x;
		uint64_t index;
		bool fresh;

		if (at % all >= l->plan.samples)
			continue; /* of a last batch that is not full */
		index = mr_order_at(&l->order, &c, at / all, at % all);
		run = mr_runs_get(r, at, index, &x, &fresh);
		if (!run)
			continue;
		assert_true(x.offset >= run->at.offset &&
			    x.offset + x.length <=
				    run->at.offset + run->at.length);
		assert_true(at < run->expires);
		fresh_runs += fresh;
		covered++;
		run->state = MR_RUN_DONE;
		assert_true(run->left > 0);
		if (!--run->left)
			mr_runs_drop(r, run);
		mr_runs_expire(r, at);
	}
	assert_true(covered >= fresh_runs && fresh_runs);
	assert_true(fresh_runs <= 2 * (l->plan.samples / r->samples + 2));
	mr_runs_expire(r, r->swept + 2 * all);
	assert_int_equal(count_runs(r), 0);
}

static void test_runs_are_new_once_and_none_stays(void **state)
{
	uint64_t seed = 6;

	(void)state;
	for (int i = 0; i < 60; i++) {
		uint64_t n = 300 + draw(&seed) % 900;
		struct fake f = { 640, draw(&seed) % n, draw(&seed) % n };
		struct mr_loader *l = fake_loader(
			&f, i % 2 ? MR_ORDER_BLOCK : MR_ORDER_SEQUENTIAL, n);
		struct mr_runs r;

		mr_runs_init(&r, l, 64 << 20);
		assert_true(r.samples > 1);
		if (r.samples > 32) /* some, though two have a gap */
			r.samples = 32;
		walk(l, &r, i % 3 ? draw(&seed) % n : 0);
		mr_runs_fini(&r);
		free(l);
	}
}

static void test_samples_that_lie_elsewhere_are_in_no_run(void **state)
{
	struct fake f = { 640, 40, 70 };
	struct mr_loader *l = fake_loader(&f, MR_ORDER_SEQUENTIAL, 128);
	struct mr_extent x;
	struct mr_runs r;
	bool fresh;

	(void)state;
	mr_runs_init(&r, l, 64 << 20);
	r.samples = 32;
	assert_non_null(mr_runs_get(&r, 3, 3, &x, &fresh));
	assert_null(mr_runs_get(&r, 33, 33, &x, &fresh)); /* with 40 */
	assert_null(mr_runs_get(&r, 70, 70, &x, &fresh));
	assert_null(mr_runs_get(&r, 71, 71, &x, &fresh));
	assert_non_null(mr_runs_get(&r, 127, 127, &x, &fresh));
	mr_runs_fini(&r);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs_hold_their_samples_until_their_end),
		cmocka_unit_test(test_shuffled_order_has_no_runs),
		cmocka_unit_test(test_runs_are_made_where_they_pay),
		cmocka_unit_test(test_runs_are_new_once_and_none_stays),
		cmocka_unit_test(test_samples_that_lie_elsewhere_are_in_no_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
