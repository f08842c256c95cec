/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans as trees. A thread's spans come in the order of their ends, those
 * inside before the one around them; here they are held until the outermost
 * has come, and handed on from the outside in, in the order of their starts.
 *
 * Times come from several readings of two clocks, and steps that take turns
 * are laid one after another: a span may stick out of the one around it by a
 * little. It is cut off there, and told. In a foreign trace, or a damaged
 * one, anything may overlap; what is handed on does not.
 */
#ifndef MR_TRACE_SINK_NEST_H
#define MR_TRACE_SINK_NEST_H

#include "trace/sink/roll.h"

struct mr_nested {
	struct mr_mrt_span s; /* as it was recorded */
	uint64_t start, end;  /* as it fits */
	uint64_t self;	      /* ns of it that are in nothing inside */
	uint32_t parent;      /* place of the one around; MR_NEST_NONE */
	uint32_t size, place; /* of the tree below, in what is handed on */
};

#define MR_NEST_NONE UINT32_MAX

/* Trees of a thread, outer before inner, earlier before later. */
typedef void (*mr_nest_fn)(void *self, const struct mr_roll_thread *t,
			   const struct mr_nested *n, size_t count);

struct mr_nest;

int mr_nest_new(struct mr_nest **nest, const struct mr_roll *r, mr_nest_fn fn,
		void *self, struct mr_err *err);
/*
 * Batches are worked on in turns with others: on a thread that has `work`,
 * one is but a mark at its end; requests that are under way together do not
 * nest, and are left out.
 */
void mr_nest_add(struct mr_nest *nest, const struct mr_roll_thread *t,
		 const struct mr_mrt_span *s);
/* Hands on what is left. MR_ENOMEM when something was lost on the way. */
int mr_nest_end(struct mr_nest *nest, struct mr_err *err);
void mr_nest_free(struct mr_nest *nest); /* NULL is allowed */

#endif
