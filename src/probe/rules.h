/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of advice.h are made of. */
#ifndef MR_PROBE_RULES_H
#define MR_PROBE_RULES_H

#include "probe/advice.h"

struct mr_found {
	struct mr_finding *at;
	int n;
};

/* A rule adds at most a few findings, by the facts alone. */
typedef void mr_rule(const struct mr_facts *f, struct mr_found *l);

/* Of advice_storage.c. */
mr_rule mr_rule_place, mr_rule_warmth, mr_rule_bandwidth, mr_rule_many_files,
	mr_rule_random_reads, mr_rule_packing;

/* One more, whose texts the two below complete. */
struct mr_finding *mr_found_add(struct mr_found *l, enum mr_severity s,
				const char *topic, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void mr_why(struct mr_finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void mr_remedy(struct mr_finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
