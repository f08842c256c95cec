/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/limits.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/file.h"

static void read_limit(int which, double *soft, double *hard)
{
	struct rlimit r;

	*soft = *hard = NAN;
	if (getrlimit((__rlimit_resource_t)which, &r))
		return;
	*soft = r.rlim_cur == RLIM_INFINITY ? INFINITY : (double)r.rlim_cur;
	*hard = r.rlim_max == RLIM_INFINITY ? INFINITY : (double)r.rlim_max;
}

static void read_shm(struct mr_limits *l)
{
	struct statvfs v;

	l->shm = l->shm_used = NAN;
	if (statvfs("/dev/shm", &v) || !v.f_blocks)
		return;
	l->shm = (double)v.f_blocks * (double)v.f_frsize;
	l->shm_used = (double)(v.f_blocks - v.f_bfree) * (double)v.f_frsize;
}

static void read_memory(struct mr_limits *l)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	double kb;

	l->memory_total = l->memory_available = NAN;
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemTotal: %lf kB", &kb) == 1)
			l->memory_total = kb * 1024;
		if (sscanf(line, "MemAvailable: %lf kB", &kb) == 1)
			l->memory_available = kb * 1024;
	}
	if (f)
		fclose(f);
	l->memory = (double)mr_machine_memory();
	if (l->cgroup.memory < l->memory)
		l->memory = l->cgroup.memory;
}

static void read_cpus(struct mr_limits *l)
{
	cpu_set_t set;

	if (getloadavg(&l->load, 1) != 1)
		l->load = NAN;
	l->cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	l->cpus_allowed = l->cpus;
	if (!sched_getaffinity(0, sizeof(set), &set))
		l->cpus_allowed = CPU_COUNT(&set);
	l->cores = mr_machine_cores();
	if (l->cgroup.cores < l->cores)
		l->cores =
			l->cgroup.cores < 1 ? 1 : (int)(l->cgroup.cores + 0.5);
}

void mr_limits_read(struct mr_limits *l)
{
	read_limit(RLIMIT_NOFILE, &l->files, &l->files_hard);
	read_limit(RLIMIT_MEMLOCK, &l->memlock, &l->memlock_hard);
	read_shm(l);
	mr_cgroup_read(&l->cgroup, "");
	read_memory(l);
	read_cpus(l);
	l->nice = getpriority(PRIO_PROCESS, 0);
	l->container = !access("/.dockerenv", F_OK) ||
		       !access("/run/.containerenv", F_OK);
}
