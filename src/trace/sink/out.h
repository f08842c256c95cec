/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text file that is written from front to back, however long it gets. It
 * appears under its name once it is whole; what is there and is not a plain
 * file (a pipe, a device) is written to as it is.
 */
#ifndef MR_TRACE_SINK_OUT_H
#define MR_TRACE_SINK_OUT_H

#include "core/err.h"

struct mr_out {
	int fd;
	const char *path;
	char *temp; /* its name until then, or NULL */
	char *buf;
	size_t used;
	int failed; /* errno; what follows is ignored */
};

enum { MR_OUT_ROOM = 256 << 10 };

int mr_out_open(struct mr_out *o, const char *path, struct mr_err *err);
void mr_out_long(struct mr_out *o, const char *text, size_t n);
void mr_out_text(struct mr_out *o, const char *text);
void mr_out_uint(struct mr_out *o, uint64_t v);
/* Nanoseconds as microseconds, all digits: "12.345". */
void mr_out_us(struct mr_out *o, uint64_t ns);
/* A JSON string, quotes and all. */
void mr_out_quoted(struct mr_out *o, const char *text);
/* The file is whole; after an error it is as if nothing had been written. */
int mr_out_close(struct mr_out *o, struct mr_err *err);
void mr_out_drop(struct mr_out *o);

/* Inline: an event is some twenty of them. */
static inline void mr_out_add(struct mr_out *o, const char *text, size_t n)
{
	if (n > MR_OUT_ROOM - o->used) {
		mr_out_long(o, text, n);
		return;
	}
	memcpy(o->buf + o->used, text, n);
	o->used += n;
}

#endif
