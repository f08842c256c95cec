/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/stats.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/json.h"

/* So many times the bytes that were read come out of what unpacks them. */
#define UNPACKS 1.05

/* Shares: of the workers' time, of what an imitated storage allows. */
#define STARVED 0.25
#define USED_UP 0.85

static void fill_step(struct mr_step_stats *s, const struct mr_stats_input *in,
		      int i, double ns_per_tick)
{
	uint64_t hist[MR_HIST_BUCKETS] = { 0 }, ticks = 0;

	for (int t = 0; t < in->threads; t++) {
		const struct mr_step_count *c = &in->thread[t].step[i];

		s->calls += mr_counted(&c->calls);
		ticks += mr_counted(&c->ticks);
		s->bytes_in += mr_counted(&c->bytes_in);
		s->bytes_out += mr_counted(&c->bytes_out);
		mr_hist_sum(hist, &c->hist);
	}
	s->name = in->name[i];
	s->total_ms = (double)ticks * ns_per_tick / 1e6;
	s->mean_us = s->calls ? s->total_ms * 1e3 / (double)s->calls : 0;
	s->p50_us = mr_hist_quantile(hist, 0.5) * ns_per_tick / 1e3;
	s->p99_us = mr_hist_quantile(hist, 0.99) * ns_per_tick / 1e3;
}

static void fill_budget(struct mr_stats *st, const struct mr_stats_input *in,
			double ns_per_tick)
{
	double scale = ns_per_tick / 1e9;
	double all = st->threads * st->seconds, busy = 0;

	for (int t = 0; t < in->threads; t++) {
		const struct mr_thread_stats *th = &in->thread[t];

		st->budget.steps += (double)mr_counted(&th->steps) * scale;
		st->budget.fetch += (double)mr_counted(&th->fetch) * scale;
		st->budget.wait_in += (double)mr_counted(&th->wait_in) * scale;
		st->budget.wait_out +=
			(double)mr_counted(&th->wait_out) * scale;
		busy += (double)mr_counted(&th->busy) * scale;
	}
	st->budget.engine = busy - st->budget.steps - st->budget.fetch -
			    st->budget.wait_in - st->budget.wait_out;
	/* Blocks are read while they are written: no part is negative. */
	if (st->budget.engine < 0)
		st->budget.engine = 0;
	st->budget.unattributed = all - busy;
	if (st->budget.unattributed < 0)
		st->budget.unattributed = 0;
}

static const struct mr_step_stats *dearest(const struct mr_stats *st)
{
	const struct mr_step_stats *s = &st->step[0];

	for (size_t i = 1; i < st->steps; i++)
		if (st->step[i].total_ms > s->total_ms)
			s = &st->step[i];
	return s;
}

#define EVIDENCE(...)                                                \
	snprintf(st->verdict.evidence, sizeof(st->verdict.evidence), \
		 __VA_ARGS__)
#define ADVICE(...) \
	snprintf(st->verdict.advice, sizeof(st->verdict.advice), __VA_ARGS__)

static void advise_cpu(struct mr_stats *st, const struct mr_stats_input *in,
		       const struct mr_step_stats *top)
{
	const struct mr_step_stats *read = &st->step[0];

	if (top == read && st->bytes_read &&
	    (double)read->bytes_out > UNPACKS * (double)st->bytes_read)
		ADVICE("more threads, or samples stored with a faster codec: "
		       "these are unpacked as they are read");
	else if (top == read)
		ADVICE("more threads: %s",
		       st->bytes_read ? "the samples come from memory as fast "
					"as these can copy them" :
					"the source takes its time to make the "
					"samples");
	else if (in->random[top - st->step])
		ADVICE("more threads: '%s' is random, so that its result "
		       "cannot be stored",
		       top->name);
	else
		ADVICE("more threads, or run '%s' once and store its result",
		       top->name);
}

static void storage_evidence(struct mr_stats *st, double share)
{
	double s = st->seconds > 0 ? st->seconds : 1;
	char of[64] = "";

	if (st->storage.mb_per_s > 0)
		snprintf(of, sizeof(of), ", %.0f %% of what '%.30s' allows",
			 100 * st->storage.used, st->storage.profile);
	EVIDENCE("%.0f %% of the workers' time went into waiting for the "
		 "storage, which gave %.1f MB/s%s",
		 100 * share, (double)st->bytes_read / 1e6 / s, of);
}

/*
 * Who waits for what is read ahead has nothing to do: where that is much of the
 * time, and nobody waits for the consumer, more threads would wait as well,
 * however long the steps take.
 */
static bool starved(const struct mr_stats *st, double all)
{
	double waits = st->budget.wait_in;

	return waits > STARVED * all && waits > st->budget.wait_out &&
	       (!(st->storage.mb_per_s > 0) || st->storage.used > USED_UP);
}

static void fill_verdict(struct mr_stats *st, const struct mr_stats_input *in,
			 double blocked)
{
	double all = st->threads * st->seconds;
	/* A warm read is a copy: the CPU's work. */
	double storage = st->budget.wait_in + blocked;
	double cpu = st->budget.steps + st->budget.fetch - blocked +
		     st->budget.engine;
	double out = st->budget.wait_out;
	const struct mr_step_stats *top = dearest(st);

	if (all <= 0)
		all = 1;
	if (out > cpu && out > storage && in->shallow &&
	    st->consumer_wait > 0.2 * st->seconds) {
		st->verdict.bottleneck = "memory";
		EVIDENCE("workers waited %.0f %% of their time for a free "
			 "batch while the consumer waited %.0f %% for one",
			 100 * out / all,
			 100 * st->consumer_wait / st->seconds);
		ADVICE("raise --memory, or make batches smaller: fewer fit "
		       "than %d threads need",
		       st->threads);
	} else if (out > cpu && out > storage) {
		st->verdict.bottleneck = "consumer";
		EVIDENCE("workers waited %.0f %% of their time for the "
			 "consumer to take batches",
			 100 * out / all);
		ADVICE("the data keeps up; fewer threads would do");
	} else if (storage > cpu || starved(st, all)) {
		st->verdict.bottleneck = "storage";
		storage_evidence(st, storage / all);
		ADVICE("%suse faster storage, or store the samples in fewer, "
		       "larger files%s",
		       strcmp(st->fetch, "direct") ? "" :
						     "read ahead (--fetch "
						     "ahead), ",
		       st->cache.ram ? "" :
				       "; `cache ram=SIZE` keeps what fits "
				       "for the next epochs");
	} else {
		st->verdict.bottleneck = "cpu";
		EVIDENCE("%d threads were at work %.0f %% of the time; '%s' "
			 "took %.0f %% of it",
			 st->threads, 100 * cpu / all,
			 top->name ? top->name : "?", top->share * 100);
		advise_cpu(st, in, top);
	}
}

void mr_stats_fill(struct mr_stats *st, const struct mr_stats_input *in)
{
	double ns_per_tick = mr_clock_ns_per_tick(in->clock), blocked = 0;
	uint64_t stored; /* read from the storage */
	struct rusage ru;

	st->threads = in->threads;
	st->seconds = (double)(in->end_ns - in->start_ns) / 1e9;
	st->consumer_wait = (double)in->consumer_ns / 1e9;
	for (int t = 0; t < in->threads; t++)
		st->bytes_read += mr_counted(&in->thread[t].bytes_read);
	if (st->seconds > 0) {
		st->samples_per_s = (double)st->samples / st->seconds;
		st->mb_per_s = (double)st->bytes_out / 1e6 / st->seconds;
	}
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		st->peak_rss_mb = (double)ru.ru_maxrss / 1024;
	fill_budget(st, in, ns_per_tick);
	st->steps = (size_t)in->steps;
	for (int i = 0; i < in->steps; i++) {
		fill_step(&st->step[i], in, i, ns_per_tick);
		if (st->seconds > 0)
			st->step[i].share = st->step[i].total_ms / 1e3 /
					    (st->threads * st->seconds);
	}
	for (int t = 0; t < in->threads; t++)
		blocked += (double)mr_counted(&in->thread[t].blocked);
	blocked *= ns_per_tick / 1e9;
	if (blocked > st->budget.fetch)
		blocked = st->budget.fetch;
	/* Counted by others, a moment ago. */
	stored = st->bytes_read > st->storage.cache_bytes ?
			 st->bytes_read - st->storage.cache_bytes :
			 0;
	if (st->storage.mb_per_s > 0 && st->seconds > 0)
		st->storage.used = (double)stored / 1e6 / st->seconds /
				   st->storage.mb_per_s;
	fill_verdict(st, in, blocked);
}

static void json_steps(struct mr_json *j, const struct mr_stats *st)
{
	mr_json_open(j, "steps", '[');
	for (size_t i = 0; i < st->steps; i++) {
		const struct mr_step_stats *s = &st->step[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "name", s->name);
		mr_json_uint(j, "calls", s->calls);
		mr_json_real(j, "total_ms", s->total_ms, 6);
		mr_json_real(j, "mean_us", s->mean_us, 5);
		mr_json_real(j, "p50_us", s->p50_us, 4);
		mr_json_real(j, "p99_us", s->p99_us, 4);
		mr_json_uint(j, "bytes_in", s->bytes_in);
		mr_json_uint(j, "bytes_out", s->bytes_out);
		mr_json_real(j, "share", s->share, 4);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

/* The profile's text, what it allows, and what was evicted before. */
static void json_storage(struct mr_json *j, const struct mr_stats *st)
{
	mr_json_text(j, "storage", st->storage.profile);
	if (*st->storage.profile) {
		mr_json_open(j, "storage_allows", '{');
		mr_json_real(j, "bw", st->storage.bw, 10);
		mr_json_real(j, "stream", st->storage.stream, 10);
		mr_json_real(j, "latency", st->storage.latency, 6);
		mr_json_real(j, "iops", st->storage.iops, 10);
		mr_json_uint(j, "requests", st->storage.requests);
		mr_json_real(j, "mb_per_s", st->storage.mb_per_s, 7);
		mr_json_real(j, "used", st->storage.used, 4);
		mr_json_uint(j, "cache", st->storage.cache);
		mr_json_uint(j, "cache_hits", st->storage.cache_hits);
		mr_json_uint(j, "cache_bytes", st->storage.cache_bytes);
		mr_json_close(j, '}');
	}
	if (st->cold.files || st->cold.unknown) {
		mr_json_open(j, "cold", '{');
		mr_json_uint(j, "files", st->cold.files);
		mr_json_uint(j, "bytes", st->cold.bytes);
		mr_json_uint(j, "stayed", st->cold.stayed);
		mr_json_uint(j, "unknown", st->cold.unknown);
		mr_json_close(j, '}');
	}
}

static void json_cache(struct mr_json *j, const struct mr_stats *st)
{
	if (!st->cache.ram)
		return;
	mr_json_open(j, "cache", '{');
	mr_json_uint(j, "ram", st->cache.ram);
	mr_json_uint(j, "bytes", st->cache.bytes);
	mr_json_uint(j, "samples", st->cache.samples);
	mr_json_uint(j, "hits", st->cache.hits);
	mr_json_uint(j, "misses", st->cache.misses);
	mr_json_bool(j, "full", st->cache.full);
	mr_json_close(j, '}');
}

char *mr_stats_json(const struct mr_stats *st)
{
	struct mr_json j = { 0 };

	mr_json_open(&j, NULL, '{');
	mr_json_uint(&j, "samples", st->samples);
	mr_json_uint(&j, "batches", st->batches);
	mr_json_uint(&j, "epochs", st->epochs);
	mr_json_uint(&j, "bytes_read", st->bytes_read);
	mr_json_uint(&j, "bytes_out", st->bytes_out);
	mr_json_real(&j, "seconds", st->seconds, 6);
	mr_json_real(&j, "samples_per_s", st->samples_per_s, 7);
	mr_json_real(&j, "mb_per_s", st->mb_per_s, 7);
	mr_json_int(&j, "threads", st->threads);
	mr_json_real(&j, "first_batch_ms", st->first_batch_ms, 5);
	mr_json_uint(&j, "bad_samples", st->bad_samples);
	mr_json_real(&j, "peak_rss_mb", st->peak_rss_mb, 5);
	mr_json_uint(&j, "memory_peak", st->memory_peak);
	json_steps(&j, st);
	mr_json_open(&j, "budget", '{');
	mr_json_real(&j, "steps", st->budget.steps, 6);
	mr_json_real(&j, "fetch", st->budget.fetch, 6);
	mr_json_real(&j, "wait_in", st->budget.wait_in, 6);
	mr_json_real(&j, "wait_out", st->budget.wait_out, 6);
	mr_json_real(&j, "engine", st->budget.engine, 6);
	mr_json_real(&j, "unattributed", st->budget.unattributed, 6);
	mr_json_close(&j, '}');
	mr_json_real(&j, "consumer_wait", st->consumer_wait, 6);
	mr_json_text(&j, "fetch", st->fetch);
	mr_json_int(&j, "fetch_depth", st->fetch_depth);
	json_storage(&j, st);
	json_cache(&j, st);
	mr_json_open(&j, "verdict", '{');
	mr_json_text(&j, "bottleneck", st->verdict.bottleneck);
	mr_json_text(&j, "evidence", st->verdict.evidence);
	mr_json_text(&j, "advice", st->verdict.advice);
	mr_json_close(&j, '}');
	mr_json_close(&j, '}');
	return mr_str_take(&j.out);
}
