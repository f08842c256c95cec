/* SPDX-License-Identifier: Apache-2.0 */
/* Where a directory lies. */
#ifndef MR_PROBE_PLACE_H
#define MR_PROBE_PLACE_H

#include <stdbool.h>
#include <stddef.h>

struct mr_place {
	char fs[32];	  /* type of the file system, "" when not known */
	char device[128]; /* what is mounted */
	bool memory;	  /* tmpfs or ramfs */
};

void mr_place_find(struct mr_place *p, const char *dir);

/* Does `path` lie in the directory `top`, or is it? Both are absolute. */
bool mr_place_within(const char *path, const char *top);

#endif
