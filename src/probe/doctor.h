/* SPDX-License-Identifier: Apache-2.0 */
/* What mr_doctor() found, for people and for programs. */
#ifndef MR_PROBE_DOCTOR_H
#define MR_PROBE_DOCTOR_H

#include "core/str.h"
#include "probe/advice.h"

struct mr_checkup {
	struct mr_facts facts;
	struct mr_finding finding[MR_FINDINGS];
	int findings;
	double seconds; /* that it took */
};

void mr_checkup_text(const struct mr_checkup *d, struct mr_str *out);
void mr_checkup_json(const struct mr_checkup *d, struct mr_str *out);

#endif
