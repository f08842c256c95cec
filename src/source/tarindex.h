/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples a tar has, and where their members lie: some 20 to 40 bytes
 * each, packed one after another, in memory as in the index file (bytes of the
 * extensions 8 | those, a zero after each | records). A record:
 *
 *	length of the key, the key
 *	damage; if there is any: at, value
 *	the block in which the first member's bytes begin
 *	how many members, and for each
 *		its extension's number
 *		blocks between it and the end of the one before
 *		bytes
 *
 * All numbers are varints: 7 bits in a byte, low ones first.
 *
 * A sample is consecutive members whose names agree up to the first dot after
 * the last slash, which is the key; what follows it is the extension.
 */
#ifndef MR_SOURCE_TARINDEX_H
#define MR_SOURCE_TARINDEX_H

#include "source/paths.h"
#include "source/tarfile.h"

enum { MR_TAR_EXTENSIONS = 256 };

struct mr_tar_index {
	uint64_t file_size; /* within which all members lie */
	uint8_t *records;
	size_t bytes, cap;
	uint32_t *at; /* where the record of each sample begins */
	size_t samples, at_cap;
	struct mr_names ext; /* lower case, in the order of appearance */
	uint64_t *having;    /* samples with each extension */
};

/* Open part i, and index it, or take the index that was kept (indexcache.h).
 * Compressed data that is damaged ends it early. */
int mr_tar_index_open(struct mr_tar_index *x, struct mr_parts *ps, size_t i,
		      int place, struct mr_err *err);

/* Walk the tar. */
int mr_tar_index_build(struct mr_tar_index *x, const struct mr_part *part,
		       struct mr_err *err);
/*
 * The same from records made before and the extensions, which are there
 * already. MR_EDATA when they are not what build() makes, whoever wrote them.
 */
int mr_tar_index_check(struct mr_tar_index *x, struct mr_err *err);
void mr_tar_index_fini(struct mr_tar_index *x);

/* Numbers as the records have them. put() takes 10 bytes at most; false from
 * get() when they end before the number, or it is too large. */
size_t mr_varint_put(uint8_t *p, uint64_t v);
bool mr_varint_get(const uint8_t **p, const uint8_t *end, uint64_t *v);

/* ---- asking; any thread may ---- */

struct mr_tar_sample {
	const char *key;
	size_t key_len;
	enum mr_tar_damage damage;
	uint64_t damage_at, damage_value;
	uint64_t members; /* that mr_tar_member() has still to give */
	/* its own */
	const uint8_t *p, *end;
	uint64_t next;
};

struct mr_tar_member {
	uint64_t ext;
	uint64_t data, size; /* where its bytes lie in the file */
};

void mr_tar_sample_get(const struct mr_tar_index *x, uint64_t i,
		       struct mr_tar_sample *s);
/* The next member; false after the last. */
bool mr_tar_member_next(struct mr_tar_sample *s, struct mr_tar_member *m);

#endif
