/* SPDX-License-Identifier: Apache-2.0 */
/* What the process is allowed: files, memory, CPUs, shared memory. */
#ifndef MR_PROBE_LIMITS_H
#define MR_PROBE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cgroup.h"

/* INFINITY: unlimited; NaN: not known. */
struct mr_limits {
	double files, files_hard;     /* open at a time */
	double memlock, memlock_hard; /* bytes */
	double shm, shm_used;	      /* of /dev/shm; NaN: there is none */
	struct mr_cgroup cgroup;
	int nice;
	int cpus, cpus_allowed; /* online; by the affinity mask */
	double load;		/* threads that want to run, of all processes */
	int cores;		/* what a job should use: all limits */
	double memory_total, memory_available; /* of the machine */
	double memory;			       /* that the process may use */
	bool container;			       /* it looks like one */
};

void mr_limits_read(struct mr_limits *l);

#endif
