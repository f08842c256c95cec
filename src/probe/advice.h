/* SPDX-License-Identifier: Apache-2.0 */
/* What the figures mean to someone who loads training data. */
#ifndef MR_PROBE_ADVICE_H
#define MR_PROBE_ADVICE_H

#include "probe/codecs.h"
#include "probe/facilities.h"
#include "probe/limits.h"
#include "probe/memory.h"
#include "probe/storage.h"
#include "probe/topology.h"

/* All that was found out about a machine. */
struct mr_facts {
	struct mr_storage storage;
	struct mr_membw memory;
	struct mr_codec_speeds codecs;
	struct mr_limits limits;
	struct mr_facilities kernel;
	struct mr_topology topology;
};

enum mr_severity { MR_FOUND_OK, MR_FOUND_NOTE, MR_FOUND_WARNING };

struct mr_finding {
	enum mr_severity severity;
	const char *topic; /* "open files", "storage", ... */
	char what[240];
	char why[240];	  /* it matters to a data loader; "" when ok */
	char remedy[240]; /* a command; "" when there is nothing to do */
};

enum { MR_FINDINGS = 40 };

const char *mr_severity_name(enum mr_severity s);

/* The findings, warnings first; how many. Depends on *f alone. Figures that
 * are not known give no findings. */
int mr_advise(const struct mr_facts *f, struct mr_finding out[MR_FINDINGS]);

#endif
