/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline as a text, parsed: a source and steps with their parameters
 * set and checked. Types are the plan's business (plan.h).
 */
#ifndef MR_PIPE_SPEC_H
#define MR_PIPE_SPEC_H

#include "core/arena.h"
#include "core/err.h"
#include "core/str.h"
#include "op/op.h"
#include "source/source.h"

struct mr_stage {
	const char *name;
	size_t at, len;			/* the name's place in the text */
	const struct mr_source *source; /* of the first stage */
	const struct mr_op *op;		/* of the others */
	void *self;			/* the step's own struct */
	const char *field;		/* field=NAME, or NULL */
	bool opened;
	bool deferred; /* not in the text: left over by the source's maker */
};

struct mr_pipeline {
	char *text; /* as given; of @file, the file's text */
	struct mr_arena arena;
	int n;
	struct mr_stage stage[MR_MAX_STEPS];
	struct mr_stage set; /* the source of a `stored`, once it is open, */
	uint32_t *record;    /* and struct mr_stored_part's */
	int uncached[2];     /* where a `stored` and a `cache` stood that were
			      * taken out, or 0 */
	bool lenient;	     /* for the source: mr_source_env */
	uint64_t memory;     /* the same */
	void *plugin[8];     /* handles of shared objects */
	int plugins;
};

/*
 * Parse. `plugins`: comma-separated shared objects whose steps and sources
 * may be used too, or NULL. A text that starts with @ names a file.
 */
int mr_pipeline_parse(struct mr_pipeline **p, const char *text,
		      const char *plugins, struct mr_err *err);
/* Closes what was opened. NULL is allowed. */
void mr_pipeline_free(struct mr_pipeline *p);

/* Steps of another text after the source, and after a cache that follows it:
 * what a prepared set has left to be done. Messages point at the source. */
int mr_pipeline_insert(struct mr_pipeline *p, const char *steps,
		       struct mr_err *err);
/* Stages before those. */
int mr_pipeline_front(const struct mr_pipeline *p);
/* Keep the first n stages. */
void mr_pipeline_cut(struct mr_pipeline *p, int n);
/* One more step, which is not in the table; self is the caller's. */
int mr_pipeline_append(struct mr_pipeline *p, const struct mr_op *op,
		       void *self, struct mr_err *err);

/* Takes a `stored` and a `cache` out, where they are: steps that change no
 * sample. */
void mr_pipeline_uncache(struct mr_pipeline *p);

/* The number of stage i for users, who count what was taken out; and back,
 * where that gives the stage before. */
int mr_pipeline_number(const struct mr_pipeline *p, int i);
int mr_pipeline_stage(const struct mr_pipeline *p, int number);

/* Adds the text and a caret under stage i to the message; returns its code. */
int mr_pipeline_point(const struct mr_pipeline *p, int i, struct mr_err *err);

/* What the source must know of the options, before the plan is made. */
void mr_pipeline_suit(struct mr_pipeline *p, const struct mr_options *opt);

/* One stage with all its parameters, as a user could write it. */
void mr_stage_text(const struct mr_stage *s, struct mr_str *out);

/* A hash of all stages and parameters: equal texts, equal hash. `cache` and
 * `stored` do not count: with and without them the batches are the same. */
int mr_pipeline_hash(const struct mr_pipeline *p, uint64_t *hash,
		     struct mr_err *err);

#endif
