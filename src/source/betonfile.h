/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An FFCV data set, in one file:
 *
 *	header 24 | field descriptors 1041 each | a row for each sample |
 *	pages of data | allocation table 24 each
 *
 * A row holds the numbers themselves, and where the other fields lie.
 */
#ifndef MR_SOURCE_BETONFILE_H
#define MR_SOURCE_BETONFILE_H

#include "io/input.h"
#include "source/number.h"

enum mr_beton_type {
	MR_BETON_FLOAT,
	MR_BETON_INT,
	MR_BETON_IMAGE,
	MR_BETON_BYTES,
	MR_BETON_ARRAY,
	MR_BETON_JSON,
};

enum mr_beton_mode { MR_BETON_JPEG, MR_BETON_RAW };

struct mr_beton_field {
	char name[17];
	enum mr_beton_type type;
	size_t at; /* in a row */
	/* of arrays */
	const struct mr_number *number;
	struct mr_spec spec;
	uint64_t bytes;
	/* of images: which one, and what there is of them */
	int image;
	bool jpegs, raws, same; /* same: all raw ones have this size */
	int64_t height, width;
};

struct mr_beton {
	struct mr_input *in;
	uint64_t samples, page, table; /* table: where the pages end */
	struct mr_beton_field field[MR_MAX_FIELDS];
	int fields, images;
	size_t row;
	uint64_t rows_at;
	uint8_t *rows;
	uint32_t *jpeg; /* bytes of each image that is one, 0: unknown */
};

struct mr_beton_image {
	int mode;
	int64_t width, height;
};

/* Where the bytes of a field lie; of numbers, n is 0. */
struct mr_beton_region {
	uint64_t at, n;
};

/* Open and check all but the samples' own bytes. Close also on failure. */
int mr_beton_open(struct mr_beton *b, const char *path, struct mr_err *err);
void mr_beton_close(struct mr_beton *b);

const uint8_t *mr_beton_value(const struct mr_beton *b, uint64_t k, int field);
struct mr_beton_image mr_beton_image(const struct mr_beton *b, uint64_t k,
				     int field);

/* MR_EDATA when that is outside of the pages. */
int mr_beton_region(const struct mr_beton *b, uint64_t k, int field,
		    struct mr_beton_region *r, struct mr_err *err);

#endif
