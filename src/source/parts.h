/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a data set, whose samples follow one another: opened by several
 * threads, unpacked where they are compressed, mapped or kept open.
 */
#ifndef MR_SOURCE_PARTS_H
#define MR_SOURCE_PARTS_H

#include "source/unpacked.h"

struct mr_part {
	char *path;
	struct mr_input *in;   /* NULL: it is opened for each read, since too
				* many would be open, or not needed */
	struct mr_plain plain; /* in place of it, when it was compressed */
	uint64_t size;	       /* of the bytes that are read */
	uint64_t samples, first;
	char *lost; /* NULL, or why all its samples are bad */
};

struct mr_parts {
	struct mr_part *item;
	size_t n;
	uint64_t samples;
	struct mr_unpacked unpacked;
};

/* n of them, without paths; or those that a pattern names. */
int mr_parts_make(struct mr_parts *ps, size_t n, struct mr_err *err);
int mr_parts_list(struct mr_parts *ps, const char *cwd, const char *pattern,
		  struct mr_err *err);
void mr_parts_fini(struct mr_parts *ps); /* after any failure too */

struct mr_parts_how {
	const char *where; /* any path of them: on a server, or not */
	const struct mr_source_env *env;
	uint64_t unpack; /* bytes that compressed ones may take */
	bool map;	 /* those that are not compressed */
	/* Open and index one, and say how many samples it has. */
	int (*open)(void *self, size_t i, struct mr_err *err);
	/* Forget what open() came to hold of one that is lost. */
	void (*drop)(void *self, size_t i);
	/* Look at what was opened; may be NULL. */
	int (*look)(void *self, size_t i, struct mr_err *err);
	void *self;
};

/*
 * The error is that of the first file, in their order, of those tried. Where
 * env is lenient, one of several that open() found damaged is lost: as many
 * bad samples as it said before it failed, or one.
 */
int mr_parts_open(struct mr_parts *ps, const struct mr_parts_how *how,
		  struct mr_err *err);

/* The part of a sample; *i becomes its number within that. */
const struct mr_part *mr_parts_find(const struct mr_parts *ps, uint64_t *i);

/* Is the failure `code` of one of n files a bad sample, or the run's? What is
 * damaged is so for all; a file that could not be read now may be read by
 * another process, whose samples would then have other numbers. */
bool mr_part_forgiven(const struct mr_source_env *env, size_t n, int code);

/* ---- one ---- */

/* MR_EDATA with the reason when it is lost. */
int mr_part_check(const struct mr_part *p, struct mr_err *err);

int mr_part_open(struct mr_part *p, struct mr_err *err);
/* From here on the unpacked bytes are meant, also those before MR_EDATA. */
int mr_part_unpack(struct mr_part *p, struct mr_parts *ps,
		   enum mr_packing packing, struct mr_err *err);

/*
 * How much to read at once of headers that lie `stride` bytes apart: `near`,
 * but of a file on a server up to MR_FAR_WINDOW, since reading over what lies
 * between takes less time than as many requests.
 */
enum { MR_FAR_WINDOW = 4 << 20 };
size_t mr_part_window(const struct mr_part *p, uint64_t stride, size_t near);

/* Exactly n bytes from offset. */
int mr_part_read(const struct mr_part *p, void *to, size_t n, uint64_t offset,
		 struct mr_err *err);
void mr_part_extent(const struct mr_part *p, uint64_t offset, uint64_t n,
		    struct mr_extent *e);

#endif
