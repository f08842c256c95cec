/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/topology.h"

#include "core/machine.h"
#include "kernel/cpu.h"

void mr_topology_find(struct mr_topology *t)
{
	*t = (struct mr_topology){ .avx2 = mr_cpu_avx2() };
	mr_machine_cpu(t->cpu, sizeof(t->cpu));
	mr_topology_hwloc(t);
}
