/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a job would be: a diagnosis, changed in some respects. The
 * formulas and what they leave out are in docs/model.md.
 */
#ifndef MR_ANALYZE_MODEL_H
#define MR_ANALYZE_MODEL_H

#include "analyze/diagnosis.h"

/* What may be changed. mr_setting_of() gives the job as it was measured. */
struct mr_setting {
	double g;	/* samples/s that the accelerator takes */
	double threads; /* that prepare; may be beyond what was measured */
	double cpu;	/* preparation: times faster than measured */
	double bytes, requests; /* of a sample, from the storage */
	bool measured;		/* the storage is the one that was measured, */
	struct mr_storage_limits limits; /* else it has these limits */
	double depth;			 /* reads in flight */
	double cache;			 /* share of the data set in memory */
	bool lru;     /* kept by a page cache, which forgets; else as
		       * `cache ram=`, which does not */
	double nodes; /* that share the storage, and whose caches add up */
	double fit_p, fit_s; /* mr_setting_fit()'s; 0: none */
};

struct mr_outcome {
	double rate;	/* samples/s, of all nodes together */
	double g, p, s; /* what each could do; 0: no limit known */
	double hits;	/* share of samples from the cache */
	double prep_stall, fetch_stall, au;
	const char *bottleneck; /* accelerator, cpu, storage, balanced */
	bool beyond;		/* threads beyond what was measured */
};

void mr_setting_of(const struct mr_diagnosis *d, struct mr_setting *s);
/*
 * Makes the model of the job as it is say what was measured of it, by what
 * sets its pace: the preparation or the storage (both where they are in
 * balance) are that much faster or slower beside the others than alone. What
 * is changed then keeps this. Nothing is done where the accelerator sets the
 * pace, or where more would be needed than a factor of two.
 */
void mr_setting_fit(const struct mr_diagnosis *d, struct mr_setting *s);
/* Another storage: how fast the old one was says nothing about it. */
void mr_setting_store(struct mr_setting *s, const struct mr_storage_limits *l,
		      double depth);
/* The same with samples that are packed by a codec. */
void mr_setting_pack(const struct mr_diagnosis *d, const struct mr_setting *s,
		     const struct mr_diag_codec *c, struct mr_setting *out);
void mr_predict(const struct mr_diagnosis *d, const struct mr_setting *s,
		struct mr_outcome *o);

/* A rate by so many threads, from some (at least one) that were measured,
 * ascending; beyond them by what they lose per thread. */
double mr_model_curve(const struct mr_diag_point *curve, int points,
		      double threads);

/* By how much the model of the job as it is is off: 0.1 is 10 % too fast. 0
 * where the job was not measured. */
double mr_model_error(const struct mr_diagnosis *d);

/* Preparation by so many threads, everything in memory. */
double mr_model_prep(const struct mr_diagnosis *d, double threads);

/*
 * P with all samples in `cache ram=`, by what was measured and by what can be:
 * not below P, and not above what is left of P without the seconds that a hit
 * saves, a sample and all threads together. A machine's speed differs by more
 * than that from one second to the next.
 */
double mr_model_all_hits(double p, double measured, double saves);

/* Preparation at that rate when a share of the samples comes from `cache
 * ram=`, which skips the read and its copy, and the steps before it. */
double mr_model_cached(const struct mr_diagnosis *d, double rate, double hits);

/* Samples/s that a storage of such limits gives, with so many reads in
 * flight; 0: it sets no limit. */
double mr_model_storage(const struct mr_storage_limits *l, double bytes,
			double requests, double depth);

/* Share of accesses that an LRU cache of that share of the data set answers
 * when each epoch has a fresh random order. */
double mr_model_lru(double share);

/* A cache by its size: "35%" of `all` bytes, or bytes as "8G". An error has
 * the option's name. */
int mr_model_cache(const char *name, const char *text, double all,
		   double *bytes, struct mr_err *err);

/* Of two with a buffer between them: a little below the slower one where they
 * are about as fast. 0: no limit. */
double mr_model_meet(double a, double b);

/* What keeps the rate down, of three rates (0: no limit): a word of struct
 * mr_outcome's. Those within a tenth of the lowest are in balance with it. */
const char *mr_model_limit(double g, double p, double s);

/* Shares of an epoch's time that an accelerator of rate g waits: for the
 * preparation (rate with everything in memory: as_p), for the storage (rate
 * of the whole: as_f). */
void mr_model_stalls(double as_g, double as_p, double as_f, double *prep,
		     double *fetch);

#endif
