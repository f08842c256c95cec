/* SPDX-License-Identifier: Apache-2.0 */
/* prepare: run the steps once and store the result. */
#include <string.h>

#include "cli.h"
#include "storing.h"

struct prepare {
	struct mr_store_options store;
	bool json;
};

#define P struct prepare

static const char *const shuffles[] = { "auto", "yes", "no", NULL };

static const struct mr_param options[] = {
	{ "out", MR_P_TEXT, offsetof(P, store.out), "", 0, 0, NULL,
	  "the directory to make, or to go on with" },
	{ "until", MR_P_TEXT, offsetof(P, store.until), "", 0, 0, NULL,
	  "the last step to do, by its name or its number in explain; "
	  "without it, all that are the same in each epoch" },
	{ "codec", MR_P_TEXT, offsetof(P, store.codec), "none", 0, 0, NULL,
	  "how to pack each field: see millrace list codecs" },
	{ "level", MR_P_INT, offsetof(P, store.level), "-1", -1, 100, NULL,
	  "of the codec; -1: its usual one" },
	{ "shuffle", MR_P_ENUM, offsetof(P, store.shuffle), "auto", 0, 0,
	  shuffles,
	  "bring like bytes of wide types together before packing; auto: "
	  "where that makes some samples smaller" },
	{ "shards", MR_P_INT, offsetof(P, store.shards), "0", 0, 1e6, NULL,
	  "files; 0: one for each half gigabyte or 262,144 samples" },
	{ "first", MR_P_INT, offsetof(P, store.first), "0", 0, 1e18, NULL,
	  "only so many samples, the first ones, for `stored DIR`; 0: all" },
	{ "literal", MR_P_BOOL, offsetof(P, store.literal), "no", 0, 0, NULL,
	  "store what the last step yields, even where the one before it "
	  "yields less and the rest could be done on load" },
	{ "dry_run", MR_P_BOOL, offsetof(P, store.dry_run), "no", 0, 0, NULL,
	  "say what would be stored and how much, and stop" },
	{ "json", MR_P_BOOL, offsetof(P, json), "no", 0, 0, NULL,
	  "print one JSON object instead of text" },
	MR_PARAM_END
};

static int run(const struct cli_args *args, void *options_)
{
	struct prepare *o = options_;

	o->store.size = sizeof(o->store);
	o->store.to = MR_TO_RECORDS;
	if (args->argc != 1)
		return cli_usage("prepare takes one pipeline; quote it: "
				 "millrace prepare 'files DIR | decode_image' "
				 "--out DIR");
	return cli_store(args, &o->store, o->json);
}

const struct cli_command cli_command_prepare = {
	.name = "prepare",
	.args = "PIPELINE --out DIR",
	.help = "run the steps once and store the result, for `records DIR`",
	.more = "The rest of the pipeline then follows `records DIR` and\n"
		"gives the same batches, byte for byte. Random steps are new\n"
		"in each epoch and cannot be stored.\n"
		"A last step that only widens its elements (cast, normalize)\n"
		"is left to be done on load, where that makes the set\n"
		"smaller; --literal stores its result instead.\n"
		"Where there is room for a part of the samples only, --first "
		"N\n"
		"stores so many; `stored DIR` in the pipeline takes them from\n"
		"there, and the others through the steps before it.\n"
		"When it is stopped or killed, the same command goes on where\n"
		"it was. With --on-error skip, a bad sample keeps its place,\n"
		"with the reason.\n",
	.size = sizeof(struct prepare),
	.options = options,
	.takes_loader_options = true,
	.loader = offsetof(struct prepare, store.loader),
	.run = run,
};
