/* SPDX-License-Identifier: Apache-2.0 */
/* whatif: predictions from a diagnosis. */
#include <stdlib.h>

#include "cli.h"
#include "core/file.h"

enum { JSON_MAX = 16 << 20 };

struct whatif {
	const char *cache, *storage, *accelerator, *compress, *sweep, *html;
	int64_t cores, nodes;
	bool page_cache, json;
};

#define W struct whatif

static const struct mr_param options[] = {
	MR_TEXT(W, cache, "",
		"in memory: a share of the data set (35%) or a size (8G)"),
	MR_INT(W, cores, "0", 0, 100000, "that prepare; 0: as measured"),
	MR_TEXT(W, storage, "",
		"hdd, ssd, nvme, ceph-hdd, s3, or "
		"bw=200M,latency=5ms,iops=150"),
	MR_TEXT(W, accelerator, "",
		"samples per second, a preset of `diagnose`, or a multiple of "
		"the measured one (2x)"),
	MR_TEXT(W, compress, "", "samples packed with this codec"),
	MR_INT(W, nodes, "0", 0, 1e6,
	       "that share the storage, their caches added up; 0: one"),
	MR_BOOL(W, page_cache, "no",
		"the cache is the system's page cache, which forgets what was "
		"used longest ago, and not `cache ram=`"),
	MR_TEXT(W, sweep, "",
		"cache, cores, accelerator or nodes =FROM:TO:STEP: a table and "
		"where its knee is; a cache in percent"),
	MR_TEXT(W, html, "",
		"write it as a page to this file, too, with charts"),
	MR_BOOL(W, json, "no", "print one JSON object instead of text"),
	MR_PARAM_END
};

static int run(const struct cli_args *args, void *options_)
{
	const struct whatif *o = options_;
	struct mr_whatif_options w;
	char *json = NULL, *text;
	struct mr_err err;
	size_t n;
	int e;

	if (args->argc != 1)
		return cli_usage("whatif takes a diagnosis: millrace diagnose "
				 "PIPELINE --out D.json; millrace whatif "
				 "D.json --cache 35%%");
	mr_whatif_options_init(&w);
	w.cache = o->cache;
	w.cores = o->cores;
	w.storage = o->storage;
	w.accelerator = o->accelerator;
	w.compress = o->compress;
	w.nodes = o->nodes;
	w.page_cache = o->page_cache;
	w.sweep = o->sweep;
	e = mr_file_read(args->argv[0], JSON_MAX, &json, &n, &err);
	if (!e)
		e = mr_whatif(json, args->argv[0], &w, o->json, &text, &err);
	if (!e) {
		printf("%s%s", text, o->json ? "\n" : "");
		free(text);
		if (*o->html)
			e = mr_whatif_page(json, args->argv[0], &w, o->html,
					   &err);
		if (!e && *o->html)
			fprintf(stderr, "millrace: %s: written\n", o->html);
	}
	free(json);
	return e ? cli_fail(&err) : EXIT_DONE;
}

const struct cli_command cli_command_whatif = {
	.name = "whatif",
	.args = "DIAGNOSIS.json",
	.help = "predicted speed for another cache, core count, storage, "
		"accelerator, node count, from a saved diagnosis",
	.more = "The formulas, and what they leave out, are in "
		"docs/model.md.\n",
	.size = sizeof(struct whatif),
	.options = options,
	.run = run,
};
