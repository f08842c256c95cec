/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/place.h"

#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>

enum { TMPFS = 0x01021994 };
#define RAMFS 0x858458f6UL

bool mr_place_within(const char *path, const char *top)
{
	size_t n = strlen(top);

	while (n && top[n - 1] == '/')
		n--;
	return strncmp(path, top, n) == 0 && (!path[n] || path[n] == '/');
}

/* The longest mount point above it; of several at the same, the last one,
 * which hides the others. */
static void find_mount(struct mr_place *p, const char *path)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent m;
	char line[4096];
	size_t best = 0;

	while (f && getmntent_r(f, &m, line, sizeof(line))) {
		size_t n = strlen(m.mnt_dir);

		if (n < best || !mr_place_within(path, m.mnt_dir))
			continue;
		best = n;
		snprintf(p->fs, sizeof(p->fs), "%s", m.mnt_type);
		snprintf(p->device, sizeof(p->device), "%s", m.mnt_fsname);
	}
	if (f)
		endmntent(f);
}

void mr_place_find(struct mr_place *p, const char *dir)
{
	char *path = realpath(dir, NULL);
	struct statfs st;

	*p = (struct mr_place){ 0 };
	if (path)
		find_mount(p, path);
	free(path);
	if (!statfs(dir, &st))
		p->memory =
			st.f_type == TMPFS || (unsigned long)st.f_type == RAMFS;
}
