/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of an LMDB file, in the order of their keys, and where their
 * values lie. The format is that of LMDB 0.9 on 64-bit machines:
 *
 *	pages 0 and 1	meta: magic, page size, the roots; the newer one counts
 *	branch pages	nodes of (key, page)
 *	leaf pages	nodes of (key, value), or (key, page) of a long value
 *	overflow pages	16 bytes of header and a long value in one piece
 *
 * Not by liblmdb, which trusts its files: of databases that were cut off, all
 * end a process that walks them, and of those with some bytes changed half.
 * Here each page is checked before it is used. And since a value has a place
 * in the file, it is read ahead as any other.
 */
#ifndef MR_SOURCE_LMDBFILE_H
#define MR_SOURCE_LMDBFILE_H

#include "io/input.h"
#include "source/source.h"

struct mr_lmdb_entry {
	uint64_t at;  /* of the value, in the file */
	uint64_t key; /* in `keys` */
	uint32_t length;
	uint16_t key_length;
};

struct mr_lmdb {
	struct mr_lmdb_entry *entry;
	size_t n, cap;
	uint8_t *keys;
	size_t used, keys_cap;
};

/*
 * Lists what the database called `name` holds, or the main one for "".
 * `pattern`, unless empty, chooses keys as a shell does file names. Errors
 * name the file and the page. mr_lmdb_fini() also after failure.
 */
int mr_lmdb_list(struct mr_lmdb *db, struct mr_input *in, const char *name,
		 const char *pattern, struct mr_err *err);
void mr_lmdb_fini(struct mr_lmdb *db);

/* The key as text, with \xNN for control characters; as snprintf(). */
size_t mr_lmdb_key(const struct mr_lmdb *db, size_t i, char *buf, size_t cap);

#endif
