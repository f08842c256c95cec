/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A TFRecord file and where its records lie:
 *
 *	length 8 | masked CRC-32C of the length 4 | data |
 *	masked CRC-32C of the data 4
 *
 * Files compressed as a whole (gzip, zlib) are unpacked first.
 */
#ifndef MR_SOURCE_RECORDFILE_H
#define MR_SOURCE_RECORDFILE_H

#include "source/parts.h"

enum { MR_RECORD_HEAD = 12, MR_RECORD_FOOT = 4, MR_RECORD_FRAME = 16 };

/* Why the last record of a file is none. */
enum mr_record_tail { MR_TAIL_NONE, MR_TAIL_CUT, MR_TAIL_LENGTH };

struct mr_recfile {
	struct mr_part *part;
	uint64_t n;		  /* records */
	uint64_t *at;		  /* n + 1 offsets, frames included */
	enum mr_record_tail tail; /* the last record is damaged */
};

/*
 * Open and index part i, to which r points then. What is damaged is the last of
 * the records, since nobody knows where the next one begins; MR_EDATA when
 * it is the first.
 */
int mr_recfile_open(struct mr_recfile *r, struct mr_parts *ps, size_t i,
		    int place, struct mr_err *err);

/* MR_EDATA with the reason when record k is the damaged one. */
int mr_recfile_check(const struct mr_recfile *r, uint64_t k,
		     struct mr_err *err);

/* The data of the record that these bytes are, frame included. */
int mr_record_data(const void *bytes, size_t n, uint64_t offset, bool check,
		   const uint8_t **data, size_t *length, struct mr_err *err);

#endif
