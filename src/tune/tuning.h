/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tuning: what was measured of a pipeline at every place where it could be
 * split, and what follows from that for every strategy.
 *
 * A split is a place after a step that is the same in each epoch: what comes
 * before is done once and stored, what comes after is done in each epoch. A
 * strategy is a split, a codec, an order, a number of threads and a cache.
 * Rates are samples per second. The formulas are in docs/tuning.md.
 */
#ifndef MR_TUNE_TUNING_H
#define MR_TUNE_TUNING_H

#include "analyze/diagnosis.h"
#include "millrace/millrace.h"

enum {
	MR_TUNE_SPLITS = MR_MAX_STEPS + 1,
	MR_TUNE_CODECS = 16,
	MR_TUNE_SHOWN = 16,
	MR_TUNE_EVEN = 32,
	MR_TUNE_REPEATS = 100,
};

/* What a codec does to the samples of a split. */
struct mr_tune_codec {
	char name[24];	     /* "zstd-3", "zstd-3+shuffle", "none" */
	const char *codec;   /* of the table */
	int level;	     /* -1: it has none */
	bool shuffle;	     /* bytes of wide types, before it */
	double ratio;	     /* bytes before / after */
	double pack, unpack; /* bytes (unpacked) per second and thread; 0: no
			      * time at all */
};

struct mr_tune_split {
	int stage;     /* the last one that is stored; -1: nothing is */
	char name[32]; /* of that step; "" of -1 */
	double bytes;  /* of a sample, as it is read */
	double plain;  /* of a sample, unpacked, as a cache would hold it */
	bool direct;   /* workers read by themselves, and wait for it */
	bool remote;   /* read from servers, past the page cache */
	bool even;     /* all of its samples are of one size */
	double made;   /* samples are made, and asked for so far ahead; or 0 */
	double requests;	  /* reads for a sample; of -1 alone, as */
	double in_turn;		  /* the same in the source's own order */
	int until;		  /* its number for users, who count from 1 */
	struct mr_figure offline; /* making and storing, in memory; not of -1 */
	int points;		  /* by threads, ascending: */
	struct mr_diag_point curve[MR_CURVE_MAX]; /* the rest, in memory */
	struct mr_figure ahead; /* the rest, with all threads, when samples are
				 * read ahead, by a storage without limits */
	struct mr_figure cold;	/* the storage as it is, in the job's order; */
	struct mr_figure block; /* and in block order; n 0: not measured; of
				 * -1 in the source's own, as sets are made */
	struct mr_figure alone; /* the same reads from memory, where workers
				 * wait for them */
	int codecs;
	struct mr_tune_codec codec[MR_TUNE_CODECS];
};

enum mr_tune_cache { MR_CACHE_NONE, MR_CACHE_PAGE, MR_CACHE_RAM };

struct mr_strategy {
	int split; /* index into the splits, as cache_at */
	int codec; /* index into the split's */
	int threads, order;
	enum mr_tune_cache cache;
	int cache_at; /* `cache ram=` stands after this split */
	/* A mixture: so for a part of the samples only, and all online (split
	 * 0, no cache) for the others. That part is stored at this split, with
	 * this codec of it. */
	bool mixed;
	int with, with_codec;
	double part; /* of all samples */

	/* predicted, of the whole data set */
	uint64_t shards;
	double cache_bytes, cache_share;
	double offline;	   /* seconds */
	double storage;	   /* bytes that the job reads an epoch from, */
	double added;	   /* and those of them that are stored for it */
	double cold, warm; /* samples/s: in the first epoch, in later ones */
	double total;	   /* seconds of all epochs, with the preparation */
	double cost;	   /* of them, by the prices given */
	double score;	   /* 1 is the best there could be */
	bool allowed, pareto;

	double sampled; /* warm, for the sample, by the model alone */
	struct mr_figure measured; /* the same; n 0: it was not, */
	bool tried;   /* since there was no time to fill a cache, or no room */
	bool refused; /* its memory is not to be had */
};

struct mr_tune_even {
	int a, b;     /* strategies */
	double epoch; /* from it on, a is ahead of b */
};

/* What is wanted. */
struct mr_tune_goal {
	bool weighted;
	double weight[3]; /* preparation's time, storage, throughput */
	double epochs;
	double max_storage, max_prepare; /* 0: no limit */
	double room;	   /* where the set is to be; 0: not known */
	double max_memory; /* the one given: caches are made for it */
	double price_hour, price_gb;
	double accelerator; /* samples/s that are of use; 0: all */
};

struct mr_tuning {
	char *pipeline;
	char *tail; /* batch and what follows, as a text */
	uint64_t samples, batch, block;
	uint64_t ranks; /* that share each epoch; 0: one, as 1 */
	int threads, cores, order;
	int fetch; /* enum mr_fetch_mode: direct is with workers that wait */
	uint64_t ring;	  /* samples that may be in work */
	bool other_order; /* block order may be taken, too, */
	bool mixes;	  /* and mixtures */
	char profile[128];
	struct mr_storage_limits limits; /* of the profile */
	double memory;			 /* for caches */
	double budget;			 /* of the loaders' buffers */
	double batches; /* bytes of it that batches take, of all in work */
	uint64_t sampled;
	double precision; /* of means over the sample */
	double seconds;
	struct mr_tune_goal goal;
	int steps;
	struct mr_diag_step step[MR_DIAG_STEPS];
	double p50[MR_DIAG_STEPS], p99[MR_DIAG_STEPS]; /* us, of the steps */
	int splits;
	struct mr_tune_split split[MR_TUNE_SPLITS];
	int deferred;		  /* steps that the source's maker has left */
	int stages;		  /* of samples: the source and the steps */
	char *word[MR_MAX_STEPS]; /* each of them as a text */

	int strategies, cap;
	struct mr_strategy *strategy;
	int best, online, offline; /* -1: none */
	int usual; /* what there is without doing anything: all online, from
		    * the page cache where that holds the set, else online */
	int ties, tie[MR_TUNE_SHOWN];
	int shown, show[MR_TUNE_SHOWN];
	int evens;
	struct mr_tune_even even[MR_TUNE_EVEN];
	struct mr_str notes;
	/* Options that were given and go on to the job, and to the making of a
	 * set, as a command's: " --seed 3". */
	struct mr_str job_also, store_also;
};

void mr_tuning_fini(struct mr_tuning *t);

/* Bytes that may be stored, by the user's word and by what there is; 0: any. */
double mr_goal_storage(const struct mr_tune_goal *g);

/* Samples of an epoch, of one rank. */
double mr_tuning_epoch(const struct mr_tuning *t);

/* Makes the list of strategies. */
int mr_tuning_list(struct mr_tuning *t, struct mr_err *err);

/* One more; nothing of it is predicted. */
int mr_tuning_add(struct mr_tuning *t, const struct mr_strategy *s,
		  struct mr_err *err);

/* The mixtures that are worth it, by what all others were judged. */
void mr_tuning_mix(struct mr_tuning *t);

/* Predicts, corrects by what was measured of its like, and asks the goal. */
void mr_strategy_judge(const struct mr_tuning *t, struct mr_strategy *s);

/* What is to be the least where epochs are the goal. */
double mr_strategy_price(const struct mr_tuning *t,
			 const struct mr_strategy *s);

/* The set that a strategy reads, as a strategy without a mixture. */
struct mr_strategy mr_strategy_set(const struct mr_strategy *s);

/* Predicts each, and judges all by the goal: best, ties, shown and so on. What
 * was measured corrects what was predicted. */
void mr_tuning_judge(struct mr_tuning *t);

/* Can it be measured here? A page cache that holds a part needs a storage that
 * is imitated. */
bool mr_strategy_provable(const struct mr_tuning *t,
			  const struct mr_strategy *s);

/* What to measure next: the best that has not been, unlike all that have; and
 * in the finals the next best of those that have, and are near the best,
 * without the n that are in them already. -1: there is none. */
int mr_tuning_next(const struct mr_tuning *t);
int mr_tuning_finalist(const struct mr_tuning *t, const int *have, int n);

/* Steady rate of a strategy over n of the samples, by the model alone. */
double mr_strategy_rate(const struct mr_tuning *t, const struct mr_strategy *s,
			uint64_t n, bool warm);

/* Bytes that its codec leaves of a sample. */
double mr_strategy_bytes(const struct mr_tuning *t,
			 const struct mr_strategy *s);

/* Share of n samples that its cache of `memory` bytes holds. */
double mr_strategy_share(const struct mr_tuning *t,
			 const struct mr_strategy *s);

/* Samples of a block, where it is read in block order. */
uint64_t mr_tuning_block(const struct mr_tuning *t, const struct mr_strategy *s,
			 uint64_t n);

/* Samples/s of the source's storage when a set is made; 0: it sets no limit. */
double mr_tuning_source_rate(const struct mr_tuning *t);

/* Fills the predicted part, all but what the goal decides: an accelerator
 * is not thought of. */
void mr_strategy_predict(const struct mr_tuning *t, struct mr_strategy *s);

/* Two that differ in threads alone, or not even in that. */
bool mr_strategy_alike(const struct mr_strategy *a,
		       const struct mr_strategy *b);

/* "after resize, zstd-3, block order, cache ram= after normalize". */
void mr_strategy_words(const struct mr_tuning *t, const struct mr_strategy *s,
		       struct mr_str *out);

/* The pipeline of a strategy, whose set is in `dir`, with a cache of so many
 * bytes; 0: about as many as it has, said shortly. To be freed. of: the set of
 * a mixture has so many samples of all; 0: just those that it needs. */
char *mr_strategy_text(const struct mr_tuning *t, const struct mr_strategy *s,
		       const char *dir, double cache_bytes, uint64_t of);

/* The command that makes its set; nothing where there is none. */
void mr_strategy_prepare(const struct mr_tuning *t, const struct mr_strategy *s,
			 const char *dir, struct mr_str *out);

/* Options of a run of its pipeline, and the command with them. */
void mr_strategy_options(const struct mr_tuning *t, const struct mr_strategy *s,
			 struct mr_str *out);
void mr_strategy_run(const struct mr_tuning *t, const struct mr_strategy *s,
		     const char *dir, struct mr_str *out);

/* How its set is stored, but for `out` and the loader's options. until: room
 * for a number, which *o points to. */
void mr_strategy_store(const struct mr_tuning *t, const struct mr_strategy *s,
		       char until[16], struct mr_store_options *o);

/* The best one, what it gains and what it takes, in a sentence. */
void mr_tuning_answer(const struct mr_tuning *t, struct mr_str *out);

/* For people, and for programs; to be freed; NULL without memory. dir: where
 * a set would be, for the commands. */
char *mr_tuning_text(const struct mr_tuning *t, const char *dir);
char *mr_tuning_json(const struct mr_tuning *t, const char *dir);

#endif
