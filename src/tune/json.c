/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning as JSON (docs/tuning.md). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "pipe/order.h"
#include "tune/tuning.h"

enum { DIGITS = 6 };

static void real(struct mr_json *j, const char *name, double v)
{
	mr_json_real(j, name, v, DIGITS);
}

static void add_goal(struct mr_json *j, const struct mr_tune_goal *g)
{
	mr_json_open(j, "objective", '{');
	mr_json_text(j, "kind", g->weighted ? "weights" : "epochs");
	real(j, "epochs", g->epochs);
	mr_json_open(j, "weights", '[');
	for (int i = 0; i < 3; i++)
		real(j, NULL, g->weight[i]);
	mr_json_close(j, ']');
	real(j, "max_storage", g->max_storage);
	real(j, "max_prepare", g->max_prepare);
	real(j, "max_memory", g->max_memory);
	real(j, "price_hour", g->price_hour);
	real(j, "price_gb", g->price_gb);
	real(j, "accelerator", g->accelerator);
	mr_json_close(j, '}');
}

static void add_steps(struct mr_json *j, const struct mr_tuning *t)
{
	mr_json_open(j, "steps", '[');
	for (int i = 0; i < t->steps; i++) {
		const struct mr_diag_step *s = &t->step[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "name", s->name);
		real(j, "us", s->us);
		real(j, "p50_us", t->p50[i]);
		real(j, "p99_us", t->p99[i]);
		real(j, "bytes_out", s->bytes_out);
		mr_json_bool(j, "fixed", s->fixed);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void add_codecs(struct mr_json *j, const struct mr_tune_split *s)
{
	mr_json_open(j, "codecs", '[');
	for (int i = 0; i < s->codecs; i++) {
		const struct mr_tune_codec *c = &s->codec[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "codec", c->name);
		mr_json_bool(j, "shuffle", c->shuffle);
		real(j, "ratio", c->ratio);
		real(j, "pack_mb_s", c->pack / 1e6);
		real(j, "unpack_mb_s", c->unpack / 1e6);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void add_splits(struct mr_json *j, const struct mr_tuning *t)
{
	mr_json_open(j, "splits", '[');
	for (int i = 0; i < t->splits; i++) {
		const struct mr_tune_split *s = &t->split[i];

		mr_json_open(j, NULL, '{');
		mr_json_int(j, "split", s->stage);
		mr_json_text(j, "name", s->name);
		real(j, "bytes", s->bytes);
		real(j, "plain_bytes", s->plain);
		real(j, "offline_per_s", s->offline.mean);
		real(j, "online_per_s",
		     s->points ? s->curve[s->points - 1].rate.mean : 0);
		real(j, "ahead_per_s", s->ahead.mean);
		real(j, "cold_per_s", s->cold.mean);
		mr_json_open(j, "curve", '[');
		for (int k = 0; k < s->points; k++) {
			mr_json_open(j, NULL, '{');
			mr_json_int(j, "threads", s->curve[k].threads);
			real(j, "per_s", s->curve[k].rate.mean);
			mr_json_close(j, '}');
		}
		mr_json_close(j, ']');
		add_codecs(j, s);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void add_place(struct mr_json *j, const struct mr_tuning *t,
		      const struct mr_strategy *s)
{
	static const char *const caches[] = { "none", "page", "ram" };
	const struct mr_strategy set = mr_strategy_set(s);
	const struct mr_tune_split *sp = &t->split[set.split];

	mr_json_int(j, "split", sp->stage);
	mr_json_text(j, "after", sp->name);
	real(j, "part", s->mixed ? s->part : 1);
	mr_json_text(j, "codec", sp->codec[set.codec].name);
	mr_json_bool(j, "shuffle", sp->codec[set.codec].shuffle);
	mr_json_int(j, "threads", s->threads);
	mr_json_text(j, "order", mr_order_names[s->order]);
	mr_json_uint(j, "shards", s->shards);
	mr_json_text(j, "cache", caches[s->cache]);
	mr_json_text(j, "cache_after",
		     s->cache == MR_CACHE_RAM ? t->split[s->cache_at].name :
						"");
	real(j, "cache_bytes", s->cache == MR_CACHE_NONE ? 0 : s->cache_bytes);
	real(j, "cache_share", s->cache_share);
}

static void add_strategy(struct mr_json *j, const struct mr_tuning *t, int id)
{
	const struct mr_strategy *s = &t->strategy[id];

	mr_json_open(j, NULL, '{');
	mr_json_int(j, "id", id);
	add_place(j, t, s);
	real(j, "offline_s", s->offline);
	real(j, "storage_bytes", s->storage);
	real(j, "added_bytes", s->added);
	real(j, "cold_per_s", s->cold);
	real(j, "warm_per_s", s->warm);
	real(j, "memory_bytes", s->cache == MR_CACHE_NONE ? 0 : s->cache_bytes);
	real(j, "first_epoch_s", (double)t->samples / s->cold);
	real(j, "total_s", s->total);
	real(j, "cost", s->cost);
	real(j, "score", s->score);
	mr_json_bool(j, "allowed", s->allowed);
	mr_json_bool(j, "pareto", s->pareto);
	real(j, "predicted_per_s", s->sampled);
	if (s->measured.n) {
		mr_json_open(j, "measured", '{');
		real(j, "per_s", s->measured.mean);
		/* one measurement has no interval */
		real(j, "low", s->measured.n > 1 ? s->measured.low : NAN);
		real(j, "high", s->measured.n > 1 ? s->measured.high : NAN);
		mr_json_close(j, '}');
		real(j, "error", fabs(s->sampled / s->measured.mean - 1));
	}
	mr_json_close(j, '}');
}

static void add_ids(struct mr_json *j, const char *name, const int *id, int n)
{
	mr_json_open(j, name, '[');
	for (int i = 0; i < n; i++)
		mr_json_int(j, NULL, id[i]);
	mr_json_close(j, ']');
}

static void add_judgement(struct mr_json *j, const struct mr_tuning *t)
{
	mr_json_int(j, "best", t->best);
	add_ids(j, "ties", t->tie, t->ties);
	mr_json_int(j, "all_online", t->online);
	mr_json_int(j, "baseline", t->usual);
	mr_json_int(j, "all_offline", t->offline);
	add_ids(j, "shown", t->show, t->shown);
	mr_json_open(j, "break_even", '[');
	for (int i = 0; i < t->evens; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_int(j, "a", t->even[i].a);
		mr_json_int(j, "b", t->even[i].b);
		real(j, "epoch", t->even[i].epoch);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

/* A text that was made for it, and is done with then. */
static void add_made(struct mr_json *j, const char *name, struct mr_str *s)
{
	mr_json_text(j, name, s->text ? s->text : "");
	mr_str_fini_into(s, &j->out);
}

static void add_commands(struct mr_json *j, const struct mr_tuning *t,
			 const char *dir)
{
	struct mr_str answer = { 0 }, prepare = { 0 }, run = { 0 };
	const struct mr_strategy *s =
		t->best >= 0 ? &t->strategy[t->best] : NULL;
	char *text = s ? mr_strategy_text(t, s, dir, 0, 0) : NULL;

	mr_tuning_answer(t, &answer);
	if (s) {
		mr_strategy_prepare(t, s, dir, &prepare);
		mr_strategy_options(t, s, &run);
	}
	add_made(j, "answer", &answer);
	mr_json_text(j, "text", text ? text : "");
	add_made(j, "prepare", &prepare);
	add_made(j, "run", &run);
	free(text);
}

static void add_notes(struct mr_json *j, const struct mr_tuning *t)
{
	const char *line = t->notes.text ? t->notes.text : "";

	mr_json_open(j, "notes", '[');
	while (*line) {
		size_t n = strcspn(line, "\n");
		struct mr_str one = { 0 };

		mr_str_addn(&one, line, n);
		add_made(j, NULL, &one);
		line += n + (line[n] == '\n');
	}
	mr_json_close(j, ']');
}

char *mr_tuning_json(const struct mr_tuning *t, const char *dir)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_text(&j, "millrace", "tuning");
	mr_json_text(&j, "pipeline", t->pipeline);
	mr_json_uint(&j, "samples", t->samples);
	mr_json_uint(&j, "batch", t->batch);
	mr_json_int(&j, "threads", t->threads);
	mr_json_int(&j, "cores", t->cores);
	mr_json_text(&j, "storage", t->profile);
	real(&j, "memory", t->memory);
	mr_json_uint(&j, "sampled", t->sampled);
	real(&j, "precision", t->precision);
	real(&j, "seconds", t->seconds);
	add_goal(&j, &t->goal);
	add_steps(&j, t);
	add_splits(&j, t);
	mr_json_open(&j, "strategies", '[');
	for (int i = 0; i < t->strategies; i++)
		add_strategy(&j, t, i);
	mr_json_close(&j, ']');
	add_judgement(&j, t);
	add_commands(&j, t, dir);
	add_notes(&j, t);
	mr_json_close(&j, '}');
	return mr_str_take(&j.out);
}
