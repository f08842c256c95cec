/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a tar, header by header: ustar and older, GNU's long names,
 * pax headers, numbers in base 256. Names and bytes are those that Python's
 * tarfile gives; what is no regular file is passed over.
 *
 * Damage does not end the walk where more can be found behind it: it is an
 * entry of its own, and the walk goes on at the next header that is whole.
 */
#ifndef MR_SOURCE_TARFILE_H
#define MR_SOURCE_TARFILE_H

#include "source/parts.h"

/* Stored in index files: append only. */
enum mr_tar_damage {
	MR_TAR_WHOLE = 0,
	MR_TAR_CHECKSUM,   /* no header where one must be */
	MR_TAR_CUT_HEADER, /* the file ends within a header */
	MR_TAR_CUT_DATA,   /* ... within a member of `value` bytes */
	MR_TAR_ZEROS,	   /* a lone block of zeros, and members after it */
	MR_TAR_NUMBER,	   /* the size is no number */
	MR_TAR_PAX,	   /* an extended header that is not understood */
	MR_TAR_SPARSE,	   /* a sparse file, whose holes are not stored */
	MR_TAR_PACKED,	   /* compressed data is damaged at `value` */
	MR_TAR_DAMAGES
};

struct mr_tar_entry {
	/* Of name, valid until the next call; empty when it is not known. */
	const char *name;
	size_t name_len;
	uint64_t header;     /* where its first header begins */
	uint64_t data, size; /* of a whole one */
	enum mr_tar_damage damage;
	uint64_t value;
};

struct mr_tar_walk;

int mr_tar_walk_open(struct mr_tar_walk **w, const struct mr_part *part,
		     struct mr_err *err);
void mr_tar_walk_close(struct mr_tar_walk *w); /* NULL is allowed */

/*
 * The next member, or damage: MR_OK; MR_END after the last. Fails when the
 * file cannot be read, or is no tar at all; the message names it.
 */
int mr_tar_next(struct mr_tar_walk *w, struct mr_tar_entry *e,
		struct mr_err *err);

/* What the damage is, in words, without the file's name. */
void mr_tar_damage_text(enum mr_tar_damage damage, uint64_t at, uint64_t value,
			uint64_t file_size, char *buf, size_t cap);

#endif
