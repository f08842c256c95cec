/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel offers, and where it does not, why and what would help. */
#ifndef MR_PROBE_FACILITIES_H
#define MR_PROBE_FACILITIES_H

#include <stdbool.h>

struct mr_facility {
	bool works;
	char reason[160], remedy[160]; /* when it does not */
};

struct mr_facilities {
	char release[72];	   /* of the kernel */
	struct mr_facility uring;  /* set up, and can be waited for */
	struct mr_facility pmu;	   /* the CPU's counters */
	struct mr_facility events; /* those of the kernel, through perf */
	int paranoid;	     /* kernel.perf_event_paranoid; -9: not known */
	char huge_pages[16]; /* "always", "madvise", "never" or "" */
};

void mr_facilities_find(struct mr_facilities *f);

/* Why io_uring_setup() failed with this errno. disabled: what the sysctl
 * kernel.io_uring_disabled says, -1 when it is not there. */
void mr_facility_uring_reason(struct mr_facility *u, int errnum, int disabled);

#endif
