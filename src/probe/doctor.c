/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: everything about this machine that a training job meets. */
#include "probe/doctor.h"

#include "core/clock.h"
#include "core/mem.h"

/* Shares of the time. What is left is for evicting and removing files. */
static const double storage_share = 0.75;
static const double memory_share = 0.01;     /* each of four */
static const double codec_share = 1 / 300.0; /* each of twenty */

enum {
	DEEP = 4, /* requests in flight, at least */
	LEAST_BYTES = 1 << 20,
};

/* Block numbers are of 32 bits, and their order is held in memory. */
static const uint64_t most_bytes = (uint64_t)64 << 30;

void mr_doctor_options_init(struct mr_doctor_options *opt)
{
	*opt = (struct mr_doctor_options){ .size = sizeof(*opt),
					   .dir = ".",
					   .seconds = 30 };
}

static int check(const struct mr_doctor_options *opt, struct mr_err *err)
{
	if (opt->size != sizeof(*opt))
		return mr_err_set(err, MR_EINVAL,
				  "doctor: options of %zu bytes, not %zu: call "
				  "mr_doctor_options_init()",
				  opt->size, sizeof(*opt));
	if (!(opt->seconds >= 0.5 && opt->seconds <= 3600))
		return mr_err_set(err, MR_EINVAL,
				  "doctor: seconds=%g: 0.5 to 3600",
				  opt->seconds);
	if (opt->bytes && (opt->bytes < LEAST_BYTES || opt->bytes > most_bytes))
		return mr_err_set(err, MR_EINVAL,
				  "doctor: size=%llu: 1M to 64G, or 0 for what "
				  "suits",
				  (unsigned long long)opt->bytes);
	return 0;
}

static int at_most(int n, int most)
{
	return n < most ? n : most;
}

static double no_more(double v, double most)
{
	return v < most ? v : most;
}

/* Of the last level, all together; 0: not known. */
static uint64_t cache_bytes(const struct mr_topology *t)
{
	int last = t->caches - 1;

	return t->caches ?
		       t->cache[last].bytes * (uint64_t)t->cache[last].count :
		       0;
}

static int measure(const struct mr_doctor_options *opt, struct mr_watch *w,
		   struct mr_facts *f, struct mr_err *err)
{
	int cores, e;
	struct mr_storage_options o = { .dir = opt->dir,
					.bytes = opt->bytes,
					.seconds = opt->seconds * storage_share,
					.direct = opt->direct };

	mr_limits_read(&f->limits);
	mr_facilities_find(&f->kernel);
	mr_topology_find(&f->topology);
	cores = at_most(f->limits.cores, MR_WATCH_THREADS);
	o.threads = cores < DEEP ? DEEP : cores;
	e = mr_storage_measure(&f->storage, &o, w, err);
	if (!e)
		e = mr_membw_measure(
			&f->memory, cores, cache_bytes(&f->topology),
			no_more(opt->seconds * memory_share, 0.3), w, err);
	if (!e)
		e = mr_codecs_measure(&f->codecs,
				      no_more(opt->seconds * codec_share, 0.1),
				      w, err);
	return e;
}

int mr_doctor(const struct mr_doctor_options *opt, char **text,
	      struct mr_err *err)
{
	struct mr_checkup *d;
	struct mr_str out = { 0 };
	struct mr_watch w;
	int e = check(opt, err);

	if (e)
		return e;
	d = mr_alloc(1, sizeof(*d), err);
	if (!d)
		return MR_ENOMEM;
	mr_watch_init(&w, opt->seconds);
	w.progress = opt->progress;
	w.data = opt->data;
	e = measure(opt, &w, &d->facts, err);
	if (!e) {
		d->findings = mr_advise(&d->facts, d->finding);
		d->seconds = (double)(mr_clock_ns() - w.start) / 1e9;
		if (opt->json)
			mr_checkup_json(d, &out);
		else
			mr_checkup_text(d, &out);
		*text = mr_str_take(&out);
		if (!*text)
			e = mr_err_nomem(err, 0);
	}
	free(d);
	return e;
}
