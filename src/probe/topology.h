/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, cores, caches and NUMA nodes, as hwloc sees them. */
#ifndef MR_PROBE_TOPOLOGY_H
#define MR_PROBE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

enum { MR_NODES = 64, MR_CACHES = 5 };

/* Those that the process's cpuset leaves out are not counted. */
struct mr_topology {
	char cpu[128]; /* model */
	bool avx2;
	char reason[200]; /* why the rest is not known, or "" */
	int sockets, cores, threads;
	int nodes; /* NUMA; the first MR_NODES of them are below */
	struct {
		int number, threads;
		uint64_t memory;
	} node[MR_NODES];
	/* of data; of a level: how many, and how large one is */
	struct {
		int level, count;
		uint64_t bytes;
	} cache[MR_CACHES];
	int caches;
};

void mr_topology_find(struct mr_topology *t);

/* The part that needs hwloc; topology_none.c says that it is missing. */
void mr_topology_hwloc(struct mr_topology *t);

#endif
