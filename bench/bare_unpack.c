/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a shuffling loader must do over prepared records: N threads
 * unpack the first field of all of them in random order into batch buffers
 * that they use again and again. The field is of PLAIN bytes in each record;
 * the shards (docs/format.md) lie mapped in memory, and their indices have
 * been read, before the clock starts. Checksums are not looked at.
 *
 * usage: bare_unpack DIR none|lz4|zstd PLAIN BATCH THREADS EPOCHS [RING]
 */
#include "bare.h"

#include <fcntl.h>
#include <glob.h>
#include <lz4.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { HEADER = 64, FOOTER = 64, ENTRY = 32, ALIGN = 64 };

enum codec { NONE, LZ4, ZSTD };

struct sample {
	const char *at;
	size_t stored;
};

struct set {
	enum codec codec;
	size_t plain, samples, ring;
	struct sample *sample;
};

struct reader {
	struct bare_deck *deck;
	const struct set *set;
	ZSTD_DCtx *zstd;
	char *bufs;
	size_t done;
};

/* ---- shards ---- */

static uint64_t get64(const char *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | (unsigned char)p[i];
	return v;
}

static const char *map_shard(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", path);
	*size = (size_t)st.st_size;
	if (*size < HEADER + FOOTER)
		errx(1, "%s: too short", path);
	p = mmap(NULL, *size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		err(1, "%s: mmap", path);
	close(fd);
	return p;
}

/* Where the field of one record lies. */
static struct sample find(const struct set *s, const char *record, size_t size)
{
	struct sample f = { record, s->plain };

	if (s->codec != NONE) { /* a head tells its stored bytes */
		f.at = record + ALIGN;
		f.stored = get64(record);
		size -= ALIGN;
	}
	if (f.stored > size || f.stored > s->plain)
		errx(1, "a field of %zu bytes in a record of %zu", f.stored,
		     size);
	return f;
}

static void read_shard(struct set *s, const char *path)
{
	size_t size, index, count;
	const char *p = map_shard(path, &size), *foot = p + size - FOOTER;

	if (memcmp(foot, "MRINDEX1", 8) != 0)
		errx(1, "%s: no footer", path);
	index = get64(foot + 8);
	count = get64(foot + 16);
	if (index > size || count > (size - index) / ENTRY)
		errx(1, "%s: its index lies outside", path);
	s->sample = realloc(s->sample,
			    (s->samples + count + 1) * sizeof(*s->sample));
	if (!s->sample)
		errx(1, "no memory for %zu samples", s->samples + count);
	for (size_t i = 0; i < count; i++) {
		const char *e = p + index + i * ENTRY;
		size_t at = get64(e), length = get64(e + 8);

		if (at > size || length > size - at || length < ALIGN)
			errx(1, "%s: record %zu lies outside", path, i);
		s->sample[s->samples++] = find(s, p + at, length);
	}
}

static void read_set(struct set *s, const char *dir)
{
	char pattern[4096];
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/shard-*.mrs", dir);
	if (glob(pattern, 0, NULL, &g))
		errx(1, "%s: no shards", dir);
	for (size_t i = 0; i < g.gl_pathc; i++)
		read_shard(s, g.gl_pathv[i]);
	globfree(&g);
	if (!s->samples)
		errx(1, "%s: no samples", dir);
}

/* ---- unpacking ---- */

static void unpack(const struct reader *r, const struct sample *s, char *to)
{
	size_t plain = r->set->plain, got;

	if (s->stored == plain) {
		memcpy(to, s->at, plain);
		return;
	}
	if (r->set->codec == LZ4)
		got = (size_t)LZ4_decompress_safe(s->at, to, (int)s->stored,
						  (int)plain);
	else
		got = ZSTD_decompressDCtx(r->zstd, to, plain, s->at, s->stored);
	if (got != plain)
		errx(1, "a sample of %zu bytes does not unpack", s->stored);
}

static void *work(void *arg)
{
	struct reader *r = arg;
	const struct set *s = r->set;
	const uint32_t *at;
	size_t n;

	for (size_t b = 0; (n = bare_deal(r->deck, &at)); b++) {
		char *buf = r->bufs + b % s->ring * r->deck->batch * s->plain;

		for (size_t i = 0; i < n; i++)
			unpack(r, &s->sample[at[i]], buf + i * s->plain);
		r->done += n;
	}
	return NULL;
}

static enum codec codec_of(const char *name)
{
	static const char *const names[] = { "none", "lz4", "zstd" };

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i]))
			return (enum codec)i;
	errx(2, "no codec '%s'", name);
}

int main(int argc, char **argv)
{
	struct set set = { .ring = 4 };
	struct bare_deck deck = { 0 };
	struct reader *r;
	size_t done = 0;
	double seconds;
	int threads;

	if (argc < 7 || argc > 8)
		errx(2, "usage: bare_unpack DIR none|lz4|zstd PLAIN BATCH "
			"THREADS EPOCHS [RING]");
	set.codec = codec_of(argv[2]);
	set.plain = bare_number(argv[3]);
	deck.batch = bare_number(argv[4]);
	threads = bare_threads(argv[5]);
	deck.epochs = bare_number(argv[6]);
	if (argc > 7)
		set.ring = bare_number(argv[7]);
	read_set(&set, argv[1]);
	deck.samples = set.samples;
	deck.order = bare_order(set.samples);

	r = bare_alloc((size_t)threads, sizeof(*r));
	for (int i = 0; i < threads; i++) {
		r[i].deck = &deck;
		r[i].set = &set;
		r[i].zstd = ZSTD_createDCtx();
		r[i].bufs = bare_buffer(set.ring * deck.batch * set.plain);
	}
	seconds = bare_run(threads, work, r, sizeof(*r));
	for (int i = 0; i < threads; i++)
		done += r[i].done;
	bare_report(done, done * set.plain, threads, seconds);
	return 0;
}
