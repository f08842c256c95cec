/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a tuning: runs of parts of the pipeline, timed. */
#ifndef MR_TUNE_TUNER_H
#define MR_TUNE_TUNER_H

#include "tune/scratch.h"
#include "tune/tuning.h"

struct mr_tuner {
	struct mr_tuning *t;
	const struct mr_tune_options *o;
	struct mr_options opt; /* of the loaders */
	struct mr_scratch scratch;
	double scale;	   /* of the times below, */
	double thin;	   /* and of the profile's: 1 or less */
	bool local;	   /* the source has files that can be evicted */
	bool remote;	   /* or has them on a server */
	bool wide;	   /* batches are large: memory is warmed first */
	unsigned ring;	   /* batches that a loader wants to have in work */
	uint64_t subset;   /* samples of the source that are looked at, */
	double wanted;	   /* and how many the precision asks for */
	double rate;	   /* of the pipeline as it is, from memory */
	const char *what;  /* is measured now */
	int passed;	   /* strategies that there was no room to measure, */
	struct mr_err why; /* the first of them */
	double planned;	   /* seconds of it all, for progress, */
	double part;	   /* or how much of it is done, where it is known */
	uint64_t began;
};

/* One run. */
struct mr_timed {
	const char *text;
	int threads, order;
	uint64_t block, subset;
	const char *storage; /* a profile, or "" */
	bool ahead;	     /* read ahead at once */
	bool evict;	     /* cold, from the storage as it is */
	bool fill;	     /* an epoch first, at full speed, for the cache, */
	bool to_be_full;     /* without whose end there is no rate */
	bool whole;	     /* of whole epochs, if the time allows */
	double seconds;
};

/* Its rate; st, the loader's figures, may be NULL. */
int mr_tuner_time(struct mr_tuner *u, const struct mr_timed *r,
		  struct mr_figure *f, struct mr_stats *st, struct mr_err *err);

/* Since it began. */
double mr_tuner_seconds(const struct mr_tuner *u);

/* True when the user has had enough: MR_ESTATE is to follow. */
bool mr_tuner_tell(struct mr_tuner *u, const char *what);

/* The policy of a set's making: replacing would store samples twice. */
int mr_tuner_storing(int on_error);

/* "records DIR". */
void mr_tuner_add_read(struct mr_str *text, const char *dir);

/* The set of a strategy, made of the sample unless it is there, and its path.
 * What its samples take, and how fast it was made, is learnt from all of it. */
int mr_tuner_store(struct mr_tuner *u, const struct mr_strategy *s, char *path,
		   size_t cap, struct mr_err *err);

/* Is it there, or is none needed? */
bool mr_tuner_has(const struct mr_tuner *u, const struct mr_strategy *s);

/* It is of no use any more; it can be made anew. */
void mr_tuner_drop(const struct mr_tuner *u, const struct mr_strategy *s);

/* Takes the pipeline apart, and looks at samples as they are read. */
int mr_tuner_look(struct mr_tuner *u, const char *pipeline, struct mr_err *err);

/* Times the pipeline as it is, and chooses the sample by that. */
int mr_tuner_choose(struct mr_tuner *u, struct mr_err *err);

/* Measures every split, and what codecs do there. */
int mr_tuner_profile(struct mr_tuner *u, struct mr_err *err);

/* Measures the best few strategies and the extremes, or all of them. */
int mr_tuner_prove(struct mr_tuner *u, struct mr_err *err);

#endif
