/* SPDX-License-Identifier: Apache-2.0 */
/* What the process's control groups allow it, version 1 or 2. */
#ifndef MR_CORE_CGROUP_H
#define MR_CORE_CGROUP_H

struct mr_cgroup {
	int version;   /* of the one that limits memory; 0: there is none */
	double cores;  /* quota; INFINITY: none */
	double memory; /* bytes; INFINITY: no limit */
	double used;   /* bytes of it; NaN: not known */
};

/* The strictest limits of the process's own group and of those above it, as
 * far as they can be seen. root: "", or a directory that stands for /. */
void mr_cgroup_read(struct mr_cgroup *c, const char *root);

#endif
