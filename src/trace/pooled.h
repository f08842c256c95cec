/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of several traces as one list: what one machine counted under a
 * number may be something else on another, or not be there.
 */
#ifndef MR_TRACE_POOLED_H
#define MR_TRACE_POOLED_H

#include <json-c/json.h>

#include "trace/mrt.h"

enum { MR_POOLED = 64 }; /* events; those beyond are left out */

struct mr_pooled {
	struct json_object *list;
	bool differ;	    /* it is not what each trace has */
	uint8_t place[256]; /* in it, of the trace at hand's events */
};

void mr_pooled_fini(struct mr_pooled *p);

/* Another trace begins. */
void mr_pooled_begin(struct mr_pooled *p);

/* A META of it, which may name its events. */
void mr_pooled_meta(struct mr_pooled *p, const struct mr_mrt_chunk *c);

/* {"events": list}, to be freed; NULL without memory. */
char *mr_pooled_text(const struct mr_pooled *p);

#endif
