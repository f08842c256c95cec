/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a data set, shard after shard. Files that are not finished have
 * .part in their names; a shard gets its own name when all of it is on the
 * disk. Beside the shard in work lies a journal with the index so far, so
 * that a writer that was killed goes on in the middle of a shard.
 *
 * For records, and for the containers of others: they have the same shards,
 * but no journal and no meta.json.
 */
#ifndef MR_STORE_WRITER_H
#define MR_STORE_WRITER_H

#include "store/append.h"
#include "store/meta.h"
#include "store/shard.h"

enum mr_container {
	MR_CONTAINER_RECORDS,
	MR_CONTAINER_TAR,
	MR_CONTAINER_TFRECORD
};

struct mr_writer {
	char *dir;
	struct mr_meta *meta; /* borrowed; its shards are filled in */
	enum mr_container kind;
	int lock; /* the directory, held against a second writer */

	/* the shard in work */
	int fd, journal;
	struct mr_append file;
	uint64_t shard, first, count; /* its number and samples */
	uint64_t done;		      /* of its samples */
	uint64_t offset;	      /* where the next record goes */
	uint8_t *entries;	      /* as they will stand in the index */
	size_t entry_cap;
	char *keys;
	size_t keys_len, keys_cap;
	uint8_t *log; /* of the journal, not written yet */
	size_t log_len, log_cap;

	uint64_t next;	     /* the sample to be given next */
	uint64_t resumed;    /* samples that were there already */
	double sync_seconds; /* spent in waiting for the disk */
};

/*
 * Begin in dir, which is made, or go on where a writer with the same plan was
 * stopped. Refused: a directory that is complete, in work, of another plan, or
 * holds other files.
 */
int mr_writer_open(struct mr_writer *w, const char *dir, struct mr_meta *m,
		   enum mr_container kind, struct mr_err *err);

/* Would it be refused? Nothing is made, and who else writes there is not
 * asked. m: the plan, or NULL when it is not known yet. */
int mr_writer_check(const char *dir, const struct mr_meta *m,
		    struct mr_err *err);

/* The next sample: its record with its XXH3, and its key. A bad one has the
 * reason as its record. */
int mr_writer_put(struct mr_writer *w, const void *record, size_t length,
		  uint64_t checksum, const char *key, bool bad,
		  struct mr_err *err);
/* Notes in the journal what was given. It may be ahead of the file by what
 * waits to be written; who goes on believes it as far as the records are
 * there. */
int mr_writer_flush(struct mr_writer *w, struct mr_err *err);

/* All samples were given: the set is complete. */
int mr_writer_finish(struct mr_writer *w, struct mr_err *err);

/* Also when it failed or was stopped: what is there can be gone on with. */
void mr_writer_close(struct mr_writer *w);

/* A shard's file name. */
void mr_writer_name(const struct mr_writer *w, uint64_t shard, char *to,
		    size_t cap);

#endif
