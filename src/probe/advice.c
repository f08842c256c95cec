/* SPDX-License-Identifier: Apache-2.0 */
/* The rules on what the machine is and allows. */
#include "probe/advice.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/str.h"
#include "probe/rules.h"

#define GIB ((double)(1 << 30))

const char *mr_severity_name(enum mr_severity s)
{
	static const char *const name[] = { "ok", "note", "warning" };

	return name[s];
}

struct mr_finding *mr_found_add(struct mr_found *l, enum mr_severity s,
				const char *topic, const char *fmt, ...)
{
	struct mr_finding *f;
	va_list ap;

	assert(l->n < MR_FINDINGS);
	f = &l->at[l->n++];
	*f = (struct mr_finding){ .severity = s, .topic = topic };
	va_start(ap, fmt);
	vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
	return f;
}

void mr_why(struct mr_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->why, sizeof(f->why), fmt, ap);
	va_end(ap);
}

void mr_remedy(struct mr_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->remedy, sizeof(f->remedy), fmt, ap);
	va_end(ap);
}

/* ---- limits ---- */

/* Sixteen workers that keep 256 shards open each. */
static void open_files(const struct mr_facts *f, struct mr_found *l)
{
	const double enough = 4096;
	double soft = f->limits.files, hard = f->limits.files_hard;
	struct mr_finding *x;

	if (isnan(soft))
		return;
	if (soft >= enough) {
		if (isinf(soft))
			mr_found_add(l, MR_FOUND_OK, "open files", "no limit");
		else
			mr_found_add(l, MR_FOUND_OK, "open files",
				     "%.0f at a time", soft);
		return;
	}
	x = mr_found_add(l, MR_FOUND_WARNING, "open files", "%.0f at a time",
			 soft);
	mr_why(x, "workers that keep many files or shards open fail with "
		  "\"Too many open files\"; PyTorch passes tensors between "
		  "processes as descriptors");
	if (hard > soft)
		mr_remedy(x, "ulimit -n %.0f", hard > 1048576 ? 1048576 : hard);
	else
		mr_remedy(x, "docker run --ulimit nofile=65536:65536; else "
			     "nofile in /etc/security/limits.conf");
}

/* PyTorch's workers hand each batch over in a segment there. */
static void shared_memory(const struct mr_facts *f, struct mr_found *l)
{
	double size = f->limits.shm, used = f->limits.shm_used;
	struct mr_finding *x;
	char a[32], b[32];

	if (isnan(size)) {
		x = mr_found_add(l, MR_FOUND_WARNING, "/dev/shm",
				 "there is none");
		mr_why(x, "PyTorch's workers hand batches over in it");
		mr_remedy(x, "mount -t tmpfs -o size=50%% tmpfs /dev/shm");
		return;
	}
	if (size < GIB) {
		x = mr_found_add(l, MR_FOUND_WARNING, "/dev/shm", "only %s",
				 mr_str_size(a, size));
		mr_why(x, "PyTorch's workers hand batches over in it, and die "
			  "with \"bus error\" when it is full: a batch of 256 "
			  "images of 224 x 224 in f32 has 147 MB");
		if (f->limits.container)
			mr_remedy(x, "docker run --shm-size=8g; Kubernetes: an "
				     "emptyDir of medium Memory at /dev/shm");
		else
			mr_remedy(x, "mount -o remount,size=8G /dev/shm; in a "
				     "container: docker run --shm-size=8g");
		return;
	}
	if (used > size * 0.8) {
		x = mr_found_add(l, MR_FOUND_WARNING, "/dev/shm",
				 "%s of %s are taken", mr_str_size(a, used),
				 mr_str_size(b, size));
		mr_why(x, "what dead processes left there is not freed; "
			  "PyTorch's "
			  "workers die with \"bus error\" when it is full");
		mr_remedy(x, "ls -lt /dev/shm, and remove what nobody uses");
		return;
	}
	mr_found_add(l, MR_FOUND_OK, "/dev/shm", "%s", mr_str_size(a, size));
}

static void processors(const struct mr_facts *f, struct mr_found *l)
{
	const struct mr_limits *m = &f->limits;
	struct mr_finding *x;

	if (m->cgroup.cores < m->cpus_allowed) {
		x = mr_found_add(l, MR_FOUND_WARNING, "CPU quota",
				 "%.3g of %d CPUs, by the control group",
				 m->cgroup.cores, m->cpus_allowed);
		mr_why(x,
		       "programs that count CPUs start %d threads or workers, "
		       "which the kernel then halts for parts of each 0.1 s",
		       m->cpus_allowed);
		mr_remedy(x,
			  "DataLoader(num_workers=%d), OMP_NUM_THREADS=%d; or "
			  "docker run --cpus=%d; millrace counts right",
			  m->cores, m->cores, m->cpus_allowed);
	}
	if (m->cpus_allowed < m->cpus) {
		x = mr_found_add(l, MR_FOUND_NOTE, "CPU affinity",
				 "%d of %d CPUs may be used", m->cpus_allowed,
				 m->cpus);
		mr_why(x,
		       "a launcher or scheduler has bound this process; data "
		       "loading has no more than that");
		mr_remedy(x,
			  "taskset -cp 0-%d $$, or ask the scheduler for more "
			  "(srun --cpus-per-task=N --cpu-bind=none)",
			  m->cpus - 1);
	}
	if (m->nice > 0) {
		x = mr_found_add(l, MR_FOUND_NOTE, "priority", "nice is %d",
				 m->nice);
		mr_why(x, "everything else on this machine goes first");
		mr_remedy(x, "as root: renice -n 0 -p $$");
	}
	if (m->cgroup.cores >= m->cpus_allowed && m->cpus_allowed >= m->cpus)
		mr_found_add(l, MR_FOUND_OK, "CPUs", "all %d may be used",
			     m->cpus);
}

/* Who measures on a busy machine measures the others. */
static void busy(const struct mr_facts *f, struct mr_found *l)
{
	struct mr_finding *x;

	if (!(f->limits.load > 1.2 * f->limits.cpus))
		return;
	x = mr_found_add(l, MR_FOUND_WARNING, "load",
			 "%.1f threads want to run, on %d CPUs", f->limits.load,
			 f->limits.cpus);
	mr_why(x, "the figures here are too low: others had a part of the "
		  "machine, as they would have while training");
	mr_remedy(x, "top shows them; run millrace doctor again without them");
}

/* Page cache counts against the group's limit too. */
static void memory(const struct mr_facts *f, struct mr_found *l)
{
	const struct mr_limits *m = &f->limits;
	bool limited = m->memory < m->memory_total * 0.99;
	struct mr_finding *x;
	char a[32], b[32];

	if (isnan(m->memory) || isnan(m->memory_total))
		return;
	if (!limited && m->memory >= 4 * GIB) {
		mr_found_add(l, MR_FOUND_OK, "memory", "%s",
			     mr_str_size(a, m->memory));
		return;
	}
	x = mr_found_add(
		l, m->memory < 4 * GIB ? MR_FOUND_WARNING : MR_FOUND_NOTE,
		"memory", "%s may be used%s%s", mr_str_size(a, m->memory),
		limited ? ", of the machine's " : "",
		limited ? mr_str_size(b, m->memory_total) : "");
	mr_why(x, limited ?
			  "the page cache counts against the limit: a data set "
			  "that is larger is read from storage in each epoch; "
			  "over it the kernel kills the job" :
			  "a data set that is larger is read from storage in "
			  "each epoch");
	if (limited)
		mr_remedy(x,
			  "docker run --memory=SIZE; millrace run --memory %s "
			  "bounds its buffers",
			  m->memory < 4 * GIB ? "256M" : "1G");
	else
		mr_remedy(x, "millrace run --memory 256M bounds its buffers");
}

/* ---- kernel and CPU ---- */

static void uring(const struct mr_facts *f, struct mr_found *l)
{
	const struct mr_facility *u = &f->kernel.uring;
	struct mr_finding *x;

	if (u->works) {
		mr_found_add(l, MR_FOUND_OK, "io_uring", "works");
		return;
	}
	x = mr_found_add(l, MR_FOUND_NOTE, "io_uring", "%s", u->reason);
	mr_why(x,
	       "reading ahead then takes a thread for each request in flight, "
	       "which costs CPU time on fast storage");
	mr_remedy(x, "%s", u->remedy);
}

static void counters(const struct mr_facts *f, struct mr_found *l)
{
	const struct mr_facilities *k = &f->kernel;
	struct mr_finding *x;

	if (k->pmu.works && k->events.works) {
		mr_found_add(l, MR_FOUND_OK, "perf events",
			     "hardware and software");
		return;
	}
	if (k->paranoid > 2 || !k->events.works) {
		x = mr_found_add(
			l, MR_FOUND_NOTE, "perf events",
			"not allowed: kernel.perf_event_paranoid is %d",
			k->paranoid);
		if (k->paranoid <= 2)
			snprintf(x->what, sizeof(x->what), "%s",
				 k->events.reason);
		mr_why(x, "traces can then neither count nor sample per "
			  "step");
		mr_remedy(x, "%s",
			  k->paranoid > 2 ?
				  "sysctl kernel.perf_event_paranoid=1" :
				  k->events.remedy);
		return;
	}
	x = mr_found_add(l, MR_FOUND_NOTE, "perf events", "software only: %s",
			 k->pmu.reason);
	mr_why(x, "traces have no cycles, instructions and cache misses per "
		  "step; times and functions they have");
	mr_remedy(x, "%s", k->pmu.remedy);
}

static void huge_pages(const struct mr_facts *f, struct mr_found *l)
{
	struct mr_finding *x;

	if (!*f->kernel.huge_pages)
		return;
	if (strcmp(f->kernel.huge_pages, "never") != 0) {
		mr_found_add(l, MR_FOUND_OK, "huge pages", "%s",
			     f->kernel.huge_pages);
		return;
	}
	x = mr_found_add(l, MR_FOUND_NOTE, "huge pages", "never");
	mr_why(x, "large batches then take a page fault for each 4 KB that is "
		  "touched for the first time");
	mr_remedy(x,
		  "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

static void topology(const struct mr_facts *f, struct mr_found *l)
{
	const struct mr_topology *t = &f->topology;
	struct mr_finding *x;

	if (t->nodes > 1) {
		x = mr_found_add(l, MR_FOUND_NOTE, "NUMA",
				 "%d nodes in %d sockets", t->nodes,
				 t->sockets);
		mr_why(x, "memory of another node is slower, and so is an "
			  "accelerator that hangs on another socket: run one "
			  "process per node, beside its accelerator");
		mr_remedy(x,
			  "numactl --cpunodebind=%d --membind=%d COMMAND; "
			  "nvidia-smi topo -m shows which node is near",
			  t->node[0].number, t->node[0].number);
	} else if (t->nodes == 1) {
		mr_found_add(l, MR_FOUND_OK, "NUMA", "one node");
	}
	if (t->avx2)
		return;
	x = mr_found_add(l, MR_FOUND_NOTE, "AVX2",
			 "this CPU has none, or "
			 "MILLRACE_SIMD=none is set");
	mr_why(x, "image and signal steps run their plain twins, some of them "
		  "several times slower");
	mr_remedy(x,
		  "prepare what can be done once elsewhere: millrace prepare");
}

/* ---- all ---- */

static mr_rule *const rules[] = {
	busy,
	mr_rule_place,
	mr_rule_warmth,
	mr_rule_bandwidth,
	mr_rule_many_files,
	mr_rule_random_reads,
	mr_rule_packing,
	memory,
	processors,
	open_files,
	shared_memory,
	topology,
	uring,
	counters,
	huge_pages,
};

int mr_advise(const struct mr_facts *f, struct mr_finding out[MR_FINDINGS])
{
	struct mr_finding found[MR_FINDINGS];
	struct mr_found l = { .at = found };
	int n = 0;

	for (size_t i = 0; i < MR_COUNT(rules); i++)
		rules[i](f, &l);
	for (int s = MR_FOUND_WARNING; s >= MR_FOUND_OK; s--)
		for (int i = 0; i < l.n; i++)
			if ((int)found[i].severity == s)
				out[n++] = found[i];
	return n;
}
