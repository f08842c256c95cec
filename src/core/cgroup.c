/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A limit that is none in version 1: about 2^63. */
#define NO_LIMIT 4e18

/* Up to two numbers of a file; how many there are. "max" is infinity. */
static int numbers(const char *dir, const char *file, double v[2])
{
	char path[PATH_MAX], text[128] = "";
	char a[32], b[32];
	FILE *f;
	int n = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >=
	    sizeof(path))
		return 0;
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fgets(text, sizeof(text), f))
		n = sscanf(text, "%31s %31s", a, b);
	fclose(f);
	for (int i = 0; i < n; i++) {
		const char *word = i ? b : a;

		if (!strcmp(word, "max"))
			v[i] = INFINITY;
		else if (sscanf(word, "%lf", &v[i]) != 1)
			return i;
	}
	return n < 0 ? 0 : n;
}

static double cores_of(const char *dir)
{
	double v[2], period[2];

	if (numbers(dir, "cpu.max", v) == 2 && v[1] > 0)
		return v[0] / v[1];
	if (numbers(dir, "cpu.cfs_quota_us", v) == 1 && v[0] > 0 &&
	    numbers(dir, "cpu.cfs_period_us", period) == 1 && period[0] > 0)
		return v[0] / period[0];
	return INFINITY;
}

static double memory_of(const char *dir)
{
	double v[2];

	if ((numbers(dir, "memory.max", v) ||
	     numbers(dir, "memory.limit_in_bytes", v)) &&
	    v[0] < NO_LIMIT)
		return v[0];
	return INFINITY;
}

static double used_of(const char *dir)
{
	double v[2];

	if (numbers(dir, "memory.current", v) ||
	    numbers(dir, "memory.usage_in_bytes", v))
		return v[0];
	return NAN;
}

/* The group `path` of the hierarchy at `mount`, and those above it. In a
 * container the path may be the host's: then only the top is there. */
static void climb(struct mr_cgroup *c, const char *mount, char *path)
{
	char dir[PATH_MAX];

	for (;;) {
		char *slash = strrchr(path, '/');
		double cores, memory;

		snprintf(dir, sizeof(dir), "%.2000s%.2000s", mount, path);
		cores = cores_of(dir);
		memory = memory_of(dir);
		c->cores = cores < c->cores ? cores : c->cores;
		if (memory < c->memory) {
			c->memory = memory;
			c->used = used_of(dir);
		}
		if (!slash)
			break;
		*slash = 0;
	}
}

/* Is `name` one of the words between commas? */
static bool has(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (!strncmp(p, name, n) && (!p[n] || p[n] == ','))
			return true;
	}
	return false;
}

/* A line of /proc/self/cgroup: number:controllers:path. */
static void one_line(struct mr_cgroup *c, const char *root, char *line)
{
	char *list = strchr(line, ':'), *path, mount[1024];
	double before = c->memory;

	path = list ? strchr(list + 1, ':') : NULL;
	if (!path)
		return;
	*list++ = 0;
	*path++ = 0;
	path[strcspn(path, "\n")] = 0;
	if (!*list) {
		static const char *const at[] = { "", "/unified" };

		for (int i = 0; i < 2; i++) {
			char copy[PATH_MAX];

			snprintf(copy, sizeof(copy), "%.4000s", path);
			snprintf(mount, sizeof(mount), "%.900s/sys/fs/cgroup%s",
				 root, at[i]);
			climb(c, mount, copy);
		}
		if (c->memory < before)
			c->version = 2;
	} else if (has(list, "memory") || has(list, "cpu")) {
		snprintf(mount, sizeof(mount), "%.900s/sys/fs/cgroup/%.100s",
			 root, has(list, "memory") ? "memory" : "cpu");
		climb(c, mount, path);
		if (c->memory < before)
			c->version = 1;
	}
}

void mr_cgroup_read(struct mr_cgroup *c, const char *root)
{
	char path[PATH_MAX], line[PATH_MAX];
	FILE *f;

	*c = (struct mr_cgroup){ .cores = INFINITY,
				 .memory = INFINITY,
				 .used = NAN };
	snprintf(path, sizeof(path), "%.4000s/proc/self/cgroup", root);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		one_line(c, root, line);
	if (f)
		fclose(f);
}
