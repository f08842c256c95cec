/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: which step works on which field, the types and shapes between
 * them, and which step writes straight into the batch. Made once; workers
 * only read it.
 */
#ifndef MR_PIPE_PLAN_H
#define MR_PIPE_PLAN_H

#include "pipe/spec.h"

struct mr_step {
	const struct mr_op *op;
	const void *self;
	int stage;	 /* its place in the pipeline */
	uint64_t stream; /* of random numbers: its place in the pipeline that
			  * the data set was prepared from */
	int field;	 /* id of the field it works on */
	int inputs;	 /* of a step that merges: how many fields, and their
			  * ids, `field` first */
	int input[MR_MAX_FIELDS];
	struct mr_spec in, out;
	bool fixed;    /* out has one shape for all samples */
	size_t bytes;  /* of the output when fixed */
	int out_field; /* it writes this output field, or -1 */
	bool begins;   /* of out_field only what a last step packs first, */
	bool begun;    /* and that one finds it there */
	int joined;    /* so many steps, from this one on, run as one pass
			* over the pixels (join.h) or over the frames
			* (strips.h); 0: this one alone */
};

struct mr_out_field {
	char name[MR_NAME_MAX];
	struct mr_spec spec;
	int id;		  /* of the source's field it grew from */
	bool dense;	  /* one shape: rows of row_bytes */
	size_t row_bytes; /* when dense */
	int ragged;	  /* else: its number among the ragged ones */
	bool placed;	  /* a step writes it in place; else the read */
};

/* A step after `batch`. It leaves its result in a field and in some more,
 * whose rows are of its own number; in buffers of their own. */
struct mr_after {
	const struct mr_op *op;
	const void *self;
	int stage;
	int field;	 /* place in `show` */
	int first, more; /* of those that it adds */
	int buf;	 /* the first of its buffers in a batch */
};

enum { MR_MAX_AFTER = 4, MR_MAX_BUFS = 2 * MR_MAX_FIELDS };

/* `stored`: a part of the samples comes from a prepared set, as the steps
 * before would make them. */
struct mr_stored_part {
	int stage, at; /* its stage, or 0; how many steps come before it */
	const struct mr_source *source;
	const void *self;
	uint64_t samples;
	const uint32_t *record; /* by sample: the set's, from 1, or 0; NULL:
				 * it has the first ones, in their order */
	struct mr_fields in;	/* the set's, by the ids that they have here */
	int out[MR_MAX_FIELDS]; /* as in_out */
};

struct mr_plan {
	struct mr_pipeline *pipeline; /* borrowed */
	const struct mr_source *source;
	const void *source_self;
	uint64_t samples; /* of the data set */
	int base;	  /* stages that the source stands for, beyond itself
			   * and those it deferred */

	struct mr_fields in;	   /* the source's */
	int in_out[MR_MAX_FIELDS]; /* output field that the source itself
				    * fills, by id; or -1 */
	int steps;
	struct mr_step step[MR_MAX_STEPS];
	struct mr_fields visible[MR_MAX_STEPS + 1]; /* after stage i */
	struct mr_fields packed; /* what a last step packs into one field */

	/* `cache`: its stage, or 0; how many steps come before it; what it
	 * keeps, and where that goes on a hit when no step follows: an output
	 * field by id, or -1. */
	int cache, cache_at;
	size_t cache_ram;
	struct mr_fields cached;
	int cached_out[MR_MAX_FIELDS];

	struct mr_stored_part part; /* samples 0: there is none */

	int outs, ragged;
	struct mr_out_field out[MR_MAX_FIELDS];

	/* What a user sees: the outs, changed and added to by steps after
	 * `batch`; types are those of rows. */
	struct mr_fields show;
	int afters, bufs; /* bufs: of a batch, the outs' and theirs */
	struct mr_after after[MR_MAX_AFTER];

	bool batched; /* the text has a `batch`; else samples come singly */
	struct mr_batch_params batch;
	bool pad;
	double pad_value;

	size_t batch_bytes; /* of the dense fields of one batch */
};

/* Open the source and the steps of p and plan. Errors point at the step. */
int mr_plan_make(struct mr_plan *plan, struct mr_pipeline *p, int threads,
		 struct mr_err *err);

/* Is field i of those shown made by a step after `batch`? */
bool mr_plan_remade(const struct mr_plan *plan, int i);

/* A change of the pipeline once its source is open, before types are known. */
struct mr_edit {
	int (*apply)(const struct mr_edit *edit, struct mr_pipeline *p,
		     struct mr_err *err);
	/* What its last step packs begins with the first field as it is, which
	 * then is made there. */
	bool begins;
};

/* As mr_plan_make(), with an edit, or NULL. */
int mr_plan_make_edited(struct mr_plan *plan, struct mr_pipeline *p,
			int threads, const struct mr_edit *edit,
			struct mr_err *err);

#endif
