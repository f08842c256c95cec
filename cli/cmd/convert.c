/* SPDX-License-Identifier: Apache-2.0 */
/* convert: copy a source into another container. */
#include "cli.h"
#include "storing.h"

struct convert {
	struct mr_store_options store;
	bool json;
};

#define C struct convert

static const char *const containers[] = { "records", "tar", "tfrecord", NULL };

static const struct mr_param options[] = {
	{ "to", MR_P_ENUM, offsetof(C, store.to), "records", 0, 0, containers,
	  "records for `records DIR`; tar as WebDataset reads it; tfrecord of "
	  "tf.train.Example" },
	{ "out", MR_P_TEXT, offsetof(C, store.out), "", 0, 0, NULL,
	  "the directory to make, or to go on with" },
	{ "codec", MR_P_TEXT, offsetof(C, store.codec), "none", 0, 0, NULL,
	  "of records: how to pack each field; see millrace list codecs" },
	{ "level", MR_P_INT, offsetof(C, store.level), "-1", -1, 100, NULL,
	  "of the codec; -1: its usual one" },
	{ "shards", MR_P_INT, offsetof(C, store.shards), "0", 0, 1e6, NULL,
	  "files; 0: one for each half gigabyte or 262,144 samples" },
	{ "dry_run", MR_P_BOOL, offsetof(C, store.dry_run), "no", 0, 0, NULL,
	  "say how much would be stored, and stop" },
	{ "json", MR_P_BOOL, offsetof(C, json), "no", 0, 0, NULL,
	  "print one JSON object instead of text" },
	MR_PARAM_END
};

static int run(const struct cli_args *args, void *options_)
{
	struct convert *o = options_;

	o->store.size = sizeof(o->store);
	o->store.until = "";
	o->store.literal = true;
	if (args->argc != 1)
		return cli_usage("convert takes one source or pipeline; quote "
				 "it: millrace convert 'files DIR' --to tar "
				 "--out DIR");
	if (o->store.to != MR_TO_RECORDS && strcmp(o->store.codec, "none"))
		return cli_usage("--codec %s: only records are packed so; "
				 "compress the files yourself",
				 o->store.codec);
	return cli_store(args, &o->store, o->json);
}

const struct cli_command cli_command_convert = {
	.name = "convert",
	.args = "PIPELINE --to tar|tfrecord|records --out DIR",
	.help = "copy a source into another container",
	.more = "Steps after the source are done as well, as long as they are\n"
		"not random.\n"
		"tar: members KEY.EXT, where a file that no step changed\n"
		"keeps its extension; other bytes are .jpg, .png, .flac, .mp3\n"
		"or .wav by how they begin, else called as their field; a\n"
		"label is .cls and arrays are .npy. tfrecord: bytes, int64\n"
		"and float lists under the fields' names; arrays as bytes,\n"
		"with NAME/shape and NAME/dtype.\n"
		"When it is stopped or killed, the same command goes on where\n"
		"it was: records in the middle of a shard, others at its\n"
		"beginning. With --on-error skip, bad samples are left out of\n"
		"tar and tfrecord.\n",
	.size = sizeof(struct convert),
	.options = options,
	.takes_loader_options = true,
	.loader = offsetof(struct convert, store.loader),
	.run = run,
};
