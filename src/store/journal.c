/* SPDX-License-Identifier: Apache-2.0 */
#include "store/journal.h"

#include <stdio.h>
#include <unistd.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/le.h"
#include "core/mem.h"
#include "io/input.h"

/* An entry, whose `key` is the key's length here, and the key. */
int mr_journal_add(struct mr_writer *w, const struct mr_shard_entry *x,
		   const char *key, size_t len, struct mr_err *err)
{
	struct mr_shard_entry y = *x;
	size_t need = w->log_len + MR_SHARD_ENTRY + len;
	int e = mr_grow(&w->log, &w->log_cap, need, 1, SIZE_MAX, err);

	if (e)
		return e;
	y.key = (uint32_t)len;
	mr_shard_put_entry(w->log + w->log_len, &y);
	memcpy(w->log + w->log_len + MR_SHARD_ENTRY, key, len);
	w->log_len = need;
	return 0;
}

/* Is the record there as its entry says? buf grows to hold it. */
static bool record_is_whole(const struct mr_writer *w,
			    const struct mr_shard_entry *x, uint8_t **buf,
			    size_t *cap)
{
	off_t end = lseek(w->fd, 0, SEEK_END);

	if (x->offset != w->offset || end < 0 || x->offset > (uint64_t)end ||
	    x->length > (uint64_t)end - x->offset)
		return false;
	if (mr_grow(buf, cap, x->length, 1, SIZE_MAX, NULL))
		return false;
	return mr_pread_all(w->fd, *buf, x->length, x->offset) &&
	       XXH3_64bits(*buf, x->length) == x->checksum;
}

/* The header that this shard must have. */
static bool header_is_ours(const struct mr_writer *w)
{
	uint8_t bytes[MR_SHARD_HEADER];
	struct mr_shard_header h;

	return mr_pread_all(w->fd, bytes, sizeof(bytes), 0) &&
	       !mr_shard_get_header(bytes, &h, NULL) && h.number == w->shard &&
	       h.first == w->first && h.count == w->count &&
	       h.set == w->meta->set;
}

int mr_journal_recover(struct mr_writer *w, struct mr_err *err)
{
	uint8_t bytes[MR_SHARD_ENTRY], *buf = NULL;
	size_t cap = 0;
	uint64_t at = 0;
	char key[4097];
	bool ours = header_is_ours(w);
	int e = 0;

	w->offset = MR_SHARD_HEADER;
	while (ours && w->done < w->count && !e) {
		struct mr_shard_entry x;

		if (!mr_pread_all(w->journal, bytes, sizeof(bytes), at))
			break;
		mr_shard_get_entry(bytes, &x);
		if (x.key >= sizeof(key) ||
		    !mr_pread_all(w->journal, key, x.key, at + sizeof(bytes)) ||
		    !record_is_whole(w, &x, &buf, &cap))
			break;
		at += sizeof(bytes) + x.key;
		w->offset += x.length;
		w->meta->bad += x.bad;
		e = mr_writer_note(w, &x, key, x.key, err);
	}
	free(buf);
	if (!e && w->done &&
	    (ftruncate(w->fd, (off_t)w->offset) ||
	     ftruncate(w->journal, (off_t)at) ||
	     lseek(w->journal, (off_t)at, SEEK_SET) < 0))
		e = mr_err_sys(err, errno, w->dir, "cannot go on");
	return e;
}

static uint64_t count_bad(const uint8_t *entries, uint64_t n)
{
	uint64_t bad = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct mr_shard_entry x;

		mr_shard_get_entry(entries + i * MR_SHARD_ENTRY, &x);
		bad += x.bad;
	}
	return bad;
}

int mr_journal_finished(struct mr_writer *w, const char *path,
			struct mr_err *err)
{
	uint8_t head[MR_SHARD_HEADER], foot[MR_SHARD_FOOTER], *entries = NULL;
	struct mr_shard_header h;
	struct mr_shard_footer f;
	struct mr_input *in;
	uint64_t size;
	int e;

	if (w->kind != MR_CONTAINER_RECORDS)
		return 0;
	e = mr_input_open(&in, path, err);
	if (e)
		return e;
	size = mr_input_size(in);
	if (size < sizeof(head) + sizeof(foot))
		e = mr_err_set(err, MR_EDATA, "truncated");
	if (!e)
		e = mr_input_read(in, head, sizeof(head), 0, err);
	if (!e)
		e = mr_shard_get_header(head, &h, err);
	if (!e && h.set != w->meta->set)
		e = mr_err_set(err, MR_EDATA, "of another data set");
	if (!e)
		e = mr_input_read(in, foot, sizeof(foot), size - sizeof(foot),
				  err);
	if (!e)
		e = mr_shard_get_footer(foot, size, &f, err);
	if (!e) {
		entries = mr_alloc(f.count, MR_SHARD_ENTRY, err);
		e = entries ?
			    mr_input_read(in, entries, f.count * MR_SHARD_ENTRY,
					  f.index, err) :
			    MR_ENOMEM;
	}
	if (!e) {
		w->meta->bad += count_bad(entries, f.count);
		w->meta->shard[w->shard] =
			(struct mr_meta_shard){ size, f.records };
	} else {
		mr_err_prefix(err, "%s: ", path);
	}
	free(entries);
	mr_input_close(in);
	return e;
}
