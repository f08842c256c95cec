/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a shard of MosaicML's, with a good index; or, when the first
 * byte is odd, as the index of a good shard.
 */
#include "source.h"

#include "core/file.h"

static char dir[64];

static const char index_json[] =
	"{\"version\": 2, \"shards\": [{\"column_names\": "
	"[\"a\", \"b\", \"c\", \"d\", \"e\"], \"column_encodings\": "
	"[\"str\", \"int\", \"ndarray\", \"ndarray:uint16\", "
	"\"ndarray:int8:2,2\"], \"column_sizes\": [null, 8, null, null, 4], "
	"\"compression\": %s, \"format\": \"mds\", \"raw_data\": "
	"{\"basename\": \"%s\"}, \"zip_data\": {\"basename\": \"s\"}, "
	"\"samples\": %u}]}";

/* One sample of those columns. */
static const uint8_t shard[] = {
	1, 0, 0, 0, 12, 0, 0, 0, 47,  0,   0, 0, 2, 0, 0, 0,
	4, 0, 0, 0, 4,	0, 0, 0, 'h', 'i', 1, 2, 3, 4, 5, 6,
	7, 8, 8, 4, 1,	9, 4, 1, 1,   0,   0, 1, 2, 3, 4,
};

static void put(const char *name, const void *data, size_t size)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f))
		abort();
}

static void remove_dir(void)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "rm -r '%s'", dir);
	if (system(cmd))
		return;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const pack[] = { "null", "\"zstd:3\"", "\"gz\"" };
	char text[sizeof(index_json) + 50], source[100];

	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "/dev/shm/fuzz-mds-XXXXXX");
		if (!mkdtemp(dir))
			abort();
		atexit(remove_dir);
	}
	if (size < 2)
		return 0;
	if (data[0] & 1) {
		put("index.json", data + 2, size - 2);
		put("s", shard, sizeof(shard));
	} else {
		snprintf(text, sizeof(text), index_json, pack[data[0] / 2 % 3],
			 data[0] / 2 % 3 ? "gone" : "s", data[1]);
		put("index.json", text, strlen(text));
		put("s", data + 2, size - 2);
	}
	snprintf(source, sizeof(source), "mds %s unpack=1M", dir);
	fuzz_source(source, 0);
	return 0;
}
