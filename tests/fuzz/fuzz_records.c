/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared data. The first byte says what the others are: a record, a
 * meta.json, or a shard. Checksums are put right first, since no fuzzer would
 * get past them; somebody who means harm would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "../unit/load.h"
#include "core/file.h"
#include "core/le.h"
#include "source.h"
#include "store/record.h"
#include "store/set.h"

static char dir[64];

static void put_file(const char *name, const void *data, size_t size)
{
	char path[128];
	FILE *f;

	if (!*dir) {
		snprintf(dir, sizeof(dir), "/dev/shm/fuzz-records-%d",
			 (int)getpid());
		mkdir(dir, 0700);
	}
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f))
		abort();
}

/* ---- records ---- */

static void plan_of(struct mr_record_plan *p, uint8_t choice)
{
	static const int64_t any[] = { MR_ANY, 3, MR_ANY }, fixed[] = { 5, 7 };
	static const char *const codec[] = { "none", "lz4", "zstd", "zlib",
					     "gzip" };

	memset(p, 0, sizeof(*p));
	mr_fields_add(&p->fields, "a", MR_U8, 1, any);
	if (choice & 1)
		mr_fields_add(&p->fields, "b", MR_F32, 3, any);
	if (choice & 2)
		mr_fields_add(&p->fields, "c", MR_I16, 2, fixed);
	mr_fields_add(&p->fields, "d", MR_I64, 0, NULL);
	p->fields.item[0].rated = choice & 64;
	p->fields.item[1].rated = choice & 32;
	p->codec = mr_codec_find(codec[choice / 4 % 5]);
	p->level = p->codec->def;
	p->shuffle = choice & 128;
	mr_record_plan_init(p);
}

static void fuzz_record(const uint8_t *data, size_t size)
{
	struct mr_record_plan p;
	struct loaded ld;
	void *state = NULL;
	uint8_t *copy = malloc(size ? size : 1); /* exact, for the sanitizer */

	plan_of(&p, data[0]);
	memcpy(copy, data + 1, size - 1);
	memset(&ld, 0, sizeof(ld));
	mr_arena_init(&ld.scratch, 1 << 20);
	ld.fields = p.fields;
	ld.ld = (struct mr_load){ .scratch = &ld.scratch,
				  .limit = 1 << 20,
				  .room = loaded_room,
				  .err = &ld.err,
				  .rate = ld.rate };
	loaded_begin(&ld, 0);
	if (!mr_record_unpack(&p, &ld.ld, &state, copy, size - 1, ld.f))
		look_at(&ld);
	else if (!ld.err.code || !ld.err.text[0])
		abort();
	loaded_begin(&ld, 0);
	mr_arena_fini(&ld.scratch);
	if (p.codec->drop_unpack)
		p.codec->drop_unpack(state);
	free(copy);
}

/* ---- meta.json ---- */

static void fuzz_meta(const uint8_t *data, size_t size)
{
	size_t n = 0;
	char *text = malloc(size + 64);
	struct mr_meta m;
	struct mr_err err = { 0 };

	memcpy(text, data, size);
	while (n < size && text[n])
		n++;
	n += (size_t)sprintf(text + n, ", \"checksum\": \"%016llx\"}\n",
			     (unsigned long long)XXH3_64bits(text, n));
	put_file(MR_META_NAME, text, n);
	if (!mr_meta_read(&m, dir, false, &err)) {
		mr_meta_check_source(&m, &err);
		mr_meta_fini(&m);
	} else if (!err.code || !err.text[0]) {
		abort();
	}
	free(text);
}

/* ---- shards ---- */

static const char plan[] =
	"{\"format\": \"millrace records\", \"version\": 1, \"plan\": "
	"{\"pipeline\": \"synthetic\", \"stages\": 1, \"fields\": [{\"name\": "
	"\"data\", \"dtype\": \"u8\", \"shape\": [-1]}, {\"name\": \"label\", "
	"\"dtype\": \"i64\", \"shape\": []}], \"codec\": \"lz4\", \"level\": "
	"1, \"shuffle\": false, \"samples\": %d, \"shards\": 1, \"source\": "
	"[]}, \"set\": \"%016llx\", \"shards\": [{\"bytes\": %zu, \"records\": "
	"\"0\"}], \"bytes\": 1, \"bad\": 0";

static void seal(uint8_t *p)
{
	mr_le64_put(p + 56, XXH3_64bits(p, 56));
}

static void put_right(uint8_t *p, size_t size)
{
	uint8_t *foot = p + size - MR_SHARD_FOOTER;
	uint64_t at = mr_le64(foot + 8), n = mr_le64(foot + 16);

	seal(p);
	if (at < size && n < size / MR_SHARD_ENTRY &&
	    n * MR_SHARD_ENTRY <= size - at) {
		mr_le64_put(foot + 32, XXH3_64bits(p + at, n * MR_SHARD_ENTRY));
		for (uint64_t i = 0; i < n; i++) {
			uint8_t *e = p + at + i * MR_SHARD_ENTRY;
			uint64_t from = mr_le64(e), len = mr_le64(e + 8);

			if (from < size && len <= size - from)
				mr_le64_put(e + 16, XXH3_64bits(p + from, len));
		}
		mr_le64_put(foot + 32, XXH3_64bits(p + at, n * MR_SHARD_ENTRY));
	}
	seal(foot);
}

static void fuzz_shard(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size);
	char text[1200];
	int n;

	if (size >= MR_SHARD_HEADER + MR_SHARD_FOOTER) {
		memcpy(p, data, size);
		put_right(p, size);
		n = snprintf(text, sizeof(text), plan, 1 + p[16] % 8,
			     (unsigned long long)mr_le64(p + 32), size);
		n += sprintf(text + n, ", \"checksum\": \"%016llx\"}",
			     (unsigned long long)XXH3_64bits(text, (size_t)n));
		put_file("shard-00000.mrs", p, size);
		put_file(MR_META_NAME, text, (size_t)n);
		snprintf(text, sizeof(text), "records %s", dir);
		fuzz_source(text, 0);
		snprintf(text, sizeof(text), "records %s map=no verify=never",
			 dir);
		fuzz_source(text, 0);
		/* an index of which each entry is to be doubted */
		p[size - MR_SHARD_FOOTER + 32] ^= 1;
		seal(p + size - MR_SHARD_FOOTER);
		put_file("shard-00000.mrs", p, size);
		fuzz_opened(text, 0, true);
	}
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	switch (data[0] % 3) {
	case 0:
		fuzz_record(data + 1, size - 1);
		break;
	case 1:
		fuzz_meta(data + 1, size - 1);
		break;
	default:
		fuzz_shard(data + 1, size - 1);
		break;
	}
	return 0;
}
