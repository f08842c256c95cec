/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hardware and kernel had to do with each step, from a trace alone:
 * samples of the program counter are joined by thread and time to the spans,
 * which gives a table of functions by steps and stacks per step; counters are
 * added up per step.
 */
#ifndef MR_ANALYZE_ATTRIBUTE_H
#define MR_ANALYZE_ATTRIBUTE_H

#include "analyze/symbols.h"
#include "core/str.h"

/* Where a thread was: a step, several that take turns ("a+b"), a wait... */
struct mr_place {
	char name[256];
	uint64_t samples;
	/* what it is made of: the kind of span, step or set of steps */
	uint8_t kind, step;
	uint64_t set;
};

struct mr_cell {
	uint32_t place, function;
	uint64_t samples; /* with this function innermost */
};

struct mr_stack {
	uint32_t place;
	uint32_t first, n; /* functions frame[first ...], the innermost first */
	uint64_t samples;
};

/* A counter's sums over all threads. */
struct mr_counted {
	uint64_t calls, count, enabled, running;
	double squares; /* of the calls' counts, added up */
	uint64_t wall;	/* ns that these calls took */
};

enum { MR_COUNTED_EVENTS = 64, MR_STEPS = 256 };

struct mr_counted_event {
	char name[64], source[24], unit[16];
	char reason[256], remedy[256]; /* "": none */
	char via[24];
	bool user_only;
	struct mr_counted step[MR_STEPS];
	struct mr_counted all; /* of all steps and what is outside of them */
};

struct mr_attribution {
	/* the recording */
	char step_name[MR_STEPS][64]; /* "": none of that number */
	uint64_t calls[MR_STEPS];     /* spans of that step */
	int threads;		      /* that have spans */
	uint64_t spans_lost;	      /* without which calls are too few */
	bool cut;		      /* the file ends early */

	/* counters */
	struct mr_counted_event *event;
	int events;
	int counted_threads;
	char no_counting[512]; /* why some threads have none; "": all have */

	/* samples */
	char sampled_by[32], source[24], reason[256], remedy[256];
	bool user_only;
	int hz;
	uint64_t samples, lost;
	struct mr_symbols *symbols;
	struct mr_place *place; /* by samples, most first */
	size_t places;
	struct mr_cell *cell; /* the same */
	size_t cells;
	struct mr_stack *stack;
	size_t stacks;
	uint32_t *frame;
	size_t frames;
};

/* symbols: look into the files that the trace names. Free with
 * mr_attribution_fini() after success. */
int mr_attribute(struct mr_attribution *a, const char *path, bool symbols,
		 struct mr_err *err);
void mr_attribution_fini(struct mr_attribution *a);

/* The 95 % interval of a share, k of n (Wilson's). */
void mr_interval(uint64_t k, uint64_t n, double *low, double *high);

/* One line per stack: `place;outermost;...;innermost count`. */
char *mr_folded_text(const struct mr_attribution *a);

#endif
