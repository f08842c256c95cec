/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of the shard in work: an entry and its key for each record that
 * was written. After a kill, the longest beginning of the shard whose records
 * are whole is kept, by their checksums, and the rest is cut off.
 */
#ifndef MR_STORE_JOURNAL_H
#define MR_STORE_JOURNAL_H

#include "store/writer.h"

int mr_journal_add(struct mr_writer *w, const struct mr_shard_entry *x,
		   const char *key, size_t len, struct mr_err *err);

/* w->done of the shard in work are there; both files stand after them. */
int mr_journal_recover(struct mr_writer *w, struct mr_err *err);

/* A shard that has its name: what meta.json says of it. */
int mr_journal_finished(struct mr_writer *w, const char *path,
			struct mr_err *err);

/* Takes an entry into the index in the making. */
int mr_writer_note(struct mr_writer *w, const struct mr_shard_entry *entry,
		   const char *key, size_t len, struct mr_err *err);

#endif
