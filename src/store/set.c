/* SPDX-License-Identifier: Apache-2.0 */
#include "store/set.h"

#include <stdio.h>

#include "core/crew.h"
#include "core/hash.h"
#include "core/le.h"
#include "core/mem.h"

/* ---- one shard ---- */

static int check_header(const struct mr_set *s, uint64_t k,
			const struct mr_set_shard *sh, uint64_t count,
			struct mr_err *err)
{
	uint8_t bytes[MR_SHARD_HEADER];
	struct mr_shard_header h;
	int e = mr_input_read(sh->input, bytes, sizeof(bytes), 0, err);

	if (!e)
		e = mr_shard_get_header(bytes, &h, err);
	if (e)
		return e;
	if (h.set != s->meta.set || h.number != k || h.first != sh->first ||
	    h.count != count)
		return mr_err_set(err, MR_EDATA,
				  "it is another shard, or of another data "
				  "set");
	return 0;
}

/* n entries that say no more than that their samples are bad. */
static void put_bad(uint8_t *p, uint64_t n)
{
	static const struct mr_shard_entry bad = { .offset = MR_SHARD_HEADER,
						   .bad = true };

	for (uint64_t i = 0; i < n; i++)
		mr_shard_put_entry(p + i * MR_SHARD_ENTRY, &bad);
}

/* Entries must lie between header and index, whoever wrote them. */
static int check_entries(uint8_t *p, uint64_t n, uint64_t index, uint64_t keys,
			 bool doubtful, struct mr_err *err)
{
	for (uint64_t i = 0; i < n; i++) {
		uint8_t *at = p + i * MR_SHARD_ENTRY;
		struct mr_shard_entry x;

		mr_shard_get_entry(at, &x);
		if (x.offset >= MR_SHARD_HEADER && x.offset <= index &&
		    x.length <= index - x.offset && x.key < keys)
			continue;
		if (!doubtful)
			return mr_err_set(err, MR_EDATA,
					  "entry %llu of its index lies "
					  "outside",
					  (unsigned long long)i);
		put_bad(at, 1);
	}
	return 0;
}

/* The length of all records, where they are alike and end to end. */
static uint64_t even_length(const uint8_t *p, uint64_t n)
{
	uint64_t at = MR_SHARD_HEADER, length = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct mr_shard_entry x;

		mr_shard_get_entry(p + i * MR_SHARD_ENTRY, &x);
		length = i ? length : x.length;
		if (x.bad || x.offset != at || x.length != length)
			return 0;
		at += length;
	}
	return length;
}

static int read_index(const struct mr_set *s, struct mr_set_shard *sh,
		      uint64_t count, uint8_t *entries, struct mr_err *err)
{
	uint8_t bytes[MR_SHARD_FOOTER];
	struct mr_shard_footer f;
	uint64_t size = mr_input_size(sh->input);
	int e;

	if (size < MR_SHARD_HEADER + MR_SHARD_FOOTER)
		return mr_err_set(err, MR_EDATA, "truncated: %llu bytes",
				  (unsigned long long)size);
	e = mr_input_read(sh->input, bytes, sizeof(bytes), size - sizeof(bytes),
			  err);
	if (!e)
		e = mr_shard_get_footer(bytes, size, &f, err);
	if (!e && f.count != count)
		e = mr_err_set(
			err, MR_EDATA, "an index of %llu samples, want %llu",
			(unsigned long long)f.count, (unsigned long long)count);
	if (!e)
		e = mr_input_read(sh->input, entries, count * MR_SHARD_ENTRY,
				  f.index, err);
	if (e)
		return e;
	sh->doubtful =
		XXH3_64bits(entries, count * MR_SHARD_ENTRY) != f.checksum;
	if (sh->doubtful && !s->lenient)
		return mr_err_set(err, MR_EDATA,
				  "damaged index (bytes %llu to %llu): its "
				  "checksum does not match",
				  (unsigned long long)f.index,
				  (unsigned long long)(f.index +
						       count * MR_SHARD_ENTRY -
						       1));
	sh->keys_at = f.index + count * MR_SHARD_ENTRY;
	sh->keys = f.keys;
	sh->keys_checksum = f.keys_checksum;
	e = check_entries(entries, count, f.index, f.keys, sh->doubtful, err);
	sh->even = e || sh->doubtful ? 0 : even_length(entries, count);
	return e;
}

/* Damage costs a lenient reader the samples, if there are others. */
static int lose(const struct mr_set *s, struct mr_set_shard *sh, uint64_t count,
		struct mr_err *err)
{
	if (!s->lenient || s->meta.shards < 2 || err->code != MR_EDATA)
		return err->code;
	put_bad(s->entries + sh->first * MR_SHARD_ENTRY, count);
	sh->even = 0;
	sh->lost = mr_strdup(err->text, err);
	return sh->lost ? 0 : MR_ENOMEM;
}

static int open_shard(void *self, size_t k, struct mr_err *err)
{
	struct mr_set *s = self;
	struct mr_set_shard *sh = &s->shard[k];
	char path[4200], name[64];
	uint64_t count;
	int e;

	mr_shard_range(s->meta.samples, s->meta.shards, k, &sh->first, &count);
	mr_shard_name(name, sizeof(name), k);
	snprintf(path, sizeof(path), "%s/%s", s->dir, name);
	e = mr_input_open(&sh->input, path, err);
	if (e)
		return e;
	if (mr_input_size(sh->input) != s->meta.shard[k].bytes)
		e = mr_err_set(err, MR_EDATA,
			       "%s: %llu bytes, and %llu by meta.json: "
			       "truncated, or of another data set",
			       path,
			       (unsigned long long)mr_input_size(sh->input),
			       (unsigned long long)s->meta.shard[k].bytes);
	if (!e)
		e = check_header(s, k, sh, count, err);
	if (!e)
		e = read_index(s, sh, count,
			       s->entries + sh->first * MR_SHARD_ENTRY, err);
	if (e && strncmp(err->text, path, strlen(path)) != 0)
		mr_err_prefix(err, "%s: ", path);
	return e ? lose(s, sh, count, err) : 0;
}

/* A set of which nothing is left is no set. */
static int check_lost(const struct mr_set *s, struct mr_err *err)
{
	for (uint64_t k = 0; k < s->meta.shards; k++)
		if (!s->shard[k].lost)
			return 0;
	return mr_err_set(err, MR_EDATA, "%s", s->shard[0].lost);
}

int mr_set_open(struct mr_set *s, const char *dir, int threads, bool lenient,
		struct mr_err *err)
{
	int e;

	*s = (struct mr_set){ .lenient = lenient };
	s->dir = mr_strdup(dir, err);
	if (!s->dir)
		return MR_ENOMEM;
	e = mr_meta_read(&s->meta, dir, false, err);
	if (e)
		return e;
	s->shard = mr_alloc(s->meta.shards, sizeof(*s->shard), err);
	if (s->meta.samples > SIZE_MAX / MR_SHARD_ENTRY)
		return mr_err_set(err, MR_EDATA, "%s: too many samples", dir);
	s->entries = malloc(s->meta.samples * MR_SHARD_ENTRY);
	if (!s->shard)
		return MR_ENOMEM;
	if (!s->entries)
		return mr_err_nomem(err, s->meta.samples * MR_SHARD_ENTRY);
	e = mr_crew_run(mr_input_threads(dir, threads), s->meta.shards,
			open_shard, s, err);
	return e ? e : check_lost(s, err);
}

void mr_set_close(struct mr_set *s)
{
	for (uint64_t k = 0; s->shard && k < s->meta.shards; k++) {
		mr_input_close(s->shard[k].input);
		free(s->shard[k].lost);
	}
	free(s->shard);
	free(s->entries);
	free(s->dir);
	mr_meta_fini(&s->meta);
	*s = (struct mr_set){ 0 };
}

void mr_set_map(struct mr_set *s)
{
	struct mr_err ignored;

	/* Each for itself: there may be more than the system allows. */
	for (uint64_t k = 0; k < s->meta.shards; k++)
		if (mr_input_fd(s->shard[k].input) >= 0)
			mr_input_map(s->shard[k].input, &ignored);
}

/* ---- samples ---- */

const struct mr_set_shard *mr_set_locate(const struct mr_set *s, uint64_t index,
					 struct mr_shard_entry *e)
{
	const struct mr_set_shard *sh =
		&s->shard[mr_shard_of(s->meta.samples, s->meta.shards, index)];

	if (!sh->even)
		return mr_set_find(s, index, e);
	e->offset = MR_SHARD_HEADER + (index - sh->first) * sh->even;
	e->length = sh->even;
	e->bad = false;
	return sh;
}

const struct mr_set_shard *mr_set_find(const struct mr_set *s, uint64_t index,
				       struct mr_shard_entry *e)
{
	mr_shard_get_entry(s->entries + index * MR_SHARD_ENTRY, e);
	return &s->shard[mr_shard_of(s->meta.samples, s->meta.shards, index)];
}

size_t mr_set_key(const struct mr_set *s, uint64_t index, char *buf, size_t cap)
{
	struct mr_shard_entry e;
	const struct mr_set_shard *sh = mr_set_find(s, index, &e);
	uint64_t left = sh->keys - e.key;
	char key[4097];
	size_t n = left < sizeof(key) - 1 ? (size_t)left : sizeof(key) - 1;
	struct mr_err err;

	/* Messages need a name, all the more when nothing can be read. */
	if (sh->lost ||
	    mr_input_read(sh->input, key, n, sh->keys_at + e.key, &err))
		return (size_t)snprintf(buf, cap, "[sample %llu]",
					(unsigned long long)index);
	key[n] = 0;
	return (size_t)snprintf(buf, cap, "%s", key);
}

void mr_set_place(const struct mr_set *s, uint64_t index, char *buf, size_t cap)
{
	struct mr_shard_entry e;
	const struct mr_set_shard *sh = mr_set_find(s, index, &e);

	snprintf(buf, cap, "%s: sample %llu (bytes %llu to %llu)",
		 mr_input_path(sh->input), (unsigned long long)index,
		 (unsigned long long)e.offset,
		 (unsigned long long)(e.offset + e.length - 1));
}

int mr_set_bad(const struct mr_set *s, uint64_t index, struct mr_err *err)
{
	struct mr_shard_entry e;
	const struct mr_set_shard *sh = mr_set_find(s, index, &e);
	char why[1025];
	size_t n = e.length < sizeof(why) ? e.length : sizeof(why) - 1;

	if (sh->lost)
		return mr_err_set(err, MR_EDATA, "%s", sh->lost);
	if (mr_input_read(sh->input, why, n, e.offset, err))
		return err->code;
	if (sh->doubtful && (!n || XXH3_64bits(why, n) != e.checksum))
		return mr_err_set(err, MR_EDATA,
				  "%s: damaged index: entry %llu is wrong",
				  mr_input_path(sh->input),
				  (unsigned long long)(index - sh->first));
	why[n] = 0;
	return mr_err_set(err, MR_EDATA,
			  "%s: was bad when the set was prepared: %s",
			  mr_input_path(sh->input), why);
}
