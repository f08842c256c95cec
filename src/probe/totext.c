/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnosis for people. What is not known says why. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "core/mem.h"
#include "probe/doctor.h"

enum { WIDTH = 79, INDENT = 10 };

/* Words after `col` columns that are there, broken at WIDTH, indented. */
static void wrap(struct mr_str *out, const char *s, size_t col, size_t indent)
{
	bool gap = false;

	while (*s) {
		size_t n = strcspn(s, " ");

		if (col + gap + n > WIDTH && col > indent) {
			mr_str_addf(out, "\n%*s", (int)indent, "");
			col = indent;
			gap = false;
		}
		mr_str_addf(out, "%s%.*s", gap ? " " : "", (int)n, s);
		col += gap + n;
		s += n;
		gap = *s;
		s += gap;
	}
	mr_str_add(out, "\n");
}

/* A line under a heading, which may be "". */
static void line(struct mr_str *out, const char *head, struct mr_str *text)
{
	char *t = mr_str_take(text);

	mr_str_addf(out, "%-*s", INDENT, head);
	wrap(out, t ? t : "", INDENT, INDENT);
	out->failed |= !t;
	free(t);
}

static void plural(struct mr_str *s, int n, const char *what)
{
	mr_str_addf(s, "%d %s%s", n, what, n == 1 ? "" : "s");
}

/* A size, "unlimited" or "unknown". */
static const char *size(char *buf, double v)
{
	if (isnan(v))
		return "unknown";
	return isinf(v) ? "unlimited" : mr_str_size(buf, v);
}

static const char *number(char *buf, double v)
{
	if (isnan(v))
		return "unknown";
	return isinf(v) ? "unlimited" :
			  mr_str_count(buf, (unsigned long long)v);
}

/* ---- the machine ---- */

static void add_topology(struct mr_str *s, const struct mr_topology *t)
{
	char a[32];

	if (*t->reason) {
		mr_str_addf(s, "; %s", t->reason);
		return;
	}
	mr_str_add(s, "; ");
	plural(s, t->sockets, "socket");
	mr_str_add(s, ", ");
	plural(s, t->cores, "core");
	mr_str_add(s, ", ");
	plural(s, t->threads, "thread");
	mr_str_add(s, "; ");
	plural(s, t->nodes, "NUMA node");
	for (int i = 0; i < t->nodes && i < MR_NODES; i++)
		mr_str_addf(s, "%s%s", i ? " + " : " of ",
			    mr_str_size(a, (double)t->node[i].memory));
	for (int i = 0; i < t->caches; i++)
		mr_str_addf(s, "%s%d x L%d of %s", i ? ", " : "; ",
			    t->cache[i].count, t->cache[i].level,
			    mr_str_size(a, (double)t->cache[i].bytes));
}

static void machine(struct mr_str *out, const struct mr_facts *f)
{
	const struct mr_facilities *k = &f->kernel;
	struct mr_str s = { 0 };

	mr_str_addf(&s, "%s, %s", f->topology.cpu,
		    f->topology.avx2 ? "AVX2" : "no AVX2");
	add_topology(&s, &f->topology);
	line(out, "machine", &s);
	mr_str_addf(&s,
		    "Linux %s; io_uring %s%s; perf events: %s; "
		    "transparent huge pages: %s",
		    k->release, k->uring.works ? "works" : "does not work: ",
		    k->uring.reason,
		    k->pmu.works    ? "hardware and software" :
		    k->events.works ? "software only" :
				      "none",
		    *k->huge_pages ? k->huge_pages : "unknown");
	line(out, "", &s);
}

static void limits(struct mr_str *out, const struct mr_facts *f)
{
	const struct mr_limits *l = &f->limits;
	struct mr_str s = { 0 };
	char a[32], b[32], c[32], d[32];

	mr_str_addf(&s, "%d of %d CPUs may be used", l->cpus_allowed, l->cpus);
	if (isinf(l->cgroup.cores))
		mr_str_add(&s, ", no quota");
	else
		mr_str_addf(&s, ", with a quota of %.3g", l->cgroup.cores);
	if (!isnan(l->load))
		mr_str_addf(&s, ", load %.1f", l->load);
	mr_str_addf(&s,
		    ", nice %d; memory %s of %s, %s available; control "
		    "group's limit: %s",
		    l->nice, size(a, l->memory), size(b, l->memory_total),
		    size(c, l->memory_available),
		    isinf(l->cgroup.memory) ? "none" :
					      size(d, l->cgroup.memory));
	line(out, "limits", &s);
	mr_str_addf(&s, "open files %s (hard %s); ", number(a, l->files),
		    number(b, l->files_hard));
	mr_str_addf(&s, "memlock %s; /dev/shm ", size(a, l->memlock));
	if (isnan(l->shm))
		mr_str_add(&s, "missing");
	else
		mr_str_addf(&s, "%s, %s used", size(a, l->shm),
			    size(b, l->shm_used));
	line(out, "", &s);
}

/* ---- storage ---- */

/* As fio writes it: 950us, 12.3ms. */
static const char *time_text(char buf[32], double us)
{
	if (us < 1000)
		snprintf(buf, 32, us < 100 ? "%.1fus" : "%.0fus", us);
	else
		snprintf(buf, 32, us < 1e5 ? "%.1fms" : "%.0fms", us / 1e3);
	return buf;
}

static void run_line(struct mr_str *out, const struct mr_storage_run *run)
{
	static const char *const name[MR_STORAGE_KINDS] = {
		"read     1M", "randread 4k", "randread 128k", "files    100k"
	};
	char a[32], b[32], c[32], iops[32], bw[40];

	mr_str_addf(out, "  %-13s jobs=%-2d", name[run->kind], run->threads);
	if (isnan(run->r.iops)) {
		mr_str_addf(out, "%s\n", run->reason);
		return;
	}
	snprintf(bw, sizeof(bw), "%.4gMB/s", run->r.bytes_per_s / 1e6);
	mr_str_addf(out, "IOPS=%-7s BW=%-9s avg=%s p50=%s p99=%s\n",
		    mr_str_count(iops, (unsigned long long)(run->r.iops + 0.5)),
		    bw, time_text(a, run->r.mean_us),
		    time_text(b, run->r.p50_us), time_text(c, run->r.p99_us));
}

/* The largest share that was in memory before a run; NaN: not known. */
static double resident(const struct mr_storage *s)
{
	double most = 0;

	for (int i = 0; i < MR_STORAGE_RUNS; i++)
		if (!isnan(s->run[i].r.iops) && !(s->run[i].resident <= most))
			most = s->run[i].resident;
	return most;
}

static void how(struct mr_str *s, const struct mr_storage *st)
{
	double share = resident(st);
	char a[32];

	mr_str_addf(s, "; a file of %s, ",
		    mr_str_size(a, (double)st->file_bytes));
	mr_str_addf(s, "%s files of %.0f KB; ", mr_str_count(a, st->files),
		    (double)st->each / 1024);
	if (st->direct)
		mr_str_add(s, "read past the page cache (O_DIRECT)");
	else if (isnan(share))
		mr_str_add(s, "evicted before; what stayed is not known");
	else
		mr_str_addf(s, "evicted before: %.0f %% stayed in memory",
			    share * 100);
	if (*st->direct_reason)
		mr_str_addf(s, "; %s", st->direct_reason);
	if (st->memory)
		mr_str_add(s, "; this is MEMORY, no disk");
}

static void storage(struct mr_str *out, const struct mr_storage *st)
{
	struct mr_str s = { 0 };
	struct mr_profile p;
	char a[32], profile[120];

	mr_str_addf(&s, "%s", st->dir);
	if (*st->fs)
		mr_str_addf(&s, " on %s (%s)", st->fs, st->device);
	mr_str_addf(&s, ", %s free", size(a, st->free));
	if (*st->reason)
		mr_str_addf(&s, "; not measured: %s", st->reason);
	else
		how(&s, st);
	line(out, "storage", &s);
	if (*st->reason)
		return;
	for (int i = 0; i < MR_STORAGE_RUNS; i++)
		run_line(out, &st->run[i]);
	if (!mr_storage_profile(st, &p))
		return;
	mr_storage_profile_text(&p, profile, sizeof(profile));
	mr_str_addf(out, "  as a profile: --storage %s\n", profile);
}

/* ---- memory and codecs ---- */

static void memory(struct mr_str *out, const struct mr_membw *m)
{
	struct mr_str s = { 0 };
	char a[32];

	if (isnan(m->read[0])) {
		mr_str_addf(&s, "not measured: %s", m->reason);
		line(out, "memory", &s);
		return;
	}
	mr_str_addf(&s, "read %.3g GB/s, copy %.3g GB/s with 1 thread; ",
		    m->read[0] / 1e9, m->copy[0] / 1e9);
	mr_str_addf(&s, "%.3g and %.3g GB/s with ", m->read[1] / 1e9,
		    m->copy[1] / 1e9);
	plural(&s, m->threads, "thread");
	mr_str_addf(&s, " (over %s)", mr_str_size(a, (double)m->bytes));
	line(out, "memory", &s);
}

static const struct mr_codec_speed *
find_speed(const struct mr_codec_speeds *c, const char *codec, const char *data)
{
	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->speed[i].codec, codec) &&
		    !strcmp(c->speed[i].data, data))
			return &c->speed[i];
	return NULL;
}

static void codecs(struct mr_str *out, const struct mr_codec_speeds *c)
{
	static const char *const data[] = { "image_u8", "signal_f32" };

	mr_str_add(out, "codecs    1 thread, MB/s of what is unpacked\n"
			"            image, u8               "
			"smooth f32, shuffled\n"
			"            ratio   pack  unpack    "
			"ratio   pack  unpack\n");
	for (int i = 0; i < c->n; i++) {
		if (strcmp(c->speed[i].data, data[0]) != 0)
			continue;
		mr_str_addf(out, "  %-8s", c->speed[i].codec);
		for (size_t k = 0; k < MR_COUNT(data); k++) {
			const struct mr_codec_speed *s =
				find_speed(c, c->speed[i].codec, data[k]);

			if (s && !*s->reason)
				mr_str_addf(out, "%s%5.2f %6.0f %7.0f",
					    k ? "    " : "  ", s->ratio,
					    s->pack / 1e6, s->unpack / 1e6);
			else if (s)
				mr_str_addf(out, "    %s", s->reason);
		}
		mr_str_add(out, "\n");
	}
}

/* ---- advice ---- */

static void finding(struct mr_str *out, const struct mr_finding *f)
{
	struct mr_str s = { 0 };
	char *t;

	mr_str_addf(&s, "%s: %s", f->topic, f->what);
	if (*f->why)
		mr_str_addf(&s, ". %c%s", toupper((unsigned char)f->why[0]),
			    f->why + 1);
	t = mr_str_take(&s);
	mr_str_addf(out, "  %-8s", mr_severity_name(f->severity));
	wrap(out, t ? t : "", INDENT, INDENT);
	out->failed |= !t;
	free(t);
	if (*f->remedy) {
		mr_str_addf(out, "%*s> ", INDENT, "");
		wrap(out, f->remedy, INDENT + 2, INDENT + 2);
	}
}

static void advice(struct mr_str *out, const struct mr_checkup *d)
{
	struct mr_str fine = { 0 };

	mr_str_add(out, "advice\n");
	for (int i = 0; i < d->findings; i++) {
		const struct mr_finding *f = &d->finding[i];

		if (f->severity != MR_FOUND_OK)
			finding(out, f);
		else
			mr_str_addf(&fine, "%s%s: %s", fine.len ? "; " : "",
				    f->topic, f->what);
	}
	if (fine.len)
		line(out, "  ok", &fine);
	mr_str_fini_into(&fine, out);
}

void mr_checkup_text(const struct mr_checkup *d, struct mr_str *out)
{
	machine(out, &d->facts);
	limits(out, &d->facts);
	storage(out, &d->facts.storage);
	memory(out, &d->facts.memory);
	codecs(out, &d->facts.codecs);
	advice(out, d);
}
