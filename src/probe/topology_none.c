/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "probe/topology.h"

void mr_topology_hwloc(struct mr_topology *t)
{
	snprintf(t->reason, sizeof(t->reason),
		 "built without libhwloc, which knows the machine's sockets, "
		 "caches and NUMA nodes");
}
