/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring a sample's way. Steps do not know that they are measured: the
 * time between two laps is theirs.
 */
#ifndef MR_PIPE_LAP_H
#define MR_PIPE_LAP_H

#include "pipe/worker.h"
#include "trace/counters.h"

/* Moves when the kernel takes a sample of the thread's functions. */
static inline uint64_t mr_lap_sampled(const struct mr_worker *w)
{
	return __atomic_load_n(&w->sampled->data_head, __ATOMIC_RELAXED);
}

/* Of cheap samples, only some are timed, and fewer counted. */
static inline void mr_lap_start(struct mr_worker *w, const struct mr_row *r)
{
#ifdef MR_COUNTERS
	w->timing = w->begun++ % w->stride == 0;
	w->counting = w->timing && w->counters &&
		      mr_counters_begin(w->counters, r->slot);
	w->turns = 0;
	if (w->timing) {
		w->timed++;
		if (w->sampled)
			w->sampled_to = mr_lap_sampled(w);
		w->last = w->laid = mr_clock_tick(&w->l->clock);
	}
#else
	(void)w;
	(void)r;
#endif
}

/* A part's turn ends. The kernel writes down which function runs, and when,
 * but not for which of the steps that take turns: that is for us to say, of
 * turns in which it did so. */
static inline void mr_lap_turn(struct mr_worker *w, uint64_t now, int part)
{
	uint64_t to = mr_lap_sampled(w);

	if (to == w->sampled_to)
		return;
	w->sampled_to = to;
	if (w->turns < MR_TURNS)
		w->turn[w->turns++] = (struct mr_turn){ w->last, now, part };
}

/* The turns of these parts were step k's. */
static inline void mr_lap_turns(struct mr_worker *w, const struct mr_row *r,
				int k, unsigned parts)
{
	int left = 0;

	for (int i = 0; i < w->turns; i++) {
		const struct mr_turn t = w->turn[i];

		if (!(parts >> t.part & 1)) {
			w->turn[left++] = t;
			continue;
		}
		mr_ring_put(w->ring, &(struct mr_span){ .start = t.from,
							.end = t.to,
							.sample = r->index,
							.batch = r->slot,
							.kind = MR_SPAN_TURN,
							.step = (uint8_t)k });
	}
	w->turns = left;
}

/* The time since the last lap is added to that of a part, one of
 * MR_COUNTER_PARTS. */
static inline void mr_lap_part(struct mr_worker *w, uint64_t *ticks, int part)
{
#ifdef MR_COUNTERS
	uint64_t now;

	if (!w->timing)
		return;
	now = mr_clock_tick(&w->l->clock);
	ticks[part] += now - w->last;
	if (w->sampled)
		mr_lap_turn(w, now, part);
	w->last = now;
	if (w->counting) {
		mr_counters_part(w->counters, part);
		w->last = mr_clock_tick(&w->l->clock);
	}
#else
	(void)w;
	(void)ticks;
	(void)part;
#endif
}

/* Step k (0: the read) took that much, in the parts of the set bits; its span
 * follows the one before, or begins at w->laid. */
static inline void mr_lap_add(struct mr_worker *w, const struct mr_row *r,
			      int k, uint64_t ticks, unsigned parts,
			      uint8_t flags)
{
#ifdef MR_COUNTERS
	if (!w->timing)
		return;
	w->ticks[k] += ticks;
	mr_hist_add(&w->stats->step[k].hist, ticks);
	if (w->counting)
		mr_counters_add(w->counters, k, parts);
	if (!(flags & MR_SPAN_LAID))
		w->turns = 0; /* its span says all */
	else if (w->turns)
		mr_lap_turns(w, r, k, parts);
	if (w->ring)
		mr_ring_put(w->ring,
			    &(struct mr_span){ .start = w->laid,
					       .end = w->laid + ticks,
					       .sample = r->index,
					       .batch = r->slot,
					       .bytes = w->span_bytes,
					       .kind = MR_SPAN_STEP | flags,
					       .step = (uint8_t)k });
	w->laid += ticks;
#else
	(void)w;
	(void)r;
	(void)k;
	(void)ticks;
	(void)parts;
	(void)flags;
#endif
}

/* The time since the last lap goes to step k. */
static inline void mr_lap(struct mr_worker *w, const struct mr_row *r, int k)
{
	uint64_t ticks = 0;

	w->laid = w->last;
	mr_lap_part(w, &ticks, 0);
	mr_lap_add(w, r, k, ticks, 1, 0);
}

/* The whole sample, from its first lap. */
static inline void mr_lap_sample(struct mr_worker *w, const struct mr_row *r,
				 uint64_t start, bool good)
{
#ifdef MR_COUNTERS
	if (w->ring)
		mr_ring_put(
			w->ring,
			&(struct mr_span){
				.start = start,
				.end = mr_clock_tick(&w->l->clock),
				.sample = r->index,
				.batch = r->slot,
				.bytes = w->span_bytes,
				.kind = (uint8_t)(MR_SPAN_SAMPLE |
						  (good ? 0 :
							  MR_SPAN_FAILED)) });
#else
	(void)w;
	(void)r;
	(void)start;
	(void)good;
#endif
}

static inline void mr_lap_bytes(struct mr_worker *w, int k, size_t in,
				size_t out)
{
#ifdef MR_COUNTERS
	struct mr_step_count *c = &w->stats->step[k];

	mr_count(&c->calls, 1);
	mr_count(&c->bytes_in, in);
	mr_count(&c->bytes_out, out);
	w->span_bytes = mr_span_bytes(out);
#else
	(void)w;
	(void)k;
	(void)in;
	(void)out;
#endif
}

#endif
