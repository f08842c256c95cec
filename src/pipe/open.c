/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a loader: options, pipeline, plan, the order of an epoch, and how
 * many batches the memory holds. No thread is started yet.
 */
#include <unistd.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/param.h"
#include "core/str.h"
#include "pipe/cached.h"
#include "pipe/loader.h"
#include "pipe/record.h"

enum {
	RING_MAX = 1024,
	CHUNK_MAX = 256,
	POSITIONS = 32768, /* samples of small batches that may be ready */
};

#define MEMORY_MAX ((uint64_t)4 << 30)
#define MEMORY_MIN ((uint64_t)1 << 20)

/* The number of batches until all epochs and samples asked for are done. A
 * batch is not cut: a checkpoint lies between batches. */
static uint64_t last_batch(const struct mr_loader *l)
{
	uint64_t end = UINT64_MAX, rest;

	/* So many that positions would overflow are as good as no end. */
	if (l->opt.epochs &&
	    l->opt.epochs < UINT64_MAX / 4 / l->epoch_batches / l->rows)
		end = l->opt.epochs * l->epoch_batches;
	if (l->opt.samples) {
		uint64_t epochs = l->opt.samples / l->epoch_samples, by;

		rest = l->opt.samples % l->epoch_samples;
		by = epochs * l->epoch_batches + (rest + l->rows - 1) / l->rows;
		if (by < end)
			end = by;
	}
	return end;
}

int mr_loader_threads(const struct mr_options *opt)
{
	return opt->threads > 0 ? (int)opt->threads : mr_machine_cores();
}

/* A storage to be imitated, if one is asked for. */
static int make_shape(struct mr_loader *l, struct mr_err *err)
{
	const char *text = l->opt.storage ? l->opt.storage : "";
	struct mr_profile p;
	int e;

	l->storage = mr_strdup(text, err);
	l->opt.storage = l->storage;
	if (!l->storage)
		return MR_ENOMEM;
	if (!*text)
		return 0;
	e = mr_profile_parse(&p, text, err);
	if (e)
		return e;
	l->shape = mr_alloc(1, sizeof(*l->shape), err);
	if (!l->shape)
		return MR_ENOMEM;
	mr_shape_init(l->shape, &p, l->open_ns);
	return 0;
}

static int check_options(struct mr_loader *l, const struct mr_options *opt,
			 struct mr_err *err)
{
	mr_options_init(&l->opt);
	if (opt && opt->size != sizeof(*opt))
		return mr_err_set(err, MR_EINVAL,
				  "options of another version of the header; "
				  "call mr_options_init() and build again");
	if (opt)
		l->opt = *opt;
	if (mr_param_check(mr_option_params(), &l->opt, err))
		return MR_EINVAL;
	/* Batch times ranks must not overflow. */
	if (l->opt.ranks < 1 || l->opt.ranks > INT32_MAX || l->opt.rank < 0 ||
	    l->opt.rank >= l->opt.ranks)
		return mr_err_set(
			err, MR_EINVAL, "rank %lld of %lld: ranks count from 0",
			(long long)l->opt.rank, (long long)l->opt.ranks);
	l->threads = mr_loader_threads(&l->opt);
	if (!l->opt.memory) /* a cache comes on top */
		l->opt.memory = mr_machine_memory() / 4 < MEMORY_MAX ?
					mr_machine_memory() / 4 :
					MEMORY_MAX;
	if (l->opt.memory < MEMORY_MIN)
		return mr_err_set(err, MR_EINVAL,
				  "a memory budget of %llu bytes: want at "
				  "least 1M",
				  (unsigned long long)l->opt.memory);
	return 0;
}

static int plan_order(struct mr_loader *l, struct mr_err *err)
{
	const struct mr_plan *p = &l->plan;
	uint64_t block = l->opt.block, n = p->samples, of = 0;

	if (l->opt.subset && l->opt.subset < n) {
		of = n;
		n = l->opt.subset;
	}

	/* Blocks of a small set shrink, so that there is something to mix. */
	if (block > n / 16)
		block = n / 16 ? n / 16 : 1;
	l->order = (struct mr_order){
		.kind = l->opt.order,
		.n = n,
		.seed = l->opt.seed,
		.block = block,
		.rank = (uint64_t)l->opt.rank,
		.ranks = (uint64_t)l->opt.ranks,
		.batch = (uint64_t)p->batch.count,
		.drop_last = p->batch.drop_last,
		.of = of,
	};
	l->rows = (uint64_t)p->batch.count;
	l->epoch_samples = mr_order_length(&l->order);
	l->epoch_batches = (l->epoch_samples + l->rows - 1) / l->rows;
	if (n == 0)
		return mr_err_set(err, MR_EDATA, "the data set is empty");
	if (l->epoch_samples == 0)
		return mr_err_set(err, MR_EDATA,
				  "nothing to deliver: %llu samples over %lld "
				  "ranks in batches of %lld%s",
				  (unsigned long long)n,
				  (long long)l->opt.ranks,
				  (long long)p->batch.count,
				  p->batch.drop_last ? " with drop_last" : "");
	l->end = last_batch(l);
	return 0;
}

/* Memory of a batch as far as it is known: rows of dense fields, and what
 * keeps the books of them. */
static size_t batch_cost(const struct mr_plan *p)
{
	size_t n = sizeof(struct mr_batch) + 9 * (size_t)p->batch.count;

	for (int i = 0; i < p->outs; i++)
		n += p->out[i].dense ? mr_buf_size(p->out[i].row_bytes *
						   (size_t)p->batch.count) :
				       16 * (size_t)p->batch.count;
	return n;
}

/*
 * How many batches may be in work or ready: enough that no worker waits for
 * another (two claims each, and some that are ready; fewer of large ones,
 * whose memory costs time as well), more where they are small, so that a
 * consumer that is away for some milliseconds finds a stock; within the memory
 * budget together with two that the user holds.
 */
static int size_ring(struct mr_loader *l, struct mr_err *err)
{
	const struct mr_plan *p = &l->plan;
	size_t batch = batch_cost(p), row = batch / (size_t)l->rows + 1;
	uint64_t chunk = p->ragged ? 16 : ((size_t)512 << 10) / row;
	uint64_t ring, fit, stock = MR_STOCK / batch;
	char need[32], have[32];

	l->min_chunk =
		p->ragged ? (unsigned)((l->rows + MR_RUNS - 1) / MR_RUNS) : 1;
	if (chunk > CHUNK_MAX)
		chunk = CHUNK_MAX;
	if (chunk < l->min_chunk)
		chunk = l->min_chunk;
	ring = (batch < MR_STOCK ? 4 : 2) +
	       (2 * (uint64_t)l->threads * chunk + l->rows - 1) / l->rows;
	if (p->ragged)
		ring = 4 + 2 * (uint64_t)l->threads;
	l->wanted_ring = (unsigned)(ring < RING_MAX ? ring : RING_MAX);
	if (stock > POSITIONS / l->rows)
		stock = POSITIONS / l->rows;
	if (ring < stock && !p->ragged)
		ring = stock;
	if (ring > RING_MAX)
		ring = RING_MAX;
	fit = l->budget.max * 3 / 4 / batch;
	if (fit < 2)
		return mr_err_set(err, MR_ELIMIT,
				  "a batch of %s does not fit twice into a "
				  "memory budget of %s%s; raise --memory or "
				  "make batches smaller",
				  mr_str_size(need, (double)batch),
				  mr_str_size(have, (double)l->budget.max),
				  l->cache ? " beside the cache" : "");
	if (ring + 2 > fit)
		ring = fit > 4 ? fit - 2 : fit / 2;
	l->ring = (unsigned)ring;
	chunk = ring * l->rows / (2 * (uint64_t)l->threads);
	l->max_chunk = chunk > CHUNK_MAX ? CHUNK_MAX : (unsigned)chunk;
	if (l->max_chunk < l->min_chunk)
		l->max_chunk = l->min_chunk;
	l->sample_max = l->budget.max / 2;
	return 0;
}

static int alloc_ring(struct mr_loader *l, struct mr_err *err)
{
	l->slot = mr_alloc_aligned(l->ring * sizeof(*l->slot), err);
	l->stats = mr_map((size_t)l->threads * sizeof(*l->stats), err);
	return l->slot && l->stats ? 0 : MR_ENOMEM;
}

static int identify(struct mr_loader *l, struct mr_err *err)
{
	uint64_t of[4] = { 0, (uint64_t)l->opt.order, l->order.block,
			   l->order.n };
	int e = mr_pipeline_hash(l->pipeline, &of[0], err);

	/* A choice of the samples is another order. */
	l->identity =
		XXH3_64bits(of, l->order.of ? sizeof(of) : 3 * sizeof(of[0]));
	return e;
}

int mr_loader_open_edited(struct mr_loader **out, const char *pipeline,
			  const struct mr_options *opt,
			  const struct mr_edit *edit, struct mr_err *err)
{
	struct mr_loader *l;
	int e;

	*out = NULL;
	l = mr_alloc_aligned(sizeof(*l), err);
	if (!l)
		return MR_ENOMEM;
	l->open_ns = mr_clock_ns();
	l->pid = getpid();
	atomic_init(&l->refs, 1);
	pthread_mutex_init(&l->lock, NULL);
	mr_clock_init(&l->clock);
	e = check_options(l, opt, err);
	if (!e)
		e = make_shape(l, err);
	if (!e) {
		mr_budget_init(&l->budget, l->opt.memory, true);
		mr_pool_init(&l->pool, &l->budget, 4096);
		e = mr_pipeline_parse(&l->pipeline, pipeline, l->opt.plugins,
				      err);
	}
	if (!e)
		mr_pipeline_suit(l->pipeline, &l->opt);
	if (!e)
		e = mr_plan_make_edited(&l->plan, l->pipeline, l->threads, edit,
					err);
	if (!e)
		e = plan_order(l, err);
	if (!e)
		e = mr_cached_open(l, opt ? opt->memory : 0, err);
	if (!e)
		e = size_ring(l, err);
	if (!e)
		e = identify(l, err);
	if (!e)
		e = alloc_ring(l, err);
	if (!e && l->opt.cold)
		e = mr_loader_evict(l, NULL, NULL, err);
	if (!e)
		e = mr_record_open(l, pipeline, err);
	if (e) {
		mr_loader_close(l);
		return e;
	}
	*out = l;
	return 0;
}

int mr_loader_open_with(struct mr_loader **l, const char *pipeline,
			const struct mr_options *opt, struct mr_err *err)
{
	return mr_loader_open_edited(l, pipeline, opt, NULL, err);
}

int mr_loader_open(struct mr_loader **l, const char *pipeline,
		   struct mr_err *err)
{
	return mr_loader_open_edited(l, pipeline, NULL, NULL, err);
}
