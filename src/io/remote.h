/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects on a server, by http://, https:// or s3://. Each is asked for by
 * ranges; that it stays the same object is checked with each answer.
 */
#ifndef MR_IO_REMOTE_H
#define MR_IO_REMOTE_H

#include "io/brace.h"
#include "io/input.h"

struct mr_remote;

/* Asks for its size, as patiently as p says, or NULL. The server must be able
 * to send parts of it. */
int mr_remote_open(struct mr_remote **r, const char *url,
		   const struct mr_patience *p, struct mr_err *err);
void mr_remote_close(struct mr_remote *r); /* NULL is allowed */

uint64_t mr_remote_size(const struct mr_remote *r);
int64_t mr_remote_changed(const struct mr_remote *r);
const char *mr_remote_etag(const struct mr_remote *r);

/* n bytes from offset, which lie within its size. Any thread may call. */
int mr_remote_read(const struct mr_remote *r, void *to, size_t n,
		   uint64_t offset, const struct mr_patience *p,
		   struct mr_err *err);

/* Append the URLs that a URL with wildcards names, or itself when it has
 * none. */
int mr_remote_list(struct mr_name_list *l, const char *pattern,
		   struct mr_err *err);

#endif
