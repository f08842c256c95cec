/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that hold JSON, as all who read traces take them: whatever stands
 * in them may be missing, of another type, or too long. */
#ifndef MR_TRACE_TOLD_H
#define MR_TRACE_TOLD_H

#include <json-c/json.h>

#include "trace/mrt.h"

/* The object of a chunk; NULL when it is none. */
struct json_object *mr_told(const struct mr_mrt_chunk *c);
/* Its member; NULL when there is none. o may be NULL. */
struct json_object *mr_told_member(struct json_object *o, const char *key);
/* A text of at most cap - 1 bytes; as it was when there is none. */
void mr_told_text(struct json_object *o, const char *key, char *to, size_t cap);
/* All members of `from` are those of `to` as well; the later ones count. */
void mr_told_add(struct json_object *to, struct json_object *from);

/* THRD. What it does not say stays as it was. */
struct mr_told_thread {
	char name[64], role[16]; /* of ranks that were merged: "rank 3 ..." */
	int pid, tid, rank;
	bool ranked; /* it is of one of them */
};

void mr_told_thread(const struct mr_mrt_chunk *c, struct mr_told_thread *t);

#endif
