/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are compressed as a whole, and so have no random access: unpacked
 * once, into temporary files that have no name and end with the process. What
 * they may take is bounded, whatever the input claims.
 */
#ifndef MR_SOURCE_UNPACKED_H
#define MR_SOURCE_UNPACKED_H

#include <pthread.h>

#include "core/crew.h"
#include "io/input.h"

enum mr_packing {
	MR_PACKED_NOT,
	MR_PACKED_GZIP,
	MR_PACKED_ZLIB,
	MR_PACKED_ZSTD,
};

/* For a parameter of sources: MR_SIZE(struct s, unpack, "16G", 0, 1e15, ...).
 */
#define MR_UNPACK_HELP                                                      \
	"what compressed files may take in temporary files, all together; " \
	"they lie in $TMPDIR, or /var/tmp"

/* By the first bytes, of which there are n. MR_EUNSUPPORTED for packings that
 * are known, but not taken. */
int mr_packing_of(const char *path, const uint8_t *head, size_t n,
		  enum mr_packing *packing, struct mr_err *err);

/* Each thread that unpacks has a file of its own, so that what it writes is in
 * one piece. */
struct mr_unpacked {
	struct {
		int fd;
		bool busy;
	} file[MR_CREW_MAX];
	int files;
	pthread_mutex_t lock;
	uint64_t max;
	_Atomic uint64_t left;
};

void mr_unpacked_init(struct mr_unpacked *u, uint64_t max);
void mr_unpacked_fini(struct mr_unpacked *u);

/* Where unpacked bytes lie. */
struct mr_plain {
	int fd; /* -1: nowhere */
	uint64_t at, size;
	uint64_t hurt; /* where compressed ones are damaged, or UINT64_MAX */
	/* Those before it are as they were packed. A checksum stands at the
	 * end of what it is of: damage makes all doubtful that was unpacked
	 * since the last good one. */
	uint64_t sure;
};

/*
 * Unpack all of `in`. Up to MR_CREW_MAX threads may at once. MR_ELIMIT over
 * u->max, MR_EDATA when it is damaged or cut off; *out is then what came
 * before that.
 */
int mr_unpacked_add(struct mr_unpacked *u, struct mr_input *in,
		    enum mr_packing packing, struct mr_plain *out,
		    struct mr_err *err);

#endif
