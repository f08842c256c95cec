/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tf.train.Example and tf.train.SequenceExample in protobuf's wire format,
 * read where they lie. The two are read alike: an Example is the context of
 * a SequenceExample without lists.
 */
#ifndef MR_SOURCE_EXAMPLE_H
#define MR_SOURCE_EXAMPLE_H

#include "core/err.h"

struct mr_span {
	const uint8_t *p;
	size_t n;
};

/* A message on its way; start from mr_example_begin(). */
struct mr_example {
	struct mr_span rest, features;
	bool steps;
};

/* One feature, by its name; the bytes belong to the message. */
struct mr_feature {
	const char *name;
	size_t name_len;
	bool steps; /* a feature list: each step is a feature */
	struct mr_span body;
};

enum mr_feature_kind {
	MR_FEATURE_NONE, /* it says nothing: as if it were missing */
	MR_FEATURE_BYTES,
	MR_FEATURE_FLOATS,
	MR_FEATURE_INTS,
};

/* What a feature holds. */
struct mr_values {
	enum mr_feature_kind kind;
	size_t count;	      /* values, of all steps */
	size_t bytes;	      /* of all values of MR_FEATURE_BYTES */
	size_t steps;	      /* 1 when it is no list */
	size_t least, most;   /* values in a step */
	struct mr_span first; /* value of MR_FEATURE_BYTES */
};

void mr_example_begin(struct mr_example *x, const void *bytes, size_t n);

/* The next feature: 1, or 0 at the end, or MR_EDATA. Of features with the
 * same name, the last one counts. */
int mr_example_next(struct mr_example *x, struct mr_feature *f,
		    struct mr_err *err);

/* Counts, and checks all bytes; MR_EDATA names the feature. */
int mr_feature_measure(const struct mr_feature *f, struct mr_values *v,
		       struct mr_err *err);

/* All values one after another: int64_t, float or bytes, of what was measured;
 * n bytes at most. */
void mr_feature_copy(const struct mr_feature *f, void *to, size_t n);

/* The length of each of v->count values of MR_FEATURE_BYTES, or of others
 * the number of values in each of v->steps; n at most. */
void mr_feature_lengths(const struct mr_feature *f, const struct mr_values *v,
			int64_t *to, size_t n);

#endif
