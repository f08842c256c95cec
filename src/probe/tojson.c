/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diagnosis as JSON. What is not known is null, never 0, and `reason`
 * beside it says why; what has no limit is null too, and "unlimited" names it.
 */
#include <math.h>
#include <stdio.h>

#include "core/json.h"
#include "core/mem.h"
#include "probe/doctor.h"

enum { DIGITS = 6 };

/* A count or a number of bytes: whole, or null. */
static void whole(struct mr_json *j, const char *name, double v)
{
	if (isfinite(v))
		mr_json_uint(j, name, (uint64_t)v);
	else
		mr_json_raw(j, name, "null");
}

/* One that is 0 only when it is not known. */
static void known(struct mr_json *j, const char *name, double v)
{
	whole(j, name, v > 0 ? v : NAN);
}

static void text(struct mr_json *j, const char *name, const char *v)
{
	if (*v)
		mr_json_text(j, name, v);
	else
		mr_json_raw(j, name, "null");
}

static void real(struct mr_json *j, const char *name, double v)
{
	mr_json_real(j, name, v, DIGITS);
}

/* ---- storage ---- */

static void storage_run(struct mr_json *j, const struct mr_storage_run *run)
{
	const struct mr_reads_result *r = &run->r;
	bool measured = !isnan(r->iops);

	mr_json_open(j, NULL, '{');
	mr_json_text(j, "name", mr_storage_kind_name(run->kind));
	mr_json_uint(j, "block", run->block);
	mr_json_int(j, "threads", run->threads);
	whole(j, "requests", measured ? (double)r->requests : NAN);
	whole(j, "bytes", measured ? (double)r->bytes : NAN);
	real(j, "seconds", r->seconds);
	real(j, "iops", r->iops);
	real(j, "mb_per_s", r->bytes_per_s / 1e6);
	real(j, "mean_us", r->mean_us);
	real(j, "p50_us", r->p50_us);
	real(j, "p99_us", r->p99_us);
	real(j, "resident", run->resident);
	text(j, "reason", run->reason);
	mr_json_close(j, '}');
}

static void storage(struct mr_json *j, const struct mr_storage *s)
{
	struct mr_profile p;
	char profile[120] = "";

	mr_json_open(j, "storage", '{');
	mr_json_text(j, "dir", s->dir);
	text(j, "filesystem", s->fs);
	text(j, "device", s->device);
	mr_json_bool(j, "memory", s->memory);
	whole(j, "free", s->free);
	mr_json_text(j, "method", s->direct ? "direct" : "buffered");
	text(j, "direct_reason", s->direct_reason);
	known(j, "file_bytes", (double)s->file_bytes);
	known(j, "files", (double)s->files);
	known(j, "small_bytes", (double)s->each);
	text(j, "reason", s->reason);
	mr_json_open(j, "runs", '[');
	for (int i = 0; i < MR_STORAGE_RUNS; i++)
		storage_run(j, &s->run[i]);
	mr_json_close(j, ']');
	if (mr_storage_profile(s, &p))
		mr_storage_profile_text(&p, profile, sizeof(profile));
	text(j, "profile", profile);
	mr_json_close(j, '}');
}

/* ---- the rest ---- */

static void memory(struct mr_json *j, const struct mr_facts *f)
{
	const struct mr_membw *m = &f->memory;

	mr_json_open(j, "memory", '{');
	whole(j, "total", f->limits.memory_total);
	whole(j, "available", f->limits.memory_available);
	whole(j, "usable", f->limits.memory);
	known(j, "buffer_bytes", (double)m->bytes);
	known(j, "threads", m->threads);
	real(j, "read_1_gb_per_s", m->read[0] / 1e9);
	real(j, "read_n_gb_per_s", m->read[1] / 1e9);
	real(j, "copy_1_gb_per_s", m->copy[0] / 1e9);
	real(j, "copy_n_gb_per_s", m->copy[1] / 1e9);
	text(j, "reason", m->reason);
	mr_json_close(j, '}');
}

static void codecs(struct mr_json *j, const struct mr_codec_speeds *c)
{
	mr_json_open(j, "codecs", '[');
	for (int i = 0; i < c->n; i++) {
		const struct mr_codec_speed *s = &c->speed[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "codec", s->codec);
		mr_json_text(j, "data", s->data);
		real(j, "ratio", s->ratio);
		real(j, "pack_mb_per_s", s->pack / 1e6);
		real(j, "unpack_mb_per_s", s->unpack / 1e6);
		text(j, "reason", s->reason);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

static void facility(struct mr_json *j, const char *name,
		     const struct mr_facility *f)
{
	mr_json_open(j, name, '{');
	mr_json_bool(j, "works", f->works);
	text(j, "reason", f->reason);
	text(j, "remedy", f->remedy);
	mr_json_close(j, '}');
}

static void kernel(struct mr_json *j, const struct mr_facilities *k)
{
	mr_json_open(j, "kernel", '{');
	text(j, "release", k->release);
	facility(j, "io_uring", &k->uring);
	facility(j, "hardware_events", &k->pmu);
	facility(j, "software_events", &k->events);
	if (k->paranoid > -9)
		mr_json_int(j, "perf_event_paranoid", k->paranoid);
	else
		mr_json_raw(j, "perf_event_paranoid", "null");
	text(j, "transparent_huge_pages", k->huge_pages);
	mr_json_close(j, '}');
}

/* Names of those that have no limit, so that null is no riddle. */
static void unlimited(struct mr_json *j, const struct mr_limits *l)
{
	const struct {
		const char *name;
		double v;
	} all[] = { { "open_files", l->files },
		    { "open_files_hard", l->files_hard },
		    { "memlock", l->memlock },
		    { "memlock_hard", l->memlock_hard },
		    { "cgroup_cores", l->cgroup.cores },
		    { "cgroup_memory", l->cgroup.memory } };

	mr_json_open(j, "unlimited", '[');
	for (size_t i = 0; i < MR_COUNT(all); i++)
		if (isinf(all[i].v))
			mr_json_text(j, NULL, all[i].name);
	mr_json_close(j, ']');
}

static void limits(struct mr_json *j, const struct mr_limits *l)
{
	mr_json_open(j, "limits", '{');
	whole(j, "open_files", l->files);
	whole(j, "open_files_hard", l->files_hard);
	whole(j, "memlock", l->memlock);
	whole(j, "memlock_hard", l->memlock_hard);
	whole(j, "shm", l->shm);
	whole(j, "shm_used", l->shm_used);
	text(j, "shm_reason", isnan(l->shm) ? "there is no /dev/shm" : "");
	real(j, "cgroup_cores", l->cgroup.cores);
	whole(j, "cgroup_memory", l->cgroup.memory);
	whole(j, "cgroup_memory_used", l->cgroup.used);
	known(j, "cgroup_version", l->cgroup.version);
	mr_json_int(j, "nice", l->nice);
	mr_json_int(j, "cpus", l->cpus);
	mr_json_int(j, "cpus_allowed", l->cpus_allowed);
	real(j, "load", l->load);
	mr_json_int(j, "cores_to_use", l->cores);
	mr_json_bool(j, "container", l->container);
	unlimited(j, l);
	mr_json_close(j, '}');
}

static void topology(struct mr_json *j, const struct mr_topology *t)
{
	mr_json_open(j, "topology", '{');
	mr_json_text(j, "cpu", t->cpu);
	mr_json_bool(j, "avx2", t->avx2);
	known(j, "sockets", t->sockets);
	known(j, "cores", t->cores);
	known(j, "threads", t->threads);
	known(j, "numa_nodes", t->nodes);
	mr_json_open(j, "nodes", '[');
	for (int i = 0; i < t->nodes && i < MR_NODES; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_int(j, "number", t->node[i].number);
		mr_json_int(j, "threads", t->node[i].threads);
		known(j, "memory", (double)t->node[i].memory);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
	mr_json_open(j, "caches", '[');
	for (int i = 0; i < t->caches; i++) {
		mr_json_open(j, NULL, '{');
		mr_json_int(j, "level", t->cache[i].level);
		mr_json_int(j, "count", t->cache[i].count);
		known(j, "bytes", (double)t->cache[i].bytes);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
	text(j, "reason", t->reason);
	mr_json_close(j, '}');
}

static void advice(struct mr_json *j, const struct mr_checkup *d)
{
	mr_json_open(j, "advice", '[');
	for (int i = 0; i < d->findings; i++) {
		const struct mr_finding *f = &d->finding[i];

		mr_json_open(j, NULL, '{');
		mr_json_text(j, "severity", mr_severity_name(f->severity));
		mr_json_text(j, "topic", f->topic);
		mr_json_text(j, "what", f->what);
		text(j, "why", f->why);
		text(j, "remedy", f->remedy);
		mr_json_close(j, '}');
	}
	mr_json_close(j, ']');
}

void mr_checkup_json(const struct mr_checkup *d, struct mr_str *out)
{
	struct mr_json j = { .out = *out };

	mr_json_open(&j, NULL, '{');
	real(&j, "seconds", d->seconds);
	storage(&j, &d->facts.storage);
	memory(&j, &d->facts);
	codecs(&j, &d->facts.codecs);
	kernel(&j, &d->facts.kernel);
	limits(&j, &d->facts.limits);
	topology(&j, &d->facts.topology);
	advice(&j, d);
	mr_json_close(&j, '}');
	*out = j.out;
}
