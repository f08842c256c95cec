/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder for sets that are made to be measured, and are gone afterwards.
 * It is locked while in use: one that a killed process has left behind is
 * removed by the next that makes one beside it.
 */
#ifndef MR_TUNE_SCRATCH_H
#define MR_TUNE_SCRATCH_H

#include <stdint.h>

#include "core/err.h"

struct mr_scratch {
	char path[4096]; /* "": none */
	int lock;
};

/* dir: where to make it; "": $TMPDIR, or /tmp. */
int mr_scratch_make(struct mr_scratch *s, const char *dir, struct mr_err *err);
void mr_scratch_remove(struct mr_scratch *s);

/* Bytes that are free there. */
uint64_t mr_scratch_room(const struct mr_scratch *s);

/* Reads all that is in a folder, so that it is in memory. */
void mr_scratch_warm(const char *path);

/* Removes a folder with all that is in it. */
void mr_scratch_drop(const char *path);

#endif
