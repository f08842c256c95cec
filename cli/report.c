/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/str.h"

enum { BAD_SHOWN = 10, BAR = 30 };

static void print_steps(const struct mr_stats *st)
{
	printf("\n%-20s %10s %10s %9s %9s %9s %7s\n", "step", "calls",
	       "total ms", "mean us", "p50 us", "p99 us", "share");
	for (size_t i = 0; i < st->steps; i++) {
		const struct mr_step_stats *s = &st->step[i];

		if (s->calls == 0)
			continue;
		printf("%-20s %10llu %10.1f %9.2f %9.2f %9.2f %6.1f%%\n",
		       s->name, (unsigned long long)s->calls, s->total_ms,
		       s->mean_us, s->p50_us, s->p99_us, 100 * s->share);
	}
}

static void print_budget(const struct mr_stats *st)
{
	const struct {
		const char *name, *what;
		double s;
	} part[] = {
		{ "steps", "running the steps", st->budget.steps },
		{ "fetch", "reading, by the workers", st->budget.fetch },
		{ "wait_in", "waiting for the storage", st->budget.wait_in },
		{ "wait_out", "waiting for the consumer", st->budget.wait_out },
		{ "engine", "claims and collating", st->budget.engine },
		{ "unattributed", "threads starting, ending",
		  st->budget.unattributed },
	};
	double all = st->threads * st->seconds;

	printf("\nbudget: %d threads x %.3f s = %.3f thread-seconds\n",
	       st->threads, st->seconds, all);
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		double share = all > 0 ? part[i].s / all : 0;
		char bar[BAR + 1];
		int n = (int)(share * BAR + 0.5);

		memset(bar, '#', sizeof(bar));
		printf("  %-13s %9.3f s %5.1f %%  %-*.*s %s\n", part[i].name,
		       part[i].s, 100 * share, BAR, n < BAR ? n : BAR, bar,
		       part[i].what);
	}
}

static void print_bad(const struct mr_loader *l, uint64_t n)
{
	struct mr_bad bad;

	if (!n)
		return;
	printf("\n%llu bad sample%s:\n", (unsigned long long)n,
	       n == 1 ? "" : "s");
	for (size_t i = 0; i < BAD_SHOWN && mr_loader_bad(l, i, &bad); i++)
		printf("  %s (byte %llu, %s): %s\n", bad.key,
		       (unsigned long long)bad.offset, bad.step, bad.reason);
	if (n > BAD_SHOWN)
		printf("  ... and %llu more; --quarantine FILE lists them\n",
		       (unsigned long long)n - BAD_SHOWN);
}

/* What the storage was like, when that was not left to chance. */
static void print_storage(const struct mr_stats *st)
{
	uint64_t all = st->storage.requests + st->storage.cache_hits;
	char files[32], size[32];

	if (st->cold.files)
		printf("evicted %s files, %s; %.0f %% stayed\n",
		       mr_str_count(files, st->cold.files),
		       mr_str_size(size, (double)st->cold.bytes),
		       st->cold.bytes ? 100 * (double)st->cold.stayed /
						(double)st->cold.bytes :
					0);
	if (!*st->storage.profile)
		return;
	printf("storage as %s", st->storage.profile);
	if (!st->storage.requests)
		printf(", which nothing was read from: no sample was taken, "
		       "or the source reads past it");
	if (st->storage.mb_per_s > 0)
		printf(", which allows %.1f MB/s for such requests: %.0f %% "
		       "of it used",
		       st->storage.mb_per_s, 100 * st->storage.used);
	if (st->storage.cache)
		printf(", with a page cache of %s: %.1f %% hits",
		       mr_str_size(size, (double)st->storage.cache),
		       all ? 100 * (double)st->storage.cache_hits /
				       (double)all :
			     0);
	printf("\n");
}

static void print_cache(const struct mr_stats *st)
{
	uint64_t all = st->cache.hits + st->cache.misses;
	char held[32], used[32], ram[32];

	if (!st->cache.ram)
		return;
	printf("cache: %s samples in %s of %s%s; %.1f %% hits\n",
	       mr_str_count(held, st->cache.samples),
	       mr_str_size(used, (double)st->cache.bytes),
	       mr_str_size(ram, (double)st->cache.ram),
	       st->cache.full ? ", full" : "",
	       all ? 100 * (double)st->cache.hits / (double)all : 0);
}

static void print_text(const struct mr_loader *l, const struct mr_stats *st,
		       const uint64_t *digest, bool stopped)
{
	char a[32], b[32], c[32];

	printf("%s sample%s in %s batch%s, %.3f s%s: %s samples/s, %.1f MB/s\n",
	       mr_str_count(a, st->samples), st->samples == 1 ? "" : "s",
	       mr_str_count(b, st->batches), st->batches == 1 ? "" : "es",
	       st->seconds, stopped ? " (stopped)" : "",
	       mr_str_count(c, (unsigned long long)st->samples_per_s),
	       st->mb_per_s);
	printf("first batch after %.1f ms, peak memory %.0f MB, reading: %s",
	       st->first_batch_ms, st->peak_rss_mb, st->fetch);
	if (st->fetch_depth)
		printf(" (%d in flight)", st->fetch_depth);
	printf("\n");
	print_storage(st);
	print_cache(st);
	print_steps(st);
	print_budget(st);
	print_bad(l, st->bad_samples);
	printf("\nbottleneck: %s\n  %s\n  %s\n", st->verdict.bottleneck,
	       st->verdict.evidence, st->verdict.advice);
	if (digest)
		printf("digest %016llx\n", (unsigned long long)*digest);
}

static void print_json(const struct mr_loader *l, const struct mr_stats *st,
		       const uint64_t *digest, bool stopped)
{
	char *stats = mr_stats_json(st), hex[20] = "";
	struct mr_json j = { 0 };
	struct mr_bad bad;

	if (!stats)
		return;
	/* The stats' object, reopened for a few keys more. */
	stats[strlen(stats) - 1] = 0;
	if (digest)
		snprintf(hex, sizeof(hex), "%016llx",
			 (unsigned long long)*digest);
	j.comma = true;
	mr_json_text(&j, "digest", hex);
	mr_json_bool(&j, "stopped", stopped);
	mr_json_open(&j, "bad", '[');
	for (size_t i = 0; mr_loader_bad(l, i, &bad); i++) {
		mr_json_open(&j, NULL, '{');
		mr_json_uint(&j, "epoch", bad.epoch);
		mr_json_uint(&j, "index", bad.index);
		mr_json_text(&j, "key", bad.key);
		mr_json_uint(&j, "offset", bad.offset);
		mr_json_text(&j, "step", bad.step);
		mr_json_text(&j, "reason", bad.reason);
		mr_json_close(&j, '}');
	}
	mr_json_close(&j, ']');
	printf("%s%s}\n", stats, j.out.text ? j.out.text : "");
	mr_str_fini(&j.out);
	free(stats);
}

void cli_report(struct mr_loader *l, const uint64_t *digest, bool json,
		bool stopped)
{
	struct mr_stats st;

	mr_loader_stats(l, &st);
	if (json)
		print_json(l, &st, digest, stopped);
	else
		print_text(l, &st, digest, stopped);
}
