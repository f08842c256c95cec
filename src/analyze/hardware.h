/* SPDX-License-Identifier: Apache-2.0 */
/* What attribute.h found, for people and for programs. */
#ifndef MR_ANALYZE_HARDWARE_H
#define MR_ANALYZE_HARDWARE_H

#include "analyze/attribute.h"

struct mr_json;

/*
 * The counters per step and the functions per step of a trace as text, or as
 * an object of JSON with the keys `counters`, `unavailable`, `sampling`,
 * `places` and `functions`. *text is the caller's to free; "" when the trace
 * has neither.
 */
int mr_hardware_text(const char *file, bool json, char **text,
		     struct mr_err *err);

/* Parts of it, for those who have the attribution already. */
void mr_hardware_print(const struct mr_attribution *a, struct mr_str *out);
void mr_hardware_json(const struct mr_attribution *a, struct mr_json *j);

/* A counter per call, as if it had counted all the time; NAN when it never
 * did. */
double mr_counted_per_call(const struct mr_counted *c);
/* Half of that mean's 95 % interval: calls are counted by chance, so many of
 * them `of` all (0: not known). NAN when there are too few. */
double mr_counted_half(const struct mr_counted *c, uint64_t of);

#endif
