/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roll of a trace: who is in it and what things are called, read in a
 * first pass, so that a second one can write each span as it comes.
 */
#ifndef MR_TRACE_SINK_ROLL_H
#define MR_TRACE_SINK_ROLL_H

#include "trace/told.h"

struct json_object;

enum {
	MR_ROLL_THREADS = 1 << 16, /* numbers above are left out */
	MR_ROLL_KEYS = 1 << 20,	   /* names of samples that are kept */
	MR_ROLL_BATCHES = 1 << 26, /* numbers above are not tied together */
};

struct mr_roll_thread {
	struct mr_told_thread is;
	uint32_t number;
	int64_t lane;	/* unlike any other of its process */
	uint32_t kinds; /* of spans it has: bit by kind */
	uint64_t spans, lost;
};

struct mr_roll_key {
	uint64_t sample;
	uint32_t thread;  /* whose sample; 0: anybody's */
	uint64_t ns;	  /* that it took, of a thread's */
	const char *text; /* in the file, not ended by a zero */
	size_t length;
};

struct mr_roll {
	struct mr_mrt_header header;
	struct json_object *meta;      /* or NULL */
	char *step[256];	       /* names; NULL: none */
	struct mr_roll_thread *thread; /* by number - 1 */
	size_t threads, thread_cap;
	struct mr_roll_key *key; /* by sample */
	size_t keys, key_cap;
	uint8_t *batch;	   /* MR_ROLL_BATCHES: how often each is there */
	uint64_t kind[64]; /* spans */
	uint64_t spans, lost;
	uint64_t left_out;   /* spans of threads beyond all numbers */
	uint64_t start, end; /* of all that is in it */
	uint64_t read;	     /* bytes that could be read */
	bool done;	     /* it was ended */
	const char *cut;     /* why not all could be read, or NULL */
};

int mr_roll_read(struct mr_roll *r, struct mr_mrt *m, struct mr_err *err);
void mr_roll_fini(struct mr_roll *r);
/* Why it is not whole, NULL when it is. */
const char *mr_roll_cut(const struct mr_roll *r);

/* Calls one() for each span, thread by thread as the file has them; spans end
 * within the numbers there are. */
typedef void (*mr_roll_fn)(void *self, struct mr_roll_thread *t,
			   const struct mr_mrt_span *s);
void mr_roll_spans(struct mr_roll *r, struct mr_mrt *m, mr_roll_fn one,
		   void *self);

/* What a span is called: its step, or its kind. */
const char *mr_roll_name(const struct mr_roll *r, const struct mr_mrt_span *s);
/* Of a thread's sample; NULL when it is not known. A thread may read several
 * data sets, whose samples have the same numbers: how long it took says which
 * one is meant. */
const struct mr_roll_key *mr_roll_key(const struct mr_roll *r, uint32_t thread,
				      uint64_t sample, uint64_t ns);
/* Its way is there once from the making to the end. */
bool mr_roll_batch(const struct mr_roll *r, uint64_t batch);
/* A text of the META chunks, "" when there is none. */
const char *mr_roll_meta(const struct mr_roll *r, const char *key);

#endif
