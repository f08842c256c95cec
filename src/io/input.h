/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs: files that sources read, wherever they lie. Local ones have a
 * descriptor; others (http://, https://, s3://) are read by requests. What a
 * source needs to index a file is here; samples themselves are read by the
 * loader, which an extent tells where.
 */
#ifndef MR_IO_INPUT_H
#define MR_IO_INPUT_H

#include <stdatomic.h>

#include "core/err.h"
#include "millrace/plugin.h"

struct mr_input;

/* How far a read of a remote input goes on when it fails. */
struct mr_patience {
	const atomic_bool *stop; /* gives up soon after this is set, or NULL */
	bool once;		 /* is not tried again */
};

/* Does the name begin with a protocol, http, https or s3? */
bool mr_input_is_url(const char *path);

/* How many threads should open such files, where `threads` may compute: more
 * when it is a server that they wait for. */
int mr_input_threads(const char *path, int threads);

/*
 * The inputs that a pattern names: wildcards and {a,b} as a shell's, and
 * {000..147} counts. Each that the braces make must be there; those are in
 * the braces' order, what a wildcard finds is sorted by its bytes, and without
 * indexes that lie beside the data (NAME.mri). MR_EIO naming the pattern when
 * there is none. The caller frees each and the array.
 */
int mr_input_list(const char *pattern, char ***paths, size_t *n,
		  struct mr_err *err);

/* Open one; it must be a file, not a folder. */
int mr_input_open(struct mr_input **in, const char *path, struct mr_err *err);
void mr_input_close(struct mr_input *in); /* NULL is allowed */

const char *mr_input_path(const struct mr_input *in);
uint64_t mr_input_size(const struct mr_input *in);
/* Of a local file, else -1. */
int mr_input_fd(const struct mr_input *in);
/* Nanoseconds since 1970 of its last change, or 0 when that is unknown. */
int64_t mr_input_changed(const struct mr_input *in);
/* What a server calls this state of it, or "". */
const char *mr_input_etag(const struct mr_input *in);

/*
 * A number that is another one when a server calls its state of the input
 * another; 0: local, or the server tells nothing.
 */
uint64_t mr_input_state(const struct mr_input *in);

/* Open a remote one to see its size and state: tried once, since an answer
 * that does not come is no answer. */
int mr_input_glance(struct mr_input **in, const char *path, struct mr_err *err);

/*
 * Exactly n bytes from offset; MR_EDATA, naming file and place, when it ends
 * before. Any thread may call. For indexing: small reads that follow one
 * another in a remote input share requests.
 */
int mr_input_read(struct mr_input *in, void *to, size_t n, uint64_t offset,
		  struct mr_err *err);

/* The same for samples: one request; `p` says how long it is repeated. */
int mr_input_read_patiently(struct mr_input *in, void *to, size_t n,
			    uint64_t offset, const struct mr_patience *p,
			    struct mr_err *err);

/* Bytes that this thread has read so, since it began. */
uint64_t mr_input_thread_bytes(void);

/* Those bytes as an extent for the loader. */
void mr_input_extent(const struct mr_input *in, uint64_t offset,
		     uint64_t length, struct mr_extent *e);

/* Have the whole of a local file in memory, read-only, so that its extents are
 * there; fails when it is remote or cannot be mapped. Unmapped by close. Takes
 * SIGBUS: reads must be guarded (guard.h). */
int mr_input_map(struct mr_input *in, struct mr_err *err);

#endif
