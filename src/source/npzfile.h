/* SPDX-License-Identifier: Apache-2.0 */
/* An array in a .npz file, which is a zip file of .npy files. */
#ifndef MR_SOURCE_NPZFILE_H
#define MR_SOURCE_NPZFILE_H

#include "source/npyfile.h"
#include "source/zip.h"

/* The array of that name among the members of a file; NULL: *err says which
 * there are. */
const struct mr_zip_member *mr_npz_find(const char *path, const char *array,
					const struct mr_zip_member *m, size_t n,
					struct mr_err *err);

/* Its header into *a, whose path and member are set. */
int mr_npz_head(struct mr_input *in, const struct mr_zip_member *m,
		struct mr_npy *a, struct mr_err *err);

/* A whole array. */
struct mr_npz_whole {
	struct mr_input *in;
	const struct mr_zip_member *m;
	struct mr_npy a; /* path and member are set */
	const struct mr_spec *want;
	int field;
	struct libdeflate_decompressor **inflate; /* as of mr_zip_read() */
};

/* Loads it as a field of a sample, its shape and its data; the CRC32 is
 * checked. */
int mr_npz_load(const struct mr_load *ld, struct mr_npz_whole *w,
		struct mr_tensor *t);

/* Puts file and array before the text of an error. */
int mr_npz_error(const struct mr_npy *a, struct mr_err *err);

#endif
