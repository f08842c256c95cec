/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies: what is predicted of them, and which is the best. */
#include "scratch.h"

#include <math.h>

#include "analyze/model.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tune/tuning.h"

static void assert_near(double a, double b, double part)
{
	assert_true(fabs(a - b) <= part * fabs(b));
}

static struct mr_figure give_or_take(double mean, double part)
{
	return (struct mr_figure){ mean, mean * (1 - part), mean * (1 + part),
				   10 };
}

static struct mr_figure about(double mean)
{
	return give_or_take(mean, 0.02);
}

static void add_split(struct mr_tuning *t, const char *name, double bytes,
		      double rest, double offline)
{
	struct mr_tune_split *s = &t->split[t->splits];

	*s = (struct mr_tune_split){
		.stage = t->splits - 1,
		.until = t->splits,
		.bytes = bytes,
		.plain = bytes,
		.requests = 1,
		.in_turn = 1,
		.offline = about(offline),
		.ahead = about(rest),
		.points = 2,
		.curve = { { 1, about(rest / 2) }, { 2, about(rest) } },
		.codecs = 1,
		.codec = { { .name = "none", .codec = "none", .ratio = 1 } },
	};
	snprintf(s->name, sizeof(s->name), "%s", name);
	t->splits++;
}

static void add_codec(struct mr_tuning *t, int split, const char *name,
		      double ratio, double pack, double unpack)
{
	struct mr_tune_split *s = &t->split[split];
	struct mr_tune_codec *c = &s->codec[s->codecs++];

	*c = (struct mr_tune_codec){ .codec = name,
				     .level = -1,
				     .ratio = ratio,
				     .pack = pack,
				     .unpack = unpack };
	snprintf(c->name, sizeof(c->name), "%s", name);
}

/* Photos, as they are: decoding takes nearly all of the time. */
static void photos(struct mr_tuning *t)
{
	static char *words[] = { "files photos", "decode_image", "resize 256",
				 "flip" };

	*t = (struct mr_tuning){ .samples = 1000000,
				 .batch = 64,
				 .block = 256,
				 .threads = 2,
				 .cores = 2,
				 .sampled = 1024,
				 .budget = 4e9,
				 .goal.epochs = 30,
				 .best = -1,
				 .online = -1,
				 .offline = -1 };
	add_split(t, "", 110e3, 800, 0);
	add_split(t, "read", 110e3, 800, 9000);
	add_split(t, "decode_image", 600e3, 2000, 1000);
	add_split(t, "resize", 270e3, 8000, 900);
	for (int i = 0; i < 4; i++)
		t->word[i] = words[i];
	t->stages = 4;
	t->tail = (char *)"batch 64";
	t->pipeline = (char *)"files photos | decode_image | resize 256 | "
			      "flip | batch 64";
}

static void limit(struct mr_tuning *t, const char *name, double bw, double iops,
		  double latency)
{
	snprintf(t->profile, sizeof(t->profile), "%s", name);
	t->limits = (struct mr_storage_limits){ .bw = bw,
						.iops = iops,
						.latency = latency };
}

static void judge(struct mr_tuning *t)
{
	struct mr_err err;

	assert_int_equal(mr_tuning_list(t, &err), 0);
	mr_tuning_judge(t);
}

static void done(struct mr_tuning *t)
{
	free(t->strategy);
	mr_str_fini(&t->notes);
}

static const struct mr_strategy *find(const struct mr_tuning *t, int split,
				      int codec, int order, int threads,
				      enum mr_tune_cache cache, int at)
{
	for (int i = 0; i < t->strategies; i++) {
		const struct mr_strategy *s = &t->strategy[i];

		if (s->split == split && s->codec == codec &&
		    s->order == order && s->threads == threads &&
		    s->cache == cache &&
		    (cache != MR_CACHE_RAM || s->cache_at == at))
			return s;
	}
	fail_msg("no such strategy");
	return NULL;
}

static void test_steps_and_unpacking_add_up(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	photos(&t);
	/* 270 KB at 540 MB/s are 500 us more than the 250 of two threads */
	add_codec(&t, 3, "zstd", 1.5, 100e6, 540e6);
	judge(&t);
	s = find(&t, 3, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 8000, 0.001);
	s = find(&t, 3, 0, MR_ORDER_SHUFFLE, 1, MR_CACHE_NONE, 0);
	assert_near(s->warm, 4000, 0.001);
	s = find(&t, 3, 1, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 2 / 750e-6, 0.001);
	assert_near(s->storage, 270e3 / 1.5 * 1e6, 0.001);
	/* making: 2,222 us of a thread, and 2,700 for packing */
	assert_near(s->offline, 1e6 * (2.0 / 900 + 270e3 / 100e6) / 2, 0.001);
	done(&t);
}

static void test_a_slow_storage_is_the_limit(void **state)
{
	struct mr_tuning t;

	(void)state;
	photos(&t);
	limit(&t, "some", 100e6, 0, 0);
	judge(&t);
	assert_near(find(&t, 2, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0)->warm,
		    100e6 / 600e3, 0.01);
	assert_near(find(&t, 3, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0)->warm,
		    100e6 / 270e3, 0.01);
	done(&t);
}

/* 10 ms for each sample, in which a thread does nothing else. */
static void test_who_reads_by_himself_waits_in_making_a_set_too(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	photos(&t);
	t.split[0].direct = true;
	limit(&t, "some", 0, 0, 10e-3);
	judge(&t);
	s = find(&t, 0, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 2 / (2.0 / 800 + 10e-3), 0.001);
	s = find(&t, 3, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 8000, 0.001);
	assert_near(s->offline, 1e6 * (2.0 / 900 + 10e-3) / 2, 0.001);
	done(&t);
}

/* A source that unpacks for 2 ms of the 20 that two threads take to read cold:
 * they are in the curve already. */
static void test_what_a_source_does_itself_is_no_wait(void **state)
{
	struct mr_tuning t;

	(void)state;
	photos(&t);
	t.split[0].direct = true;
	t.split[0].cold = about(100);
	t.split[0].alone = about(1000);
	judge(&t);
	for (int n = 1; n <= 2; n++)
		assert_near(
			find(&t, 0, 0, MR_ORDER_SHUFFLE, n, MR_CACHE_NONE, 0)
				->warm,
			n / (2.0 / 800 + 20e-3 - 2e-3), 0.001);
	done(&t);
}

/* A second each: what matters is how many are asked for at once. */
static void test_as_many_requests_are_in_flight_as_memory_holds(void **state)
{
	const double few = (16 << 20) / 270e3;
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	for (int small = 0; small < 2; small++) {
		photos(&t);
		t.budget = small ? 64 << 20 : 4e9;
		limit(&t, "far", 0, 0, 1);
		judge(&t);
		s = find(&t, 3, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
		assert_near(s->warm, small ? few : 512, 0.001);
		done(&t);
	}
	/* Runs of 250 samples, of which a thousand are looked at ahead. */
	photos(&t);
	t.order = MR_ORDER_SEQUENTIAL;
	t.split[3].bytes = 4096;
	limit(&t, "far", 0, 0, 1);
	judge(&t);
	s = find(&t, 3, 0, MR_ORDER_SEQUENTIAL, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 1024, 0.01);
	done(&t);
	/* A source that makes its samples begins 64 ahead. */
	photos(&t);
	t.split[0].made = 64;
	limit(&t, "far", 0, 0, 1);
	judge(&t);
	assert_near(t.strategy[t.online].warm, 64, 0.001);
	done(&t);
}

/* 5 MB of the 4 that a request may take, or because the user wants it so. */
static void test_who_is_not_read_ahead_for_waits(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	for (int wanted = 0; wanted < 2; wanted++) {
		photos(&t);
		t.order = wanted ? MR_ORDER_SEQUENTIAL : MR_ORDER_SHUFFLE;
		t.fetch = wanted ? MR_FETCH_DIRECT : MR_FETCH_AUTO;
		t.budget = wanted ? 4e9 : 64 << 20;
		t.split[3].bytes = wanted ? 50e3 : 5e6;
		limit(&t, "far", 0, 0, 10e-3);
		judge(&t);
		s = find(&t, 3, 0, t.order, 1, MR_CACHE_NONE, 0);
		assert_near(s->warm, 1 / (1.0 / 4000 + 10e-3), 0.001);
		done(&t);
	}
	/* without a profile, by what was measured */
	photos(&t);
	t.fetch = MR_FETCH_DIRECT;
	t.split[3].cold = about(100);
	t.split[3].alone = about(10000);
	judge(&t);
	s = find(&t, 3, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 2 / (2.0 / 8000 + 2 * (1e-2 - 1e-4)), 0.001);
	done(&t);
}

/* Of a shuffled job, too, since a set is made in the source's own order. */
static void test_a_set_is_made_by_reading_neighbours_together(void **state)
{
	struct mr_tuning t;

	(void)state;
	for (int way = 0; way < 3; way++) {
		photos(&t);
		t.split[0].in_turn = 0.1;
		if (way < 2)
			limit(&t, "disk", 0, 50, 0);
		if (way == 1) /* which is the job's */
			t.fetch = MR_FETCH_DIRECT;
		t.split[0].cold = about(50);
		t.split[0].block = about(500);
		judge(&t);
		assert_near(t.strategy[t.online].warm, 50, 0.03);
		assert_near(t.strategy[t.offline].offline,
			    1e6 / mr_model_meet(900, 500), 0.001);
		done(&t);
	}
}

static void test_neighbours_share_a_request_in_block_order(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	photos(&t);
	t.other_order = true;
	limit(&t, "disk", 0, 100, 0);
	judge(&t);
	s = find(&t, 3, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 100, 0.01);
	/* Three of 270 KB in a request: blocks are whole runs. */
	s = find(&t, 3, 0, MR_ORDER_BLOCK, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 300, 0.01);
	assert_int_equal(mr_tuning_block(&t, s, t.samples) % 3, 0);
	/* Blocks small enough to be held: eight of them in 128 MB. */
	assert_true(mr_tuning_block(&t, s, t.samples) * 8 * 270000 < 134217728);
	/* A file each has none. */
	for (int i = 0; i < t.strategies; i++)
		assert_true(t.strategy[i].split > 0 ||
			    t.strategy[i].order == MR_ORDER_SHUFFLE);
	done(&t);
}

/* 100 MB/s, and 5 ms for each sample where neighbours are not read together. */
static void measure_cold(struct mr_tuning *t, bool together)
{
	for (int i = 0; i < t->splits; i++) {
		struct mr_tune_split *s = &t->split[i];

		s->cold = about(1 / (s->bytes / 100e6 + (together ? 0 : 5e-3)));
		if (t->other_order && s->stage >= 0)
			s->block = about(1 / (s->bytes / 100e6));
	}
}

static void test_packed_sets_are_read_as_those_that_were_measured(void **state)
{
	static const int orders[] = { MR_ORDER_SHUFFLE, MR_ORDER_SEQUENTIAL,
				      MR_ORDER_BLOCK };
	struct mr_tuning t;

	(void)state;
	for (size_t i = 0; i < MR_COUNT(orders); i++) {
		bool shuffled = orders[i] == MR_ORDER_SHUFFLE;

		photos(&t);
		t.order = orders[i];
		t.other_order = shuffled;
		add_codec(&t, 3, "lz4", 1.5, 400e6, 5e9);
		measure_cold(&t, !shuffled);
		judge(&t);
		/* 180 KB */
		assert_near(find(&t, 3, 1, t.order, 2, MR_CACHE_NONE, 0)->warm,
			    1 / (1.8e-3 + (shuffled ? 5e-3 : 0)), 0.01);
		if (shuffled)
			assert_near(find(&t, 3, 1, MR_ORDER_BLOCK, 2,
					 MR_CACHE_NONE, 0)
					    ->warm,
				    1 / 1.8e-3, 0.01);
		done(&t);
	}
}

/* A run is of 24 samples: if it were of 23, a block of 24 would be two of 12,
 * and one of 36 two of 18 as before. */
static void test_blocks_suit_samples_that_are_a_little_larger(void **state)
{
	struct mr_tuning t;
	struct mr_strategy s = { .split = 3, .threads = 2 };

	(void)state;
	photos(&t);
	t.split[3].bytes = 43.5e3;
	assert_int_equal(mr_tuning_block(&t, &s, 600), 36);
	t.split[3].even = true;
	assert_int_equal(mr_tuning_block(&t, &s, 600), 24);
	add_codec(&t, 3, "zstd", 1.5, 100e6, 540e6);
	t.split[3].bytes *= 1.5;
	s.codec = 1;
	assert_int_equal(mr_tuning_block(&t, &s, 600), 36);
	done(&t);
}

static void test_caches_answer_for_what_they_hold(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	photos(&t);
	limit(&t, "some", 50e6, 0, 0);
	t.memory = 0.5 * 1e6 * (270e3 + 192);
	judge(&t);
	/* Half comes from memory, so that the storage has half to do. */
	s = find(&t, 0, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_RAM, 3);
	assert_near(s->cache_share, 0.5, 0.001);
	assert_near(s->warm, 2 * 50e6 / 110e3, 0.05);
	assert_near(s->cold, 50e6 / 110e3, 0.01);
	assert_true(s->cache_bytes <= t.memory + 1);
	/* All of the raw files fit: no storage at all. */
	s = find(&t, 0, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_PAGE, 0);
	assert_near(s->cache_share, 1, 0);
	assert_near(s->warm, 800, 0.001);
	done(&t);
}

/* What a sample takes is the mean of some. */
static void test_a_cache_of_all_has_room_to_spare(void **state)
{
	const double all = 1e6 * (270e3 + 192), room[] = { 1e13, 1.01 * all };
	struct mr_tuning t;

	(void)state;
	for (size_t i = 0; i < MR_COUNT(room); i++) {
		photos(&t);
		t.memory = room[i];
		judge(&t);
		assert_near(find(&t, 0, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_RAM, 3)
				    ->cache_bytes,
			    fmin(1.03 * all, room[i]), 1e-6);
		done(&t);
	}
}

static void test_the_goal_decides(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	photos(&t);
	judge(&t);
	/* 30 epochs: 19 minutes once save 19 in each */
	assert_int_equal(t.strategy[t.best].split, 3);
	assert_int_equal(t.strategy[t.online].split, 0);
	assert_int_equal(t.strategy[t.offline].split, 3);
	t.goal.epochs = 1;
	mr_tuning_judge(&t);
	assert_int_equal(t.strategy[t.best].split, 0);
	t.goal.epochs = 30;
	t.goal.max_storage = 200e9;
	mr_tuning_judge(&t);
	s = &t.strategy[t.best];
	assert_true(s->split < 2);
	t.goal.max_storage = 0;
	t.goal.max_prepare = 60;
	mr_tuning_judge(&t);
	assert_int_equal(t.strategy[t.best].split, 0);
	/* Disks that cost more than the time that they save. */
	t.goal.max_prepare = 0;
	t.goal.price_hour = 1;
	t.goal.price_gb = 10;
	mr_tuning_judge(&t);
	assert_int_equal(t.strategy[t.best].split, 0);
	done(&t);
}

/* Four ranks make the set once, and share each epoch. */
static void test_what_is_free_on_the_disk_is_a_limit_too(void **state)
{
	struct mr_tuning t;

	(void)state;
	photos(&t);
	t.goal.max_storage = 1e12;
	t.goal.room = 200e9;
	judge(&t);
	assert_true(t.strategy[t.best].added <= 200e9);
	assert_true(
		find(&t, 1, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0)->allowed);
	t.goal.max_storage = 0;
	mr_tuning_judge(&t);
	assert_true(t.strategy[t.best].added <= 200e9);
	t.goal.max_storage = 1;
	mr_tuning_judge(&t);
	assert_int_equal(t.best, t.online);
	done(&t);
}

static void test_an_epoch_of_a_rank_is_a_share_of_all(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	photos(&t);
	t.ranks = 4;
	judge(&t);
	s = find(&t, 3, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0);
	assert_near(s->offline, 1e6 / 900, 0.001);
	assert_near(s->total, s->offline + 30 * 250e3 / 8000, 0.001);
	for (int i = 0; i < t.evens; i++)
		assert_true(t.even[i].a != t.best || t.even[i].b != t.online ||
			    fabs(t.even[i].epoch - 3.95) < 0.1);
	done(&t);
	/* and each reads alone: no neighbours */
	photos(&t);
	t.ranks = 4;
	t.order = MR_ORDER_SEQUENTIAL;
	limit(&t, "disk", 0, 100, 0);
	judge(&t);
	s = find(&t, 3, 0, MR_ORDER_SEQUENTIAL, 2, MR_CACHE_NONE, 0);
	assert_near(s->warm, 100, 0.01);
	done(&t);
}

static void test_an_accelerator_caps_what_is_of_use(void **state)
{
	struct mr_tuning t;

	(void)state;
	photos(&t);
	t.goal.accelerator = 700;
	judge(&t);
	assert_int_equal(t.strategy[t.best].split, 0);
	assert_near(t.strategy[t.best].warm, 700, 0);
	done(&t);
}

static void test_weights_stand_equal_values(void **state)
{
	struct mr_tuning t;

	(void)state;
	photos(&t);
	t.splits = 1; /* one strategy: all ranges are of one value */
	t.goal.weighted = true;
	t.goal.weight[0] = t.goal.weight[1] = t.goal.weight[2] = 1;
	judge(&t);
	assert_true(t.best >= 0);
	for (int i = 0; i < t.strategies; i++)
		assert_true(isfinite(t.strategy[i].score));
	assert_near(t.strategy[t.best].score, 1, 1e-9);
	done(&t);

	/* Storage alone counts: the smallest is the best. */
	photos(&t);
	t.goal.weighted = true;
	t.goal.weight[1] = 1;
	judge(&t);
	assert_true(t.strategy[t.best].split <= 1);
	done(&t);

	photos(&t);
	t.goal.weighted = true;
	t.goal.weight[2] = 1;
	judge(&t);
	assert_int_equal(t.strategy[t.best].split, 3);
	done(&t);
}

static void test_without_a_way_there_is_no_best(void **state)
{
	struct mr_tuning t;
	struct mr_str answer = { 0 };

	(void)state;
	photos(&t);
	t.memory = 1e9;
	t.goal.max_prepare = 1;
	judge(&t);
	assert_true(t.best >= 0); /* all online takes no preparation */
	/* None is finite. */
	t.split[0].curve[0].rate = t.split[0].curve[1].rate =
		(struct mr_figure){ 0 };
	mr_tuning_judge(&t);
	assert_int_equal(t.best, -1);
	mr_tuning_answer(&t, &answer);
	assert_non_null(strstr(answer.text, "no strategy"));
	mr_str_fini(&answer);
	done(&t);
}

static void test_of_equals_the_simpler_one(void **state)
{
	struct mr_tuning t;

	(void)state;
	photos(&t);
	/* As fast with 1 % as without: not worth a set. */
	t.split[1].curve[0].rate = t.split[2].curve[0].rate =
		t.split[3].curve[0].rate = about(404);
	t.split[1].curve[1].rate = t.split[2].curve[1].rate =
		t.split[3].curve[1].rate = about(808);
	for (int i = 1; i < 4; i++) {
		t.split[i].ahead = about(808);
		t.split[i].offline = about(1e9);
	}
	judge(&t);
	assert_int_equal(t.strategy[t.best].split, 0);
	assert_true(t.ties >= 1);
	done(&t);
}

static bool is_tie(const struct mr_tuning *t, int i)
{
	for (int k = 0; k < t->ties; k++)
		if (t->tie[k] == i)
			return true;
	return false;
}

/* 5 % behind the best one: another run may have it the other way round, unless
 * both are sure. */
static void test_what_measuring_cannot_tell_apart_is_a_tie(void **state)
{
	struct mr_tuning t;
	struct mr_strategy *first, *second;
	int tie;

	(void)state;
	photos(&t);
	t.split[2].curve[1].rate = t.split[2].ahead = about(8000 * 0.9);
	t.split[2].offline = about(900);
	judge(&t);
	first = &t.strategy[t.best];
	assert_int_equal(first->split, 3);
	second = (struct mr_strategy *)find(&t, 2, 0, first->order, 2,
					    first->cache, 0);
	tie = (int)(second - t.strategy);
	assert_true(second->score < 0.97 && second->score > 0.92);
	assert_false(is_tie(&t, tie));
	for (int sure = 0; sure < 2; sure++) {
		double half = sure ? 0.001 : 0.08;

		first->measured = give_or_take(first->sampled, half);
		second->measured = give_or_take(second->sampled, half);
		mr_tuning_judge(&t);
		assert_ptr_equal(&t.strategy[t.best], first);
		assert_int_equal(is_tie(&t, tie), !sure);
	}
	done(&t);
}

static void test_finals_are_between_those_that_may_be_chosen(void **state)
{
	struct mr_tuning t;
	int have, k;

	(void)state;
	photos(&t);
	judge(&t);
	have = t.best;
	/* As fast with one thread, which is not the question. */
	for (int i = 0; i < t.strategies; i++) {
		struct mr_strategy *s = &t.strategy[i];

		if (s->split == 3)
			s->measured =
				about(t.strategy[t.best].sampled *
				      (s->threads == t.threads ? 1 : 1.1));
	}
	mr_tuning_judge(&t);
	assert_int_equal(mr_tuning_finalist(&t, &have, 0), t.best);
	assert_int_equal(mr_tuning_finalist(&t, &have, 1), -1);
	/* one that is 5 % behind is in them */
	k = (int)(find(&t, 2, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0) -
		  t.strategy);
	t.split[2].curve[1].rate = t.split[2].ahead = about(8000 * 0.95);
	t.split[2].offline = about(900);
	mr_tuning_judge(&t);
	t.strategy[k].measured = about(t.strategy[k].sampled);
	assert_int_equal(mr_tuning_finalist(&t, &have, 1), k);
	done(&t);
}

static void test_what_memory_does_not_hold_is_not_chosen(void **state)
{
	struct mr_tuning t;
	int best;

	(void)state;
	photos(&t);
	t.memory = 1e13;
	judge(&t);
	best = t.best;
	assert_true(t.strategy[best].cache != MR_CACHE_NONE);
	t.strategy[best].tried = t.strategy[best].refused = true;
	mr_tuning_judge(&t);
	assert_false(t.strategy[best].allowed);
	assert_true(t.best != best && mr_tuning_next(&t) != best);
	done(&t);
}

/* It is thought of anew only if it has not been tried. */
static void test_a_mixture_that_cannot_be_measured_is_tried_once(void **state)
{
	struct mr_tuning t;
	int mixtures = 0;

	(void)state;
	photos(&t);
	t.mixes = true;
	t.goal.max_storage = 0.4 * 270e3 * 1e6;
	judge(&t);
	assert_true(t.strategy[t.best].mixed);
	t.strategy[t.best].tried = true;
	mr_tuning_judge(&t);
	for (int i = 0; i < t.strategies; i++)
		mixtures += t.strategy[i].mixed && t.strategy[i].with == 3;
	assert_int_equal(mixtures, 1);
	assert_true(t.strategy[t.best].mixed && t.strategy[t.best].tried);
	done(&t);
}

static void test_epochs_from_which_it_pays(void **state)
{
	struct mr_tuning t;
	bool seen = false;

	(void)state;
	photos(&t);
	t.split[3].offline = about(500);
	judge(&t);
	for (int i = 0; i < t.evens; i++) {
		const struct mr_strategy *a = &t.strategy[t.even[i].a];
		const struct mr_strategy *b = &t.strategy[t.even[i].b];
		double e = t.even[i].epoch;
		double ta =
			a->offline + 1e6 / a->cold + (e - 1) * 1e6 / a->warm;
		double tb =
			b->offline + 1e6 / b->cold + (e - 1) * 1e6 / b->warm;

		assert_near(ta, tb, 1e-9);
		seen |= t.even[i].a == t.best && t.even[i].b == t.online;
	}
	assert_true(seen);
	done(&t);
}

static void test_what_was_measured_corrects_the_rest(void **state)
{
	struct mr_tuning t;
	struct mr_strategy *s;

	(void)state;
	photos(&t);
	add_codec(&t, 3, "lz4", 1.2, 400e6, 5e9);
	judge(&t);
	/* Sets after resize turn out to be no faster than what there is. */
	s = &t.strategy[t.best];
	assert_int_equal(s->split, 3);
	s->sampled = s->warm;
	s->measured = about(s->warm / 10);
	mr_tuning_judge(&t);
	assert_near(s->warm, 800, 0.001);
	assert_near(find(&t, 3, 1, MR_ORDER_SHUFFLE, 2, MR_CACHE_NONE, 0)->warm,
		    2 / (250e-6 + 270e3 / 5e9) / 10, 0.001);
	assert_int_equal(t.strategy[t.best].split, 2);
	done(&t);
}

static void test_the_first_epoch_of_a_cache_is_corrected_too(void **state)
{
	struct mr_tuning t;
	struct mr_strategy *s;

	(void)state;
	photos(&t);
	t.memory = 1e12;
	judge(&t);
	/* All online is half as fast as it should be. */
	s = &t.strategy[t.online];
	s->sampled = s->warm;
	s->measured = about(s->warm / 2);
	mr_tuning_judge(&t);
	assert_near(s->cold, 400, 0.001);
	assert_near(find(&t, 0, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_RAM, 3)->cold,
		    400, 0.001);
	assert_near(find(&t, 0, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_RAM, 3)->warm,
		    8000, 0.001);
	/* What is beyond an accelerator before it is corrected may not be so
	 * then, and the other way round. */
	t.goal.accelerator = 500;
	mr_tuning_judge(&t);
	assert_near(s->warm, 400, 0.001);
	t.goal.accelerator = 300;
	mr_tuning_judge(&t);
	assert_near(s->warm, 300, 0);
	done(&t);
}

static void test_the_gain_is_over_what_there_is_anyway(void **state)
{
	struct mr_str answer = { 0 };
	struct mr_tuning t;

	(void)state;
	photos(&t);
	limit(&t, "some", 11e6, 0, 0); /* 100 a second */
	t.goal.max_storage = 1;
	t.memory = 1e12;
	judge(&t);
	assert_int_equal(t.strategy[t.usual].cache, MR_CACHE_PAGE);
	assert_near(t.strategy[t.usual].warm, 800, 0.001);
	mr_tuning_answer(&t, &answer);
	assert_non_null(strstr(answer.text, "10 times the 800 of all online "
					    "from the page cache"));
	mr_str_fini(&answer);
	done(&t);

	photos(&t);
	limit(&t, "some", 11e6, 0, 0);
	judge(&t);
	assert_int_equal(t.usual, t.online);
	done(&t);
}

static void test_no_page_cache_holds_what_servers_have(void **state)
{
	struct mr_tuning t;

	(void)state;
	photos(&t);
	limit(&t, "some", 11e6, 0, 0);
	t.split[0].remote = true;
	t.memory = 1e12;
	judge(&t);
	assert_int_equal(t.usual, t.online);
	for (int i = 0; i < t.strategies; i++)
		assert_true(t.strategy[i].split > 0 ||
			    t.strategy[i].cache != MR_CACHE_PAGE);
	assert_int_equal(
		find(&t, 1, 0, MR_ORDER_SHUFFLE, 2, MR_CACHE_PAGE, 0)->split,
		1);
	done(&t);
}

/* With room for 40 % of the resized ones. */
static void test_of_a_limited_set_a_part_is_stored(void **state)
{
	const struct mr_strategy *s;
	struct mr_tuning t;

	(void)state;
	photos(&t);
	t.mixes = true;
	t.goal.max_storage = 0.4 * 270e3 * 1e6;
	judge(&t);
	s = &t.strategy[t.best];
	assert_true(s->mixed && s->with == 3 && s->allowed);
	assert_near(s->part, 0.4, 0.01);
	assert_true(s->added <= t.goal.max_storage);
	assert_near(s->warm, 1 / (0.4 / 8000 + 0.6 / 800), 0.02);
	assert_near(s->offline, 0.4 * 1e6 / 900, 0.02);
	done(&t);
	/* without a limit, all of them are */
	photos(&t);
	t.mixes = true;
	judge(&t);
	assert_false(t.strategy[t.best].mixed);
	done(&t);
	/* and nothing is, where mixtures are not to be thought of */
	photos(&t);
	t.goal.max_storage = 0.05 * 270e3 * 1e6;
	judge(&t);
	assert_true(t.best == t.online);
	done(&t);
}

static void test_with_time_for_a_part_that_is_stored(void **state)
{
	struct mr_tuning t;
	const struct mr_strategy *s;

	(void)state;
	photos(&t);
	t.mixes = true;
	t.goal.max_prepare = 300;
	judge(&t);
	s = &t.strategy[t.best];
	assert_true(s->mixed && s->offline <= 300);
	assert_near(s->part, 300.0 * 900 / 1e6, 0.01);
	done(&t);
}

/* Photos keep two threads busy, resized ones the storage. */
static void test_storage_and_threads_share_the_work(void **state)
{
	const struct mr_strategy *s;
	struct mr_tuning t;
	double pure;

	(void)state;
	photos(&t);
	limit(&t, "bw=150M", 150e6, 0, 0);
	t.other_order = false;
	judge(&t);
	assert_false(t.strategy[t.best].mixed);
	pure = t.strategy[t.best].warm;
	t.mixes = true;
	mr_tuning_judge(&t);
	s = &t.strategy[t.best];
	assert_true(s->mixed && s->with == 3);
	assert_true(s->part > 0.1 && s->part < 0.5);
	assert_true(s->warm > 1.1 * pure);
	/* what was measured of its parts corrects it, and of itself, too */
	t.strategy[t.online].measured =
		about(0.5 * t.strategy[t.online].sampled);
	mr_tuning_judge(&t);
	s = &t.strategy[t.best];
	assert_true(s->warm < 0.9 * 1.27 * pure);
	done(&t);
}

static void test_mixtures_in_words(void **state)
{
	struct mr_str prepare = { 0 }, words = { 0 };
	struct mr_tuning t;
	const struct mr_strategy *s;
	char *text;

	(void)state;
	photos(&t);
	t.mixes = true;
	t.goal.max_storage = 0.4 * 270e3 * 1e6;
	judge(&t);
	s = &t.strategy[t.best];
	mr_strategy_words(&t, s, &words);
	assert_string_equal(words.text,
			    "40 % stored after resize, the rest online");
	text = mr_strategy_text(&t, s, "some dir", 0, 0);
	assert_string_equal(text, "files photos | decode_image | resize 256 | "
				  "stored 'some dir' | flip | batch 64");
	free(text);
	mr_strategy_prepare(&t, s, "out", &prepare);
	assert_non_null(strstr(prepare.text, "--until 3 --literal --first "));
	mr_str_fini(&prepare);
	mr_str_fini(&words);
	done(&t);
}

/* By the definition: nothing else is as good in all and better in one. */
static void test_the_front_is_what_nothing_beats(void **state)
{
	struct mr_rng rng = mr_rng_for(1, 2, 3, 4);
	struct mr_tuning t;

	(void)state;
	photos(&t);
	for (int i = 1; i < 4; i++)
		for (int k = 0; k < 4; k++)
			add_codec(&t, i, "zstd", 1 + 4 * mr_rng_real(&rng),
				  1e8 + 1e9 * mr_rng_real(&rng),
				  1e8 + 5e9 * mr_rng_real(&rng));
	t.memory = 1e11;
	t.other_order = true;
	limit(&t, "some", 300e6, 2000, 0);
	judge(&t);
	assert_true(t.strategies > 200);
	for (int i = 0; i < t.strategies; i++) {
		const struct mr_strategy *s = &t.strategy[i];
		bool beaten = false;

		for (int k = 0; k < t.strategies; k++) {
			const struct mr_strategy *o = &t.strategy[k];
			double a = o->split ? o->storage : 0;
			double b = s->split ? s->storage : 0;

			if (o->threads < t.threads || o->order != t.order)
				continue;
			beaten |= o->warm > s->warm && o->cold >= s->cold &&
				  a < b && o->offline < s->offline &&
				  o->cache_bytes <= s->cache_bytes;
		}
		assert_false(beaten && s->pareto);
		assert_false(s->pareto && s->threads < t.threads);
		assert_true(s->score <= 1 + 1e-9 || s->threads < t.threads);
	}
	assert_true(t.strategy[t.best].pareto);
	/* One thread that seems to be faster than two is no way out. */
	for (int i = 0; i < t.splits; i++)
		t.split[i].curve[0].rate =
			about(1.1 * t.split[i].curve[1].rate.mean);
	mr_tuning_judge(&t);
	assert_true(t.strategy[t.best].pareto);
	done(&t);
}

static void test_a_strategy_is_a_pipeline(void **state)
{
	struct mr_tuning t;
	struct mr_strategy s = { .split = 3, .threads = 2 };
	struct mr_str words = { 0 };
	char *text;

	(void)state;
	photos(&t);
	text = mr_strategy_text(&t, &s, "a set", 0, 0);
	assert_string_equal(text, "records 'a set' | flip | batch 64");
	free(text);
	s.split = 2;
	s.cache = MR_CACHE_RAM;
	s.cache_at = 3;
	text = mr_strategy_text(&t, &s, "set", 1e6, 0);
	assert_string_equal(text, "records set | resize 256 | cache "
				  "ram=1000000 | flip | batch 64");
	free(text);
	s.split = 0;
	text = mr_strategy_text(&t, &s, "set", 1e6, 0);
	assert_string_equal(text, "files photos | decode_image | resize 256 | "
				  "cache ram=1000000 | flip | batch 64");
	free(text);
	s.cache_at = 1;
	text = mr_strategy_text(&t, &s, "set", 1e6, 0);
	assert_string_equal(text, "files photos | cache ram=1000000 | "
				  "decode_image | resize 256 | flip | batch "
				  "64");
	free(text);
	/* for people: up to hold all, else down to keep to the limit */
	s.cache_bytes = 20450400;
	s.cache_share = 1;
	text = mr_strategy_text(&t, &s, "set", 0, 0);
	assert_non_null(strstr(text, "cache ram=20M |"));
	free(text);
	s.cache_share = 0.5;
	text = mr_strategy_text(&t, &s, "set", 0, 0);
	assert_non_null(strstr(text, "cache ram=19M |"));
	free(text);
	s.split = 3;
	s.cache = MR_CACHE_NONE;
	mr_strategy_prepare(&t, &s, "it's", &words);
	assert_non_null(strstr(words.text, "--until 3"));
	assert_non_null(strstr(words.text, "--out 'it'\\''s'"));
	mr_str_fini(&words);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps_and_unpacking_add_up),
		cmocka_unit_test(test_a_slow_storage_is_the_limit),
		cmocka_unit_test(
			test_who_reads_by_himself_waits_in_making_a_set_too),
		cmocka_unit_test(test_what_a_source_does_itself_is_no_wait),
		cmocka_unit_test(
			test_as_many_requests_are_in_flight_as_memory_holds),
		cmocka_unit_test(test_who_is_not_read_ahead_for_waits),
		cmocka_unit_test(
			test_a_set_is_made_by_reading_neighbours_together),
		cmocka_unit_test(
			test_neighbours_share_a_request_in_block_order),
		cmocka_unit_test(
			test_packed_sets_are_read_as_those_that_were_measured),
		cmocka_unit_test(
			test_blocks_suit_samples_that_are_a_little_larger),
		cmocka_unit_test(test_caches_answer_for_what_they_hold),
		cmocka_unit_test(test_a_cache_of_all_has_room_to_spare),
		cmocka_unit_test(test_the_goal_decides),
		cmocka_unit_test(test_what_is_free_on_the_disk_is_a_limit_too),
		cmocka_unit_test(test_an_epoch_of_a_rank_is_a_share_of_all),
		cmocka_unit_test(test_an_accelerator_caps_what_is_of_use),
		cmocka_unit_test(test_weights_stand_equal_values),
		cmocka_unit_test(test_without_a_way_there_is_no_best),
		cmocka_unit_test(test_of_equals_the_simpler_one),
		cmocka_unit_test(
			test_what_measuring_cannot_tell_apart_is_a_tie),
		cmocka_unit_test(
			test_finals_are_between_those_that_may_be_chosen),
		cmocka_unit_test(test_what_memory_does_not_hold_is_not_chosen),
		cmocka_unit_test(
			test_a_mixture_that_cannot_be_measured_is_tried_once),
		cmocka_unit_test(test_epochs_from_which_it_pays),
		cmocka_unit_test(test_what_was_measured_corrects_the_rest),
		cmocka_unit_test(
			test_the_first_epoch_of_a_cache_is_corrected_too),
		cmocka_unit_test(test_the_gain_is_over_what_there_is_anyway),
		cmocka_unit_test(test_no_page_cache_holds_what_servers_have),
		cmocka_unit_test(test_of_a_limited_set_a_part_is_stored),
		cmocka_unit_test(test_with_time_for_a_part_that_is_stored),
		cmocka_unit_test(test_storage_and_threads_share_the_work),
		cmocka_unit_test(test_mixtures_in_words),
		cmocka_unit_test(test_the_front_is_what_nothing_beats),
		cmocka_unit_test(test_a_strategy_is_a_pipeline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
