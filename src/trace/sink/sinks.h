/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace becomes (docs/tracing.md). Each writes all of the trace whose
 * roll was read, in one more pass and in memory that does not grow with it.
 */
#ifndef MR_TRACE_SINK_SINKS_H
#define MR_TRACE_SINK_SINKS_H

#include "trace/sink/out.h"
#include "trace/sink/roll.h"

/* Events for Perfetto and chrome://tracing. */
int mr_chrome_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		    struct mr_err *err);
/* Collapsed stacks for flame graphs. */
int mr_folded_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		    struct mr_err *err);
/* A line per span, named as LotusTrace names them. */
int mr_csv_write(struct mr_out *o, struct mr_roll *r, struct mr_mrt *m,
		 struct mr_err *err);

#endif
