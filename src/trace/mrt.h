/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a trace, byte by byte (docs/trace-format.md): what the recorder
 * writes and what all who read it use.
 */
#ifndef MR_TRACE_MRT_H
#define MR_TRACE_MRT_H

#include "core/err.h"
#include "trace/span.h"

enum {
	MR_MRT_HEADER = 64,
	MR_MRT_CHUNK = 24,
	MR_MRT_SPAN = 32,
	MR_MRT_COUNT = 56,
	MR_MRT_MAX = 16 << 20, /* bytes of a chunk */
};

/* A kind of chunk, from its four letters. */
#define MR_MRT_KIND(s)                                                       \
	((uint32_t)(s)[0] | (uint32_t)(s)[1] << 8 | (uint32_t)(s)[2] << 16 | \
	 (uint32_t)(s)[3] << 24)

struct mr_mrt_header {
	uint32_t pid;
	uint64_t monotonic, realtime; /* ns */
	uint64_t boot;
	int32_t rank, ranks;
};

/* Header of a trace that begins now in this process. */
void mr_mrt_now(struct mr_mrt_header *h);
void mr_mrt_put_header(uint8_t to[MR_MRT_HEADER],
		       const struct mr_mrt_header *h);
/* The head of a chunk of `size` bytes. */
void mr_mrt_put_chunk(uint8_t to[MR_MRT_CHUNK], const char *kind,
		      uint32_t thread, const void *data, size_t size);

/* A span of the file: times in ns. */
struct mr_mrt_span {
	uint64_t start, duration;
	uint64_t sample; /* or MR_NO_SAMPLE */
	uint64_t batch;	 /* or MR_NO_BATCH */
	uint64_t line;	 /* of NEXT: which iterator gave it, or 0 */
	uint32_t bytes;
	uint8_t kind, flags, step;
};

void mr_mrt_put_span(uint8_t to[MR_MRT_SPAN], const struct mr_mrt_span *s);
void mr_mrt_get_span(struct mr_mrt_span *s, const uint8_t from[MR_MRT_SPAN]);

struct mr_mrt_chunk {
	uint32_t kind, thread;
	const uint8_t *data;
	size_t size;
};

/* A trace that is read: mapped, from its first chunk to its last. */
struct mr_mrt {
	const char *path;
	struct mr_mrt_header header;
	const uint8_t *data;
	size_t size, at;
	bool cut; /* the rest cannot be read: */
	const char *reason;
};

int mr_mrt_open(struct mr_mrt *m, const char *path, struct mr_err *err);
/* The next chunk; false at the end, or at a chunk that is not whole. */
bool mr_mrt_next(struct mr_mrt *m, struct mr_mrt_chunk *c);
void mr_mrt_rewind(struct mr_mrt *m);
void mr_mrt_close(struct mr_mrt *m);

const char *mr_span_name(unsigned kind); /* "step"; "?" when unknown */

#endif
