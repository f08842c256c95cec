/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a pipeline is split: what is done once and stored, and what on every
 * epoch. Also what is known of the source for a prepared set: classes, and
 * the files that it was made from.
 */
#ifndef MR_PIPE_SPLIT_H
#define MR_PIPE_SPLIT_H

#include "pipe/plan.h"
#include "store/meta.h"

struct mr_split {
	int stages; /* that the set stands for, the source included */
	int stored; /* that are done before storing; the others are deferred */
};

/* Stages of samples: those before `batch`. */
int mr_split_samples(const struct mr_pipeline *p);

/*
 * until: the name of the last step to be done, or its number as `explain`
 * prints it; "" for as many as are the same in each epoch. Random steps
 * cannot be stored, and what the source itself has deferred is never cut off.
 * `literal`: defer none.
 */
int mr_split_find(struct mr_split *s, const struct mr_plan *plan,
		  const char *until, bool literal, struct mr_err *err);

/* Fills the plan's part of m, all but codec and shards. */
int mr_split_describe(const struct mr_split *s, const struct mr_plan *plan,
		      struct mr_meta *m, struct mr_err *err);

/* Stages [from, to) in the words of the pipeline's text, as one line without
 * comments; what a prepared set has left to be done, as below. */
int mr_split_words(const struct mr_pipeline *p, int from, int to, char **text,
		   struct mr_err *err);

/* The stages of samples of another text, without a cache, in the same way as
 * mr_split_text(). The caller frees *out. */
int mr_split_spell(const char *text, char **out, struct mr_err *err);

/* Stages [from, to) as a text, with all their parameters. */
int mr_split_text(const struct mr_pipeline *p, int from, int to, char **text,
		  struct mr_err *err);

#endif
