/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's options: one table, from which the command line and Python
 * take theirs. */
#include "core/param.h"
#include "millrace/plugin.h"
#include "pipe/order.h"

static const char *const policies[] = { "stop", "skip", "replace", NULL };
static const char *const fetches[] = { "auto", "direct", "ahead", NULL };

#define O struct mr_options

static const struct mr_param params[] = {
	MR_INT(O, threads, "0", 0, 4096,
	       "worker threads; 0: the cores this process may use"),
	MR_SIZE(O, memory, "0", 0, 1e18,
		"for all buffers and caches; 0: a quarter of the memory this "
		"process may use, at most 4G"),
	MR_INT(O, epochs, "0", 0, 1e18, "stop after; 0: never"),
	MR_INT(O, samples, "0", 0, 1e18,
	       "stop after so many, with the batch that has the last; 0: "
	       "never"),
	MR_INT(O, seed, "0", 0, 9e18, "of the order and of random steps"),
	MR_ENUM(O, order, "shuffle", mr_order_names,
		"shuffle: a new order each epoch; block: shuffle blocks of "
		"neighbours, for storage that hates seeks"),
	MR_INT(O, block, "256", 1, 1e15,
	       "samples per block of the order `block`"),
	MR_ENUM(O, on_error, "stop", policies,
		"a bad sample: stop, skip it, or replace it by another one"),
	MR_ENUM(O, fetch, "auto", fetches,
		"who reads: the workers (direct), a stage that runs ahead "
		"with many requests in flight (ahead), or what the storage "
		"rewards"),
	MR_TEXT(O, plugins, "",
		"shared objects with steps of your own, comma-separated"),
	MR_TEXT(O, storage, "",
		"read as slowly as hdd, ssd, nvme, ceph-hdd, s3, or as "
		"bw=200M,latency=5ms,iops=150,stream=100M says; with cache=2G "
		"a page cache before it"),
	MR_TEXT(O, trace, "",
		"record what each thread does, and when, to this file; see "
		"`trace`"),
	MR_TEXT(O, events, "",
		"with a trace: what is counted step by step, by perf's names "
		"(cycles,cache-misses,page-faults, raw rNNNN), or none; empty: "
		"what the machine has"),
	MR_INT(O, sample, "0", 0, 100000,
	       "with a trace: look so many times a second which function runs; "
	       "0: never"),
	MR_INT(O, subset, "0", 0, 1e18,
	       "of the data set only so many samples, the same ones in each "
	       "epoch: the seed's choice, or the first ones when the order is "
	       "not shuffle; 0: all"),
	MR_BOOL(O, cold, "no",
		"first evict the samples' files from the page cache"),
	MR_PARAM_END
};

const struct mr_param *mr_option_params(void)
{
	return params;
}

void mr_options_init(struct mr_options *opt)
{
	*opt = (struct mr_options){ .size = sizeof(*opt), .ranks = 1 };
	mr_param_defaults(params, opt);
}
