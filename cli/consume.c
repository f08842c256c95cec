/* SPDX-License-Identifier: Apache-2.0 */
#include "consume.h"

#include "core/clock.h"
#include "core/str.h"

int cli_parse_rank(const char *text, struct mr_options *opt)
{
	long long r, n;
	char end;

	if (!*text)
		return 0;
	if (sscanf(text, "%lld/%lld%c", &r, &n, &end) != 2 || n < 1 || r < 0 ||
	    r >= n)
		return cli_usage("--rank %s: want R/N with R from 0 to N-1",
				 text);
	opt->rank = r;
	opt->ranks = n;
	return 0;
}

/* Samples that the run will deliver, 0: no end. */
static double total_samples(const struct cli_job *j)
{
	double all =
		(double)j->opt->epochs * (double)mr_loader_epoch_samples(j->l);
	double most = (double)j->opt->samples;

	return most > 0 && (all <= 0 || most < all) ? most : all;
}

static bool time_is_up(struct cli_job *j)
{
	double s = (double)(mr_clock_ns() - j->start_ns) / 1e9;

	j->timed_out = j->seconds > 0 && s >= j->seconds;
	return j->timed_out;
}

/* Until the end, a signal, or the time is up. */
static int consume(struct cli_job *j, struct mr_err *err)
{
	uint64_t epochs = 0, samples = 0;
	int e = 0;

	while (e >= 0 && !cli_stopped() && !time_is_up(j)) {
		struct mr_batch *b;

		e = mr_loader_wait(j->l, &b, 100, err);
		if (e == MR_OK) {
			samples += mr_batch_count(b);
			if (j->digest)
				j->hash = mr_batch_digest(b, j->hash);
			mr_batch_release(b);
		} else if (e == MR_END) {
			struct mr_state st;

			mr_loader_state(j->l, &st);
			epochs++;
			/* Once more than there are epochs: all is done. */
			if ((j->opt->epochs && st.epoch >= j->opt->epochs) ||
			    (j->opt->samples && samples >= j->opt->samples) ||
			    epochs > st.epoch + 1)
				break;
		}
		cli_progress_show(&j->progress, (double)samples);
	}
	return e < 0 ? e : 0;
}

static void tell_evicted(void *data, uint64_t done, uint64_t files)
{
	struct cli_progress *p = data;

	p->total = (double)files;
	cli_progress_show(p, (double)done);
}

/* --cold, with a line of progress; not by the loader's own option, which has
 * none. */
static int make_cold(struct cli_job *j, struct mr_err *err)
{
	struct mr_stats st;
	char size[32];
	int e;

	cli_progress_start(&j->progress, "evict", 0);
	e = mr_loader_evict(j->l, tell_evicted, &j->progress, err);
	cli_progress_end(&j->progress);
	if (e)
		return e;
	mr_loader_stats(j->l, &st);
	if (!st.cold.files)
		fprintf(stderr, "millrace: --cold: no file was evicted: the "
				"source does not say where its samples lie\n");
	else if (st.cold.unknown)
		fprintf(stderr,
			"millrace: --cold: %llu files belong to others, so "
			"that the system does not say what stayed in memory; "
			"run as their owner\n",
			(unsigned long long)st.cold.unknown);
	if (st.cold.stayed * 20 > st.cold.bytes)
		fprintf(stderr,
			"millrace: --cold: %s (%.0f %%) stayed in the page "
			"cache: another process uses the files, or they are "
			"in memory only (tmpfs)\n",
			mr_str_size(size, (double)st.cold.stayed),
			100 * (double)st.cold.stayed / (double)st.cold.bytes);
	return 0;
}

int cli_job_open(struct cli_job *j, const char *pipeline, struct mr_err *err)
{
	bool cold = j->opt->cold;
	int e;

	if (!j->opt->epochs && !j->opt->samples && j->seconds <= 0)
		j->opt->epochs = 1;
	j->opt->cold = false;
	e = mr_loader_open_with(&j->l, pipeline, j->opt, err);
	return !e && cold ? make_cold(j, err) : e;
}

int cli_job_consume(struct cli_job *j, const char *label, struct mr_err *err)
{
	int e;

	cli_catch_signals();
	cli_progress_start(&j->progress, label, total_samples(j));
	j->start_ns = mr_clock_ns();
	e = consume(j, err);
	cli_progress_end(&j->progress);
	return e;
}
