/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the features of some records to fields: which there are, and of what
 * type. Records say so only by example, so a number of them are looked at.
 */
#ifndef MR_SOURCE_FEATURES_H
#define MR_SOURCE_FEATURES_H

#include "source/example.h"
#include "source/source.h"

/* ---- what was seen ---- */

struct mr_seen {
	char *name;
	enum mr_feature_kind kind;
	bool steps;
	bool picture;		/* bytes that begin as JPEG or PNG */
	uint64_t records, last; /* that have it */
	size_t least, most;	/* values in a record, or in a step */
};

struct mr_survey {
	struct mr_seen *seen;
	size_t n, cap;
	uint64_t records;
};

/* Look at one record; MR_EDATA when its types differ from those before. */
int mr_survey_add(struct mr_survey *s, const void *bytes, size_t n,
		  struct mr_err *err);
void mr_survey_fini(struct mr_survey *s);

/* ---- what follows ---- */

enum mr_feature_layout {
	MR_LAYOUT_SCALAR, /* one number */
	MR_LAYOUT_FLAT,	  /* numbers, or the bytes of one value */
	MR_LAYOUT_FIXED,  /* of the shape `dims`; steps before that */
	MR_LAYOUT_PIECES, /* values or steps one after another, and lengths */
};

struct mr_choice {
	char *name;
	size_t name_len;
	enum mr_feature_kind kind;
	bool steps;
	enum mr_feature_layout layout;
	int ndim;
	int64_t dims[MR_MAX_DIMS], each; /* elements of FIXED */
	int field, lengths;		 /* numbers of the fields, or -1 */
};

struct mr_choices {
	struct mr_choice item[MR_MAX_FIELDS];
	int n;
	struct mr_fields fields;
};

/*
 * The fields: those in the list `want`, in that order, "a,b[],c[28x28]"; or
 * all when it is empty, a picture first and the others by name. `where` is
 * for messages.
 */
int mr_choices_make(struct mr_choices *c, const struct mr_survey *s,
		    const char *want, const char *where, struct mr_err *err);
void mr_choices_fini(struct mr_choices *c);

/* Field by field, what an example holds. */
int mr_choices_load(const struct mr_choices *c, const struct mr_load *ld,
		    const void *bytes, size_t n, struct mr_tensor *f);

#endif
